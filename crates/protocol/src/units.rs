//! Quantities that must not be mistaken for one another.

use alloy_primitives::{B256, U256};
use std::{fmt, str::FromStr};

/// An EVM chain by its EIP-155 id; written as CAIP-2 (`eip155:8453`).
///
/// Chain ids above 2^53 - 1 are refused: JavaScript peers read them as numbers (spec/x402.md §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network(u64);

impl Network {
    /// The largest chain id a JavaScript peer can represent exactly.
    pub const CHAIN_ID_MAX: u64 = (1 << 53) - 1;

    /// A network by chain id: 1 to [`Self::CHAIN_ID_MAX`].
    pub fn from_chain_id(chain_id: u64) -> Option<Self> {
        (1..=Self::CHAIN_ID_MAX).contains(&chain_id).then_some(Self(chain_id))
    }

    /// The EIP-155 chain id.
    pub fn chain_id(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eip155:{}", self.0)
    }
}

/// Not a CAIP-2 identifier of an EVM chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CAIP-2 identifier of an EVM chain (eip155:<chain id>)")]
pub struct NotAnEvmNetwork;

impl FromStr for Network {
    type Err = NotAnEvmNetwork;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let digits = s.strip_prefix("eip155:").ok_or(NotAnEvmNetwork)?;
        let canonical = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && !digits.starts_with('0')
            && digits.len() <= 16;
        if !canonical {
            return Err(NotAnEvmNetwork);
        }
        digits.parse().ok().and_then(Self::from_chain_id).ok_or(NotAnEvmNetwork)
    }
}

/// An amount of a token in its atomic units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenAmount(pub U256);

impl fmt::Display for TokenAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The nonce inside a signed authorization (EIP-3009 `bytes32 nonce`). Never the nonce of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuthNonce(pub B256);

impl fmt::Display for AuthNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The nonce of a transaction sent by one of our signers. Never the nonce of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneNonce(pub u64);

impl fmt::Display for LaneNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnixSeconds(pub u64);

impl UnixSeconds {
    /// As the type Solidity compares with.
    pub fn to_u256(self) -> U256 {
        U256::from(self.0)
    }

    /// Later by `seconds`, stopping at the end of time instead of wrapping.
    pub fn saturating_add(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

/// Reads a uint256 as the wire writes it: decimal digits only, no sign, no leading zero, below 2^256.
pub fn parse_decimal_u256(s: &str) -> Option<U256> {
    let canonical = !s.is_empty()
        && s.len() <= 78
        && s.bytes().all(|b| b.is_ascii_digit())
        && (s.len() == 1 || !s.starts_with('0'));
    if !canonical {
        return None;
    }
    U256::from_str_radix(s, 10).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_canonical_caip_2() {
        assert_eq!("eip155:84532".parse::<Network>().unwrap().chain_id(), 84532);
        assert_eq!(
            "eip155:9007199254740991".parse::<Network>().unwrap().to_string(),
            "eip155:9007199254740991"
        );
        for bad in [
            "",
            "84532",
            "eip155:",
            "eip155:0",
            "eip155:08453",
            "eip155:+1",
            "eip155:1 ",
            "EIP155:1",
            "eip155:0x1",
            "eip155:9007199254740992",
            "solana:101",
            "eip155:1:2",
            "eip155:*",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn decimal_uint256_is_strict() {
        let max = U256::MAX.to_string();
        assert_eq!(parse_decimal_u256("0"), Some(U256::ZERO));
        assert_eq!(parse_decimal_u256(&max), Some(U256::MAX));
        let over = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
        for bad in ["", " 1", "1 ", "+1", "-1", "01", "00", "0x1", "1e3", "1.0", "1_000", "١", over] {
            assert_eq!(parse_decimal_u256(bad), None, "{bad}");
        }
    }
}
