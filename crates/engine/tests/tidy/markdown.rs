//! Markdown as far as the rules need it: headings, links, and the tables that ARE rules.

use std::collections::BTreeSet;

use crate::finding::Finding;

/// The lines outside of code fences, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((i + 1, line))
    })
}

/// The heading of a line, if it is one: its depth and its words.
fn heading(line: &str) -> Option<(usize, &str)> {
    let words = line.trim_start_matches('#');
    let depth = line.len() - words.len();
    (depth > 0).then(|| words.strip_prefix(' ')).flatten().map(|words| (depth, words.trim()))
}

/// The rows of the first table under the heading `title`, cell by cell, without the table's head.
/// An error where there is no such heading or no such table: a rule that vanished is no rule.
pub(crate) fn table(text: &str, title: &str) -> Result<Vec<Vec<String>>, String> {
    let mut lines = prose(text).map(|(_, line)| line);
    lines
        .by_ref()
        .find(|line| heading(line).is_some_and(|(_, words)| words == title))
        .ok_or_else(|| format!("no heading \"{title}\""))?;
    let rows: Vec<Vec<String>> = lines
        .take_while(|line| heading(line).is_none())
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().into()).collect())
        .collect();
    match rows.len() {
        0..=2 => Err(format!("no table under the heading \"{title}\"")),
        _ => Ok(rows.into_iter().skip(2).collect()),
    }
}

/// The code spans of a cell: `` `a`, `b` `` gives a and b.
pub(crate) fn spans(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// Exactly one heading of the first level in a document, and it comes first.
pub(crate) fn one_title(path: &str, text: &str) -> Vec<Finding> {
    let titles: Vec<_> = prose(text)
        .filter(|(_, line)| heading(line).is_some_and(|(depth, _)| depth == 1))
        .collect();
    match titles[..] {
        [(1, _)] => vec![],
        [] => vec![Finding::new(path, 1, "no title; the first line is `# Title`")],
        [(line, _)] => vec![Finding::new(path, line, "the title is not on the first line")],
        [_, (line, _), ..] => vec![Finding::new(path, line, "a second title; use `##`")],
    }
}

/// Every relative link points at something: `exists` says whether a path from the top is there,
/// `document` gives the text of another document, for links to its headings.
pub(crate) fn links(
    path: &str,
    text: &str,
    exists: &dyn Fn(&str) -> bool,
    document: &dyn Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in prose(text).flat_map(|(i, line)| targets(line).map(move |t| (i, t))) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { Some(path.into()) } else { resolve(path, file) };
        let Some(file) = file.filter(|file| file == path || exists(file)) else {
            findings.push(Finding::new(path, line, format!("the link {target} leads nowhere")));
            continue;
        };
        let other = if file == path { Some(text.into()) } else { document(&file) };
        if !anchor.is_empty() && !other.is_some_and(|other| anchors(&other).contains(anchor)) {
            findings.push(Finding::new(path, line, format!("no heading for the link {target}")));
        }
    }
    findings
}

/// The targets of the links of a line, code spans left out.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').step_by(2).flat_map(|prose| {
        prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::trim)
    })
}

/// `target` as seen from the document `path`, from the top of the tree. None if it leaves the tree.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, made as code hosts make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |words: &str| -> String {
        words.to_lowercase().chars().filter(keep).collect::<String>().replace(' ', "-")
    };
    prose(text).filter_map(|(_, line)| heading(line)).map(|(_, words)| anchor(words)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# T\n\n## Other\n\n| x | y |\n| --- | --- |\n| no | no |\n\n## Arrows\n\
        text\n\n| a | b |\n| --- | --- |\n| `one` | `x`, `y` |\n| `two` | nothing |\n\nend\n";

    #[test]
    fn a_table_is_found_under_its_heading_alone() {
        let rows = table(RULES, "Arrows").unwrap();
        assert_eq!(rows, [["`one`", "`x`, `y`"], ["`two`", "nothing"]]);
        assert_eq!(spans(&rows[0][1]), ["x", "y"]);
        assert!(spans("nothing").is_empty());
    }

    #[test]
    fn a_table_that_vanished_is_an_error() {
        assert!(table(RULES, "Owners").is_err());
        assert!(
            table("# T\n## Arrows\nprose\n## Owners\n| a |\n|---|\n| b |\n", "Arrows").is_err()
        );
    }

    #[test]
    fn a_document_has_one_title_on_its_first_line() {
        assert!(one_title("a.md", "# A\n\n```sh\n# a comment\n```\n## B\n").is_empty());
        assert_eq!(one_title("a.md", "# A\n# B\n")[0].line, 2);
        assert_eq!(one_title("a.md", "text\n# B\n")[0].line, 2);
        assert_eq!(one_title("a.md", "## B\n")[0].line, 1);
    }

    #[test]
    fn links_resolve_or_are_found() {
        let exists = |path: &str| ["docs/b.md", "README.md"].contains(&path);
        let document =
            |path: &str| (path == "docs/b.md").then(|| "# B\n## The end, again\n".into());
        let check = |text| links("docs/a.md", text, &exists, &document).len();
        assert_eq!(check("# A\n[b](b.md) [r](../README.md) [w](https://x.y/z) `[c](c.md)`"), 0);
        assert_eq!(check("# A\n[b](b.md#the-end-again) [a](#a)\n```\n[c](c.md)\n```"), 0);
        assert_eq!(check("# A\n[c](c.md)\n[up](../../x)"), 2);
        assert_eq!(check("# A\n[b](b.md#the-start) [a](#b)"), 2);
    }
}
