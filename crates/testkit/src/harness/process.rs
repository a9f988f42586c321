//! The real binary as a child process.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{
    config::ConfigBuilder,
    unix::{end_now, exit_within, signal},
};
use crate::{client::Facilitator, edge::env_var};

/// Names the directory the servers' output goes to.
const LOG_DIR: &str = "QUITTANCE_TEST_LOGS";
const READY_DEADLINE: Duration = Duration::from_secs(30);
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const TAIL_LINES: usize = 60;

/// What a start waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// `GET /readyz` is 200: it would take payments.
    Ready,
    /// `GET /healthz` is 200: the process is up, whatever it can reach.
    Healthy,
    /// Nothing: for servers that are to refuse to start.
    Nothing,
}

/// A server under test, in a directory of its own, with its output in a file. Killed when dropped.
#[derive(Debug)]
pub struct QuittanceProcess {
    binary: PathBuf,
    config: ConfigBuilder,
    dir: Arc<TempDir>,
    log: PathBuf,
    starts: u64,
    child: Option<Child>,
}

impl QuittanceProcess {
    /// Starts `quittance serve` and waits until it is ready.
    pub async fn start(binary: impl Into<PathBuf>, config: ConfigBuilder) -> Result<Self> {
        Self::start_until(binary, config, Wait::Ready).await
    }

    /// Starts `quittance serve` and waits for less.
    pub async fn start_until(binary: impl Into<PathBuf>, config: ConfigBuilder, wait: Wait) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("quittance-").tempdir().context("temporary directory")?;
        let mut process = Self {
            binary: binary.into(),
            config,
            dir: Arc::new(dir),
            log: log_file()?,
            starts: 0,
            child: None,
        };
        process.launch(wait).await?;
        Ok(process)
    }

    /// Ends the process if it still runs, and starts it on the same directory, store and ports.
    pub async fn restart(&mut self, wait: Wait) -> Result<()> {
        self.kill9();
        self.launch(wait).await
    }

    /// Like [`QuittanceProcess::restart`], with another configuration.
    pub async fn restart_with(&mut self, config: ConfigBuilder, wait: Wait) -> Result<()> {
        self.kill9();
        self.config = config;
        self.launch(wait).await
    }

    /// Ends the process without warning.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            end_now(&mut child, None);
        }
    }

    /// Asks the process to end and waits for it.
    pub async fn sigterm(&mut self) -> Result<ExitStatus> {
        self.terminate()?;
        self.exit(STOP_DEADLINE).await
    }

    /// Asks the process to end.
    pub fn terminate(&self) -> Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| signal(child, "TERM"))
    }

    /// Waits for the process to end by itself.
    pub async fn exit(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let Some(child) = &mut self.child else { bail!("the server does not run") };
        match exit_within(child, deadline).await? {
            Some(status) => {
                self.child = None;
                Ok(status)
            }
            None => bail!("the server did not end within {deadline:?}:\n{}", self.log_tail()),
        }
    }

    /// Waits until it is ready or healthy; fails at once if the process ends.
    pub async fn wait_until(&mut self, wait: Wait) -> Result<()> {
        let path = match wait {
            Wait::Ready => "/readyz",
            Wait::Healthy => "/healthz",
            Wait::Nothing => return Ok(()),
        };
        let client = Facilitator::with_timeout(self.base_url(), Duration::from_secs(5))?;
        let end = Instant::now() + READY_DEADLINE;
        let mut last = "no answer".to_owned();
        loop {
            let Some(child) = &mut self.child else { bail!("the server does not run") };
            if let Some(status) = child.try_wait().context("the server")? {
                self.child = None;
                bail!("the server ended with {status}:\n{}", self.log_tail());
            }
            match client.get(path).await {
                Ok(answer) if answer.status == 200 => return Ok(()),
                Ok(answer) => last = format!("{} {}", answer.status, answer.text),
                Err(_) => {}
            }
            if Instant::now() >= end {
                bail!("{path} was not 200 within {READY_DEADLINE:?}, but {last}:\n{}", self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Where it listens.
    pub fn base_url(&self) -> String {
        self.config.base_url()
    }

    /// Where its operator page is.
    pub fn operator_url(&self) -> String {
        self.config.operator_url()
    }

    /// A client for it.
    pub fn client(&self) -> Result<Facilitator> {
        Facilitator::new(self.base_url())
    }

    /// Its working directory, where the embedded store is. Kept over restarts.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Everything it has written to standard output and error, over all starts.
    pub fn log_text(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The file [`QuittanceProcess::log_text`] reads.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    fn log_tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        format!("{}\n({})", tail.join("\n"), self.log.display())
    }

    async fn launch(&mut self, wait: Wait) -> Result<()> {
        ensure!(self.child.is_none(), "the server runs already");
        self.starts += 1;
        let file = self.dir.path().join("quittance.toml");
        fs::write(&file, self.config.toml()).context("writing the configuration")?;
        let mut log = File::options().create(true).append(true).open(&self.log).context("log file")?;
        writeln!(log, "--- start {} ---", self.starts).context("log file")?;

        let mut command = Command::new(&self.binary);
        command.arg("serve").arg("--config").arg(&file).current_dir(self.dir.path());
        // The test run's own settings are none of the server's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUITTANCE_") {
                command.env_remove(name);
            }
        }
        // All it talks to is on this machine.
        command.env("NO_PROXY", "127.0.0.1,localhost").envs(self.config.environment());
        command.stdin(Stdio::null()).stdout(log.try_clone().context("log file")?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.binary.display()))?;
        self.child = Some(child);
        self.wait_until(wait).await
    }
}

impl Drop for QuittanceProcess {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// A file named after the running test, which is what its thread is called.
fn log_file() -> Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let dir = env_var(LOG_DIR).map_or_else(default_log_dir, PathBuf::from);
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let thread = std::thread::current();
    let test: String = thread
        .name()
        .unwrap_or("server")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .collect();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(dir.join(format!("{test}-{}-{number}.log", std::process::id())))
}

/// `test-logs` in cargo's target directory, which is known by the tag cargo puts there.
fn default_log_dir() -> PathBuf {
    let executable = std::env::current_exe().unwrap_or_default();
    let target = executable.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).map(Path::to_owned);
    target.unwrap_or_else(std::env::temp_dir).join("test-logs")
}
