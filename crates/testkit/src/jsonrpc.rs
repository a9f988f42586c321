//! A JSON-RPC client small enough not to hide anything from a test.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use alloy::primitives::{U64, U256};
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};

/// Longer than any call a local node answers; short enough for a test to fail in time.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The `error` object a node answered with. Found in an `anyhow::Error` by `downcast_ref`.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// JSON-RPC error code.
    pub code: i64,
    /// The node's words.
    pub message: String,
    /// Usually revert data.
    pub data: Option<Value>,
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node answered error {}: {}", self.code, self.message)?;
        match &self.data {
            Some(data) => write!(f, " ({data})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RpcError {}

/// One JSON-RPC endpoint. Clones share the connection pool.
#[derive(Clone, Debug)]
pub struct RpcClient {
    url: String,
    http: reqwest::Client,
    next_id: Arc<AtomicU64>,
}

impl RpcClient {
    /// A client for `url`; nothing is sent yet.
    pub fn new(url: impl Into<String>) -> Result<Self> {
        let http =
            reqwest::Client::builder().no_proxy().timeout(CALL_TIMEOUT).build().context("HTTP client")?;
        Ok(Self { url: url.into(), http, next_id: Arc::new(AtomicU64::new(1)) })
    }

    /// The endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// One call. `params` is an array. An error object becomes [`RpcError`].
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.http.post(&self.url).json(&request).send().await;
        let response = response.with_context(|| format!("{method}: no answer"))?;
        let status = response.status();
        let text = response.text().await.with_context(|| format!("{method}: answer broke off"))?;
        let mut answer: Value = serde_json::from_str(&text)
            .map_err(|_| anyhow!("{method}: HTTP {status} with a body that is not JSON: {text}"))?;
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            let error = RpcError {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error.get("data").cloned(),
            };
            return Err(anyhow::Error::new(error).context(format!("{method} failed")));
        }
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("{method}: HTTP {status} without result or error: {text}"),
        }
    }

    /// The newest block's number.
    pub async fn block_number(&self) -> Result<u64> {
        quantity(&self.call("eth_blockNumber", json!([])).await?)
    }

    /// The newest block's time in Unix seconds. Windows of payments are judged against this, not the wall clock.
    pub async fn block_timestamp(&self) -> Result<u64> {
        quantity(&self.call("eth_getBlockByNumber", json!(["latest", false])).await?["timestamp"])
    }

    /// The chain id the node reports.
    pub async fn chain_id(&self) -> Result<u64> {
        quantity(&self.call("eth_chainId", json!([])).await?)
    }
}

/// Reads a hex quantity that fits 64 bits.
pub fn quantity(value: &Value) -> Result<u64> {
    let number: U64 =
        serde_json::from_value(value.clone()).with_context(|| format!("not a quantity: {value}"))?;
    Ok(number.to::<u64>())
}

/// Reads a hex quantity of up to 256 bits.
pub fn big_quantity(value: &Value) -> Result<U256> {
    serde_json::from_value(value.clone()).with_context(|| format!("not a quantity: {value}"))
}

/// Writes a hex quantity.
pub fn hex_quantity(value: impl Into<u128>) -> String {
    format!("{:#x}", value.into())
}
