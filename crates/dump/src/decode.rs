//! `decode`: bytes of one wire type, as hex, to its value. One from the command line, or a line of
//! standard input for each line of output.

use std::io::{self, BufRead, Write};

use corelog_format::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, Batch, Consumer, FormatError, Identifier, Name,
    OptionalPartition, OptionsBlock, Partitioning, PollingStrategy, UnverifiedBatch, UserHeaders,
};

use crate::args::WireType;
use crate::failure::Failure;
use crate::json::{List, Object, Out};
use crate::render;
use crate::session::Session;

/// Longest line that is taken: the largest batch in hex, and a little white space.
const LINE_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX as usize + 64;

/// Decodes one value from the command line. A refusal is printed and is exit code 1.
pub(crate) fn one(session: &mut Session, wire_type: WireType, hex: String) -> Result<(), Failure> {
    let mut line = hex.into_bytes();
    if !answer(&mut session.out, wire_type, &mut line)? {
        session.damage();
    }
    Ok(())
}

/// Answers each line of standard input with one line, at once.
pub(crate) fn lines(session: &mut Session, wire_type: WireType) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        match next_line(&mut input, &mut line, LINE_BYTES_MAX).map_err(Failure::Input)? {
            Line::End => return Ok(()),
            Line::Whole => {
                answer(&mut session.out, wire_type, &mut line)?;
            }
            Line::TooLong => {
                let text = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                refusal(&mut session.out, text)?;
            }
        }
        session.out.flush()?;
    }
}

/// Prints the value of one line of hex, or why there is none. Says whether there was one.
fn answer(out: Out<'_>, wire_type: WireType, line: &mut [u8]) -> io::Result<bool> {
    let refused = match unhex(line) {
        Err(place) => format!("not hex at character {place}"),
        Ok(bytes) => match value(out, wire_type, bytes) {
            Ok(written) => {
                written?;
                return out.write_all(b"\n").map(|()| true);
            }
            Err(why) => why.to_string(),
        },
    };
    refusal(out, refused).map(|()| false)
}

fn refusal(out: Out<'_>, why: String) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("error", &why)?;
    object.end()?;
    out.write_all(b"\n")
}

/// Writes the value of `bytes`: the outer result is the decoder's, the inner one the writer's.
/// Nothing is written before it is known that there is a value.
fn value(out: Out<'_>, wire_type: WireType, bytes: &[u8]) -> Result<io::Result<()>, FormatError> {
    Ok(match wire_type {
        WireType::Name => render::name(out, &Name::decode(bytes)?),
        WireType::Identifier => render::identifier(out, &Identifier::decode(bytes)?),
        WireType::Consumer => render::consumer(out, &Consumer::decode(bytes)?),
        WireType::OptionalPartition => {
            render::optional_partition(out, OptionalPartition::decode(bytes)?)
        }
        WireType::Partitioning => render::partitioning(out, &Partitioning::decode(bytes)?),
        WireType::PollingStrategy => render::polling_strategy(out, PollingStrategy::decode(bytes)?),
        WireType::UserHeaders => render::stored_headers(out, UserHeaders::decode(bytes)?),
        WireType::OptionsBlock => options(out, OptionsBlock::decode(bytes)?),
        WireType::Batch => batch(out, typed_batch(bytes)?),
    })
}

fn options(out: Out<'_>, block: OptionsBlock<'_>) -> io::Result<()> {
    let mut list = List::begin(out)?;
    for (key, value) in block.iter() {
        render::header(list.item()?, key, &value)?;
    }
    list.end()
}

/// A batch that verifies and whose user headers all have keys that are strings.
fn typed_batch(bytes: &[u8]) -> Result<Batch<'_>, FormatError> {
    let batch = UnverifiedBatch::new(bytes)?.verify()?;
    let mut end = BATCH_HEADER_LEN;
    for frame in batch.frames() {
        end += frame.bytes().len();
        let block = frame.user_headers().bytes();
        UserHeaders::decode(block).map_err(|why| why.inside((end - block.len()) as u64))?;
    }
    Ok(batch)
}

fn batch(out: Out<'_>, batch: Batch<'_>) -> io::Result<()> {
    let header = batch.header();
    let mut object = Object::begin(out)?;
    render::batch_fields(&mut object, header)?;
    let mut messages = List::begin(object.field("messages")?)?;
    for frame in batch.frames() {
        let mut message = Object::begin(messages.item()?)?;
        render::message_fields(&mut message, header, &frame)?;
        render::stored_headers(message.field("user_headers")?, frame.user_headers())?;
        message.end()?;
    }
    messages.end()?;
    object.end()
}

/// What reading a line came to.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A line, without its end.
    Whole,
    /// A line that was passed over because it is longer than allowed.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads the next line into `line`, of which it never keeps more than `max` bytes.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>, max: usize) -> io::Result<Line> {
    line.clear();
    let (mut any, mut too_long) = (false, false);
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let newline = chunk.iter().position(|byte| *byte == b'\n');
        let taken = newline.unwrap_or(chunk.len());
        too_long |= line.len() + taken > max;
        if !too_long {
            line.extend_from_slice(&chunk[..taken]);
        }
        any |= !chunk.is_empty();
        let at_end = chunk.is_empty();
        input.consume(taken + usize::from(newline.is_some()));
        if newline.is_some() || at_end {
            return Ok(match (any, too_long) {
                (false, _) => Line::End,
                (true, false) => Line::Whole,
                (true, true) => Line::TooLong,
            });
        }
    }
}

/// Turns hex into bytes where it stands. White space around it is not looked at. The error is the
/// place of the first character that does not belong, counted from 1.
fn unhex(line: &mut [u8]) -> Result<&[u8], usize> {
    let start = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let len = line[start..].trim_ascii_end().len();
    for pair in 0..len.div_ceil(2) {
        let at = start + pair * 2;
        let high = digit(line[at]).ok_or(at + 1)?;
        // A digit without its partner is out of place itself.
        let partner = (pair * 2 + 1 < len).then(|| line[at + 1]).ok_or(at + 1)?;
        line[pair] = high << 4 | digit(partner).ok_or(at + 2)?;
    }
    Ok(&line[..len / 2])
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<Vec<u8>, usize> {
        unhex(&mut text.as_bytes().to_vec()).map(<[u8]>::to_vec)
    }

    #[test]
    fn hex_and_what_is_not() {
        assert_eq!(bytes(""), Ok(vec![]));
        assert_eq!(bytes(" \t\r"), Ok(vec![]));
        assert_eq!(bytes("00fFA9"), Ok(vec![0, 255, 0xA9]));
        assert_eq!(bytes("  0a0B \r"), Ok(vec![10, 11]));
        assert_eq!(bytes("0"), Err(1));
        assert_eq!(bytes("001"), Err(3));
        assert_eq!(bytes("00 1"), Err(3));
        assert_eq!(bytes("0x00"), Err(2));
        assert_eq!(bytes("é0"), Err(1));
        assert_eq!(bytes("0é"), Err(2));
    }

    #[test]
    fn lines_are_taken_whole_or_not_at_all() {
        // A buffer of three bytes, so that every line crosses it.
        let mut input = io::BufReader::with_capacity(3, &b"abcd\n\n0123456789\nxyz"[..]);
        let mut line = Vec::new();
        let mut next = || {
            let what = next_line(&mut input, &mut line, 5).expect("no error in memory");
            (what, String::from_utf8(line.clone()).expect("ASCII"))
        };
        assert_eq!(next(), (Line::Whole, "abcd".to_string()));
        assert_eq!(next(), (Line::Whole, String::new()));
        assert_eq!(next().0, Line::TooLong);
        assert_eq!(next(), (Line::Whole, "xyz".to_string()));
        assert_eq!(next().0, Line::End);
    }
}
