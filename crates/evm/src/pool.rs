//! Several endpoints of one network: the first is preferred, the others take over (docs/adr/0010).
//!
//! An endpoint that lets calls wait until the deadline rests, and only a probe in the background ends that. One whose latest
//! block is older than another's is not believed. Heads are looked at in the background, and only while somebody asks.

mod endpoint;
mod endpoints;
mod health;
mod look;
mod websocket;
mod youngest;

use crate::{RpcFault, clock};
use alloy::rpc::json_rpc::RpcRecv;
use alloy_primitives::U64;
use endpoints::Endpoints;
use health::{Health, LAG_SECONDS_MAX};
use look::Looks;
use quittance_protocol::units::{Network, UnixSeconds};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use url::Url;
use youngest::Youngest;

/// No endpoint may take longer for one call, connecting included.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

const CHAIN_ID: &str = "eth_chainId";

/// By how many blocks an answer may be older than one before it: as far as nodes usually differ, and reorganisations go.
const BEHIND_BLOCKS_MAX: u64 = 2;

/// What a pool is asked for, as a metric's label: the same network can have other endpoints for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Payments,
    /// The trusted registry at this position.
    Registry(usize),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payments => f.write_str("payments"),
            Self::Registry(position) => write!(f, "registry-{position}"),
        }
    }
}

/// The endpoints of one network.
#[derive(Debug)]
pub struct RpcPool {
    endpoints: Arc<Endpoints>,
    looks: Looks,
    /// The block that facts were last read in, or a younger one before.
    highest: AtomicU64,
    youngest: Youngest,
}

/// What one endpoint said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply<T> {
    /// A result.
    Result(T),
    /// A JSON-RPC error. Its text is for classification only and is never shown.
    Error { code: i64, text: String },
}

impl RpcPool {
    /// A pool over `urls` (`http`, `https`, `ws`, `wss`), none of which is contacted yet.
    pub fn new(network: Network, urls: &[Url]) -> Result<Self, reqwest::Error> {
        Self::asked_for(Use::Payments, network, urls)
    }

    /// The same for the trusted registry at this position, which metrics tell apart from the payments of its network.
    pub fn of_registry(position: usize, network: Network, urls: &[Url]) -> Result<Self, reqwest::Error> {
        Self::asked_for(Use::Registry(position), network, urls)
    }

    fn asked_for(asked_for: Use, network: Network, urls: &[Url]) -> Result<Self, reqwest::Error> {
        let endpoints = Arc::new(Endpoints::new(network, asked_for, urls)?);
        let (looks, highest, youngest) = Default::default();
        Ok(Self { endpoints, looks, highest, youngest })
    }

    /// The network these endpoints serve.
    pub fn network(&self) -> Network {
        self.endpoints.network
    }

    /// How many endpoints there are.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Endpoints worth asking, the best first. When all rest, none is: the answer "unavailable" is then immediate.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        self.looks.around(&self.endpoints);
        self.endpoints.in_order()
    }

    /// Whether an endpoint's latest block is young enough, beside what the others have shown.
    pub(crate) fn keeps_up(&self, index: usize) -> bool {
        self.endpoints.keeps_up(index)
    }

    /// Whether an endpoint is known to be out of order: that it says nothing is no news.
    pub(crate) fn is_out_of_order(&self, index: usize) -> bool {
        self.endpoints.get(index).is_none_or(|endpoint| {
            let health = endpoint.health();
            health.is_resting() || health.is_failing()
        })
    }

    /// An endpoint has answered from a latest block of this time.
    pub(crate) fn saw_head(&self, index: usize, timestamp: UnixSeconds) {
        self.endpoints.saw_head(index, timestamp);
    }

    /// Whether a latest block turns out to be a stale node's, if it looks like one by our clock. A quiet chain looks like that
    /// too, so the others are asked, unless they were lately. The only look that a request waits for.
    pub(crate) async fn is_stale(&self, index: usize, timestamp: UnixSeconds) -> bool {
        if self.len() < 2 || timestamp.saturating_add(LAG_SECONDS_MAX).0 >= clock::unix_seconds() {
            return false;
        }
        self.looks.at_others(&self.endpoints, index).await;
        !self.keeps_up(index)
    }

    /// Whether a latest block is behind one that was seen before, by more than nodes usually differ.
    pub(crate) fn is_behind(&self, number: u64) -> bool {
        number.saturating_add(BEHIND_BLOCKS_MAX) < self.highest.load(Ordering::Relaxed)
    }

    /// The youngest block that facts were lately read in: what ends a promise must not be older.
    pub fn youngest(&self) -> u64 {
        self.youngest.number(clock::unix_seconds())
    }

    /// Facts of this block are believed. If it is behind the others all the same, it is the chain that has gone back.
    pub(crate) fn judged_at(&self, number: u64) {
        self.youngest.saw(number, clock::unix_seconds());
        if self.is_behind(number) {
            self.highest.store(number, Ordering::Relaxed);
        } else {
            self.highest.fetch_max(number, Ordering::Relaxed);
        }
    }

    /// A read: the first endpoint that gives a result. An error body is not an answer, so the next one is asked.
    pub(crate) async fn read<T: RpcRecv>(&self, method: &'static str, params: Value) -> Result<T, RpcFault> {
        self.read_as(method, params, Ok).await
    }

    /// A read whose result must also make sense: one that does not is no answer either.
    pub(crate) async fn read_as<T: RpcRecv, U>(
        &self,
        method: &'static str,
        params: Value,
        understand: impl Fn(T) -> Result<U, RpcFault>,
    ) -> Result<U, RpcFault> {
        self.first_of(self.that_keep_up(), method, &params, |_, value| understand(value)).await
    }

    /// The same of these endpoints, for answers that show themselves of which block they are.
    pub(crate) async fn first_of<T: RpcRecv, U>(
        &self,
        indices: Vec<usize>,
        method: &'static str,
        params: &Value,
        understand: impl Fn(usize, T) -> Result<U, RpcFault>,
    ) -> Result<U, RpcFault> {
        let mut fault = self.nobody(method);
        for index in indices {
            match self.ask(index, method, params).await {
                Ok(Reply::Result(value)) => match understand(index, value) {
                    Ok(understood) => return Ok(understood),
                    Err(error) => fault = error,
                },
                Ok(Reply::Error { code, .. }) => fault = RpcFault::ErrorResponse { method, code },
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    /// Like [`Self::read_as`], for calls to which an error can be an answer too.
    pub(crate) async fn read_reply<T: RpcRecv, U>(
        &self,
        method: &'static str,
        params: Value,
        understand: impl Fn(Reply<T>) -> Result<U, RpcFault>,
    ) -> Result<U, RpcFault> {
        let mut fault = self.nobody(method);
        for index in self.that_keep_up() {
            match self.ask(index, method, &params).await.and_then(&understand) {
                Ok(understood) => return Ok(understood),
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    /// Asks one endpoint several things in one round trip. What it answers with an error is `None`.
    pub(crate) async fn ask_all<T: RpcRecv>(
        &self,
        index: usize,
        method: &'static str,
        params: &[Value],
    ) -> Result<Vec<Option<T>>, RpcFault> {
        let calls: Vec<_> = params.iter().map(|params| (method, params.clone())).collect();
        self.batch(index, method, &calls).await
    }

    async fn batch<T: RpcRecv>(
        &self,
        index: usize,
        method: &'static str,
        calls: &[(&'static str, Value)],
    ) -> Result<Vec<Option<T>>, RpcFault> {
        let answers = self.endpoints.batch(index, method, calls).await;
        self.looks.probe(&self.endpoints, index);
        answers
    }

    /// The same of an endpoint that shows with its answers that they are of this chain: an endpoint can change behind its URL.
    /// For what a conclusion rests on. In one round trip, or where a node takes no batches one by one, between two such proofs.
    pub(crate) async fn ask_proven(
        &self,
        index: usize,
        calls: &[(&'static str, Value)],
    ) -> Result<Vec<Option<Value>>, RpcFault> {
        let mut all = vec![(CHAIN_ID, json!([]))];
        all.extend_from_slice(calls);
        match self.batch::<Value>(index, CHAIN_ID, &all).await {
            Err(RpcFault::Transport { .. } | RpcFault::Malformed { .. }) => {}
            answers => {
                let mut answers = answers?.into_iter();
                self.is_of_this_chain(index, answers.next().flatten())?;
                return Ok(answers.collect());
            }
        }
        let ask = async |(method, params): &(&'static str, Value)| {
            Ok::<_, RpcFault>(match self.ask::<Value>(index, method, params).await? {
                Reply::Result(answer) => Some(answer),
                Reply::Error { .. } => None,
            })
        };
        let chain_id = (CHAIN_ID, json!([]));
        self.is_of_this_chain(index, ask(&chain_id).await?)?;
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            answers.push(ask(call).await?);
        }
        self.is_of_this_chain(index, ask(&chain_id).await?)?;
        Ok(answers)
    }

    fn is_of_this_chain(&self, index: usize, said: Option<Value>) -> Result<(), RpcFault> {
        let id: U64 = understood(CHAIN_ID, said)?;
        let (expected, actual) = (self.network().chain_id(), id.to());
        if actual == expected {
            return Ok(());
        }
        if let Some(endpoint) = self.endpoints.get(index) {
            endpoint.health().saw_another_chain();
        }
        Err(RpcFault::WrongChain { expected, actual })
    }

    /// Asks one endpoint.
    pub(crate) async fn ask<T: RpcRecv>(
        &self,
        index: usize,
        method: &'static str,
        params: &Value,
    ) -> Result<Reply<T>, RpcFault> {
        let reply = self.endpoints.call(index, method, params, Health::ended).await;
        self.looks.probe(&self.endpoints, index);
        reply
    }

    /// Endpoints whose word on the latest block counts, the best first.
    pub(crate) fn that_keep_up(&self) -> Vec<usize> {
        let mut indices = self.in_order();
        indices.retain(|index| self.keeps_up(*index));
        indices
    }

    /// Why there is no answer when nobody can be asked.
    pub(crate) fn nobody(&self, method: &'static str) -> RpcFault {
        if self.endpoints.in_order().is_empty() {
            RpcFault::Timeout { method }
        } else {
            RpcFault::Lagging { method }
        }
    }
}

/// An answer of [`RpcPool::ask_proven`] that must be there.
pub(crate) fn understood<T: DeserializeOwned>(
    method: &'static str,
    answer: Option<Value>,
) -> Result<T, RpcFault> {
    let what = "not the expected type";
    let Some(answer) = answer else { return Err(RpcFault::Malformed { method, what: "an error" }) };
    serde_json::from_value(answer).map_err(|_| RpcFault::Malformed { method, what })
}
