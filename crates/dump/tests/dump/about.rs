//! What the program says about itself: completions, manual pages, and help with an example each.

use crate::support::dump;

/// Every command, as its words.
const COMMANDS: [&[&str]; 17] = [
    &["ls"],
    &["show"],
    &["hex"],
    &["stats"],
    &["follow"],
    &["diff"],
    &["extract"],
    &["verify"],
    &["index"],
    &["index", "check"],
    &["index", "rebuild"],
    &["index", "show"],
    &["repair"],
    &["decode"],
    &["schema"],
    &["completions"],
    &["man"],
];

#[test]
fn every_command_has_help_with_an_example_and_a_manual_page() {
    for words in COMMANDS {
        let help = dump(words.iter().chain(&["--help"])).expect(0).out;
        assert!(help.contains("Example: corelog-dump "), "{words:?}: {help}");
        let page = dump([&["man"], words].concat()).expect(0).out;
        let name = words.join("\\-");
        assert!(page.contains(".TH") && page.contains(".SH SYNOPSIS"), "{words:?}: {page}");
        assert!(page.replace('-', "\\-").contains(&name), "{words:?}: {page}");
    }
    let page = dump(["man"]).expect(0).out;
    for words in COMMANDS.iter().filter(|words| words.len() == 1) {
        assert!(page.contains(&format!("-{}", words[0])), "{words:?}: {page}");
    }
    assert!(dump(["man", "nonsense"]).expect(2).err.contains("nonsense"));
}

/// The scripts are run by the shells themselves where a shell is there: bash always is.
#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dump(["completions", shell]).expect(0).out;
        for words in COMMANDS {
            assert!(script.contains(words[words.len() - 1]), "{shell}: {words:?}");
        }
    }
    let script = dump(["completions", "bash"]).expect(0).out;
    // The function's name is the generator's affair.
    let ask = format!(
        "{script}\nCOMP_WORDS=(corelog-dump ver); COMP_CWORD=1\n\
         function=$(complete -p corelog-dump | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n\
         \"$function\" corelog-dump ver corelog-dump; echo \"${{COMPREPLY[@]}}\""
    );
    let answer = std::process::Command::new("bash").arg("-c").arg(ask).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "verify", "{answer:?}");
}
