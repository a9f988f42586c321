//! What was expected, what came, and whether they are the same.

use super::{
    case::Case,
    peer::{Said, Verdict},
    probe::ChainSays,
};
use quittance_protocol::code::Code;
use quittance_testkit::X402Version;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Verify,
    Settle,
    /// A second payment, when the first was only verified.
    VerifyAfterVerify,
    /// A second payment, when the first was settled.
    VerifyAfterSettle,
    SettleAfterSettle,
}

impl Step {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Settle => "settle",
            Self::VerifyAfterVerify => "verify after verify",
            Self::VerifyAfterSettle => "verify after settle",
            Self::SettleAfterSettle => "settle after settle",
        }
    }
}

/// How an answer compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    /// The right verdict with a code that others give for the same reason.
    OtherCode,
    /// The right verdict for a reason that is not the case's.
    CodeDiffers,
    VerdictDiffers,
    /// Neither yes nor no.
    NoVerdict,
    /// `/settle` answered as expected, and the chain says otherwise.
    MoneyDiffers,
    NeedsAllowList,
    NotRun,
}

impl Outcome {
    pub(super) const ALL: [Self; 8] = [
        Self::Ok,
        Self::OtherCode,
        Self::CodeDiffers,
        Self::VerdictDiffers,
        Self::NoVerdict,
        Self::MoneyDiffers,
        Self::NeedsAllowList,
        Self::NotRun,
    ];

    /// In tables.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OtherCode => "ok, other code",
            Self::CodeDiffers => "DIFFERS, code only",
            Self::VerdictDiffers => "DIFFERS",
            Self::NoVerdict => "NO VERDICT",
            Self::MoneyDiffers => "MONEY DIFFERS",
            Self::NeedsAllowList => "needs allow-list",
            Self::NotRun => "not run",
        }
    }

    /// In JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OtherCode => "ok-other-code",
            Self::CodeDiffers => "code-differs",
            Self::VerdictDiffers => "verdict-differs",
            Self::NoVerdict => "no-verdict",
            Self::MoneyDiffers => "money-differs",
            Self::NeedsAllowList => "needs-allow-list",
            Self::NotRun => "not-run",
        }
    }

    pub(super) fn differs(self) -> bool {
        matches!(self, Self::CodeDiffers | Self::VerdictDiffers | Self::NoVerdict | Self::MoneyDiffers)
    }
}

/// One question and its answer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The case's place in its table.
    pub(super) order: usize,
    pub(super) id: String,
    pub(super) claim: String,
    pub(super) version: X402Version,
    pub(super) step: Step,
    pub(super) valid: bool,
    pub(super) codes: Vec<String>,
    pub(super) said: Option<Said>,
    pub(super) outcome: Outcome,
    /// Why it was not run, or what else is to be known.
    pub(super) note: String,
    pub(super) chain: ChainSays,
    /// `/verify` accepted the payment, and this is the `/settle` that did not bring the money.
    pub(super) unpaid: bool,
}

impl Row {
    pub(super) fn new(order: usize, case: &Case, version: X402Version, step: Step) -> Self {
        Self {
            order,
            id: case.id.clone(),
            claim: case.claim.clone(),
            version,
            step,
            valid: case.expect.valid,
            codes: case.expect.codes(version).to_vec(),
            said: None,
            outcome: Outcome::NotRun,
            note: String::new(),
            chain: ChainSays::default(),
            unpaid: false,
        }
    }

    pub(super) fn not_run(mut self, why: impl Into<String>) -> Self {
        self.note = why.into();
        self
    }

    pub(super) fn because(mut self, outcome: Outcome, note: impl Into<String>) -> Self {
        self.outcome = outcome;
        self.note = note.into();
        self
    }

    pub(super) fn on_chain(mut self, chain: ChainSays) -> Self {
        self.chain = chain;
        self
    }

    /// Compares an answer with the expectation.
    pub(super) fn judged(mut self, said: Said) -> Self {
        self.outcome = compare(self.valid, &self.codes, &said.verdict);
        self.said = Some(said);
        self
    }

    /// A refusal for want of an entry in the allow-list says nothing about a case that is about what comes after.
    pub(super) fn without_allow_list(mut self) -> Self {
        let Some(Said { verdict: Verdict::Refused(code), .. }) = &self.said else { return self };
        let unlisted = code == Code::FactoryNotAllowed.as_str();
        if self.outcome.differs() && (unlisted || self.valid) {
            self.outcome = Outcome::NeedsAllowList;
        }
        self
    }

    fn accepted(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.verdict == Verdict::Valid)
    }

    /// It accepted what the chain does not execute: service for nothing.
    pub(super) fn accepted_in_vain(&self) -> bool {
        self.accepted() && self.chain.executable() == Some(false)
    }

    /// The `/settle` of what `verified` is about.
    pub(super) fn after(mut self, verified: &Self) -> Self {
        self.unpaid = verified.accepted() && (!self.accepted() || self.outcome == Outcome::MoneyDiffers);
        self
    }
}

fn compare(valid: bool, codes: &[String], verdict: &Verdict) -> Outcome {
    match (valid, verdict) {
        (_, Verdict::None) => Outcome::NoVerdict,
        (true, Verdict::Valid) => Outcome::Ok,
        (true, Verdict::Refused(_)) | (false, Verdict::Valid) => Outcome::VerdictDiffers,
        (false, Verdict::Refused(code)) => match codes.iter().position(|known| known == code) {
            Some(0) => Outcome::Ok,
            Some(_) => Outcome::OtherCode,
            None => Outcome::CodeDiffers,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_and_code_are_told_apart() {
        let codes = ["strict".to_owned(), "other".to_owned()];
        let refused = |code: &str| Verdict::Refused(code.to_owned());
        for (valid, verdict, outcome) in [
            (true, Verdict::Valid, Outcome::Ok),
            (true, refused("strict"), Outcome::VerdictDiffers),
            (true, Verdict::None, Outcome::NoVerdict),
            (false, refused("strict"), Outcome::Ok),
            (false, refused("other"), Outcome::OtherCode),
            (false, refused("else"), Outcome::CodeDiffers),
            (false, refused(""), Outcome::CodeDiffers),
            (false, Verdict::Valid, Outcome::VerdictDiffers),
            (false, Verdict::None, Outcome::NoVerdict),
        ] {
            assert_eq!(compare(valid, &codes, &verdict), outcome, "{valid} {verdict:?}");
        }
    }
}
