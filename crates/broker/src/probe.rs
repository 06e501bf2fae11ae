//! Everything that takes a client's bytes apart, in one call: for the fuzzer, and for a test that
//! does the same with a seed. Not part of what the crate offers.

use crate::command::{
    self, CreateGroup, CreateStream, CreateTopic, DeleteSegments, Flush, GroupPath, Login,
    OffsetPath, Partitions, PollMessages, SendMessages, StoreOffset, TopicPath, UpdateStream,
    UpdateTopic,
};
use crate::frame::{FRAME_MAX, HEADER_LEN, Request, frame_len};

/// Takes `bytes` as frames behind each other, as far as there are any, and every body as the body of
/// every command. Answers how many bodies were some command's.
///
/// # Panics
/// Where something was believed that is not in the bytes: a bug.
pub fn take_apart(mut bytes: &[u8]) -> usize {
    let mut found = 0;
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() {
        let Ok(len) = frame_len(header, FRAME_MAX) else { break };
        if let Ok(request) = Request::decode(header) {
            assert_ne!(request.client, 0);
        }
        let body_len = (len - HEADER_LEN).min(rest.len());
        let (body, behind) = rest.split_at(body_len);
        found += every_command(body);
        bytes = behind;
    }
    // What is too short for a frame may be a body.
    found + every_command(bytes)
}

fn every_command(body: &[u8]) -> usize {
    let catalog = [
        CreateStream::decode(body).is_ok_and(|it| named(it.name)),
        UpdateStream::decode(body).is_ok_and(|it| named(it.name)),
        CreateTopic::decode(body).is_ok_and(|it| named(it.name)),
        UpdateTopic::decode(body).is_ok_and(|it| named(it.name)),
        CreateGroup::decode(body).is_ok_and(|it| named(it.name)),
        TopicPath::decode(body).is_ok(),
        Partitions::decode(body).is_ok(),
        DeleteSegments::decode(body).is_ok(),
        GroupPath::decode(body).is_ok(),
        command::stream(body).is_ok(),
    ];
    let others = [
        Login::decode(body).is_ok_and(|it| named(it.sdk) && named(it.sdk_version)),
        OffsetPath::decode(body).is_ok(),
        OffsetPath::decode_delete(body).is_ok(),
        StoreOffset::decode(body).is_ok(),
        PollMessages::decode(body).is_ok(),
        Flush::decode(body).is_ok(),
        SendMessages::decode(body).is_ok_and(|it| {
            assert!(it.batch.start >= 4 && it.batch.end == body.len(), "{:?}", it.batch);
            assert!(body.get(it.batch).is_some());
            true
        }),
    ];
    catalog.into_iter().chain(others).filter(|is_one| *is_one).count()
}

fn named(name: &str) -> bool {
    assert!((1..=255).contains(&name.len()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64: the same bytes every time.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Mostly such bytes as stand in commands: kinds, flags and short lengths.
    fn bytes(state: &mut u64) -> Vec<u8> {
        let len = random(state) % 120;
        let byte = |state: &mut u64| match random(state) % 4 {
            0 => random(state) as u8,
            1 => b'a',
            _ => (random(state) % 5) as u8,
        };
        (0..len).map(|_| byte(state)).collect()
    }

    #[test]
    fn a_hundred_thousand_frames_of_anything_are_taken_apart() {
        let (mut state, mut found) = (1, 0);
        for _ in 0..100_000 {
            let body = bytes(&mut state);
            let mut frame = [0; HEADER_LEN].to_vec();
            frame[48..52].copy_from_slice(&((HEADER_LEN + body.len()) as u32).to_le_bytes());
            for _ in 0..20 {
                let at = 52 + (random(&mut state) % 204) as usize;
                frame[at] = random(&mut state) as u8;
            }
            frame.extend(&body);
            if random(&mut state).is_multiple_of(8) {
                frame.truncate((random(&mut state) % frame.len() as u64) as usize);
            }
            found += take_apart(&frame);
        }
        assert!(found > 1000, "{found} were commands: the bytes are not like any");
    }

    /// Of a body that is one, no part is.
    #[test]
    fn what_is_cut_is_no_command() {
        let path = [1, 4, 0, 0, 0, 0, 2, 1, b't'];
        for len in 0..path.len() {
            assert!(TopicPath::decode(&path[..len]).is_err(), "{len}");
        }
        assert!(TopicPath::decode(&path).is_ok());
    }
}
