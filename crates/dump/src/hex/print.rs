//! Annotated bytes for people and as JSON, written as the pieces come.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use corelog_format::FormatError;

use super::Look;
use crate::annotate::{Part, Piece};
use crate::failure::{Failure, Shown};
use crate::json::{self, Object};
use crate::session::Session;
use crate::style::Colour;

/// The version of the document.
const SCHEMA: u64 = 1;

const ROW_BYTES: usize = 16;

/// Bytes of one piece that are printed without --all.
const PIECE_BYTES_MAX: usize = 256;

/// Which frame was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The one with this `offset_delta`.
    Delta(u64),
    /// The one that holds this byte, counted from the batch's first.
    Byte(u64),
    /// None of them.
    Nothing,
}

/// Prints pieces.
pub(crate) struct Printer<'s> {
    session: &'s mut Session,
    look: Look,
    wanted: Option<Wanted>,
    /// File position of the first byte.
    base: u64,
    /// What the place demands and the bytes alone do not show.
    why: Option<FormatError>,
    frame: Option<Frame>,
    hidden: Option<Hidden>,
    printed: Option<Part>,
    separator: &'static str,
    result: io::Result<()>,
}

/// The frame whose pieces are coming in.
struct Frame {
    index: u32,
    /// What came before it was known whether the frame is shown.
    pending: Vec<Piece>,
    shown: Option<bool>,
}

/// Frames that were passed over.
struct Hidden {
    first: u32,
    last: u32,
    bytes: usize,
}

impl<'s> Printer<'s> {
    /// Begins with the bytes at `base` of the file at `path`. `wanted`: of a batch's frames.
    pub(crate) fn new(
        session: &'s mut Session,
        path: &Path,
        base: u64,
        wanted: Option<Wanted>,
        look: Look,
        why: Option<FormatError>,
    ) -> Result<Printer<'s>, Failure> {
        let out = &mut session.out;
        if look.json {
            write!(out, "{{\"schema\":{SCHEMA},\"path\":")?;
            json::text(out, &path.to_string_lossy())?;
            write!(out, ",\"position\":{base},\"fields\":[")?;
        } else {
            let what = if wanted.is_some() { "batch" } else { "record" };
            let title = format!("{what} at {base} of {}", Shown(path));
            writeln!(out, "{}", session.style.paint(Colour::Title, title))?;
        }
        let (frame, hidden, printed) = (None, None, None);
        let (separator, result) = ("\n", Ok(()));
        Ok(Printer { session, look, wanted, base, why, frame, hidden, printed, separator, result })
    }

    /// The next piece of `bytes`.
    pub(crate) fn piece(&mut self, bytes: &[u8], mut piece: Piece) {
        if self.result.is_err() {
            return;
        }
        let at = self.base + piece.at as u64;
        if let Some(why) = self.why.filter(|why| at <= why.at && why.at < at + piece.len as u64) {
            piece.wrong.get_or_insert_with(|| why.to_string());
        }
        self.result = match piece.part {
            Part::Frame(index) => self.of_frame(bytes, index, piece),
            _ => {
                self.frame = None;
                self.passed_over().and_then(|()| self.print(bytes, &piece))
            }
        };
    }

    /// Ends the output.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.result?;
        self.result = Ok(());
        self.passed_over()?;
        if self.look.json {
            writeln!(self.session.out, "\n]}}")?;
        }
        Ok(())
    }

    fn of_frame(&mut self, bytes: &[u8], index: u32, piece: Piece) -> io::Result<()> {
        let mut frame = match self.frame.take() {
            Some(frame) if frame.index == index => frame,
            _ => Frame { index, pending: Vec::new(), shown: self.look.all.then_some(true) },
        };
        if frame.shown != Some(true) {
            let decided = self.is_shown(bytes, &frame, &piece);
            frame.shown = decided.or(frame.shown);
        }
        match frame.shown {
            None => frame.pending.push(piece),
            Some(true) => {
                self.passed_over()?;
                for earlier in frame.pending.drain(..) {
                    self.print(bytes, &earlier)?;
                }
                self.print(bytes, &piece)?;
            }
            Some(false) => {
                let len = piece.len + frame.pending.drain(..).map(|piece| piece.len).sum::<usize>();
                let first = Hidden { first: index, last: index, bytes: 0 };
                let hidden = self.hidden.get_or_insert(first);
                hidden.last = index;
                hidden.bytes += len;
            }
        }
        self.frame = Some(frame);
        Ok(())
    }

    /// Whether the frame is shown, as soon as that is known: with the field that says its place.
    /// Something wrong in a frame that is passed over shows that piece and what follows.
    fn is_shown(&self, bytes: &[u8], frame: &Frame, piece: &Piece) -> Option<bool> {
        if piece.wrong.is_some() {
            return Some(true);
        }
        if frame.shown.is_some() || piece.name != "offset_delta" {
            return None;
        }
        let begins = frame.pending.first().map_or(piece.at, |first| first.at);
        Some(match self.wanted {
            Some(Wanted::Delta(delta)) => piece.value == delta.to_string(),
            Some(Wanted::Byte(byte)) => {
                let end = crate::annotate::frame_end(&bytes[begins..]).map(|len| begins + len);
                begins as u64 <= byte && end.is_some_and(|end| byte < end as u64)
            }
            Some(Wanted::Nothing) | None => false,
        })
    }

    /// Says which frames were passed over.
    fn passed_over(&mut self) -> io::Result<()> {
        let Some(Hidden { first, last, bytes }) = self.hidden.take() else { return Ok(()) };
        if self.look.json {
            return Ok(());
        }
        let frames = match first == last {
            true => format!("frame {first}"),
            false => format!("frames {first} to {last}"),
        };
        let line = format!("{frames}: {bytes} bytes, nothing wrong (--all shows them)");
        writeln!(self.session.out, "{}", self.session.style.paint(Colour::Dim, line))
    }

    fn print(&mut self, bytes: &[u8], piece: &Piece) -> io::Result<()> {
        let all = &bytes[piece.at..piece.at + piece.len];
        let max = if self.look.all { usize::MAX } else { PIECE_BYTES_MAX };
        let some = &all[..all.len().min(max)];
        if self.look.json {
            return self.json(piece, some);
        }
        self.heading(bytes, piece)?;
        let style = self.session.style;
        let colour = if piece.wrong.is_some() { Colour::Bad } else { piece.colour };
        let is_text = piece.name == "payload" || piece.part == Part::Rest;
        let zeros = piece.value == "zero" && all.len() > ROW_BYTES;
        let rows: Vec<&[u8]> = if zeros { vec![&[]] } else { some.chunks(ROW_BYTES).collect() };
        let out = &mut self.session.out;
        for (row, number) in rows.into_iter().zip(0..) {
            let at = self.base + (piece.at + number * ROW_BYTES) as u64;
            let digits = if zeros { format!("00 x {}", all.len()) } else { hex_row(row) };
            write!(out, "  {at:>12}  {}", style.paint(colour, format!("{digits:<47}")))?;
            if number == 0 {
                let name = style.paint(Colour::Name, format!("{:<20}", piece.name));
                write!(out, "  {name} {}", piece.value)?;
            } else if is_text {
                write!(out, "  {:<20}", "")?;
            }
            if is_text {
                write!(out, " {}", style.paint(colour, ascii_row(row)))?;
            }
            out.write_all(b"\n")?;
        }
        if some.len() < all.len() && !zeros {
            writeln!(
                out,
                "  {:>12}  {} bytes more (--all shows them)",
                "",
                all.len() - some.len()
            )?;
        }
        if let Some(why) = &piece.wrong {
            let mark = "^^ ".repeat(all.len().min(ROW_BYTES));
            let line = format!("{:<47}  wrong: {why}", mark.trim_end());
            writeln!(out, "  {:>12}  {}", "", style.paint(Colour::Bad, line))?;
        }
        Ok(())
    }

    /// A line above the first piece of a part.
    fn heading(&mut self, bytes: &[u8], piece: &Piece) -> io::Result<()> {
        if self.printed == Some(piece.part) {
            return Ok(());
        }
        self.printed = Some(piece.part);
        let title = match piece.part {
            Part::Frame(index) => {
                let len = crate::annotate::frame_end(&bytes[piece.at..]);
                let bytes = len.map_or(String::new(), |len| format!(", {len} bytes"));
                format!("frame {index}{bytes}")
            }
            Part::Batch => "header".to_string(),
            Part::Record(_) => return Ok(()),
            Part::Rest => "no frame".to_string(),
        };
        writeln!(self.session.out, "{}", self.session.style.paint(Colour::Title, title))
    }

    fn json(&mut self, piece: &Piece, some: &[u8]) -> io::Result<()> {
        let out = &mut self.session.out;
        write!(out, "{}", self.separator)?;
        self.separator = ",\n";
        let mut object = Object::begin(out)?;
        object.number("position", self.base + piece.at as u64)?;
        object.number("size", piece.len as u64)?;
        let (part, frame) = match piece.part {
            Part::Batch => ("batch", None),
            Part::Frame(index) => ("frame", Some(u64::from(index))),
            Part::Record(_) => ("record", None),
            Part::Rest => ("rest", None),
        };
        object.text("part", part)?;
        object.maybe("frame", frame)?;
        object.text("field", piece.name)?;
        object.text("value", &piece.value)?;
        object.hex("hex", some)?;
        match &piece.wrong {
            Some(why) => object.text("wrong", why)?,
            None => object.field("wrong")?.write_all(b"null")?,
        }
        object.end()
    }
}

fn hex_row(row: &[u8]) -> String {
    row.iter().enumerate().fold(String::new(), |mut text, (at, byte)| {
        let _ = write!(text, "{}{byte:02x}", if at > 0 { " " } else { "" });
        text
    })
}

fn ascii_row(row: &[u8]) -> String {
    let shown = |byte: &u8| match byte {
        0x20..=0x7e => char::from(*byte),
        _ => '.',
    };
    format!("|{}|", row.iter().map(shown).collect::<String>())
}
