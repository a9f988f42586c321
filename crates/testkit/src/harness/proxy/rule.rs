//! Which calls meet which fault.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use serde_json::Value;

use super::Call;

type Predicate = Arc<dyn Fn(&Call) -> bool + Send + Sync>;
type Rewrite = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// What happens to a call.
#[derive(Clone)]
pub enum Fault {
    /// Goes on to the node after a while.
    Delay(Duration),
    /// Goes on to the node once [`super::RpcProxy::release`] is called; until then there is no answer.
    Hang,
    /// Goes on to the node; its result is changed on the way back. Errors pass unchanged.
    Rewrite(Rewrite),
    /// Goes on to the node with other parameters; it is recorded as it came.
    RewriteParams(Rewrite),
    /// An HTTP error with this status and a short text; a WebSocket is closed. The node sees nothing. Meets the whole
    /// request.
    HttpStatus(u16),
    /// HTTP 200, or a message, with this body, whatever it is; the node sees nothing. Meets the whole request.
    Body(String),
    /// The connection is reset without an answer; the node sees nothing. Meets the whole request.
    Drop,
    /// A JSON-RPC error; the node sees nothing.
    Error {
        /// Error code.
        code: i64,
        /// Error message.
        message: String,
        /// `data`, left out if null.
        data: Value,
    },
    /// This result; the node sees nothing.
    Answer(Value),
    /// For `eth_sendRawTransaction`: the right hash as result; the node sees nothing.
    Swallow,
    /// The node does its work; then this fault stands in for its answer.
    ForwardThen(Box<Fault>),
}

impl Fault {
    /// The node does its work, then the connection is reset.
    pub fn lost_answer() -> Self {
        Self::ForwardThen(Box::new(Self::Drop))
    }

    /// The node does its work; the answer is held until released.
    pub fn held_answer() -> Self {
        Self::ForwardThen(Box::new(Self::Hang))
    }

    /// A JSON-RPC error without data; the node sees nothing.
    pub fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), data: Value::Null }
    }

    /// Changes results on the way back.
    pub fn rewrite(change: impl Fn(Value) -> Value + Send + Sync + 'static) -> Self {
        Self::Rewrite(Arc::new(change))
    }

    /// Changes parameters on the way to the node.
    pub fn rewrite_params(change: impl Fn(Value) -> Value + Send + Sync + 'static) -> Self {
        Self::RewriteParams(Arc::new(change))
    }

    /// Whether no later rule can matter to the call.
    fn answers(&self) -> bool {
        match self {
            Self::Delay(_) | Self::Hang | Self::Rewrite(_) | Self::RewriteParams(_) => false,
            Self::ForwardThen(after) => after.answers(),
            _ => true,
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(time) => write!(f, "Delay({time:?})"),
            Self::Hang => f.write_str("Hang"),
            Self::Rewrite(_) => f.write_str("Rewrite(…)"),
            Self::RewriteParams(_) => f.write_str("RewriteParams(…)"),
            Self::HttpStatus(status) => write!(f, "HttpStatus({status})"),
            Self::Body(body) => write!(f, "Body({body:?})"),
            Self::Drop => f.write_str("Drop"),
            Self::Error { code, message, .. } => write!(f, "Error({code}, {message:?})"),
            Self::Answer(value) => write!(f, "Answer({value})"),
            Self::Swallow => f.write_str("Swallow"),
            Self::ForwardThen(after) => write!(f, "ForwardThen({after:?})"),
        }
    }
}

/// A fault and the calls it is for.
#[must_use]
pub struct Rule {
    method: Option<String>,
    predicate: Option<Predicate>,
    skip: u64,
    left: Option<u64>,
    fault: Fault,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method.as_deref().unwrap_or("any method");
        write!(f, "{method}: {:?}, skip {}, left {:?}", self.fault, self.skip, self.left)
    }
}

impl Rule {
    /// For calls of one method.
    pub fn on(method: impl Into<String>) -> Self {
        Self { method: Some(method.into()), ..Self::any() }
    }

    /// For all calls.
    pub fn any() -> Self {
        Self { method: None, predicate: None, skip: 0, left: None, fault: Fault::Delay(Duration::ZERO) }
    }

    /// Only for calls of which this holds.
    pub fn when(mut self, holds: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(holds));
        self
    }

    /// Not for the first `calls` that match.
    pub fn skip(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }

    /// Only for so many calls; default all until the rule is taken away.
    pub fn times(mut self, calls: u64) -> Self {
        self.left = Some(calls);
        self
    }

    /// What happens to them.
    pub fn then(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    fn applies(&mut self, call: &Call) -> bool {
        let matches = self.method.as_ref().is_none_or(|method| *method == call.method)
            && self.predicate.as_ref().is_none_or(|holds| holds(call));
        if !matches || self.left == Some(0) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        true
    }
}

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

#[derive(Debug, Default)]
pub(super) struct Rules {
    next: u64,
    rules: Vec<(RuleId, Rule)>,
    hits: HashMap<RuleId, u64>,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.rules.push((id, rule));
        id
    }

    pub(super) fn remove(&mut self, id: RuleId) {
        self.rules.retain(|(known, _)| *known != id);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn hits(&self, id: RuleId) -> u64 {
        self.hits.get(&id).copied().unwrap_or_default()
    }

    /// The faults a call meets, in order; they are used up by this.
    pub(super) fn take(&mut self, call: &Call) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (id, rule) in &mut self.rules {
            if rule.applies(call) {
                *self.hits.entry(*id).or_default() += 1;
                faults.push(rule.fault.clone());
                if rule.fault.answers() {
                    break;
                }
            }
        }
        faults
    }
}
