//! Several endpoints of one network: the first is preferred, the others take over.

use crate::RpcFault;
use alloy::{
    rpc::client::{BatchRequest, RpcClient},
    rpc::json_rpc::{ResponsePacket, RpcError, RpcRecv, transform_response, try_deserialize_ok},
    transports::{TransportError, TransportErrorKind},
};
use alloy_provider::{Provider, RootProvider};
use quittance_protocol::units::{Network, UnixSeconds};
use reqwest::redirect::Policy;
use serde_json::Value;
use std::{
    fmt,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::Instant;
use tower::ServiceExt;
use url::Url;

/// No endpoint may take longer for one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// After this many time-outs in a row an endpoint is left alone for [`REST_MS`], then probed by one call.
const TIMEOUTS_MAX: u32 = 3;
const REST_MS: u64 = 2_000;
/// A node whose latest block is older than another's by more than this is not asked about payments.
const LAG_SECONDS_MAX: u64 = 30;

/// The endpoints of one network.
#[derive(Debug)]
pub struct RpcPool {
    network: Network,
    endpoints: Vec<Endpoint>,
    started: Instant,
    /// Timestamp of the youngest latest block any endpoint has shown, in Unix seconds.
    head_seconds: AtomicU64,
}

struct Endpoint {
    provider: RootProvider,
    timeouts: AtomicU32,
    rests_until_ms: AtomicU64,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL can hold a key.
        f.write_str("Endpoint")
    }
}

impl Endpoint {
    /// One call. Only an answer with the call's own id counts: a gateway that mixes answers up must not lend one payment
    /// the facts of another.
    async fn call<T: RpcRecv>(&self, method: &'static str, params: &Value) -> Result<T, TransportError> {
        let client = self.provider.client();
        let request = client.make_request(method, params).serialize().map_err(RpcError::ser_err)?;
        let id = request.id().clone();
        match client.transport().clone().oneshot(request.into()).await? {
            ResponsePacket::Single(response) if response.id == id => {
                try_deserialize_ok(transform_response(response))
            }
            _ => Err(TransportErrorKind::custom_str("the answer to another call")),
        }
    }
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
    /// A pool over `urls`, none of which is contacted yet.
    pub fn new(network: Network, urls: &[Url]) -> Result<Self, reqwest::Error> {
        // A proxy from the environment would see every payment; redirects of a POST would replay it elsewhere.
        let http = reqwest::Client::builder()
            .timeout(CALL_TIMEOUT)
            .connect_timeout(CALL_TIMEOUT)
            .redirect(Policy::none())
            .no_proxy()
            .build()?;
        let endpoints = urls
            .iter()
            .map(|url| Endpoint {
                provider: RootProvider::new(RpcClient::new_http_with_client(http.clone(), url.clone())),
                timeouts: AtomicU32::new(0),
                rests_until_ms: AtomicU64::new(0),
            })
            .collect();
        #[allow(clippy::disallowed_methods)] // monotonic origin of the rest periods, an edge
        let started = Instant::now();
        Ok(Self { network, endpoints, started, head_seconds: AtomicU64::new(0) })
    }

    /// The network these endpoints serve.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Whether a latest block is young enough to be believed, beside what other endpoints have shown. A single endpoint is
    /// all there is to know.
    pub(crate) fn keeps_up(&self, timestamp: UnixSeconds) -> bool {
        let youngest = self.head_seconds.fetch_max(timestamp.0, Ordering::Relaxed);
        self.endpoints.len() < 2 || timestamp.saturating_add(LAG_SECONDS_MAX).0 >= youngest
    }

    /// Nothing is known of heads any more.
    pub(crate) fn forget_head(&self) {
        self.head_seconds.store(0, Ordering::Relaxed);
    }

    /// How many endpoints there are.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
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
        let mut fault = RpcFault::Transport { method };
        for index in self.in_order() {
            match self.ask(index, method, &params).await {
                Ok(Reply::Result(value)) => match understand(value) {
                    Ok(understood) => return Ok(understood),
                    Err(error) => fault = error,
                },
                Ok(Reply::Error { code, .. }) => fault = RpcFault::ErrorResponse { method, code },
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    /// Like [`Self::read`], but an error body ends the search and is handed back: for calls the chain itself may refuse.
    pub(crate) async fn read_reply<T: RpcRecv>(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<Reply<T>, RpcFault> {
        let mut fault = RpcFault::Transport { method };
        for index in self.in_order() {
            match self.ask(index, method, &params).await {
                Ok(reply) => return Ok(reply),
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    /// Several calls in one HTTP request. A call the node answers with an error is `None`.
    pub(crate) async fn batch<T: RpcRecv>(
        &self,
        method: &'static str,
        params: &[Value],
    ) -> Result<Vec<Option<T>>, RpcFault> {
        let mut fault = RpcFault::Transport { method };
        for index in self.in_order() {
            let Some(endpoint) = self.endpoints.get(index) else { continue };
            let client = endpoint.provider.client();
            let mut batch = BatchRequest::new(client);
            let mut waiters = Vec::with_capacity(params.len());
            for params in params {
                match batch.add_call::<_, T>(method, params) {
                    Ok(waiter) => waiters.push(waiter),
                    Err(_) => {
                        return Err(RpcFault::Malformed { method, what: "the request cannot be written" });
                    }
                }
            }
            if let Err(error) = batch.send().await {
                self.count(index, method, "fault");
                fault = self.fault(endpoint, method, &error);
                continue;
            }
            let mut answers = Vec::with_capacity(waiters.len());
            let mut broken = None;
            for waiter in waiters {
                match waiter.await {
                    Ok(value) => answers.push(Some(value)),
                    Err(RpcError::ErrorResp(_)) => answers.push(None),
                    Err(error) => broken = Some(self.fault(endpoint, method, &error)),
                }
            }
            match broken {
                None => {
                    endpoint.timeouts.store(0, Ordering::Relaxed);
                    self.count(index, method, "result");
                    return Ok(answers);
                }
                Some(error) => {
                    self.count(index, method, "fault");
                    fault = error;
                }
            }
        }
        Err(fault)
    }

    /// Asks one endpoint.
    pub(crate) async fn ask<T: RpcRecv>(
        &self,
        index: usize,
        method: &'static str,
        params: &Value,
    ) -> Result<Reply<T>, RpcFault> {
        let Some(endpoint) = self.endpoints.get(index) else { return Err(RpcFault::Transport { method }) };
        match endpoint.call(method, params).await {
            Ok(value) => {
                endpoint.timeouts.store(0, Ordering::Relaxed);
                self.count(index, method, "result");
                Ok(Reply::Result(value))
            }
            Err(RpcError::ErrorResp(payload)) => {
                endpoint.timeouts.store(0, Ordering::Relaxed);
                self.count(index, method, "error");
                Ok(Reply::Error { code: payload.code, text: payload.message.into_owned() })
            }
            Err(error) => {
                self.count(index, method, "fault");
                Err(self.fault(endpoint, method, &error))
            }
        }
    }

    /// By position of the endpoint: its URL can hold a key.
    fn count(&self, endpoint: usize, method: &'static str, outcome: &'static str) {
        let labels = [
            ("network", self.network.to_string()),
            ("endpoint", endpoint.to_string()),
            ("method", method.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        metrics::counter!("quittance_rpc_requests_total", &labels).increment(1);
    }

    /// Endpoints worth asking, preferred first. When all rest, none is asked: the answer "unavailable" is then immediate.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = usize> + '_ {
        let now = self.now_ms();
        self.endpoints
            .iter()
            .enumerate()
            .filter(move |(_, endpoint)| endpoint.rests_until_ms.load(Ordering::Relaxed) <= now)
            .map(|(index, _)| index)
    }

    fn fault(
        &self,
        endpoint: &Endpoint,
        method: &'static str,
        error: &RpcError<TransportErrorKind>,
    ) -> RpcFault {
        match error {
            RpcError::Transport(TransportErrorKind::Custom(source)) => {
                let timed_out =
                    source.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout);
                if !timed_out {
                    return RpcFault::Transport { method };
                }
                let timeouts = endpoint.timeouts.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                if timeouts >= TIMEOUTS_MAX {
                    endpoint.rests_until_ms.store(self.now_ms().saturating_add(REST_MS), Ordering::Relaxed);
                }
                RpcFault::Timeout { method }
            }
            RpcError::DeserError { .. } => RpcFault::Malformed { method, what: "not the expected type" },
            RpcError::NullResp => RpcFault::Malformed { method, what: "null" },
            _ => RpcFault::Transport { method },
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(urls: &[&str]) -> RpcPool {
        let urls: Vec<Url> = urls.iter().map(|url| url.parse().unwrap()).collect();
        RpcPool::new(Network::from_chain_id(1).unwrap(), &urls).unwrap()
    }

    #[test]
    fn a_node_behind_another_is_passed_over_until_the_chain_itself_goes_back() {
        let two = pool(&["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        assert!(two.keeps_up(UnixSeconds(1_000)));
        assert!(two.keeps_up(UnixSeconds(1_000 - LAG_SECONDS_MAX)));
        assert!(!two.keeps_up(UnixSeconds(999 - LAG_SECONDS_MAX)));
        two.forget_head();
        assert!(two.keeps_up(UnixSeconds(999 - LAG_SECONDS_MAX)));
    }

    #[test]
    fn the_only_node_is_believed() {
        let one = pool(&["http://127.0.0.1:1"]);
        assert!(one.keeps_up(UnixSeconds(1_000)));
        assert!(one.keeps_up(UnixSeconds(1)));
    }
}
