//! The check of one payment, beside the payment's own facts.

use super::Checker;
use crate::{config::PayeeMode, facilitator::Facilitator};
use futures::future;
use quittance_protocol::{
    payee::{Answer, Claim, Named},
    wire::Refusal,
};
use serde_json::Value;
use std::future::Future;
use tokio::sync::OnceCell;

/// What a payment claims about its payee, and what was found. Found once: every look at the payment is decided alike.
#[derive(Debug)]
pub(crate) struct PaymentCheck {
    claim: Claim,
    refuses: bool,
    answer: OnceCell<Answer>,
}

impl PaymentCheck {
    /// The check of a request's payment; `None` when `payee.mode` is off.
    pub(crate) fn of(facilitator: &Facilitator, body: &Value) -> Result<Option<Self>, Refusal> {
        if facilitator.payee_mode == PayeeMode::Off {
            return Ok(None);
        }
        let part = |name: &str| body.get(name);
        let requirements = part("paymentRequirements").unwrap_or(&Value::Null);
        // A facilitator is asked by the seller: nobody here knows which URL the payer asked for, or whom it meant.
        let claim = facilitator.payee.claim(requirements, part("paymentPayload"), None, Named::Nothing)?;
        let refuses = facilitator.payee_mode == PayeeMode::RefuseMismatch;
        Ok(Some(Self { claim, refuses, answer: OnceCell::new() }))
    }

    /// Reads something and runs the check at the same time. A read that fails does not wait for the check.
    pub(crate) async fn beside<T, E>(
        check: Option<&Self>,
        checker: &Checker,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(check) = check else { return read.await };
        let checked = async {
            check.answer.get_or_init(|| checker.check(&check.claim)).await;
            Ok(())
        };
        future::try_join(read, checked).await.map(|(read, ())| read)
    }

    /// The refusal of a substituted payee, where the operator wants it. Never for what could not be read.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.answer.get().filter(|_| self.refuses)?.refusal()
    }

    /// As `extra.payee`, once there is an answer.
    pub(crate) fn report(&self) -> Option<Value> {
        self.answer.get().and_then(|answer| serde_json::to_value(answer).ok())
    }
}
