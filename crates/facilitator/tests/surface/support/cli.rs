//! The binary as a command, run to its end.

use super::BINARY;
use quittance_testkit::{
    dev_accounts::{DEV_ACCOUNTS, dev_key},
    harness::SECRET_MARKER,
};
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

/// A command that is to end has ended by then.
const DEADLINE: Duration = Duration::from_secs(30);

/// A directory to run in, a configuration file in it, and an environment.
pub(crate) struct Cli {
    pub(crate) dir: TempDir,
    env: BTreeMap<String, String>,
}

/// What a command left behind.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Cli {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), env: BTreeMap::new() }
    }

    /// With this file under the name that is looked for.
    pub(crate) fn with_file(toml: &str) -> Self {
        Self::new().file("quittance.toml", toml)
    }

    pub(crate) fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.dir.path().join(name), text).unwrap();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs to the end; no key and no marked secret is in anything it says.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        let ended = self.run_unchecked(args).await;
        no_secrets(&ended.stdout);
        no_secrets(&ended.stderr);
        ended
    }

    async fn run_unchecked(&self, args: &[&str]) -> Ended {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUITTANCE_") {
                command.env_remove(name);
            }
        }
        command.env("NO_PROXY", "127.0.0.1,localhost").envs(&self.env);
        let output = timeout(DEADLINE, command.output()).await;
        let Output { status, stdout, stderr } =
            output.unwrap_or_else(|_| panic!("{args:?} did not end")).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Ended {
    /// It refused, named this, and wrote no result.
    pub(crate) fn refused(&self, named: &str, case: &str) {
        let case = format!("{case}: {:?}, {}{}", self.code, self.stdout, self.stderr);
        assert_eq!(self.code, Some(1), "{case}");
        assert!(self.stderr.contains(named), "{named} is not named. {case}");
        assert_eq!(self.stdout, "", "{case}");
        // A sentence, not a dump.
        assert!(self.stderr.len() < 1000 && !self.stderr.contains("panicked"), "{case}");
        for word in ["usize", "u64", "struct ", "enum ", "variant", "sequence", "cannot be read"] {
            assert!(!self.stderr.contains(word), "{word:?} says nothing to an operator. {case}");
        }
        let said = self.stderr.matches("store.url").count() + self.stderr.matches("unavailable").count();
        assert!(said <= 2, "the same again and again. {case}");
    }
}

/// Neither a marked secret nor a key of a dev account.
pub(crate) fn no_secrets(text: &str) {
    assert!(!text.contains(SECRET_MARKER), "a marked secret: {text}");
    let lower = text.to_lowercase();
    for index in 0..DEV_ACCOUNTS {
        assert!(
            !lower.contains(dev_key(index).trim_start_matches("0x")),
            "the key of dev account {index}: {text}"
        );
    }
}

/// Whether a directory holds no file of that name.
pub(crate) fn absent(dir: &Path, name: &str) -> bool {
    !dir.join(name).exists()
}
