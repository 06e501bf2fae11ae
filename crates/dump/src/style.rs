//! Colours for people, and none for anybody else.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::io::IsTerminal;

use clap::ValueEnum;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum When {
    /// Where standard output is a terminal and NO_COLOR is not set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Whether to colour, decided once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    on: bool,
}

/// What a colour says. Terminals map these sixteen to what their users can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Wrong.
    Bad,
    /// A title.
    Title,
    /// Names of fields.
    Name,
    /// Checksums.
    Sum,
    /// Numbers that a server stamps.
    Stamped,
    /// Lengths and counts.
    Size,
    /// Bytes of messages.
    Data,
    /// What matters less.
    Dim,
}

impl Style {
    /// What `when` means here.
    pub(crate) fn decide(when: When) -> Style {
        Style::of(when, std::io::stdout().is_terminal(), |name| std::env::var_os(name))
    }

    fn of(when: When, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> Style {
        let on = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let is_dumb = env("TERM").is_some_and(|term| term == "dumb");
                let unwanted = env("NO_COLOR").is_some_and(|value| !value.is_empty());
                is_terminal && !unwanted && !is_dumb
            }
        };
        Style { on }
    }

    /// `what` in a colour.
    pub(crate) fn paint<T: Display>(self, colour: Colour, what: T) -> Painted<T> {
        Painted { code: self.on.then_some(colour.code()), what }
    }
}

impl Colour {
    const fn code(self) -> &'static str {
        match self {
            Colour::Bad => "1;31",
            Colour::Title => "1",
            Colour::Name => "36",
            Colour::Sum => "35",
            Colour::Stamped => "33",
            Colour::Size => "34",
            Colour::Data => "32",
            Colour::Dim => "2",
        }
    }
}

/// Something with its colour, padded like the thing itself.
pub(crate) struct Painted<T> {
    code: Option<&'static str>,
    what: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.code else { return self.what.fmt(f) };
        write!(f, "\x1b[{code}m")?;
        self.what.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them_and_users_who_want_them() {
        let on = |when, is_terminal, name: &'static str, value: &'static str| {
            Style::of(when, is_terminal, |asked| (asked == name).then(|| value.into())).on
        };
        assert!(on(When::Auto, true, "TERM", "xterm"));
        assert!(on(When::Auto, true, "NO_COLOR", ""), "empty is as not set");
        assert!(!on(When::Auto, false, "TERM", "xterm"));
        assert!(!on(When::Auto, true, "TERM", "dumb"));
        assert!(!on(When::Auto, true, "NO_COLOR", "1"));
        assert!(on(When::Always, false, "NO_COLOR", "1"));
        assert!(!on(When::Never, true, "TERM", "xterm"));
    }

    #[test]
    fn painted_text_keeps_its_width() {
        let (plain, on) = (Style { on: false }, Style { on: true });
        assert_eq!(format!("{:>4}|", plain.paint(Colour::Bad, 7)), "   7|");
        assert_eq!(format!("{:>4}|", on.paint(Colour::Bad, 7)), "\x1b[1;31m   7\x1b[0m|");
    }
}
