//! Topics by number, for rigs that name partitions by ids.

use corelog::error::ChangeError;
use corelog::{Client, TopicConfig};

/// Sees that topic `topic` of stream `stream` is there, and creates it where it is not. A life that
/// was killed may have made it already. Ids are given from 0 on, so lower ones come first.
///
/// # Errors
/// The engine's, when it does not create it.
pub fn create_topic(
    client: &Client,
    stream: u32,
    topic: u32,
    config: TopicConfig,
) -> Result<(), ChangeError> {
    let catalog = client.catalog();
    if catalog.stream(stream).is_none() {
        catalog.create_stream(&format!("stream {stream}")).wait()?;
    }
    if catalog.topic(stream, topic).is_none() {
        let name = format!("topic {topic}");
        let ids = catalog.create_topic(stream, &name, config).wait()?;
        assert_eq!(ids, (stream, topic), "the rigs create topics in the order of their ids");
    }
    Ok(())
}
