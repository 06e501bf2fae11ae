//! From a request to its answer.
//!
//! | file | what is asked |
//! | --- | --- |
//! | `login` | logins and logouts |
//! | `questions` | about the broker, its clients, its user |
//! | `catalog` | streams and topics |
//! | `partitions` | partitions and segments |
//! | `groups` | consumer groups and their members |
//! | `messages` | appends, polls, flushes |
//! | `offsets` | what consumers have stored |

mod catalog;
mod groups;
mod login;
mod messages;
mod offsets;
mod partitions;
mod questions;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::answer::Answer;
use crate::command::{TopicPath, Undecodable};
use crate::frame::{Eviction, FRAME_MAX, Request};
use crate::limits::{Budget, Frames, Lives};
use crate::operation::{Operation, Question, is_replicated_code};
use crate::scrape::Counters;
use crate::session::{Before, Change, Session};
use crate::shared::Shared;
use crate::sockets::Sockets;
use crate::status::{Failure, Status};
use corelog::consumers::Groups;
use corelog::format::Identifier;
use corelog::format::checksum::xxh3;
use corelog::streams::{Catalog, TopicInfo};
use corelog::{Client, PartitionId, ShardContext};

/// Bytes of a poll's reply: what one frame may have, less its headers.
const REPLY_BYTES_MAX: usize = FRAME_MAX - 4096;

/// What serves the connections of one shard.
pub(crate) struct Here {
    pub(crate) shard: ShardContext,
    pub(crate) client: Client,
    pub(crate) catalog: Catalog,
    pub(crate) groups: Groups,
    pub(crate) sockets: Rc<Sockets>,
    pub(crate) shared: Arc<Shared>,
    /// Its connections.
    pub(crate) lives: Rc<Lives>,
    /// Memory for frames that are received and served.
    pub(crate) frames: Frames,
    /// Memory for replies that are not taken yet.
    pub(crate) replies: Rc<Budget>,
    /// What a poll may get, bytes, or else one batch.
    pub(crate) poll_bytes: usize,
}

impl Here {
    pub(crate) fn new(
        shard: ShardContext,
        client: Client,
        sockets: Rc<Sockets>,
        shared: Arc<Shared>,
    ) -> Rc<Here> {
        let (catalog, groups) = (client.catalog(), client.groups());
        let counters = &shared.counters[shard.index()];
        let part = |all: usize| all / shared.counters.len();
        let frames = Frames::new(part(shared.may.frame_memory), &counters.frames);
        let replies = Budget::new(part(shared.may.reply_memory), Arc::clone(&counters.replies));
        let poll_bytes = shared.poll_bytes.min(REPLY_BYTES_MAX).min(replies.max());
        let lives = Rc::default();
        Rc::new(Here {
            shard,
            client,
            catalog,
            groups,
            sockets,
            shared,
            lives,
            frames,
            replies,
            poll_bytes,
        })
    }

    /// What is counted here.
    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters[self.shard.index()]
    }
}

/// Either the answer, or the failure that is one.
type Answered = Result<Answer, Failure>;

impl From<Undecodable> for Failure {
    fn from(_: Undecodable) -> Failure {
        Failure::Refused(Status::INVALID_COMMAND)
    }
}

/// The answer to one request, in the order of the reference server's checks.
pub(crate) async fn answer(
    here: &Here,
    session: &mut Session,
    request: &Request,
    body: Bytes,
) -> Answer {
    if request.checksum != 0 && request.checksum != u128::from(xxh3(&body)) {
        return Answer::refused(Status::INVALID_FORMAT);
    }
    if !session.seat.beat() {
        session.log_out();
        return Answer::Evict(Eviction::Stale);
    }
    if session.login.is_some() && session.seat.is_fenced() && !is_open_to_all(request) {
        return fenced(session);
    }
    match request.operation {
        Operation::NonReplicated => question(here, session, request.code, &body).await,
        Operation::Register => login::login(here, session, request, &body).await,
        Operation::Logout => login::logout(session),
        _ if session.login.is_none() => Answer::Evict(Eviction::NoSession),
        Operation::SendMessages => messages::send(here, &body).await.unwrap_or_else(Answer::from),
        Operation::StoreConsumerOffset => {
            offsets::store(here, session, &body).await.unwrap_or_else(Answer::from)
        }
        Operation::DeleteConsumerOffset => {
            offsets::delete(here, session, &body).await.unwrap_or_else(Answer::from)
        }
        operation if operation.is_of_users() => Answer::refused(Status::FEATURE_UNAVAILABLE),
        operation => {
            let change = Change { number: request.request, operation, body: xxh3(&body) };
            self::change(here, session, change, &body).await
        }
    }
}

/// Its client has logged in elsewhere.
fn fenced(session: &mut Session) -> Answer {
    session.log_out();
    Answer::Evict(Eviction::Fenced)
}

/// True for what is answered whoever asks.
fn is_open_to_all(request: &Request) -> bool {
    match request.operation {
        Operation::NonReplicated => request.code == Question::Ping as u32,
        operation => operation == Operation::Logout,
    }
}

async fn question(here: &Here, session: &mut Session, code: u32, body: &Bytes) -> Answer {
    let Some(question) = Question::of(code) else {
        let is_known = is_replicated_code(code);
        return match session.login {
            None => Answer::refused(Status::UNAUTHENTICATED),
            Some(_) if is_known => Answer::refused(Status::FEATURE_UNAVAILABLE),
            Some(_) => Answer::refused(Status::INVALID_COMMAND),
        };
    };
    match question {
        Question::LegacyLogin | Question::LegacyTokenLogin => {
            return Answer::Evict(Eviction::Malformed);
        }
        Question::Ping => return Answer::empty(),
        _ if session.login.is_none() => return Answer::refused(Status::UNAUTHENTICATED),
        _ => {}
    }
    let answered = match question {
        Question::PollMessages => messages::poll(here, session, body).await,
        Question::GetConsumerOffset => offsets::get(here, body).await,
        Question::FlushUnsavedBuffer => messages::flush(here, body).await,
        Question::GetStream => catalog::get_stream(here, body).await,
        Question::GetStreams => catalog::get_streams(here).await,
        Question::GetTopic => catalog::get_topic(here, body).await,
        Question::GetTopics => catalog::get_topics(here, body).await,
        Question::GetConsumerGroup => groups::get(here, body),
        Question::GetConsumerGroups => groups::get_all(here, body),
        Question::SyncConsumerGroup => groups::sync(here, session, body),
        other => questions::answer(here, session, other, body).await,
    };
    answered.unwrap_or_else(Answer::from)
}

/// Carries a change out once, however often it is asked for.
async fn change(here: &Here, session: &mut Session, change: Change, body: &[u8]) -> Answer {
    let Some(login) = &session.login else { return Answer::Evict(Eviction::NoSession) };
    match login.before(change) {
        Before::Never => {}
        Before::Answered(reply) => return Answer::plain(reply.to_vec()),
        Before::Forgotten => return Answer::failed(Status::ALREADY_APPLIED),
        Before::Other => return Answer::refused(Status::INVALID_COMMAND),
    }
    let client = login.client;
    let answered = match change.operation {
        Operation::CreateStream => catalog::create_stream(here, body).await,
        Operation::UpdateStream => catalog::update_stream(here, body).await,
        Operation::DeleteStream => catalog::delete_stream(here, body).await,
        Operation::PurgeStream => catalog::purge_stream(here, body).await,
        Operation::CreateTopic => catalog::create_topic(here, body).await,
        Operation::UpdateTopic => catalog::update_topic(here, body).await,
        Operation::DeleteTopic => catalog::delete_topic(here, body).await,
        Operation::PurgeTopic => catalog::purge_topic(here, body).await,
        Operation::CreatePartitions => partitions::create(here, body).await,
        Operation::DeletePartitions => partitions::delete(here, body).await,
        Operation::DeleteSegments => partitions::delete_segments(here, body).await,
        Operation::CreateConsumerGroup => groups::create(here, body).await,
        Operation::DeleteConsumerGroup => groups::delete(here, body).await,
        // A login elsewhere comes before such a change, or behind it.
        Operation::JoinConsumerGroup | Operation::LeaveConsumerGroup => {
            let act = || match change.operation {
                Operation::JoinConsumerGroup => groups::join(here, client, body),
                _ => groups::leave(here, client, body),
            };
            match session.seat.unless_fenced(act) {
                Some(answered) => answered,
                None => return fenced(session),
            }
        }
        _ => Err(Failure::Refused(Status::FEATURE_UNAVAILABLE)),
    };
    // What was not carried out is asked again under its number, and must not find its refusal.
    let is_final = answered.as_ref().err().is_none_or(Failure::is_final);
    let answer = answered.unwrap_or_else(Answer::from);
    if let (Some(login), Answer::Reply { body, .. }, true) = (&mut session.login, &answer, is_final)
    {
        login.keep(change, body.head[..].into());
    }
    answer
}

impl Here {
    /// The topic of a path.
    fn topic(&self, path: TopicPath<'_>) -> Result<TopicInfo, Status> {
        self.catalog.topic(path.stream, path.topic).ok_or_else(|| self.missing(path.stream))
    }

    /// A partition of a path's topic.
    fn partition(&self, path: TopicPath<'_>, partition: u32) -> Result<PartitionId, Status> {
        let found = self.catalog.partition(path.stream, path.topic, partition);
        found.ok_or_else(|| match self.catalog.topic(path.stream, path.topic) {
            Some(_) => Status::PARTITION_NOT_FOUND,
            None => self.missing(path.stream),
        })
    }

    /// What is missing where there is no such topic.
    fn missing(&self, stream: Identifier<'_>) -> Status {
        match self.catalog.stream(stream) {
            Some(_) => Status::TOPIC_NOT_FOUND,
            None => Status::STREAM_NOT_FOUND,
        }
    }
}
