//! Several endpoints of one network: the first is preferred, the others take over (docs/adr/0010).
//!
//! An endpoint that lets calls wait until the deadline rests, and only a probe in the background ends that. One whose latest
//! block is older than another's is not believed. Heads are looked at in the background, and only while somebody asks.

mod endpoint;
mod endpoints;
mod health;
mod look;
mod websocket;

use crate::RpcFault;
use alloy::rpc::json_rpc::RpcRecv;
use endpoints::{Endpoints, unix_now};
use health::{Health, LAG_SECONDS_MAX};
use look::Looks;
use quittance_protocol::units::{Network, UnixSeconds};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use url::Url;

/// No endpoint may take longer for one call, connecting included.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoints of one network.
#[derive(Debug)]
pub struct RpcPool {
    endpoints: Arc<Endpoints>,
    looks: Looks,
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
        Ok(Self { endpoints: Arc::new(Endpoints::new(network, urls)?), looks: Looks::default() })
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
        if self.len() < 2 || timestamp.saturating_add(LAG_SECONDS_MAX).0 >= unix_now() {
            return false;
        }
        self.looks.at_others(&self.endpoints, index).await;
        !self.keeps_up(index)
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
        let answers = self.endpoints.batch(index, method, params).await;
        self.looks.probe(&self.endpoints, index);
        answers
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
