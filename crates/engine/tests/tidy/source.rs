//! One Rust file as the rules see it: its text, and its code with comments and literals blanked.

/// A file of the tree. Positions in `code` and `comments` are positions in `text`.
pub(crate) struct Source {
    /// Path from the top of the tree, with `/`.
    pub(crate) path: String,
    /// The file as it is.
    pub(crate) text: String,
    /// The text with comments and the insides of string and char literals turned into spaces.
    pub(crate) code: String,
    /// The text with everything but comments turned into spaces.
    pub(crate) comments: String,
}

/// A word or one punctuation mark of the code, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let (mut code, mut comments) = (text.as_bytes().to_vec(), text.as_bytes().to_vec());
        let mut at = 0;
        while at < text.len() {
            let (kind, end) = piece(text, at);
            match kind {
                Piece::Code => blank(&mut comments[at..end]),
                Piece::Comment => blank(&mut code[at..end]),
                Piece::Literal => {
                    blank(&mut code[at..end]);
                    blank(&mut comments[at..end]);
                    // The ends stay, so that a literal is not mistaken for empty space.
                    (code[at], code[end - 1]) = (b'"', b'"');
                }
            }
            at = end;
        }
        Source { path: path.into(), text: text.into(), code: utf8(code), comments: utf8(comments) }
    }

    /// The line of a position, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.code)
    }

    /// Whether the whole file is compiled for tests and examples alone.
    pub(crate) fn is_test(&self) -> bool {
        let path = &self.path;
        ["/tests/", "/examples/", "/fuzz/"].iter().any(|part| path.contains(part))
            || path.ends_with("/tests.rs")
            || (path.starts_with("crates/") && path.contains("/benches/"))
    }

    /// The same file without the items that are compiled for tests only.
    pub(crate) fn shipped(&self) -> Source {
        let mut code = self.code.clone().into_bytes();
        let tokens = self.tokens();
        for start in 0..tokens.len() {
            if !is_cfg_test(&tokens[start..]) {
                continue;
            }
            // `mod tests { .. }` ends at its brace, `use x;` and `mod tests;` at the semicolon.
            let end = body(&tokens, start).map_or(tokens.len() - 1, |(_, end)| end);
            blank(&mut code[tokens[start].at..=tokens[end].at]);
        }
        Source {
            path: self.path.clone(),
            text: self.text.clone(),
            code: utf8(code),
            comments: self.comments.clone(),
        }
    }
}

/// The tokens where the next item's body begins and ends; an item without one begins and ends at
/// its semicolon. Braces inside of parentheses or brackets belong to types, not to the body.
pub(crate) fn body(tokens: &[Token<'_>], from: usize) -> Option<(usize, usize)> {
    let (mut nested, mut braces, mut begin) = (0i32, 0i32, None);
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "(" | "[" if begin.is_none() => nested += 1,
            ")" | "]" if begin.is_none() => nested -= 1,
            ";" if begin.is_none() && nested == 0 => return Some((i, i)),
            "{" if nested == 0 => {
                begin = begin.or(Some(i));
                braces += 1;
            }
            "}" if nested == 0 => {
                braces -= 1;
                if braces == 0 {
                    return begin.map(|begin| (begin, i));
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the tokens begin with the words of `pattern`, which are set apart by spaces.
pub(crate) fn begins(tokens: &[Token<'_>], pattern: &str) -> bool {
    let mut tokens = tokens.iter();
    pattern.split(' ').all(|word| tokens.next().is_some_and(|token| token.text == word))
}

fn is_cfg_test(tokens: &[Token<'_>]) -> bool {
    begins(tokens, "# [ cfg ( test )") || begins(tokens, "# [ cfg ( all ( test")
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = code[at..].chars().next() {
        let len = if is_word(first) {
            code[at..].find(|c| !is_word(c)).unwrap_or(code.len() - at)
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            found.push(Token { text: &code[at..at + len], at });
        }
        at += len;
    }
    found
}

enum Piece {
    Code,
    Comment,
    Literal,
}

/// What begins at `at`, and where it ends.
fn piece(text: &str, at: usize) -> (Piece, usize) {
    let rest = &text[at..];
    if rest.starts_with("//") {
        (Piece::Comment, at + rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Piece::Comment, at + block_comment(rest))
    } else if let Some(len) = literal(rest, text[..at].ends_with(is_word)) {
        (Piece::Literal, at + len)
    } else {
        (Piece::Code, at + rest.chars().next().map_or(1, char::len_utf8))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the literal that `rest` begins with, its prefix (`b`, `c`, `r`, `br`, `cr`)
/// included; inside of a word nothing is a prefix. One that is not closed reaches to the end.
fn literal(rest: &str, in_word: bool) -> Option<usize> {
    let prefix = match rest.find(|c| !matches!(c, 'b' | 'c' | 'r')) {
        Some(len @ 1..=2) if !in_word => len,
        _ => 0,
    };
    let (prefix, quoted) = rest.split_at(prefix);
    let len = if prefix.contains('r') {
        let inside = quoted.trim_start_matches('#').strip_prefix('"')?;
        let open = quoted.len() - inside.len();
        let close = format!("\"{}", "#".repeat(open - 1));
        inside.find(&close).map(|len| open + len + close.len())
    } else if quoted.starts_with('"') {
        closing(quoted, '"')
    } else if is_char(quoted) {
        closing(quoted, '\'')
    } else {
        return None;
    };
    Some(len.map_or(rest.len(), |len| prefix.len() + len))
}

/// Whether this opens a char rather than a lifetime: `'a'` and `'\n'` against `'a`.
fn is_char(quoted: &str) -> bool {
    let mut chars = quoted.chars();
    match (chars.next(), chars.next()) {
        (Some('\''), Some('\\')) => true,
        (Some('\''), Some(_)) => chars.next() == Some('\''),
        _ => false,
    }
}

/// The length of a literal that opens with one `quote`, the closing one included.
fn closing(quoted: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in quoted.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(i + 1),
            _ => {}
        }
    }
    None
}

/// The length of a block comment; Rust's nest. One that is not closed reaches to the end.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("whole characters are blanked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("x.rs", text).code
    }

    #[test]
    fn comments_and_literals_are_blank_in_the_code() {
        assert_eq!(code("a // fn\nb"), "a      \nb");
        assert_eq!(code("a /* x /* y */ z */ b"), "a                   b");
        assert_eq!(code(r#"f("}\"{", '{')"#), r#"f("    ", " ")"#);
        assert_eq!(code(r##"f(r#"}"{"#, br"\")"##), r##"f("      ", "   ")"##);
        assert_eq!(code("f(b'{', b\"{\", '\\'', 'ä')"), "f(\"  \", \"  \", \"  \", \"  \")");
    }

    #[test]
    fn lifetimes_raw_names_and_words_that_end_like_a_prefix_are_code() {
        for text in
            ["fn f<'a>(x: &'a str) -> &'a str { x }", "r#type + 1", "var + barb", "'a: loop {}"]
        {
            assert_eq!(code(text), text);
        }
        assert_eq!(code(r#"attr"x""#), r#"attr" ""#, "a prefix begins a word");
    }

    #[test]
    fn comments_are_all_that_is_left_in_the_comments() {
        let source = Source::new("x.rs", "let a = \"// no\"; // yes\n");
        assert_eq!(source.comments.trim(), "// yes");
        assert_eq!(source.comments.len(), source.text.len());
    }

    #[test]
    fn what_is_compiled_for_tests_is_not_shipped() {
        let text =
            "use a;\n#[cfg(test)]\nmod tests { fn x() { y } }\nuse b;\n#[cfg(test)] mod t;\nz";
        let shipped = Source::new("x.rs", text).shipped();
        let words: Vec<_> = shipped.tokens().iter().map(|token| token.text).collect();
        assert_eq!(words, ["use", "a", ";", "use", "b", ";", "z"]);
    }

    #[test]
    fn a_position_has_a_line() {
        let source = Source::new("x.rs", "a\nb\n\nc");
        let lines: Vec<_> = source.tokens().iter().map(|token| source.line(token.at)).collect();
        assert_eq!(lines, [1, 2, 4]);
    }
}
