//! What the facilitator said about a payment, and what the chain says.

use super::{
    report::{Step, usdc},
    stage::Stage,
};
use alloy_primitives::{B256, U256};
use quittance_protocol::code::Code;
use quittance_testkit::{SignedPayment, dev_chain::Transfer};
use serde_json::Value;

/// The chain, as far as one payment touches it.
#[derive(Debug)]
struct State {
    payer: U256,
    payee: U256,
    nonce_used: bool,
}

impl State {
    async fn read(stage: &Stage, payment: &SignedPayment) -> anyhow::Result<Self> {
        let chain = &stage.chain;
        Ok(Self {
            payer: chain.balance_of(payment.asset(), payment.payer()).await?,
            payee: chain.balance_of(payment.asset(), payment.recipient()).await?,
            nonce_used: chain.authorization_state(payment.asset(), payment.payer(), payment.nonce()).await?,
        })
    }
}

/// An answer of `/verify` or `/settle`.
#[derive(Debug)]
struct Said {
    status: u16,
    body: Value,
}

impl Said {
    fn new((status, body): (u16, Value)) -> Self {
        Self { status, body }
    }

    /// A field as the wire has it; empty if it is absent.
    fn text(&self, field: &str) -> String {
        match &self.body[field] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// What a reader sees of the verdict `field`.
    fn word(&self, field: &str, yes: &str) -> String {
        match (self.status, self.body[field].as_bool()) {
            (200, Some(true)) => yes.to_owned(),
            (200, Some(false)) => "refused".to_owned(),
            (status, _) => format!("HTTP {status}"),
        }
    }
}

/// One payment, sent to `/verify` and then to `/settle`, whatever `/verify` says.
#[derive(Debug)]
pub(super) struct Observed {
    payment: SignedPayment,
    verify: Said,
    settle: Said,
    before: State,
    after: State,
    transfers: Vec<Transfer>,
}

impl Observed {
    pub(super) async fn watch(stage: &Stage, payment: SignedPayment) -> anyhow::Result<Self> {
        let block = stage.chain.client().block_number().await?;
        let before = State::read(stage, &payment).await?;
        let verify = Said::new(stage.client.verify(payment.body()).await?);
        let settle = Said::new(stage.client.settle(payment.body()).await?);
        let after = State::read(stage, &payment).await?;
        let mut transfers = stage.chain.transfers(payment.asset(), block).await?;
        transfers.retain(|transfer| transfer.block > block);
        Ok(Self { payment, verify, settle, before, after, transfers })
    }

    /// What was sent.
    pub(super) fn payment(&self) -> &SignedPayment {
        &self.payment
    }

    /// The hash `/settle` named.
    pub(super) fn hash(&self) -> Option<B256> {
        self.settle.text("transaction").parse().ok()
    }

    /// A step that shows what happened and expects nothing yet.
    fn step(&self, title: &str) -> Step {
        let mut step = Step::new(title);
        step.verify = self.verify.word("isValid", "valid");
        step.settle = self.settle.word("success", "success");
        step.moved = usdc(self.before.payer.saturating_sub(self.after.payer));
        step.nonce = if self.after.nonce_used { "used" } else { "unused" }.to_owned();
        step.notes = notes(
            &self.verify.text("invalidReason"),
            &self.settle.text("errorReason"),
            &self.settle.text("transaction"),
        );
        step.expect("HTTP status of /verify", 200, self.verify.status);
        step.expect("HTTP status of /settle", 200, self.settle.status);
        for (path, said) in [("/verify", &self.verify), ("/settle", &self.settle)] {
            step.expect(&format!("payer in {path}"), self.payment.payer(), said.text("payer"));
        }
        step.expect("network in /settle", self.payment.network(), self.settle.text("network"));
        step
    }

    /// The payment is accepted and the money moves, once.
    pub(super) fn paid(&self, title: &str) -> Step {
        let mut step = self.step(title);
        let value = self.payment.value();
        step.expect("/verify isValid", true, self.verify.text("isValid"));
        step.expect("/settle success", true, self.settle.text("success"));
        step.expect("nonce used before", false, self.before.nonce_used);
        step.expect("nonce used after", true, self.after.nonce_used);
        step.expect("the payer's balance", self.before.payer - value, self.after.payer);
        step.expect("the payee's balance", self.before.payee + value, self.after.payee);
        step.expect("Transfer logs", 1, self.transfers.len());
        for transfer in &self.transfers {
            step.expect("payer in the log", self.payment.payer(), transfer.from);
            step.expect("payee in the log", self.payment.recipient(), transfer.to);
            step.expect("value in the log", value, transfer.value);
            step.expect("transaction of the log", self.settle.text("transaction"), transfer.transaction);
        }
        step
    }

    /// Both endpoints refuse, with these codes and this hash (or none), and nothing moves.
    pub(super) fn refused_with(&self, title: &str, verify: Code, settle: Code, hash: Option<B256>) -> Step {
        let mut step = self.step(title);
        step.expect("/verify isValid", false, self.verify.text("isValid"));
        step.expect("/verify invalidReason", verify, self.verify.text("invalidReason"));
        step.expect("/settle success", false, self.settle.text("success"));
        step.expect("/settle errorReason", settle, self.settle.text("errorReason"));
        let hash = hash.map(|hash| hash.to_string()).unwrap_or_default();
        step.expect("/settle transaction", hash, self.settle.text("transaction"));
        step.expect("nonce used", self.before.nonce_used, self.after.nonce_used);
        step.expect("the payer's balance", self.before.payer, self.after.payer);
        step.expect("the payee's balance", self.before.payee, self.after.payee);
        step.expect("Transfer logs", 0, self.transfers.len());
        step
    }

    /// Both endpoints refuse for the same reason, and nothing moves.
    pub(super) fn refused(&self, title: &str, code: Code) -> Step {
        self.refused_with(title, code, code, None)
    }
}

/// Codes and hash under a step: one code when both endpoints name the same.
fn notes(verify: &str, settle: &str, hash: &str) -> Vec<String> {
    let codes = if verify == settle {
        vec![verify.to_owned()]
    } else {
        vec![format!("/verify  {verify}"), format!("/settle  {settle}")]
    };
    codes.into_iter().chain([hash.to_owned()]).filter(|note| !note.is_empty()).collect()
}
