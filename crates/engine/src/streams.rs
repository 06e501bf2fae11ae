//! Streams, topics, partitions and consumer groups as an embedder sees them.

use std::fmt;
use std::sync::Arc;

use corelog_format::{Identifier, Name, OptionsBlock, Partitioning};
use corelog_shard::PartitionId;

use crate::catalog::{Model, Plan};
use crate::change::Change;
use crate::control::Control;
use crate::error::{ChangeError, FormatError};
pub use crate::topic::{OptionDescription, OptionScope, TopicOptions, describe_options};

/// What there is: streams, their topics, and the partitions and consumer groups of those. From
/// [`Client::catalog`](crate::Client::catalog).
///
/// Lookups are answered from memory, on the calling thread, at once. A change is durable, and its
/// partitions are served or gone, when it is answered; changes are made one after the other, in the
/// order of the calls, and each as a whole or not at all, whatever crashes.
///
/// Ids are numbers from 0, the lowest free one first; those of consumer groups are never used
/// again. Names are 1 to 255 bytes of UTF-8, unique among their like, and never become paths.
///
/// ```
/// # use corelog::{Client, PartitionId, TopicConfig};
/// # fn example(client: &Client) -> Result<(), corelog::error::ChangeError> {
/// let catalog = client.catalog();
/// let stream = catalog.create_stream("shop").wait()?;
/// let config = TopicConfig { partitions: 3, ..TopicConfig::default() };
/// catalog.create_topic(stream.id, "orders", config).wait()?;
/// let topic = catalog.topic("shop", "orders").expect("it was made just now");
/// let first = PartitionId::new(topic.stream, topic.id, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Catalog {
    control: Arc<Control>,
}

/// A stream, a topic or a consumer group by its id or its name. A name of digits is a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ident {
    /// By id.
    Id(u32),
    /// By name.
    Name(Arc<str>),
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
    /// When it was created, microseconds since the Unix epoch.
    pub created_us: u64,
    /// How many topics it has.
    pub topics: u32,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicInfo {
    /// Its stream's id.
    pub stream: u32,
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
    /// When it was created, microseconds since the Unix epoch.
    pub created_us: u64,
    /// When each of its partitions was created, by number.
    pub partitions: Vec<u64>,
    /// Its options: those in force, and which of them were asked for.
    pub options: Arc<TopicOptions>,
}

/// A consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its stream's id.
    pub stream: u32,
    /// Its topic's id.
    pub topic: u32,
    /// Its id, never used again in its topic.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
    /// When it was created, microseconds since the Unix epoch.
    pub created_us: u64,
}

impl Catalog {
    pub(crate) fn new(control: Arc<Control>) -> Catalog {
        Catalog { control }
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// See [`ChangeError`], here and below.
    pub fn create_stream(&self, name: &str) -> Change<StreamInfo> {
        let (name, now_us) = (name.to_owned(), crate::catalog::now_us());
        self.change(move |model| {
            let (id, plan) = model.create_stream(&name, now_us)?;
            let info = StreamInfo { id, name: name.into(), created_us: now_us, topics: 0 };
            Ok((info, plan))
        })
    }

    /// Gives a stream another name.
    pub fn rename_stream(&self, stream: impl Into<Ident>, name: &str) -> Change<()> {
        let (stream, name) = (stream.into(), name.to_owned());
        self.change(move |model| model.rename_stream(stream.identifier()?, &name))
    }

    /// Deletes a stream with its topics and all their messages.
    pub fn delete_stream(&self, stream: impl Into<Ident>) -> Change<()> {
        let stream = stream.into();
        self.change(move |model| model.delete_stream(stream.identifier()?))
    }

    /// Deletes all messages of a stream's topics: see [`Catalog::purge_topic`].
    pub fn purge_stream(&self, stream: impl Into<Ident>) -> Change<()> {
        let stream = stream.into();
        self.change(move |model| model.purge_stream(stream.identifier()?))
    }

    /// Creates a topic with its partitions. Answers the stream's id and the topic's.
    pub fn create_topic(
        &self,
        stream: impl Into<Ident>,
        name: &str,
        options: impl Into<TopicOptions>,
    ) -> Change<(u32, u32)> {
        let (stream, name, options) = (stream.into(), name.to_owned(), options.into());
        let now_us = crate::catalog::now_us();
        self.change(move |model| model.create_topic(stream.identifier()?, &name, &options, now_us))
    }

    /// Gives a topic the name `name`, which may be the one that it has, and changes the options
    /// that `patch` names ([`TopicOptions::patched`]). They are in force when this is answered.
    pub fn update_topic(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        name: &str,
        patch: &OptionsBlock<'_>,
    ) -> Change<(u32, u32)> {
        let (stream, topic, name) = (stream.into(), topic.into(), name.to_owned());
        let patch = patch.bytes().to_vec();
        self.change(move |model| {
            let patch = OptionsBlock::decode(&patch).expect("it was a block when it came");
            model.update_topic(stream.identifier()?, topic.identifier()?, &name, &patch)
        })
    }

    /// Deletes a topic with all its messages, its groups and what consumers stored.
    pub fn delete_topic(&self, stream: impl Into<Ident>, topic: impl Into<Ident>) -> Change<()> {
        let (stream, topic) = (stream.into(), topic.into());
        self.change(move |model| model.delete_topic(stream.identifier()?, topic.identifier()?))
    }

    /// Deletes all messages of a topic and what consumers stored. Offsets begin at 0 again; groups
    /// stay.
    pub fn purge_topic(&self, stream: impl Into<Ident>, topic: impl Into<Ident>) -> Change<()> {
        let (stream, topic) = (stream.into(), topic.into());
        self.change(move |model| model.purge_topic(stream.identifier()?, topic.identifier()?))
    }

    /// Adds `count` partitions, 1 to 1,000, behind those that there are.
    pub fn add_partitions(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        count: u32,
    ) -> Change<(u32, u32)> {
        let (stream, topic) = (stream.into(), topic.into());
        let now_us = crate::catalog::now_us();
        self.change(move |model| {
            model.add_partitions(stream.identifier()?, topic.identifier()?, count, now_us)
        })
    }

    /// Deletes the last `count` partitions, 1 to 1,000, with all their messages.
    pub fn remove_partitions(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        count: u32,
    ) -> Change<(u32, u32)> {
        let (stream, topic) = (stream.into(), topic.into());
        self.change(move |model| {
            model.remove_partitions(stream.identifier()?, topic.identifier()?, count)
        })
    }

    /// Creates a consumer group. Answers the stream's id, the topic's and the group's.
    pub fn create_group(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        name: &str,
    ) -> Change<(u32, u32, u32)> {
        let (stream, topic, name) = (stream.into(), topic.into(), name.to_owned());
        let now_us = crate::catalog::now_us();
        self.change(move |model| {
            model.create_group(stream.identifier()?, topic.identifier()?, &name, now_us)
        })
    }

    /// Deletes a consumer group and what was stored for it.
    pub fn delete_group(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        group: impl Into<Ident>,
    ) -> Change<()> {
        let (stream, topic, group) = (stream.into(), topic.into(), group.into());
        self.change(move |model| {
            model.delete_group(stream.identifier()?, topic.identifier()?, group.identifier()?)
        })
    }

    /// The stream, if there is one.
    pub fn stream(&self, stream: impl Into<Ident>) -> Option<StreamInfo> {
        self.control.catalog.model().stream_info(stream.into().identifier().ok()?)
    }

    /// All streams, by id.
    pub fn streams(&self) -> Vec<StreamInfo> {
        self.control.catalog.model().stream_infos()
    }

    /// The topic, if there is one.
    pub fn topic(&self, stream: impl Into<Ident>, topic: impl Into<Ident>) -> Option<TopicInfo> {
        let (stream, topic) = (stream.into(), topic.into());
        let model = self.control.catalog.model();
        model.topic_info(stream.identifier().ok()?, topic.identifier().ok()?)
    }

    /// The topics of a stream, by id; nothing where there is no such stream.
    pub fn topics(&self, stream: impl Into<Ident>) -> Option<Vec<TopicInfo>> {
        self.control.catalog.model().topic_infos(stream.into().identifier().ok()?)
    }

    /// The consumer group, if there is one.
    pub fn group(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        group: impl Into<Ident>,
    ) -> Option<GroupInfo> {
        let group = group.into();
        let group = group.identifier().ok()?;
        let groups = self.groups(stream, topic)?;
        groups.into_iter().find(|info| match group {
            Identifier::Numeric(id) => info.id == id,
            Identifier::String(name) => *info.name == *name.as_str(),
        })
    }

    /// The consumer groups of a topic, by id; nothing where there is no such topic.
    pub fn groups(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
    ) -> Option<Vec<GroupInfo>> {
        let (stream, topic) = (stream.into(), topic.into());
        let model = self.control.catalog.model();
        model.group_infos(stream.identifier().ok()?, topic.identifier().ok()?)
    }

    /// A partition's address, if there is such a partition.
    pub fn partition(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        partition: u32,
    ) -> Option<PartitionId> {
        let (stream, topic) = (stream.into(), topic.into());
        let model = self.control.catalog.model();
        model.partition(stream.identifier().ok()?, topic.identifier().ok()?, partition)
    }

    /// The partition that a batch goes to: the one that is named, the one of the key (XXH32, seed 0,
    /// of its bytes, modulo the number of partitions, as clients compute it), or the next one of the
    /// topic in turn. Nothing where there is no such topic or partition.
    pub fn route(
        &self,
        stream: impl Into<Ident>,
        topic: impl Into<Ident>,
        partitioning: &Partitioning<'_>,
    ) -> Option<PartitionId> {
        let (stream, topic) = (stream.into(), topic.into());
        let model = self.control.catalog.model();
        model.route(stream.identifier().ok()?, topic.identifier().ok()?, partitioning)
    }

    fn change<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&Model) -> Result<(T, Plan), ChangeError> + Send + 'static,
    ) -> Change<T> {
        Change::new(self.control.change(plan))
    }
}

impl Ident {
    fn identifier(&self) -> Result<Identifier<'_>, FormatError> {
        match self {
            Ident::Id(id) => Ok(Identifier::Numeric(*id)),
            Ident::Name(name) => Name::new(name).map(Identifier::String),
        }
    }
}

impl From<u32> for Ident {
    fn from(id: u32) -> Self {
        Ident::Id(id)
    }
}

impl From<&str> for Ident {
    fn from(name: &str) -> Self {
        Ident::Name(name.into())
    }
}

impl From<Identifier<'_>> for Ident {
    fn from(identifier: Identifier<'_>) -> Self {
        match identifier {
            Identifier::Numeric(id) => Ident::Id(id),
            Identifier::String(name) => Ident::Name(name.as_str().into()),
        }
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ident::Id(id) => write!(f, "{id}"),
            Ident::Name(name) => write!(f, "{name:?}"),
        }
    }
}
