//! The broker itself, its clients and its one user, as clients read them.

use std::net::SocketAddr;

use super::{put_long, put_name, put_u32, put_u64};
use crate::protocol::{SERVER_VERSION, SERVER_VERSION_NUMBER, VERSION};
use crate::root::ROOT_ID;
use corelog::consumers::GroupId;
use corelog::streams::OptionDescription;

/// TCP, among the ways in.
const TRANSPORT_TCP: u8 = 1;
/// Where a client has not logged in.
const NO_USER: u32 = u32::MAX;

/// A client that is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connected {
    pub(crate) id: u32,
    pub(crate) is_logged_in: bool,
    pub(crate) peer: SocketAddr,
}

/// Behind a login.
pub(crate) fn login(session: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    // The result section, which says that nothing failed.
    put_u32(&mut out, 0);
    put_u32(&mut out, ROOT_ID);
    put_u64(&mut out, session);
    put_u32(&mut out, VERSION);
    put_name(&mut out, SERVER_VERSION);
    out
}

/// The one node of the cluster.
pub(crate) fn cluster(listen: SocketAddr) -> Vec<u8> {
    const LEADER: u8 = 0;
    const HEALTHY: u8 = 0;
    let mut out = Vec::with_capacity(64);
    put_long(&mut out, b"single-node");
    put_u32(&mut out, 1);
    put_long(&mut out, b"iggy-node");
    put_long(&mut out, listen.ip().to_string().as_bytes());
    for port in [listen.port(), 0, 0, 0] {
        out.extend_from_slice(&port.to_le_bytes());
    }
    out.extend_from_slice(&[LEADER, HEALTHY]);
    out
}

/// One option of a scope.
pub(crate) fn option(out: &mut Vec<u8>, option: &OptionDescription) {
    put_name(out, option.key);
    let mut default = Vec::new();
    option.default.encode(&mut default).expect("defaults are of sizes that encode");
    // `[kind: 1][length: 4][data]`, just as it stands here.
    out.extend_from_slice(&default);
    put_long(out, option.description.as_bytes());
}

/// A client; its groups stand behind it only where one is asked for by itself.
pub(crate) fn client(out: &mut Vec<u8>, client: &Connected, groups: usize) {
    put_u32(out, client.id);
    put_u32(out, if client.is_logged_in { ROOT_ID } else { NO_USER });
    out.push(TRANSPORT_TCP);
    put_long(out, client.peer.to_string().as_bytes());
    put_u32(out, u32::try_from(groups).unwrap_or(u32::MAX));
}

/// The groups in which a client is a member, behind [`client`].
pub(crate) fn client_groups(out: &mut Vec<u8>, groups: &[GroupId]) {
    for group in groups {
        put_u32(out, group.stream);
        put_u32(out, group.topic);
        put_u32(out, group.group);
    }
}

/// The user.
pub(crate) fn root_user(out: &mut Vec<u8>) {
    const ACTIVE: u8 = 1;
    put_u32(out, ROOT_ID);
    // As the reference server has it.
    put_u64(out, 1);
    out.push(ACTIVE);
    put_name(out, crate::root::ROOT_NAME);
    // Users have no options.
    put_u32(out, 0);
}

/// The user and what it may: everything.
pub(crate) fn root_user_details() -> Vec<u8> {
    /// Global permissions, one byte each, and that there are none of single streams.
    const ALL: [u8; 11] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0];
    let mut out = Vec::new();
    root_user(&mut out);
    out.push(1);
    put_long(&mut out, &ALL);
    out
}

/// What GET_STATS tells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stats {
    pub(crate) pid: u32,
    /// Of one CPU, percent, since the broker began.
    pub(crate) cpu: f32,
    pub(crate) total_cpu: f32,
    pub(crate) memory: u64,
    pub(crate) total_memory: u64,
    pub(crate) available_memory: u64,
    pub(crate) run_time_us: u64,
    pub(crate) start_time_us: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) messages_bytes: u64,
    pub(crate) streams: u32,
    pub(crate) topics: u32,
    pub(crate) partitions: u32,
    pub(crate) segments: u32,
    pub(crate) messages: u64,
    pub(crate) clients: u32,
    pub(crate) groups: u32,
    pub(crate) hostname: String,
    pub(crate) os_name: String,
    pub(crate) os_version: String,
    pub(crate) kernel: String,
    pub(crate) threads: u32,
    pub(crate) free_disk: u64,
    pub(crate) total_disk: u64,
}

/// The body of GET_STATS.
pub(crate) fn stats(stats: &Stats) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put_u32(&mut out, stats.pid);
    out.extend_from_slice(&stats.cpu.to_le_bytes());
    out.extend_from_slice(&stats.total_cpu.to_le_bytes());
    let sizes = [
        stats.memory,
        stats.total_memory,
        stats.available_memory,
        stats.run_time_us,
        stats.start_time_us,
        stats.read_bytes,
        stats.written_bytes,
        stats.messages_bytes,
    ];
    sizes.into_iter().for_each(|size| put_u64(&mut out, size));
    let counts = [stats.streams, stats.topics, stats.partitions, stats.segments];
    counts.into_iter().for_each(|count| put_u32(&mut out, count));
    put_u64(&mut out, stats.messages);
    put_u32(&mut out, stats.clients);
    put_u32(&mut out, stats.groups);
    let texts = [&stats.hostname, &stats.os_name, &stats.os_version, &stats.kernel];
    texts.into_iter().for_each(|text| put_long(&mut out, text.as_bytes()));
    put_long(&mut out, SERVER_VERSION.as_bytes());
    put_u32(&mut out, SERVER_VERSION_NUMBER);
    // The reference server's cache, of which it tells nothing either.
    put_u32(&mut out, 0);
    put_u32(&mut out, stats.threads);
    put_u64(&mut out, stats.free_disk);
    put_u64(&mut out, stats.total_disk);
    out
}
