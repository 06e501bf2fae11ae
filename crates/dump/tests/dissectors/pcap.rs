//! Captures as a test needs them: written by hand, so that nobody has to be root.

/// Raw IPv4 packets, and the first of the link types that are free for users.
pub(crate) const RAW_IP: u32 = 101;
pub(crate) const USER0: u32 = 147;

/// Bytes of a TCP segment: a frame of the protocol takes several.
const SEGMENT: usize = 1400;
const SERVER_PORT: u16 = 8090;

/// A capture file that grows packet by packet.
pub(crate) struct Capture {
    bytes: Vec<u8>,
    packets: u32,
}

/// Both directions of one connection.
pub(crate) struct Connection {
    port: u16,
    sent: [u32; 2],
}

impl Capture {
    pub(crate) fn new(link_type: u32) -> Capture {
        let mut bytes = Vec::new();
        for word in [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 0x4_0000, link_type] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Capture { bytes, packets: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn packet(&mut self, packet: &[u8]) {
        self.packets += 1;
        let len = packet.len() as u32;
        for word in [1_700_000_000, self.packets, len, len] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(packet);
    }

    /// Bytes from the client to the server, or back.
    pub(crate) fn send(&mut self, connection: &mut Connection, to_server: bool, bytes: &[u8]) {
        let (from, to) = match to_server {
            true => (usize::from(false), usize::from(true)),
            false => (usize::from(true), usize::from(false)),
        };
        for part in bytes.chunks(SEGMENT) {
            let ports = [connection.port, SERVER_PORT];
            let (sequence, seen) = (connection.sent[from], connection.sent[to]);
            let packet = tcp(ports[from], ports[to], sequence, seen, part);
            self.packet(&packet);
            connection.sent[from] += part.len() as u32;
        }
    }
}

impl Connection {
    pub(crate) fn new(number: u16) -> Connection {
        Connection { port: 40_000 + number, sent: [1, 1] }
    }
}

/// An IPv4 packet with a TCP segment. The network's numbers have the other order of bytes.
fn tcp(from: u16, to: u16, sequence: u32, seen: u32, payload: &[u8]) -> Vec<u8> {
    let network = |value: u64, len: usize| -> Vec<u8> {
        value.to_le_bytes().into_iter().take(len).rev().collect()
    };
    let mut packet = vec![0x45, 0];
    packet.extend(network(40 + payload.len() as u64, 2));
    packet.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    // One host talks to itself: the ports tell the two sides apart.
    packet.extend([127, 0, 0, 1, 127, 0, 0, 1]);
    packet.extend(network(u64::from(from), 2));
    packet.extend(network(u64::from(to), 2));
    packet.extend(network(u64::from(sequence), 4));
    packet.extend(network(u64::from(seen), 4));
    packet.extend([0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
    packet.extend_from_slice(payload);
    packet
}
