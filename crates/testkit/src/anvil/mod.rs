//! A local chain: one Anvil process, ended when the value is dropped.

mod control;
mod locate;

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::sync::mpsc;

pub use control::TxPoolStatus;
pub use locate::find_anvil;

use crate::jsonrpc::RpcClient;

/// Base Sepolia's id: the network most tests and the demo pretend to be.
pub const DEFAULT_CHAIN_ID: u64 = 84532;

const START_DEADLINE: Duration = Duration::from_secs(30);
const LOG_LINES_MAX: usize = 200;

/// How to start Anvil. Made by [`Anvil::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AnvilBuilder {
    chain_id: Option<u64>,
    block_time: Option<u64>,
    no_mining: bool,
    fork_url: Option<String>,
    timestamp: Option<u64>,
    args: Vec<String>,
}

impl AnvilBuilder {
    /// The chain id; default [`DEFAULT_CHAIN_ID`], or the forked chain's own.
    pub fn chain_id(mut self, id: u64) -> Self {
        self.chain_id = Some(id);
        self
    }

    /// Mine every `seconds` instead of once per transaction.
    pub fn block_time(mut self, seconds: u64) -> Self {
        self.block_time = Some(seconds);
        self
    }

    /// Mine only when told to, by [`Anvil::mine`].
    pub fn no_mining(mut self) -> Self {
        self.no_mining = true;
        self
    }

    /// Start from the newest block of the chain behind `url`.
    pub fn fork_url(mut self, url: impl Into<String>) -> Self {
        self.fork_url = Some(url.into());
        self
    }

    /// Unix time of the first block.
    pub fn timestamp(mut self, unix_seconds: u64) -> Self {
        self.timestamp = Some(unix_seconds);
        self
    }

    /// A further command line argument, as it stands.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Starts the process on a free loopback port and waits until it listens.
    pub async fn spawn(self) -> Result<Anvil> {
        let binary = find_anvil()?;
        let mut child = Command::new(&binary)
            .args(self.command_line())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;

        let log = Log::default();
        let (found, mut listening) = mpsc::channel(1);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // From here on the process ends with this value, also when the start fails.
        let guard = Process { child };
        log.follow(stdout.ok_or_else(|| anyhow!("no stdout"))?, found.clone())?;
        log.follow(stderr.ok_or_else(|| anyhow!("no stderr"))?, found)?;

        let address = match tokio::time::timeout(START_DEADLINE, listening.recv()).await {
            Ok(Some(address)) => address,
            // Both pipes have been read to their end, so the reason is in the log.
            Ok(None) => bail!("anvil ended before it listened:\n{}", log.tail()),
            Err(_) => bail!("anvil did not listen within {START_DEADLINE:?}:\n{}", log.tail()),
        };
        let rpc = RpcClient::new(format!("http://{address}"))?;
        Ok(Anvil { rpc, address, log, process: guard })
    }

    fn command_line(&self) -> Vec<String> {
        let mut args = vec!["--port".to_owned(), "0".to_owned()];
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        let default_id = if self.fork_url.is_none() { Some(DEFAULT_CHAIN_ID) } else { None };
        if let Some(id) = self.chain_id.or(default_id) {
            option("--chain-id", id.to_string());
        }
        if let Some(seconds) = self.block_time {
            option("--block-time", seconds.to_string());
        }
        if let Some(time) = self.timestamp {
            option("--timestamp", time.to_string());
        }
        if let Some(url) = &self.fork_url {
            option("--fork-url", url.clone());
            // The disk cache is keyed by chain id and block number: two local chains would read each other's state.
            args.push("--no-storage-caching".to_owned());
        }
        if self.no_mining {
            args.push("--no-mining".to_owned());
        }
        args.extend(self.args.iter().cloned());
        args
    }
}

/// A running Anvil. Helpers for its `anvil_*`, `evm_*` and `txpool_*` methods are methods of this type.
#[derive(Debug)]
pub struct Anvil {
    rpc: RpcClient,
    address: String,
    log: Log,
    process: Process,
}

impl Anvil {
    /// Starts describing a chain.
    pub fn builder() -> AnvilBuilder {
        AnvilBuilder::default()
    }

    /// The HTTP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The WebSocket endpoint.
    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// A client that goes straight to the node.
    pub fn client(&self) -> &RpcClient {
        &self.rpc
    }

    /// The last lines the process printed.
    pub fn log_tail(&self) -> String {
        self.log.tail()
    }

    /// Ends the process now: a node that is gone, not one that answers errors.
    pub fn kill(&mut self) {
        self.process.end();
    }
}

#[derive(Debug)]
struct Process {
    child: Child,
}

impl Process {
    fn end(&mut self) {
        // Fails only if it has ended already; waiting afterwards leaves no zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The last lines of output. Read on plain threads: a full pipe would stop the node, whatever a test's runtime does.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    /// Reads until the pipe ends. `found` is told the address the node listens on, and lives as long as the pipe.
    fn follow(&self, pipe: impl Read + Send + 'static, found: mpsc::Sender<String>) -> Result<()> {
        let log = self.clone();
        let read = move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("Listening on ") {
                    // Fails if nobody waits any more.
                    let _ = found.try_send(address.trim().to_owned());
                }
                log.push(line);
            }
        };
        std::thread::Builder::new().name("anvil-log".to_owned()).spawn(read).context("log thread")?;
        Ok(())
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LOG_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn tail(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}
