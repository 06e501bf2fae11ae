//! Manifests: which crate may name which, who owns a heavy dependency, whose lints hold.

use std::collections::BTreeMap;

use crate::finding::Finding;

/// The tables of docs/design.md that say who may depend on what.
#[derive(Default)]
pub(crate) struct Arrows {
    /// Crate of ours -> the crates of ours it may name outside of its tests.
    pub(crate) ours: BTreeMap<String, Vec<String>>,
    /// Heavy dependency -> the crates of ours that may declare it.
    pub(crate) owners: BTreeMap<String, Vec<String>>,
}

/// What a manifest says, as far as the rules ask.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Name of the package; empty for the workspace's own manifest.
    pub(crate) package: String,
    pub(crate) dependencies: Vec<Dependency>,
    inherits_lints: bool,
    own_workspace: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Of tests, examples and benchmarks only.
    pub(crate) dev: bool,
    pub(crate) line: usize,
    renamed: bool,
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Manifest {
        let mut manifest = Manifest::default();
        let mut table = String::new();
        for (line, content) in
            text.lines().enumerate().map(|(i, line)| (i + 1, without_comment(line)))
        {
            if let Some(name) = content.strip_prefix('[') {
                table = name.trim_matches(['[', ']']).to_string();
                manifest.own_workspace |= table == "workspace" || table.starts_with("workspace.");
                if let Some((kind, name)) =
                    table.rsplit_once('.').filter(|(kind, _)| is_dependencies(kind))
                {
                    manifest.add(kind, name, "", line);
                }
            } else if let Some((key, value)) = content.split_once('=') {
                manifest.entry(&table, key.trim(), value.trim(), line);
            }
        }
        manifest
    }

    fn entry(&mut self, table: &str, key: &str, value: &str, line: usize) {
        match (table, key) {
            ("package", "name") => self.package = value.trim_matches('"').into(),
            ("lints", "workspace") => self.inherits_lints = value == "true",
            (table, key) if is_dependencies(table) => self.add(table, key, value, line),
            // `[dependencies.x]`, then `package = "y"`.
            (_, "package") => {
                self.dependencies.last_mut().into_iter().for_each(|last| last.renamed = true);
            }
            _ => {}
        }
    }

    fn add(&mut self, table: &str, key: &str, value: &str, line: usize) {
        let name = key.split('.').next().unwrap_or(key).trim_matches('"');
        self.dependencies.push(Dependency {
            name: name.into(),
            dev: table.ends_with("dev-dependencies"),
            line,
            renamed: value.contains("package"),
        });
    }
}

fn is_dependencies(table: &str) -> bool {
    table.rsplit(['.', '-']).next() == Some("dependencies")
}

fn without_comment(line: &str) -> &str {
    let quoted = |at: usize| line[..at].matches('"').count() % 2 == 1;
    let comment = line.match_indices('#').map(|(at, _)| at).find(|at| !quoted(*at));
    line[..comment.unwrap_or(line.len())].trim()
}

/// The arrows and the one owner of each heavy dependency, held against one manifest.
pub(crate) fn dependencies(path: &str, text: &str, arrows: &Arrows) -> Vec<Finding> {
    let manifest = Manifest::parse(text);
    let package = manifest.package.as_str();
    // A fuzz crate is a test of its host: it sees what the host sees, and the host.
    let host = package.strip_suffix("-fuzz").unwrap_or(package);
    let mut findings = Vec::new();
    let Some(allowed) = arrows.ours.get(host).filter(|_| !package.is_empty()) else {
        if package.is_empty() {
            return renames(path, &manifest);
        }
        let what = format!("{package} has no row among the arrows of docs/design.md");
        return vec![Finding::new(path, 1, what)];
    };
    for dependency in &manifest.dependencies {
        let name = &dependency.name;
        let mut add = |what| findings.push(Finding::new(path, dependency.line, what));
        if arrows.ours.contains_key(name) {
            let itself = name == host && host != package;
            if !dependency.dev && !itself && !allowed.contains(name) {
                add(format!("{package} may not name {name}: docs/design.md, Arrows"));
            }
        } else if let Some(owners) = arrows.owners.get(name)
            && !owners.iter().any(|owner| owner == host)
        {
            add(format!("{name} belongs to {}, not to {package}", owners.join(", ")));
        }
    }
    findings.extend(renames(path, &manifest));
    findings
}

/// A dependency under another name would slip past the rules.
fn renames(path: &str, manifest: &Manifest) -> Vec<Finding> {
    let renamed = manifest.dependencies.iter().filter(|dependency| dependency.renamed);
    renamed
        .map(|d| Finding::new(path, d.line, format!("{}: call a dependency by its name", d.name)))
        .collect()
}

/// Every member of the workspace takes the workspace's lints.
pub(crate) fn lints(path: &str, text: &str) -> Vec<Finding> {
    let manifest = Manifest::parse(text);
    if manifest.inherits_lints || manifest.own_workspace {
        return vec![];
    }
    vec![Finding::new(path, 1, "no `[lints] workspace = true`: the workspace's lints do not hold")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows() -> Arrows {
        let list = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        Arrows {
            ours: [("base", list(&[])), ("mid", list(&["base"])), ("top", list(&["base", "mid"]))]
                .map(|(name, allowed)| (name.into(), allowed))
                .into(),
            owners: [("heavy".into(), list(&["mid"]))].into(),
        }
    }

    /// The lines found in the manifest of `package`; what follows its name begins on line 3.
    fn check(package: &str, tables: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{package}\"\n{tables}");
        lines(&dependencies("x/Cargo.toml", &text, &arrows()))
    }

    fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_crate_names_only_what_is_above_it() {
        assert!(check("mid", "[dependencies]\nbase.workspace = true\nheavy = \"1\"\n").is_empty());
        assert_eq!(check("mid", "[dependencies]\ntop.workspace = true\n"), [4]);
        assert_eq!(check("base", "[build-dependencies]\nmid = { path = \"..\" }\n"), [4]);
        assert_eq!(check("base", "[target.'cfg(unix)'.dependencies]\n\"mid\" = \"1\"\n"), [4]);
        assert_eq!(check("base", "[dependencies.mid]\nversion = \"1\"\n"), [3]);
        assert_eq!(
            check("base", "[dependencies] # why\n# mid = \"1\"\nmid.path = \"..\" # x\n"),
            [5]
        );
    }

    #[test]
    fn tests_may_name_any_crate_of_ours() {
        assert!(check("base", "[dev-dependencies]\ntop.workspace = true\n").is_empty());
    }

    #[test]
    fn a_heavy_dependency_has_its_owners_even_in_tests() {
        assert_eq!(check("top", "[dependencies]\nheavy.workspace = true\n"), [4]);
        assert_eq!(check("top", "[dev-dependencies]\nheavy = \"1\" # why\n"), [4]);
    }

    #[test]
    fn a_fuzz_crate_sees_its_host_and_no_more_than_its_host() {
        assert!(check("mid-fuzz", "[dependencies]\nmid = \"1\"\nbase = \"1\"\n").is_empty());
        assert_eq!(check("mid-fuzz", "[dependencies]\ntop = { path = \"..\" }\n"), [4]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(check("stranger", ""), [1]);
    }

    #[test]
    fn a_dependency_is_called_by_its_name() {
        assert_eq!(check("top", "[dependencies]\nlight = { package = \"heavy\" }\n"), [4]);
        assert_eq!(check("top", "[dependencies.light]\npackage = \"heavy\"\n"), [3]);
        let workspace = "[workspace.dependencies]\nlight = { package = \"heavy\" }\n";
        assert_eq!(lines(&dependencies("Cargo.toml", workspace, &arrows())), [2]);
    }

    #[test]
    fn members_take_the_lints_of_the_workspace() {
        let found = |text| lints("x/Cargo.toml", text).len();
        assert_eq!(found("[package]\nname = \"a\"\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(found("[package]\nname = \"a\"\n"), 1);
        assert_eq!(found("[package]\nname = \"a\"\n[lints]\nworkspace = false\n"), 1);
        assert_eq!(found("[package]\nname = \"a-fuzz\"\n[workspace]\n"), 0);
    }
}
