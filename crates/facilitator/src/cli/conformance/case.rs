//! A case, as testdata/rules/README.md describes it. What is not described there does not parse.

use super::word::{AddressWord, Amount, Number, SignatureSpec};
use quittance_testkit::X402Version;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// One row of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) claim: String,
    #[serde(deserialize_with = "versions")]
    pub(super) versions: Vec<X402Version>,
    pub(super) payer: Payer,
    pub(super) token: Token,
    pub(super) mutations: Mutations,
    pub(super) expect: Expect,
    pub(super) onchain: OnChain,
    pub(super) onchain_unwrapped: Option<OnChain>,
    #[serde(default)]
    pub(super) needs: Vec<Need>,
}

/// What a strict facilitator answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Expect {
    pub(super) valid: bool,
    #[serde(default)]
    codes: Vec<String>,
    v1_codes: Option<Vec<String>>,
}

impl Expect {
    /// The strict code first, then the accepted ones.
    pub(super) fn codes(&self, version: X402Version) -> &[String] {
        match (version, &self.v1_codes) {
            (X402Version::V1, Some(codes)) => codes,
            _ => &self.codes,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Payer {
    Eoa,
    Wallet1271,
    Wallet1271Rejecting,
    Wallet1271Reverting,
    Wallet1271BadPadding,
    Wallet1271Short,
    Wallet1271GasBurner,
    Wallet1271ReturnBomb,
    Delegated7702,
    Undeployed,
}

impl Payer {
    /// Whether code at the payer decides about signatures.
    pub(super) fn has_code(self) -> bool {
        !matches!(self, Self::Eoa | Self::Undeployed)
    }
}

/// Tokens by the name of their contract.
#[allow(clippy::enum_variant_names, reason = "the contracts are called so")]
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) enum Token {
    FiatToken,
    LenientToken,
    VrsOnlyToken,
    BytesOnlyToken,
    FeeOnTransferToken,
    SilentToken,
    PlainToken,
    Eip5267Token,
}

impl Token {
    pub(super) const ALL: [Self; 8] = [
        Self::FiatToken,
        Self::LenientToken,
        Self::VrsOnlyToken,
        Self::BytesOnlyToken,
        Self::FeeOnTransferToken,
        Self::SilentToken,
        Self::PlainToken,
        Self::Eip5267Token,
    ];

    pub(super) fn contract(self) -> &'static str {
        match self {
            Self::FiatToken => "FiatToken",
            Self::LenientToken => "LenientToken",
            Self::VrsOnlyToken => "VrsOnlyToken",
            Self::BytesOnlyToken => "BytesOnlyToken",
            Self::FeeOnTransferToken => "FeeOnTransferToken",
            Self::SilentToken => "SilentToken",
            Self::PlainToken => "PlainToken",
            Self::Eip5267Token => "Eip5267Token",
        }
    }

    /// Whether it takes a split signature.
    pub(super) fn takes_vrs(self) -> bool {
        self != Self::BytesOnlyToken
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnChain {
    Executes,
    Reverts,
    NotApplicable,
}

/// What the runner must control beyond the chain's state.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Need {
    ExactClock,
    BlockTime,
    Policy,
    Evm,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Mutations {
    pub(super) amount: Option<Number>,
    pub(super) value: Option<Amount>,
    pub(super) pay_to: Option<AddressWord>,
    pub(super) to: Option<AddressWord>,
    pub(super) from: Option<AddressWord>,
    pub(super) valid_after: Option<Number>,
    pub(super) valid_before: Option<Number>,
    pub(super) asset: Option<Asset>,
    pub(super) declared: Option<Declared>,
    pub(super) signed: Option<Signed>,
    pub(super) signature: Option<SignatureSpec>,
    pub(super) chain: ChainState,
    pub(super) wire: Vec<Edit>,
    pub(super) policy: Option<Policy>,
    pub(super) replay: Option<Replay>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Asset {
    NoCode,
}

/// Outer: is it named; inner: null leaves the field out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Declared {
    #[serde(deserialize_with = "present")]
    pub(super) name: Option<Option<String>>,
    #[serde(deserialize_with = "present")]
    pub(super) version: Option<Option<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Signed {
    pub(super) value: Option<Amount>,
    pub(super) valid_after: Option<Number>,
    pub(super) valid_before: Option<Number>,
    pub(super) nonce: Option<Other>,
    pub(super) to: Option<Other>,
    pub(super) chain_id: Option<u64>,
    pub(super) verifying_contract: Option<Other>,
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
}

/// The only thing some fields can be.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Other {
    Other,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct ChainState {
    pub(super) payer_balance: Option<Balance>,
    pub(super) paused: bool,
    pub(super) blacklisted: Option<Listed>,
    pub(super) nonce: Option<Nonce>,
    pub(super) block_time: Option<Number>,
    pub(super) delegate: Option<Delegate>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum Balance {
    #[serde(rename = "amount")]
    Amount,
    #[serde(rename = "amount-1")]
    OneShort,
    #[serde(rename = "0")]
    Zero,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Listed {
    Payer,
    PayTo,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Nonce {
    Used,
    Canceled,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Delegate {
    Rejecting,
}

/// Settings of the facilitator. No runner over HTTP can change them; they are read so that a misspelt one is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Policy {
    validity_margin_seconds: Option<u64>,
    authorization_lifetime_seconds_max: Option<u64>,
    gas_per_settlement_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Replay {
    SamePayment,
    SamePaymentParity,
    SamePaymentOtherSignature,
    SamePaymentOtherVersion,
    SameNonceOtherValue,
    SameNonceOtherRecipient,
    SameNonceOtherWindow,
    SameNonceOtherPayer,
    SameNonceOtherToken,
    OtherNonce,
}

/// One edit of the finished body, by JSON pointer.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawEdit")]
pub(super) enum Edit {
    Set(String, Value),
    Remove(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEdit {
    set: Option<String>,
    remove: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

impl TryFrom<RawEdit> for Edit {
    type Error = &'static str;

    fn try_from(edit: RawEdit) -> Result<Self, Self::Error> {
        match (edit.set, edit.remove, edit.value) {
            (Some(pointer), None, Some(value)) => Ok(Self::Set(pointer, value)),
            (None, Some(pointer), None) => Ok(Self::Remove(pointer)),
            _ => Err("an edit is {set, value} or {remove}"),
        }
    }
}

/// Tells null from absent.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn versions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<X402Version>, D::Error> {
    let version = |number: u8| match number {
        1 => Ok(X402Version::V1),
        2 => Ok(X402Version::V2),
        other => Err(D::Error::custom(format!("no such version: {other}"))),
    };
    Vec::<u8>::deserialize(deserializer)?.into_iter().map(version).collect()
}
