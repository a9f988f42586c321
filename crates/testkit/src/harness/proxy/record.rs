//! What the proxy has seen.

use std::collections::HashMap;

use serde_json::Value;

/// One JSON-RPC call that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Method.
    pub method: String,
    /// Parameters as sent; null if there were none.
    pub params: Value,
    /// The HTTP request or WebSocket message it came in, counted from 1. Calls with the same number came in one batch.
    pub http_request: u64,
    /// Whether it came in a batch.
    pub batch: bool,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) http_requests: u64,
    pub(super) calls: Vec<Call>,
    seen: HashMap<String, u64>,
    answered: HashMap<String, u64>,
}

impl Records {
    pub(super) fn see(&mut self, calls: &[Call]) {
        for call in calls {
            *self.seen.entry(call.method.clone()).or_default() += 1;
        }
        self.calls.extend_from_slice(calls);
    }

    pub(super) fn answer(&mut self, method: &str) {
        *self.answered.entry(method.to_owned()).or_default() += 1;
    }

    pub(super) fn seen(&self, method: &str) -> u64 {
        self.seen.get(method).copied().unwrap_or_default()
    }

    pub(super) fn answered(&self, method: &str) -> u64 {
        self.answered.get(method).copied().unwrap_or_default()
    }
}
