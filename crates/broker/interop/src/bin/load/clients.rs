//! The SDK's clients, as they are by default, and the checks of what they get.

use corelog_interop::{Broker, id, login};
use iggy::prelude::*;

use crate::Args;
use crate::peer::Peer;
use crate::shape::{self, Does, PAYLOAD, Shape};
use crate::window::{Outcome, Requests, measure};

/// What a producer leaves to consumers, bytes: more than any memory of the broker holds.
const STORED: u64 = 2_000_000_000;

/// Batches at the end of a partition that are polled again and again.
const AT_THE_END: u64 = 8;

/// A client with a stream of its own.
struct Client {
    client: IggyClient,
    number: usize,
    shape: Shape,
    stream: Identifier,
    topic: Identifier,
    /// What it sends.
    messages: Vec<IggyMessage>,
    /// Where it goes on to poll, and where it begins anew, and when.
    next: u64,
    begin: u64,
    end: u64,
    sent: u64,
    is_checked: bool,
}

impl Requests for Client {
    async fn request(&mut self) {
        match self.shape.does {
            Does::Sends => self.send().await,
            Does::Polls | Does::PollsTheEnd => self.poll().await,
        }
    }
}

impl Client {
    async fn new(address: &str, number: usize, shape: Shape) -> Client {
        Client {
            client: login(address).await,
            number,
            shape,
            stream: id(&format!("stream-{number}")),
            topic: id("topic"),
            messages: shape::messages(number, shape.batch),
            next: 0,
            begin: 0,
            end: u64::MAX,
            sent: 0,
            is_checked: true,
        }
    }

    async fn create_topic(&self) {
        self.client.create_stream(&format!("stream-{}", self.number)).await.unwrap();
        let options =
            TopicCreateOptions { partitions_count: Some(1), ..TopicCreateOptions::default() };
        self.client.create_topic(&self.stream, "topic", &options).await.unwrap();
    }

    async fn send(&mut self) {
        let to = Partitioning::partition_id(0);
        let Client { client, stream, topic, messages, .. } = self;
        client.send_messages(stream, topic, &to, messages).await.unwrap();
        self.sent += u64::from(self.shape.batch);
    }

    async fn poll(&mut self) {
        let polled = self.polled(self.next).await;
        if self.is_checked {
            shape::check(&polled, self.next, self.number, self.shape.batch);
        }
        assert_eq!(polled.messages.len(), self.shape.batch as usize, "at {}", self.next);
        self.next += u64::from(self.shape.batch);
        if self.next >= self.end {
            self.next = self.begin;
        }
    }

    async fn polled(&self, offset: u64) -> PolledMessages {
        let (me, from) = (Consumer::new(id("me")), PollingStrategy::offset(offset));
        let Client { client, stream, topic, shape, .. } = self;
        client.poll_messages(stream, topic, Some(0), &me, &from, shape.batch, false).await.unwrap()
    }

    /// All that was sent is there, and what is looked at here and there is what was sent.
    async fn check_stored(&self) {
        let topic = self.client.get_topic(&self.stream, &self.topic).await.unwrap().unwrap();
        assert_eq!(topic.messages_count, self.sent, "stream {}", self.number);
        let batches = self.sent / u64::from(self.shape.batch);
        for batch in (0..batches).step_by((batches as usize / 16).max(1)) {
            let offset = batch * u64::from(self.shape.batch);
            let polled = self.polled(offset).await;
            shape::check(&polled, offset, self.number, self.shape.batch);
            assert_eq!(polled.messages.len(), self.shape.batch as usize, "at {offset}");
        }
    }

    /// Stores what consumers poll.
    async fn fill(&mut self, stored: u64) {
        self.create_topic().await;
        while self.sent * (PAYLOAD as u64) <= stored / self.shape.clients as u64 {
            self.send().await;
        }
        self.client.flush_unsaved_buffer(&self.stream, &self.topic, 0, false).await.unwrap();
        self.end = self.sent;
        if self.shape.does == Does::PollsTheEnd {
            self.begin = self.sent.saturating_sub(AT_THE_END * u64::from(self.shape.batch));
            self.next = self.begin;
        }
    }
}

/// A shape against a broker.
pub async fn against_broker(shape: &Shape, args: &Args) -> Outcome {
    let broker = Broker::start_with(&["--shards", &args.shards.to_string()]);
    let clients = clients(broker.address(), *shape, STORED).await;
    let (outcome, clients) = measure(&args.limit, broker.pid(), shape.payload(), clients).await;
    if shape.does == Does::Sends {
        for client in &clients {
            client.check_stored().await;
        }
    }
    outcome
}

/// A shape against a server that answers at once with what a broker has answered before.
pub async fn against_nothing(shape: &Shape, args: &Args) -> Outcome {
    let broker = Broker::start_with(&["--shards", &args.shards.to_string()]);
    // A topic to send to, or one with a batch to poll.
    drop(clients(broker.address(), *shape, 0).await);
    let peer = Peer::nothing(broker.address());
    let mut clients = Vec::new();
    for number in 0..shape.clients {
        let mut client = Client::new(peer.address(), number, *shape).await;
        client.is_checked = false;
        clients.push(client);
    }
    measure(&args.limit, peer.pid(), shape.payload(), clients).await.0
}

/// Clients with a topic each; where they poll, there are `stored` bytes or a batch more in all.
async fn clients(address: &str, shape: Shape, stored: u64) -> Vec<Client> {
    let filled = (0..shape.clients).map(|number| {
        let address = address.to_owned();
        tokio::spawn(async move {
            let mut client = Client::new(&address, number, shape).await;
            match shape.does {
                Does::Sends => client.create_topic().await,
                Does::Polls | Does::PollsTheEnd => client.fill(stored).await,
            }
            client
        })
    });
    let mut clients = Vec::new();
    for client in filled.collect::<Vec<_>>() {
        clients.push(client.await.unwrap());
    }
    clients
}
