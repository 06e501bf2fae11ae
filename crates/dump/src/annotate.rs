//! The bytes of a batch, sound or not, as named pieces in order: every byte belongs to one piece,
//! and a piece that breaks a rule says so. Names and places come from the field tables of
//! corelog-format's `layout`.

use std::ops::Range;

use corelog_format::layout::{Field, batch_header, frame_header, producer_section, tagged_field};
use corelog_format::{BATCH_BYTES_MAX, HeaderKind, HeaderValue, checksum};

use crate::render::HumanValue;
use crate::style::Colour;
use crate::time::Utc;

/// Bytes of the shortest batch: a header, and the frame of an empty message.
pub(crate) const BATCH_BYTES_MIN: usize = batch_header::LEN + frame_header::LEN;

/// What a piece is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The batch's header.
    Batch,
    /// The frame with this index.
    Frame(u32),
    /// One of many records of a file: an index entry, a manifest's slot.
    Record(u64),
    /// Bytes that belong to nothing.
    Rest,
}

/// Some bytes with a name.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// First byte, counted from the start of what is annotated.
    pub(crate) at: usize,
    /// Number of bytes.
    pub(crate) len: usize,
    /// What they are part of.
    pub(crate) part: Part,
    /// The field.
    pub(crate) name: &'static str,
    /// What they say, for people.
    pub(crate) value: String,
    /// What kind of bytes they are.
    pub(crate) colour: Colour,
    /// Which rule they break.
    pub(crate) wrong: Option<String>,
}

/// What is called with the pieces.
pub(crate) type OnPiece<'f> = dyn FnMut(Piece) + 'f;

/// The pieces of the batch that `bytes` begins with: all of `bytes`, whatever the header says of
/// its length. Work is linear in `bytes`; memory is some bytes for each frame.
pub(crate) fn batch(bytes: &[u8], on: &mut OnPiece<'_>) {
    let Some((header, body)) = bytes.split_at_checked(batch_header::LEN) else {
        on(rest(0, bytes.len(), "batch_header", "the header is cut off"));
        return;
    };
    let frames = Frames::walk(header, body);
    for field in batch_header::FIELDS {
        let wrong = frames.wrong_in_header(header, body, &field);
        match wrong {
            Some(_) if field == batch_header::RESERVED => reserved(header, on),
            wrong => on(fixed(header, 0, &field, Part::Batch, wrong)),
        }
    }
    for (index, range) in (0..).zip(&frames.ranges) {
        frame(&body[range.clone()], batch_header::LEN + range.start, index, on);
    }
    if frames.end < body.len() {
        let why = match frames.are_all_there() {
            true => "bytes behind the last frame",
            false => "no frame fits here",
        };
        on(rest(batch_header::LEN + frames.end, body.len() - frames.end, "rest", why));
    }
}

/// The frames that fit into a batch, counted from the end of its header.
struct Frames {
    ranges: Vec<Range<usize>>,
    end: usize,
    count: u64,
}

impl Frames {
    fn walk(header: &[u8], body: &[u8]) -> Frames {
        let count = number(header, &batch_header::MESSAGE_COUNT) as u64;
        let mut frames = Frames { ranges: Vec::new(), end: 0, count };
        while (frames.ranges.len() as u64) < count {
            let left = &body[frames.end..];
            let Some(len) = frame_end(left).filter(|len| *len <= left.len()) else { break };
            frames.ranges.push(frames.end..frames.end + len);
            frames.end += len;
        }
        frames
    }

    fn are_all_there(&self) -> bool {
        self.ranges.len() as u64 == self.count
    }

    /// Which rule a field of the header breaks.
    fn wrong_in_header(&self, header: &[u8], body: &[u8], field: &Field) -> Option<String> {
        let value = || number(header, field);
        match *field {
            batch_header::BATCH_LENGTH => {
                let (least, have) =
                    (BATCH_BYTES_MIN as u128, (batch_header::LEN + body.len()) as u128);
                match value() {
                    v if v < least || v > u128::from(BATCH_BYTES_MAX) => {
                        Some(format!("not in {least}..={BATCH_BYTES_MAX}"))
                    }
                    v if v > have => Some(format!("only {have} bytes are there")),
                    _ => None,
                }
            }
            batch_header::MESSAGE_COUNT => match self.ranges.len() {
                _ if self.count == 0 => Some("a batch has a message".to_string()),
                fit if !self.are_all_there() => Some(format!("{fit} frames fit")),
                _ => None,
            },
            batch_header::BATCH_CHECKSUM if self.count > 0 && self.are_all_there() => {
                let computed = u128::from(self.checksum(header, body));
                (computed != value()).then(|| wrong_checksum(computed))
            }
            batch_header::RESERVED => {
                let bytes = &header[field.at..field.end()];
                bytes.iter().any(|byte| *byte != 0).then(|| "reserved bytes are zero".to_string())
            }
            _ => None,
        }
    }

    /// What the batch's checksum should be, of frames that are all there.
    fn checksum(&self, header: &[u8], body: &[u8]) -> u64 {
        let count = batch_header::MESSAGE_COUNT;
        let mut covered = header[..batch_header::BATCH_LENGTH.end()].to_vec();
        covered.extend_from_slice(&header[count.at..count.end()]);
        for range in &self.ranges {
            covered.extend_from_slice(&body[range.start..][..frame_header::CHECKSUM.size]);
        }
        checksum::xxh3(&covered)
    }
}

/// Reserved bytes that are not all zero: the section of newer producers by its names where it is
/// announced, and every run of bytes between.
fn reserved(header: &[u8], on: &mut OnPiece<'_>) {
    let field = batch_header::RESERVED;
    let announced = number(header, &producer_section::FLAG) != 0;
    let named: &[Field] = if announced { &producer_section::FIELDS } else { &[] };
    let mut at = field.at;
    let gap = |from: usize, to: usize, on: &mut OnPiece<'_>| {
        if from < to {
            let part = Field { at: from, size: to - from, ..field };
            let odd = header[from..to].iter().any(|byte| *byte != 0);
            let wrong = odd.then(|| "reserved bytes are zero".to_string());
            on(fixed(header, 0, &part, Part::Batch, wrong));
        }
    };
    for known in named {
        gap(at, known.at, on);
        let wrong = "a newer producer's section; an engine refuses it".to_string();
        on(fixed(header, 0, known, Part::Batch, Some(wrong)));
        at = known.end();
    }
    gap(at, field.end(), on);
}

/// The pieces of one frame, which begins at byte `at` of the batch.
fn frame(bytes: &[u8], at: usize, index: u32, on: &mut OnPiece<'_>) {
    let part = Part::Frame(index);
    for field in frame_header::FIELDS {
        let value = number(bytes, &field);
        let wrong = match field {
            frame_header::CHECKSUM => {
                let computed = u128::from(checksum::xxh3(&bytes[field.end()..]));
                (computed != value).then(|| wrong_checksum(computed))
            }
            frame_header::RESERVED => (value != 0).then(|| "reserved bytes are zero".to_string()),
            _ => None,
        };
        on(fixed(bytes, at, &field, part, wrong));
    }
    let payload = number(bytes, &frame_header::PAYLOAD_LENGTH) as usize;
    let (body, colour) = (&bytes[frame_header::LEN..], Colour::Data);
    if payload > 0 {
        let (at, value) = (at + frame_header::LEN, format!("{payload} bytes"));
        on(Piece { at, len: payload, part, name: "payload", value, colour, wrong: None });
    }
    user_headers(&body[payload..], at + frame_header::LEN + payload, part, on);
}

/// Length of the frame that `bytes` begins with, by its header.
pub(crate) fn frame_end(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..frame_header::LEN)?;
    let payload = number(header, &frame_header::PAYLOAD_LENGTH) as usize;
    Some(frame_header::LEN + payload + number(header, &frame_header::USER_HEADERS_LENGTH) as usize)
}

/// The pieces of a block of user headers, which begins at byte `at` of the batch.
fn user_headers(block: &[u8], at: usize, part: Part, on: &mut OnPiece<'_>) {
    const NAMES: [[&str; 3]; 2] =
        [["key kind", "key length", "key"], ["value kind", "value length", "value"]];
    let mut from = 0;
    for [kind_name, length_name, data_name] in NAMES.into_iter().cycle() {
        let left = &block[from..];
        if left.is_empty() {
            return;
        }
        let length = match left.len() {
            0..tagged_field::LEN => 0,
            _ => number(left, &tagged_field::LENGTH) as usize,
        };
        let end = tagged_field::LEN + length;
        if !(1..=255).contains(&length) || end > left.len() || left[0] == 0 {
            let why = "not a kind that is not zero, a length of 1 to 255, and so many bytes";
            on(Piece { part, ..rest(at + from, left.len(), "user_headers", why) });
            return;
        }
        let (kind, data) = (left[0], &left[tagged_field::LEN..end]);
        let kind_text = HeaderKind::from_code(kind).map_or("unknown", HeaderKind::name);
        let value = HumanValue(&HeaderValue::from_parts(kind, data)).to_string();
        let pieces = [
            (tagged_field::KIND, kind_name, kind_text.to_string(), Colour::Dim),
            (tagged_field::LENGTH, length_name, length.to_string(), Colour::Size),
            (
                Field { at: tagged_field::LEN, size: length, ..tagged_field::KIND },
                data_name,
                value,
                Colour::Data,
            ),
        ];
        for (field, name, value, colour) in pieces {
            let at = at + from + field.at;
            on(Piece { at, len: field.size, part, name, value, colour, wrong: None });
        }
        from += end;
    }
}

/// The pieces of records of one kind, back to back.
pub(crate) fn records(bytes: &[u8], fields: &[Field], len: usize, on: &mut OnPiece<'_>) {
    for (record, which) in bytes.chunks(len).zip(0..) {
        let at = which as usize * len;
        if record.len() < len {
            on(rest(at, record.len(), "rest", "the record is cut off"));
            return;
        }
        for field in fields {
            on(fixed(record, at, field, Part::Record(which), None));
        }
    }
}

/// A field of a fixed record that begins at byte `base`.
fn fixed(record: &[u8], base: usize, field: &Field, part: Part, wrong: Option<String>) -> Piece {
    let name = field.name;
    let (value, colour) = match (name, field.kind) {
        (name, _) if name.ends_with("checksum") => {
            (format!("{:#018x}", number(record, field)), Colour::Sum)
        }
        (_, "bytes") => {
            let zeros = record[field.at..field.end()].iter().all(|byte| *byte == 0);
            let value = if zeros { "zero".to_string() } else { format!("{} bytes", field.size) };
            (value, Colour::Dim)
        }
        (name, _) if name.ends_with("timestamp") || name == "ceiling_us" => {
            let value = number(record, field) as u64;
            (format!("{value} {}", Utc(value)), Colour::Stamped)
        }
        ("base_offset" | "partition_id", _) => (number(record, field).to_string(), Colour::Stamped),
        ("reserved", _) => (number(record, field).to_string(), Colour::Dim),
        _ => (number(record, field).to_string(), Colour::Size),
    };
    Piece { at: base + field.at, len: field.size, part, name, value, colour, wrong }
}

fn rest(at: usize, len: usize, name: &'static str, why: &str) -> Piece {
    let (value, wrong) = (format!("{len} bytes"), Some(why.to_string()));
    Piece { at, len, part: Part::Rest, name, value, colour: Colour::Dim, wrong }
}

fn wrong_checksum(computed: u128) -> String {
    format!("over the bytes it is {computed:#018x}")
}

/// The little-endian number in a field; zero where it is wider than any number.
fn number(record: &[u8], field: &Field) -> u128 {
    let bytes = &record[field.at..field.end()];
    if bytes.len() > 16 {
        return 0;
    }
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelog_format::{BatchBuilder, Message};

    fn example() -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        let headers = [("k", HeaderValue::Uint8(7)), ("text", HeaderValue::String("x"))];
        builder.push(Message::new(b"four").headers(&headers)).expect("fits");
        builder.push(Message::new(b"").id(2)).expect("fits");
        builder.finish().expect("a batch")
    }

    fn pieces(bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        batch(bytes, &mut |piece| pieces.push(piece));
        pieces
    }

    /// Sound or not, and however short: each byte is in one piece, in order.
    fn tiled(bytes: &[u8]) -> Vec<Piece> {
        let pieces = pieces(bytes);
        let end = pieces.iter().fold(0, |at, piece| {
            assert_eq!(piece.at, at, "{piece:?}");
            at + piece.len
        });
        assert_eq!(end, bytes.len());
        pieces
    }

    #[test]
    fn a_sound_batch_has_nothing_wrong() {
        let pieces = tiled(&example());
        assert!(pieces.iter().all(|piece| piece.wrong.is_none()), "{pieces:#?}");
        let value = |name: &str| {
            pieces.iter().filter(|p| p.name == name).map(|p| p.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(value("key"), ["\"k\"", "\"text\""]);
        assert_eq!(value("value"), ["7", "\"x\""]);
        assert_eq!(value("value kind"), ["uint8", "string"]);
        assert_eq!(value("message_count"), ["2"]);
    }

    /// Every bit of a batch is covered by a rule that says where it is broken.
    #[test]
    fn every_flipped_bit_is_marked() {
        let good = example();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                let wrong = tiled(&bytes).into_iter().any(|piece| piece.wrong.is_some());
                assert!(wrong, "byte {at}, bit {bit}");
            }
        }
        for len in 0..good.len() {
            assert!(tiled(&good[..len]).iter().any(|p| p.wrong.is_some()) || len == 0, "{len}");
        }
    }

    #[test]
    fn a_newer_producers_section_is_named() {
        let mut bytes = example();
        bytes[52] = 1;
        bytes[56] = 9;
        let pieces = tiled(&bytes);
        let id = pieces.iter().find(|piece| piece.name == "producer_id").expect("named");
        assert!(id.value == "9" && id.wrong.is_some());
        bytes[52] = 0;
        assert!(tiled(&bytes).iter().all(|piece| piece.name != "producer_id"));
    }
}
