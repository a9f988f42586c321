//! What a caller of `/verify` and `/settle` was told.

use alloy_primitives::B256;
use quittance_testkit::SignedPayment;
use serde_json::Value;

/// One answer, with its HTTP status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) json: Value,
}

/// An answer of `/settle` in one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is yours: the transaction that paid.
    Success(B256),
    /// Somebody else has it.
    Duplicate(B256),
    /// Ask again.
    Pending(B256),
    /// Decided against, with the code and the transaction, if any.
    No(String, String),
    /// Not decided.
    Unavailable,
}

impl Reply {
    fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or_default()
    }

    fn hash(&self) -> B256 {
        self.text("transaction").parse().unwrap_or_else(|_| panic!("no hash in {self:?}"))
    }

    /// Reads an answer of `/settle`, and insists on its shape.
    pub(crate) fn told(&self) -> Told {
        assert!(self.json["transaction"].is_string() && self.json["network"].is_string(), "{self:?}");
        if self.status == 503 {
            assert_eq!(self.text("errorReason"), "unexpected_settle_error", "{self:?}");
            return Told::Unavailable;
        }
        assert_eq!(self.status, 200, "{self:?}");
        if self.json["success"] == true {
            assert!(self.json.get("errorReason").is_none(), "{self:?}");
            return Told::Success(self.hash());
        }
        assert_eq!(self.json["success"], false, "{self:?}");
        match self.text("errorReason") {
            "duplicate_settlement" => Told::Duplicate(self.hash()),
            "settlement_pending" => Told::Pending(self.hash()),
            code => Told::No(code.to_owned(), self.text("transaction").to_owned()),
        }
    }

    /// A success that says what was paid; its transaction.
    pub(crate) fn success_of(&self, payment: &SignedPayment) -> B256 {
        let Told::Success(hash) = self.told() else { panic!("no success: {self:?}") };
        assert_eq!(self.text("payer"), payment.payer().to_checksum(None), "{self:?}");
        assert_eq!(self.text("network"), payment.network(), "{self:?}");
        hash
    }

    /// A verdict of `/verify` that says no; its code.
    pub(crate) fn invalid(&self) -> &str {
        assert_eq!((self.status, &self.json["isValid"]), (200, &Value::Bool(false)), "{self:?}");
        self.text("invalidReason")
    }

    /// A verdict of `/verify` that says yes.
    pub(crate) fn valid(&self) {
        assert_eq!((self.status, &self.json["isValid"]), (200, &Value::Bool(true)), "{self:?}");
    }
}

/// All of them, in order.
pub(crate) fn told(replies: &[Reply]) -> Vec<Told> {
    replies.iter().map(Reply::told).collect()
}

impl Told {
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Success(_))
    }

    pub(crate) fn no(code: &str, transaction: impl ToString) -> Self {
        Self::No(code.to_owned(), transaction.to_string())
    }
}
