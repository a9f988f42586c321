//! A JSON-RPC proxy in front of a node that counts, records, and does what real nodes do on bad days.
//!
//! ```no_run
//! # use quittance_testkit::harness::{Fault, RpcProxy, Rule};
//! # async fn example() -> anyhow::Result<()> {
//! let proxy = RpcProxy::start("http://127.0.0.1:8545").await?;
//! // The node takes the next transaction, the answer is lost.
//! proxy.add(Rule::on("eth_sendRawTransaction").times(1).then(Fault::lost_answer()));
//! // … the product, configured with proxy.url(), settles a payment …
//! proxy.wait_for("eth_sendRawTransaction", 1).await?;
//! assert_eq!(proxy.count("eth_sendRawTransaction"), 1);
//! # Ok(()) }
//! ```

mod line;
mod record;
mod relay;
mod rule;
mod websocket;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use record::Call;
pub use rule::{Fault, Rule, RuleId};

use line::{Lines, ProxyListener};
use record::Records;
use rule::Rules;

/// A path segment of the proxy's URL that stands for an API key: it must never appear in a log or an answer.
pub const SECRET_MARKER: &str = "SECRETKEYMARKER";

/// How long [`RpcProxy::wait_for`] waits for one call more.
const WAIT_DEADLINE: Duration = Duration::from_secs(30);

/// A running proxy; ends with this value.
#[derive(Debug)]
pub struct RpcProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<String>,
    http: reqwest::Client,
    rules: Mutex<Rules>,
    records: Mutex<Records>,
    /// Tells waiters that the records have changed.
    recorded: watch::Sender<()>,
    /// How often hanging calls have been let go.
    released: watch::Sender<u64>,
    down: AtomicBool,
    lines: Lines,
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, change: impl FnOnce(&mut Records)) {
        change(&mut self.records());
        self.recorded.send_replace(());
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    fn upstream(&self) -> String {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RpcProxy {
    /// Listens on a free loopback port and relays to `upstream`.
    pub async fn start(upstream: impl Into<String>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("proxy port")?;
        let address = listener.local_addr().context("proxy port")?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream.into()),
            http: reqwest::Client::builder().no_proxy().build().context("HTTP client")?,
            rules: Mutex::default(),
            records: Mutex::default(),
            recorded: watch::Sender::new(()),
            released: watch::Sender::new(0),
            down: AtomicBool::new(false),
            lines: Lines::default(),
        });
        let server = tokio::spawn(relay::serve(ProxyListener::new(listener, shared.clone()), shared.clone()));
        Ok(Self { shared, address, server })
    }

    /// The URL the product gets. It carries [`SECRET_MARKER`]; any other path answers 401.
    pub fn url(&self) -> String {
        format!("http://{}/{SECRET_MARKER}", self.address)
    }

    /// The same over a WebSocket.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/{SECRET_MARKER}", self.address)
    }

    /// Relays to another node from now on.
    pub fn set_upstream(&self, url: impl Into<String>) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = url.into();
    }

    /// Adds a rule behind those that are there. All rules that match a call apply in that order, up to the first
    /// whose fault answers the call.
    pub fn add(&self, rule: Rule) -> RuleId {
        self.shared.rules().add(rule)
    }

    /// Takes a rule away. Calls that it holds stay held until [`RpcProxy::release`].
    pub fn remove(&self, rule: RuleId) {
        self.shared.rules().remove(rule);
    }

    /// Takes all rules away and lets hanging calls go.
    pub fn clear(&self) {
        self.shared.rules().clear();
        self.release();
    }

    /// To how many calls a rule has applied, also after it is used up or removed.
    pub fn hits(&self, rule: RuleId) -> u64 {
        self.shared.rules().hits(rule)
    }

    /// Lets all calls go that hang now.
    pub fn release(&self) {
        self.shared.released.send_modify(|times| *times += 1);
    }

    /// `true`: every connection is reset, open ones and new ones. `false`: back to normal.
    pub fn down(&self, down: bool) {
        self.shared.down.store(down, Ordering::SeqCst);
        if down {
            self.shared.lines.cut_all();
        }
    }

    /// HTTP requests and WebSocket messages that arrived: round trips, a batch being one.
    pub fn http_requests(&self) -> u64 {
        self.shared.records().http_requests
    }

    /// Calls of `method` that arrived, those in batches counted one by one.
    pub fn count(&self, method: &str) -> u64 {
        self.shared.records().seen(method)
    }

    /// Calls of `method` that the node answered, whether or not the answer was passed on.
    pub fn count_answered(&self, method: &str) -> u64 {
        self.shared.records().answered(method)
    }

    /// All calls that arrived, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.records().calls.clone()
    }

    /// The calls of one method that arrived, in order.
    pub fn calls_of(&self, method: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.method == method).collect()
    }

    /// Forgets all counts and records.
    pub fn reset_records(&self) {
        self.shared.record(|records| *records = Records::default());
    }

    /// Waits until `method` has arrived `n` times, counted from the start or the last reset.
    pub async fn wait_for(&self, method: &str, n: u64) -> Result<()> {
        self.wait_until(method, n, Records::seen).await
    }

    /// Waits until the node has answered `method` `n` times: what it did is done, though the product may not know.
    pub async fn wait_answered(&self, method: &str, n: u64) -> Result<()> {
        self.wait_until(method, n, Records::answered).await
    }

    async fn wait_until(&self, method: &str, n: u64, count: fn(&Records, &str) -> u64) -> Result<()> {
        let mut recorded = self.shared.recorded.subscribe();
        let mut have = count(&self.shared.records(), method);
        // Each one that comes is given the whole time anew: a busy machine is slow, a broken promise stands still.
        while have < n {
            let more = recorded.wait_for(|()| count(&self.shared.records(), method) > have);
            tokio::time::timeout(WAIT_DEADLINE, more)
                .await
                .with_context(|| {
                    format!(
                        "{method} was to come {n} times, came {have} times and then not for {WAIT_DEADLINE:?}"
                    )
                })?
                .context("the proxy has ended")?;
            have = count(&self.shared.records(), method);
        }
        Ok(())
    }
}

impl Drop for RpcProxy {
    fn drop(&mut self) {
        self.server.abort();
        self.down(true);
    }
}
