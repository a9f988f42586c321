//! The closed list of reason codes (spec/x402.md §2, interface.md "HTTP").

use std::{fmt, str::FromStr};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why a payment was not accepted, as the wire writes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name: in the store, in metrics, and on the wire unless [`Self::wire`] says otherwise.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// `x402Version` is missing, not 1 or 2, or differs between envelope and payload.
    InvalidX402Version = "invalid_x402_version",
    /// `paymentPayload` cannot be read.
    InvalidPayload = "invalid_payload",
    /// `paymentRequirements` cannot be read, or contradict themselves.
    InvalidPaymentRequirements = "invalid_payment_requirements",
    /// The scheme is not served.
    UnsupportedScheme = "unsupported_scheme",
    /// The network is not served.
    InvalidNetwork = "invalid_network",
    /// The payload's shape is not one this scheme serves.
    UnsupportedPayloadType = "unsupported_payload_type",
    /// The payload's scheme differs from the requirements'.
    ExactScheme = "invalid_exact_evm_scheme",
    /// The payload's network differs from the requirements'.
    NetworkMismatch = "invalid_exact_evm_network_mismatch",
    /// `extra.name` or `extra.version` is missing.
    MissingEip712Domain = "invalid_exact_evm_missing_eip712_domain",
    /// `authorization.to` is not `payTo`.
    RecipientMismatch = "invalid_exact_evm_recipient_mismatch",
    /// Rule 4 (v2): `value` is not exactly `amount`.
    ValueMismatch = "invalid_exact_evm_payload_authorization_value_mismatch",
    /// Rule 4 (v1): `value` is not exactly `maxAmountRequired`.
    ValueMismatchV1 = "invalid_exact_evm_authorization_value",
    /// Rule 3: the window closes too soon, or has closed.
    ValidBefore = "invalid_exact_evm_payload_authorization_valid_before",
    /// Rule 3: the window is not open yet.
    ValidAfter = "invalid_exact_evm_payload_authorization_valid_after",
    /// Rule 1: high-s signature of a payer without code.
    NonCanonicalSignature = "invalid_exact_evm_non_canonical_signature",
    /// Rule 2: the signature is not the payer's.
    Signature = "invalid_exact_evm_signature",
    /// A payer without code whose signature is no plain ECDSA signature and brings no usable deployment.
    UndeployedSmartWallet = "invalid_exact_evm_payload_undeployed_smart_wallet",
    /// The ERC-6492 factory is not on the allow-list.
    FactoryNotAllowed = "eip6492_factory_not_allowed",
    /// The ERC-6492 deployment ran but left no wallet.
    SmartWalletDeploymentFailed = "smart_wallet_deployment_failed",
    /// No code at the asset's address.
    AssetNotDeployed = "asset_not_deployed_contract",
    /// The asset does not speak EIP-3009.
    Eip3009NotSupported = "invalid_exact_evm_eip3009_not_supported",
    /// Rule 5: the nonce is used or canceled on chain, or held by a pending payment.
    NonceAlreadyUsed = "invalid_exact_evm_nonce_already_used",
    /// The token's EIP-712 domain has another name than `extra.name`.
    TokenNameMismatch = "invalid_exact_evm_token_name_mismatch",
    /// The token's EIP-712 domain has another version than `extra.version`.
    TokenVersionMismatch = "invalid_exact_evm_token_version_mismatch",
    /// The payer's balance is below the amount.
    InsufficientBalance = "invalid_exact_evm_insufficient_balance",
    /// The token says that it is paused. Ours: the SDKs call this a failed simulation.
    TokenPaused = "invalid_exact_evm_token_paused",
    /// The token says that the payer or the recipient is on its deny list. Ours: the SDKs call this a failed simulation.
    AccountBlacklisted = "invalid_exact_evm_account_blacklisted",
    /// The exact call settle would send reverts, with no more precise cause found.
    SimulationFailed = "invalid_exact_evm_transaction_simulation_failed",
    /// The transaction was mined and reverted.
    TransactionFailed = "invalid_exact_evm_transaction_failed",
    /// The call succeeds without moving exactly the amount to the recipient.
    TransferEventMismatch = "invalid_exact_evm_transfer_event_mismatch",
    /// Sent, outcome not known yet; the hash is in `transaction`.
    SettlementPending = "settlement_pending",
    /// The success of this payment was already delivered; the hash is in `transaction`.
    DuplicateSettlement = "duplicate_settlement",
    /// The payee check found that the money would go to somebody else (ERC-8478).
    PayeeMismatch = "erc8004_payee_mismatch",
    /// `/verify` could not decide: our outage, not the payment's fault.
    UnexpectedVerifyError = "unexpected_verify_error",
    /// `/settle` could not decide: our outage, not the payment's fault.
    UnexpectedSettleError = "unexpected_settle_error",
}

impl Code {
    /// The reason on the wire, as the official SDKs know it. For a cause they have no word for it is the code they give;
    /// the finer one then goes into `extra.cause`.
    pub fn wire(self) -> &'static str {
        match self {
            Self::TokenPaused | Self::AccountBlacklisted => Self::SimulationFailed.as_str(),
            code => code.as_str(),
        }
    }

    /// The finer code, where the wire has no word for it.
    pub fn cause(self) -> Option<&'static str> {
        (self.wire() != self.as_str()).then(|| self.as_str())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not a reason code of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a known reason code")]
pub struct UnknownCode;

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|code| code.as_str() == s).ok_or(UnknownCode)
    }
}
