//! `Idempotency-Key` and the payment-identifier extension: same key and same payment, same answer.
//!
//! A payment under a key is its terms with one signature of them, under the domain it was declared for.
//!
//! The header's key is chosen by the caller of `/settle`: it is bound to the payment at once, whatever becomes of it. The
//! extension's identifier is chosen by the buyer, and stands for one payment of one resource: it is bound when that payment
//! is reserved, so that nobody burns an identifier with a payment that is refused.

use crate::{
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    http::{guard::bearer_key, shape::TransportFault},
};
use alloy_primitives::keccak256;
use axum::http::HeaderMap;
use quittance_protocol::{
    payment::{fingerprint, replay_key, resource_digest, signature_digest},
    settlement::{ReplayKey, ResourceDigest},
    wire::Request,
};
use quittance_store::model::{IdempotencyKey, KeyBinding, KeyUse};
use serde_json::Value;

/// Longest key, in characters.
const KEY_CHARACTERS_MAX: usize = 255;

/// What the keys say about a request.
#[derive(Debug)]
pub(crate) enum Binding {
    /// First use, or not answered yet.
    Proceed,
    /// The final answer, as it was given.
    Answered(String),
    /// A key belongs to another payment, or to the same one for another resource or with another signature.
    Conflict,
}

/// The keys of one request, and what it means by them.
#[derive(Debug)]
pub(crate) struct Keys {
    header: Option<KeyUse>,
    identifier: Option<KeyUse>,
    identifier_is_bound: bool,
    replay_key: ReplayKey,
}

impl Keys {
    /// Those of a request to `/settle`. `header`: see [`header_key`].
    pub(crate) fn new(headers: &HeaderMap, header: Option<IdempotencyKey>, request: &Request) -> Self {
        Self {
            header: header.map(|key| key_use(key, request, None)),
            identifier: identifier(headers, request),
            identifier_is_bound: false,
            replay_key: replay_key(&request.payment, &request.requirement),
        }
    }

    /// What the keys say before anything is judged. Binds the header's.
    pub(crate) async fn open(&mut self, facilitator: &Facilitator) -> Result<Binding, Fault> {
        let mut answered = None;
        if let Some(identifier) = &self.identifier {
            match facilitator.store.idempotency_key(identifier).await? {
                None | Some(KeyBinding::First) => {}
                Some(KeyBinding::Same(answer)) => {
                    self.identifier_is_bound = true;
                    answered = answer;
                }
                Some(KeyBinding::Other) => return Ok(Binding::Conflict),
            }
        }
        if let Some(header) = &self.header {
            match facilitator.store.bind_idempotency_key(header).await? {
                KeyBinding::First | KeyBinding::Same(None) => reached(Point::KeyBound),
                KeyBinding::Same(Some(answer)) => return Ok(Binding::Answered(answer)),
                KeyBinding::Other => return Ok(Binding::Conflict),
            }
            if let Some(answer) = &answered {
                facilitator.store.store_idempotent_answer(header, answer).await?;
            }
        }
        Ok(answered.map_or(Binding::Proceed, Binding::Answered))
    }

    /// What they say once another caller has been answered.
    pub(crate) async fn look(&self, facilitator: &Facilitator) -> Result<Binding, Fault> {
        let mut binding = Binding::Proceed;
        for key in self.all() {
            match facilitator.store.idempotency_key(key).await? {
                None | Some(KeyBinding::First | KeyBinding::Same(None)) => {}
                Some(KeyBinding::Same(Some(answer))) => binding = Binding::Answered(answer),
                Some(KeyBinding::Other) => return Ok(Binding::Conflict),
            }
        }
        Ok(binding)
    }

    /// Keeps a final answer that the payment's row bears out under every key that is bound to it.
    pub(crate) async fn keep(&self, facilitator: &Facilitator, answer: &Value) -> Result<(), Fault> {
        keep(facilitator, self.all(), answer).await
    }

    /// Keeps a refusal under the header's key alone. It may be of a signature that anybody made up, and must not become the
    /// answer to the identifier's buyer. While the payment is promised or on its way a refusal decides nothing, and is not kept.
    pub(crate) async fn keep_refusal(&self, facilitator: &Facilitator, answer: &Value) -> Result<(), Fault> {
        let Some(header) = &self.header else { return Ok(()) };
        let holder = facilitator.store.lookup(&self.replay_key).await?;
        if holder.is_some_and(|it| it.terms.fingerprint == header.payment && !it.status.is_terminal()) {
            return Ok(());
        }
        keep(facilitator, self.header.iter(), answer).await
    }

    /// What is to be bound when the payment is reserved.
    pub(crate) fn to_bind(&self) -> Option<KeyUse> {
        self.identifier.clone().filter(|_| !self.identifier_is_bound)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &KeyUse> {
        self.header.iter().chain(&self.identifier)
    }
}

async fn keep(
    facilitator: &Facilitator,
    keys: impl Iterator<Item = &KeyUse>,
    answer: &Value,
) -> Result<(), Fault> {
    for key in keys {
        reached(Point::KeyedAnswerDue);
        facilitator.store.store_idempotent_answer(key, &answer.to_string()).await?;
        reached(Point::KeyedAnswerStored);
    }
    Ok(())
}

/// The key in the `Idempotency-Key` header, if there is one.
pub(crate) fn header_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, TransportFault> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let printable = bytes.iter().all(|b| (0x20..=0x7e).contains(b));
    if values.next().is_some() || bytes.is_empty() || bytes.len() > KEY_CHARACTERS_MAX || !printable {
        return Err(TransportFault::BAD_IDEMPOTENCY_KEY);
    }
    let key = String::from_utf8_lossy(bytes).into_owned();
    Ok(Some(IdempotencyKey { scope: scope(headers, "header"), key }))
}

/// The key in `extensions["payment-identifier"]`, if there is one. The seller of another resource must not be answered
/// with it, or a buyer could have many for one payment.
pub(crate) fn identifier(headers: &HeaderMap, request: &Request) -> Option<KeyUse> {
    let key = request.payment_identifier.clone()?;
    let key = IdempotencyKey { scope: scope(headers, "payment-identifier"), key };
    Some(key_use(key, request, Some(resource_digest(request.resource.as_deref()))))
}

/// Whoever knows a key and the terms, which are no secret, and has not the signature, has another payload.
fn key_use(key: IdempotencyKey, request: &Request, resource: Option<ResourceDigest>) -> KeyUse {
    let (payment, requirement) = (&request.payment, &request.requirement);
    KeyUse {
        key,
        payment: fingerprint(payment, requirement),
        resource,
        signature: Some(signature_digest(payment, requirement)),
    }
}

/// Keys of one tenant never meet those of another: the scope is a digest of the API key, which is not stored. However its
/// caller spells `Bearer`, it is one tenant.
fn scope(headers: &HeaderMap, kind: &str) -> String {
    match bearer_key(headers) {
        Some(key) => format!("{kind}:{}", keccak256([b"Bearer ", key].concat())),
        None => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, header};

    fn scope_of(authorization: &str) -> String {
        let value = HeaderValue::from_str(authorization).unwrap();
        scope(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]), "header")
    }

    #[test]
    fn a_tenant_is_its_key_and_not_its_spelling() {
        let one = scope_of("Bearer one");
        for spelling in ["bearer one", "BEARER one", "bEaReR one"] {
            assert_eq!(scope_of(spelling), one, "{spelling}");
        }
        for other in ["Bearer One", "Bearer one ", "Bearer  one", "Bearer two", "Bearer "] {
            assert_ne!(scope_of(other), one, "{other:?}");
        }
        assert_eq!(scope(&HeaderMap::new(), "header"), "header");
        assert!(!one.contains("one"));
    }
}
