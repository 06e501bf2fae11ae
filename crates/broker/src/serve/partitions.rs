//! Partitions and segments.

use super::catalog::done;
use super::{Answered, Here};
use crate::answer::Answer;
use crate::command::{DeleteSegments, Partitions};
use crate::status::{self, Failure, Status};

pub(super) async fn create(here: &Here, body: &[u8]) -> Answered {
    let Partitions { topic, count } = Partitions::decode(body)?;
    bounded(count, 1)?;
    done(here.catalog.add_partitions(topic.stream, topic.topic, count).await)
}

pub(super) async fn delete(here: &Here, body: &[u8]) -> Answered {
    let Partitions { topic, count } = Partitions::decode(body)?;
    bounded(count, 1)?;
    done(here.catalog.remove_partitions(topic.stream, topic.topic, count).await)
}

/// Refuses a request for fewer partitions than `min`, or too many, before it is asked whose they
/// are: the reference server looks in this order.
pub(super) fn bounded(count: u32, min: u32) -> Result<(), Failure> {
    const MAX: u32 = 1000;
    match (min..=MAX).contains(&count) {
        true => Ok(()),
        false => Err(Failure::Refused(Status::TOO_MANY_PARTITIONS)),
    }
}

/// Where nothing can be deleted, that is success.
pub(super) async fn delete_segments(here: &Here, body: &[u8]) -> Answered {
    let DeleteSegments { topic, partition, count } = DeleteSegments::decode(body)?;
    let id = here.partition(topic, partition).map_err(Failure::Result)?;
    match here.client.delete_segments(id, count).await {
        Ok(_) => Ok(Answer::done(&[])),
        Err(error) => Err(Failure::Result(status::of_control(&error))),
    }
}
