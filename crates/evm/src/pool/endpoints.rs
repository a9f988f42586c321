//! All endpoints of a network, as requests and looks share them.

use super::{
    Reply, Use,
    endpoint::{Clients, Endpoint},
    health::{self, Head, Health, LAG_SECONDS_MAX, Outcome},
};
use crate::{RpcFault, clock};
use alloy::rpc::json_rpc::RpcRecv;
use alloy_primitives::U64;
use quittance_protocol::units::{Network, UnixSeconds};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use url::Url;

#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) network: Network,
    asked_for: Use,
    list: Vec<Endpoint>,
    /// The youngest block that any of them has shown: one may be behind itself, after it was moved to another node.
    youngest: Mutex<Option<Head>>,
}

/// Everything that nodes are asked: what is not here has no counter before its first call.
const METHODS: [&str; 12] = [
    "eth_call",
    "eth_chainId",
    "eth_gasPrice",
    "eth_getBalance",
    "eth_getBlockByNumber",
    "eth_getCode",
    "eth_getLogs",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_maxPriorityFeePerGas",
    "eth_sendRawTransaction",
    "web3_clientVersion",
];

/// Who is told how a call ended: [`Health::ended`] or [`Health::look_ended`].
type Ended = fn(&mut Health, Outcome, u32);

impl Endpoints {
    pub(super) fn new(network: Network, asked_for: Use, urls: &[Url]) -> reqwest::Result<Self> {
        let clients = Clients::new(urls)?;
        let list = urls.iter().map(|url| Endpoint::new(&clients, url)).collect();
        let endpoints = Self { network, asked_for, list, youngest: Mutex::default() };
        endpoints.begin_metrics();
        Ok(endpoints)
    }

    /// Every counter is there from the start, at zero.
    fn begin_metrics(&self) {
        for index in 0..self.len() {
            for (method, outcome) in
                METHODS.into_iter().flat_map(|m| ["result", "error", "fault"].map(|o| (m, o)))
            {
                self.requests(index, method, outcome).increment(0);
            }
            metrics::gauge!("quittance_rpc_endpoint_up", &self.labels(index)).set(1);
        }
    }

    fn requests(&self, index: usize, method: &'static str, outcome: &'static str) -> metrics::Counter {
        let [network, asked_for, endpoint] = self.labels(index);
        let (method, outcome) = (("method", method.to_owned()), ("outcome", outcome.to_owned()));
        let told = [network, asked_for, endpoint, method, outcome];
        metrics::counter!("quittance_rpc_requests_total", &told)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Endpoint> {
        self.list.get(index)
    }

    /// All but those that rest: first those that keep up, and among them first those that do not fail; each kind in the
    /// operator's order.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let awake = self.list.iter().enumerate().filter(|(_, endpoint)| !endpoint.health().is_resting());
        let mut order: Vec<(bool, bool, usize)> = awake
            .map(|(index, endpoint)| (!self.keeps_up(index), endpoint.health().is_failing(), index))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, index)| index).collect()
    }

    /// Whether what an endpoint says of the latest block can be believed. The only one is all there is to know.
    pub(super) fn keeps_up(&self, index: usize) -> bool {
        let another_chain = self.list.get(index).is_some_and(|e| e.health().serves_another_chain());
        self.list.len() < 2 || (!another_chain && self.lag_seconds(index) <= LAG_SECONDS_MAX)
    }

    /// By how much an endpoint's latest block is behind the youngest that was shown.
    fn lag_seconds(&self, index: usize) -> u64 {
        let heads = self.heads();
        let Some(own) = heads.get(index).copied().flatten() else { return 0 };
        let shown = heads.into_iter().chain([*self.youngest()]).flatten();
        shown.map(|other| own.behind(&other)).max().unwrap_or(0)
    }

    fn heads(&self) -> Vec<Option<Head>> {
        self.list.iter().map(|endpoint| endpoint.health().head()).collect()
    }

    fn youngest(&self) -> MutexGuard<'_, Option<Head>> {
        self.youngest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn saw_head(&self, index: usize, timestamp: UnixSeconds) {
        let Some(endpoint) = self.list.get(index) else { return };
        endpoint.health().saw_head(Head::new(timestamp.0, clock::instant(), clock::unix_seconds()));
        let heads = self.heads();
        {
            let mut youngest = self.youngest();
            *youngest = health::youngest(*youngest, &heads);
        }
        for index in 0..self.list.len() {
            metrics::gauge!("quittance_rpc_endpoint_lag_seconds", &self.labels(index))
                .set(u32::try_from(self.lag_seconds(index)).unwrap_or(u32::MAX));
        }
    }

    /// Asks one endpoint.
    pub(super) async fn call<T: RpcRecv>(
        &self,
        index: usize,
        method: &'static str,
        params: &Value,
        ended: Ended,
    ) -> Result<Reply<T>, RpcFault> {
        let Some(endpoint) = self.list.get(index) else { return Err(RpcFault::Transport { method }) };
        let era = endpoint.health().era();
        let reply = endpoint.call(method, params).await;
        let answered = reply.as_ref().map(|reply| match reply {
            Reply::Result(_) => "result",
            Reply::Error { .. } => "error",
        });
        self.note(index, method, answered, era, ended);
        reply
    }

    /// Asks one endpoint several things at once; `method` stands for them all.
    pub(super) async fn batch<T: RpcRecv>(
        &self,
        index: usize,
        method: &'static str,
        calls: &[(&'static str, Value)],
    ) -> Result<Vec<Option<T>>, RpcFault> {
        let Some(endpoint) = self.list.get(index) else { return Err(RpcFault::Transport { method }) };
        let era = endpoint.health().era();
        let answers = endpoint.batch(method, calls).await;
        self.note(index, method, answers.as_ref().map(|_| "result"), era, Health::ended);
        answers
    }

    /// Looks at the latest block, after making sure that it is of this chain: the block does not tell.
    pub(super) async fn look(&self, index: usize) {
        #[derive(Debug, Deserialize)]
        struct Header {
            timestamp: U64,
        }
        let Some(endpoint) = self.list.get(index) else { return };
        match self.call::<U64>(index, "eth_chainId", &json!([]), Health::look_ended).await {
            Ok(Reply::Result(id)) if id == U64::from(self.network.chain_id()) => {}
            Ok(Reply::Result(_)) => return endpoint.health().saw_another_chain(),
            _ => return,
        }
        let latest = json!(["latest", false]);
        let header = self.call::<Header>(index, "eth_getBlockByNumber", &latest, Health::look_ended).await;
        if let Ok(Reply::Result(header)) = header {
            self.saw_head(index, UnixSeconds(header.timestamp.to()));
        }
    }

    fn note(
        &self,
        index: usize,
        method: &'static str,
        answered: Result<&'static str, &RpcFault>,
        era: u32,
        ended: Ended,
    ) {
        let outcome = match answered {
            Ok(_) => Outcome::Answered,
            Err(RpcFault::Timeout { .. }) => Outcome::TimedOut,
            Err(_) => Outcome::Failed,
        };
        self.requests(index, method, answered.unwrap_or("fault")).increment(1);
        let Some(endpoint) = self.list.get(index) else { return };
        let is_up = {
            let mut health = endpoint.health();
            ended(&mut health, outcome, era);
            !health.is_resting() && !health.is_failing()
        };
        metrics::gauge!("quittance_rpc_endpoint_up", &self.labels(index)).set(u8::from(is_up));
    }

    /// By position of the endpoint: its URL can hold a key. With the use, since several pools ask on one network.
    fn labels(&self, index: usize) -> [(&'static str, String); 3] {
        [
            ("network", self.network.to_string()),
            ("use", self.asked_for.to_string()),
            ("endpoint", index.to_string()),
        ]
    }
}
