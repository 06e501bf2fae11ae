//! Size: files, functions and lines that a reader can hold in view.

use crate::finding::Finding;
use crate::source::{Source, body};

/// Lines of a file.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line of code, counted in characters.
const CODE_COLUMNS_MAX: usize = 100;
/// Columns of a line with its comment; a comment may hold a path or a command that must not break.
const LINE_COLUMNS_MAX: usize = 120;

/// Files of same-shaped entries, none of which calls its neighbour: they may exceed the limit.
const CATALOGUES: &[&str] = &[];

/// Every limit, held against one file.
pub(crate) fn limits(source: &Source) -> Vec<Finding> {
    let mut findings = functions(source);
    findings.extend(columns(source));
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX && !CATALOGUES.contains(&source.path.as_str()) {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split by who changes what");
        findings.push(Finding::new(&source.path, lines, what));
    }
    findings
}

fn functions(source: &Source) -> Vec<Finding> {
    let tokens = source.tokens();
    let is_name = |text: &str| text.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut findings = Vec::new();
    for (i, pair) in tokens.windows(2).enumerate() {
        // `fn(u8)` is a type, `fn name` is a function.
        if pair[0].text != "fn" || !is_name(pair[1].text) {
            continue;
        }
        let Some((_, end)) = body(&tokens, i) else { continue };
        let (first, last) = (source.line(pair[0].at), source.line(tokens[end].at));
        let lines = last - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("fn {}: {lines} lines, at most {FUNCTION_LINES_MAX}", pair[1].text);
            findings.push(Finding::new(&source.path, first, what));
        }
    }
    findings
}

fn columns(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(source.code.lines()).zip(source.comments.lines());
    let mut findings = Vec::new();
    for (i, ((line, code), comment)) in lines.enumerate() {
        // Up to the last character that is not blank: the inside of a literal that spans lines is
        // free in the code, and the whole line counts where it holds a comment.
        let columns = |part: &str| line[..part.trim_end().len()].chars().count();
        let with_comment = if is_unbreakable(line) { 0 } else { columns(comment) };
        let what = if columns(code) > CODE_COLUMNS_MAX {
            format!("{} columns of code, at most {CODE_COLUMNS_MAX}", columns(code))
        } else if with_comment > LINE_COLUMNS_MAX {
            format!("{with_comment} columns with the comment, at most {LINE_COLUMNS_MAX}")
        } else {
            continue;
        };
        findings.push(Finding::new(&source.path, i + 1, what));
    }
    findings
}

/// Rows of tables, and links.
fn is_unbreakable(line: &str) -> bool {
    let row = ["//! |", "/// |", "// |"].iter().any(|row| line.trim_start().starts_with(row));
    row || line.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<usize> {
        limits(&Source::new("a.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_has_at_most_600_lines() {
        assert!(check(&"// x\n".repeat(600)).is_empty());
        assert_eq!(check(&"// x\n".repeat(601)), [601]);
    }

    #[test]
    fn a_function_has_at_most_70_lines() {
        let function = |body: usize| {
            format!(
                "x!();\nfn f<'a>(x: [u8; {{ 3 }}]) -> u8\nwhere\n{}{{ '}}'; }}\n",
                "\n".repeat(body)
            )
        };
        assert!(check(&function(67)).is_empty());
        assert_eq!(check(&function(68)), [2]);
        let blocks = format!("fn f() {{\n{}}}\n", "if x { \"{\"; }\n".repeat(69));
        assert_eq!(check(&blocks), [1]);
        let declared = format!("trait T {{\nfn f();\n{}}}\n", "type X = fn(u8);\n".repeat(80));
        assert!(check(&declared).is_empty());
    }

    #[test]
    fn code_has_at_most_100_columns_and_a_line_120() {
        let code = |columns: usize| format!("{}\n", "ä".repeat(columns));
        assert!(check(&code(100)).is_empty());
        assert_eq!(check(&code(101)), [1]);
        assert_eq!(check(&format!("a(\"{}\");\n", "x".repeat(100))), [1]);
        assert!(check(&format!("a(\"\n{}\n\");\n", "x".repeat(200))).is_empty());
        let comment = |columns: usize| format!("a\n// {}\n", "x".repeat(columns - 3));
        assert!(check(&comment(120)).is_empty());
        assert_eq!(check(&comment(121)), [2]);
        assert!(check(&format!("//! | {} |\n", "x".repeat(120))).is_empty());
    }
}
