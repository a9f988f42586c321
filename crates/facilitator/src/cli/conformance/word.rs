//! The vocabulary of mutations: numbers, addresses, signatures.

use alloy_primitives::{Address, U256};
use quittance_protocol::scheme::exact_eip3009::{
    EXACT_PERMIT2_PROXY, MULTICALL3, PERMIT2, UPTO_PERMIT2_PROXY,
};
use serde::Deserialize;
use serde_json::Value;

/// `now`, `now+6`, `now-1`, `max`, or decimal.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) enum Number {
    Now(i64),
    Is(U256),
}

impl Number {
    pub(super) fn at(self, now: u64) -> U256 {
        match self {
            Self::Now(offset) => U256::from(now.saturating_add_signed(offset)),
            Self::Is(number) => number,
        }
    }

    /// The same as a time.
    pub(super) fn time(self, now: u64) -> u64 {
        u64::try_from(self.at(now)).unwrap_or(u64::MAX)
    }
}

impl TryFrom<String> for Number {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unknown = |_| format!("no such number: {text}");
        match text.strip_prefix("now") {
            Some("") => Ok(Self::Now(0)),
            Some(offset) if offset.starts_with(['+', '-']) => offset.parse().map(Self::Now).map_err(unknown),
            Some(_) => Err(format!("no such number: {text}")),
            None if text == "max" => Ok(Self::Is(U256::MAX)),
            None => {
                U256::from_str_radix(&text, 10).map(Self::Is).map_err(|_| format!("no such number: {text}"))
            }
        }
    }
}

/// A number, or one relative to the amount.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) enum Amount {
    OneMore,
    OneLess,
    Is(Number),
}

impl Amount {
    pub(super) fn of(self, amount: U256, now: u64) -> U256 {
        match self {
            Self::OneMore => amount.saturating_add(U256::from(1)),
            Self::OneLess => amount.saturating_sub(U256::from(1)),
            Self::Is(number) => number.at(now),
        }
    }
}

impl TryFrom<String> for Amount {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "+1" => Ok(Self::OneMore),
            "-1" => Ok(Self::OneLess),
            _ => text.try_into().map(Self::Is),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AddressWord {
    Zero,
    Payer,
    Token,
    Other,
    Permit2,
    ExactPermit2Proxy,
    UptoPermit2Proxy,
    Multicall3,
    FacilitatorSigner,
}

/// Who the words mean in one payment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parties {
    pub(super) payer: Address,
    pub(super) token: Address,
    pub(super) other: Address,
    /// Zero if the facilitator names none; cases that need it are not run then.
    pub(super) facilitator_signer: Address,
}

impl AddressWord {
    pub(super) fn among(self, parties: &Parties) -> Address {
        match self {
            Self::Zero => Address::ZERO,
            Self::Payer => parties.payer,
            Self::Token => parties.token,
            Self::Other => parties.other,
            Self::Permit2 => PERMIT2,
            Self::ExactPermit2Proxy => EXACT_PERMIT2_PROXY,
            Self::UptoPermit2Proxy => UPTO_PERMIT2_PROXY,
            Self::Multicall3 => MULTICALL3,
            Self::FacilitatorSigner => parties.facilitator_signer,
        }
    }
}

/// Bytes of a signature, by description.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Value")]
pub(super) enum SignatureSpec {
    LowS,
    HighS,
    HighSParity,
    Parity,
    OtherParity,
    V(u8),
    R(Scalar),
    S(Scalar),
    Zeros,
    OtherKey,
    Empty,
    /// Cut, or followed by zeros, to this length.
    Length(usize),
    EndingInSuffix,
    Wrapped(Box<WrapperSpec>),
}

/// What replaces r or s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Zero,
    Order,
    Max,
}

impl TryFrom<Value> for SignatureSpec {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wrapped {
            erc6492: WrapperSpec,
        }
        let Some(word) = value.as_str() else {
            let wrapped: Wrapped = serde_json::from_value(value).map_err(|error| error.to_string())?;
            return Ok(Self::Wrapped(Box::new(wrapped.erc6492)));
        };
        let scalar = |text: &str, order: &str| match text {
            "0" => Ok(Scalar::Zero),
            "max" => Ok(Scalar::Max),
            text if text == order => Ok(Scalar::Order),
            _ => Err(format!("no such signature: {word}")),
        };
        if let Some(text) = word.strip_prefix("v=") {
            return text.parse().map(Self::V).map_err(|_| format!("no such signature: {word}"));
        }
        if let Some(text) = word.strip_prefix("r=") {
            return scalar(text, "n").map(Self::R);
        }
        if let Some(text) = word.strip_prefix("s=") {
            return scalar(text, "n").map(Self::S);
        }
        Ok(match word {
            "low-s" => Self::LowS,
            "high-s" => Self::HighS,
            "high-s-parity" => Self::HighSParity,
            "parity" => Self::Parity,
            "other-parity" => Self::OtherParity,
            "zeros" => Self::Zeros,
            "other-key" => Self::OtherKey,
            "empty" => Self::Empty,
            "64-bytes" => Self::Length(64),
            "66-bytes" => Self::Length(66),
            "300-bytes" => Self::Length(300),
            "65-bytes-ending-in-suffix" => Self::EndingInSuffix,
            _ => return Err(format!("no such signature: {word}")),
        })
    }
}

/// An ERC-6492 wrapper, whole or spoilt.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrapperSpec {
    pub(super) factory: FactorySpec,
    pub(super) calldata: Calldata,
    pub(super) inner: Option<SignatureSpec>,
    pub(super) encoding: Encoding,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) enum FactorySpec {
    Zero,
    Listed(Factory),
    Unlisted(Factory),
}

impl Default for FactorySpec {
    fn default() -> Self {
        Self::Listed(Factory::WalletFactory)
    }
}

impl TryFrom<String> for FactorySpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "zero" {
            return Ok(Self::Zero);
        }
        let (name, unlisted) = match text.strip_prefix("unlisted:") {
            Some(name) => (name, true),
            None => (text.as_str(), false),
        };
        let factory = Factory::ALL.into_iter().find(|factory| factory.contract() == name);
        let factory = factory.ok_or_else(|| format!("no such factory: {text}"))?;
        Ok(if unlisted { Self::Unlisted(factory) } else { Self::Listed(factory) })
    }
}

/// Factories by the name of their contract.
#[allow(clippy::enum_variant_names, reason = "the contracts are called so")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factory {
    WalletFactory,
    FactoryBurner,
    FactoryReenter,
    FactoryElsewhere,
    FactoryNothing,
    FactoryDrainer,
}

impl Factory {
    pub(super) const ALL: [Self; 6] = [
        Self::WalletFactory,
        Self::FactoryBurner,
        Self::FactoryReenter,
        Self::FactoryElsewhere,
        Self::FactoryNothing,
        Self::FactoryDrainer,
    ];

    pub(super) fn contract(self) -> &'static str {
        match self {
            Self::WalletFactory => "WalletFactory",
            Self::FactoryBurner => "FactoryBurner",
            Self::FactoryReenter => "FactoryReenter",
            Self::FactoryElsewhere => "FactoryElsewhere",
            Self::FactoryNothing => "FactoryNothing",
            Self::FactoryDrainer => "FactoryDrainer",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Calldata {
    #[default]
    Deploy,
    Empty,
    OneByte,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Encoding {
    #[default]
    Canonical,
    SuffixOnly,
    TrailingByte,
    TrailingWord,
    Truncated,
    DirtyAddress,
    DirtyPadding,
    OddOffset,
    Gap,
    SwappedTails,
    SharedTail,
    HugeOffset,
    HugeLength,
    Tuple,
}
