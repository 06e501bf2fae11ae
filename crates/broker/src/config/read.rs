//! All that an operator said, together.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;

use super::flags::Flags;
use super::options::{OPTIONS, Opt, defaults};
use super::{ConfigError, Settings, Source, file};
use crate::{PASSWORD_VARIABLE, RootPassword};

/// Reads the command line, the environment, and the file that one of them names. `variable` looks up
/// a variable of the environment.
///
/// # Errors
/// See [`ConfigError`].
pub fn read(
    args: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Settings, ConfigError> {
    let flags = Flags::parse(args)?;
    let mut settings = Settings { print: flags.print(), ..defaults() };
    let named = flags.config().or_else(|| variable("CORELOG_CONFIG").map(PathBuf::from));
    if let Some(path) = named {
        for entry in file::read(&path)? {
            let option = &OPTIONS[entry.option];
            (option.set)(&mut settings, &entry.text).map_err(|why| ConfigError::File {
                path: path.clone(),
                line: Some(entry.line),
                why: format!("{}: {why}", option.key),
            })?;
            settings.sources[entry.option] = Source::File { line: entry.line };
        }
    }
    for (place, option) in OPTIONS.iter().enumerate() {
        if let Some(text) = variable(&option.variable()) {
            let name = option.variable();
            set(&mut settings, place, Source::Environment, name, &text)?;
        }
        if let Some(text) = flags.option(option.key) {
            let name = format!("--{}", option.flag());
            set(&mut settings, place, Source::CommandLine, name, OsStr::new(text))?;
        }
    }
    settings.broker.password =
        variable(PASSWORD_VARIABLE).map(|text| password(&text)).transpose()?;
    if settings.broker.data.as_os_str().is_empty() {
        return Err(ConfigError::NoData);
    }
    Ok(settings)
}

fn set(
    settings: &mut Settings,
    place: usize,
    source: Source,
    name: String,
    text: &OsStr,
) -> Result<(), ConfigError> {
    let set = match text.to_str() {
        Some(text) => (OPTIONS[place].set)(settings, text),
        None => Err("it is no UTF-8".to_owned()),
    };
    settings.sources[place] = source;
    set.map_err(|why| ConfigError::Value { name, why })
}

/// What is wrong with it is told without a word of it.
fn password(text: &OsStr) -> Result<RootPassword, ConfigError> {
    let failed = |why| ConfigError::Value { name: PASSWORD_VARIABLE.to_owned(), why };
    let text = text.to_str().ok_or_else(|| failed("it is no UTF-8".to_owned()))?;
    RootPassword::new(text).map_err(|error| failed(error.to_string()))
}

impl Settings {
    /// What holds, and from where, as a file that would say the same. Without the password.
    pub fn printed(&self) -> String {
        let mut out = String::from("# What holds, and from where it is.\n");
        let from = |option: &Opt, source| match source {
            Source::Default => "the default".to_owned(),
            Source::File { line } => format!("line {line} of the file"),
            Source::Environment => option.variable(),
            Source::CommandLine => format!("--{}", option.flag()),
        };
        for (option, source) in OPTIONS.iter().zip(&self.sources) {
            let from = from(option, *source);
            let written = match (option.show)(self) {
                Some(value) => writeln!(out, "{} = {value} # {from}", option.key),
                None => writeln!(out, "# {} is not set: {}", option.key, option.help),
            };
            written.expect("a string takes everything");
        }
        let password = match self.broker.password {
            Some(_) => "from CORELOG_ROOT_PASSWORD, not shown",
            None => "the stored one, or one that is made up",
        };
        out.push_str(&format!("# The password of the user iggy: {password}.\n"));
        out
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_all(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let args = ["corelog-broker"].iter().chain(args).map(OsString::from);
        let find = |name: &str| env.iter().find(|(key, _)| *key == name);
        read(args, |name| find(name).map(|(_, value)| OsString::from(value)))
    }

    fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
        read_all(args, env).expect_err("something is wrong").to_string()
    }

    #[test]
    fn the_command_line_holds_before_the_environment_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broker.toml");
        let file = "data = \"/file\"\nidle_timeout = \"1s\"\nlogin_timeout = \"1s\"\n\
            frame_timeout = \"1s\"\n";
        std::fs::write(&path, file).unwrap();
        let path = path.to_str().unwrap();
        let env = [
            ("CORELOG_IDLE_TIMEOUT", "2s"),
            ("CORELOG_LOGIN_TIMEOUT", "2s"),
            ("CORELOG_CONFIG", path),
        ];
        let settings = read_all(&["--login-timeout", "3s"], &env).unwrap();
        let clients = &settings.broker.clients;
        let secs = Duration::from_secs;
        assert_eq!((clients.login_timeout, clients.idle_timeout), (secs(3), secs(2)));
        assert_eq!((clients.frame_timeout, clients.reply_timeout), (secs(1), secs(30)));
        let printed = settings.printed();
        for line in [
            "data = \"/file\" # line 1 of the file",
            "login_timeout = \"3s\" # --login-timeout",
            "idle_timeout = \"2s\" # CORELOG_IDLE_TIMEOUT",
            "frame_timeout = \"1s\" # line 4 of the file",
            "reply_timeout = \"30s\" # the default",
            "frame_bytes = \"64MiB\" # the default",
        ] {
            assert!(printed.lines().any(|found| found == line), "{line}\n{printed}");
        }
        // A flag names another file.
        std::fs::write(dir.path().join("other.toml"), "data = \"/other\"\n").unwrap();
        let other = dir.path().join("other.toml");
        let settings = read_all(&["--config", other.to_str().unwrap()], &env).unwrap();
        assert_eq!(settings.broker.data.to_str(), Some("/other"));
    }

    /// What is printed is a file that says the same.
    #[test]
    fn what_is_printed_can_be_read_again_and_has_no_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("printed.toml");
        let env = [("CORELOG_ROOT_PASSWORD", "top-secret"), ("CORELOG_DATA", "/d")];
        let printed =
            read_all(&["--frame-bytes", "100000", "--cpus", "0-2"], &env).unwrap().printed();
        assert!(!printed.contains("top-secret") && printed.contains("not shown"));
        std::fs::write(&path, &printed).unwrap();
        let again = read_all(&["--config", path.to_str().unwrap()], &[]).unwrap();
        let values = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(|line| line.split(" # ").next().unwrap().to_owned()).collect()
        };
        assert_eq!(values(&again.printed()), values(&printed));
        assert_eq!(again.broker.clients.frame_bytes, 100_000);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        assert!(refused(&[], &[]).contains("--data"));
        assert!(refused(&["--data", "/d", "--listen", "here"], &[]).starts_with("--listen: "));
        let text = refused(&["--data", "/d"], &[("CORELOG_SHARDS", "many")]);
        assert_eq!(text, "CORELOG_SHARDS: \"many\" is no whole number");
        let text = refused(&["--data", "/d"], &[("CORELOG_ROOT_PASSWORD", "ab")]);
        assert_eq!(text, "CORELOG_ROOT_PASSWORD: a password of 2 bytes: choose one of 3 to 100");
        assert!(refused(&["--root-password", "x"], &[]).contains("unexpected argument"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        let config = ["--config", path.to_str().unwrap()];
        assert!(refused(&config, &[]).contains("x.toml: No such file"));
        std::fs::write(&path, "data = \"/d\"\nsharts = 2\n").unwrap();
        let text = refused(&config, &[]);
        assert!(text.contains("x.toml:2: unknown key \"sharts\""), "{text}");
        std::fs::write(&path, "data = \"/d\"\n\nlog_level = \"loud\"\n").unwrap();
        assert!(refused(&config, &[]).contains("x.toml:3: log_level: \"loud\": expected one of"));
    }
}
