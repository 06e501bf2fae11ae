//! What a rule says: where, and what to do about it.

use std::fmt;

/// A breach of one rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the top of the tree.
    pub(crate) path: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// What is wrong and what would be right.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Fails with every finding, one a line.
pub(crate) fn none(findings: impl IntoIterator<Item = Finding>) {
    let lines: Vec<_> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(lines.is_empty(), "{} finding(s):\n{}", lines.len(), lines.join("\n"));
}
