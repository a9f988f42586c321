//! Pairs of strings, and `address@namespace:reference[#CHECKSUM]`.

use super::{Cluster, InteropAddress, InteropError, Parts, solana, starknet};
use crate::{units::parse_decimal_u256, wire::parse_address};
use alloy_primitives::{Address, U256, hex};

pub(super) fn from_pair(network: &str, address: &str) -> Result<Parts, InteropError> {
    let (namespace, reference) = split(network).ok_or(InteropError::NetworkMalformed)?;
    match namespace {
        "eip155" => {
            let chain = chain_id(reference).ok_or(InteropError::ChainReference)?;
            Ok(Parts::Eip155(Some(chain), optional(address, evm_address)?))
        }
        "solana" => {
            let cluster = Cluster::by_reference(reference).ok_or(InteropError::ChainUnknown)?;
            Ok(Parts::Solana(Some(cluster), optional(address, solana_address)?))
        }
        "starknet" if is_reference(reference) => {
            Ok(Parts::Starknet(Some(reference.into()), optional(address, starknet_address)?))
        }
        "starknet" => Err(InteropError::ChainReference),
        _ => Err(InteropError::NamespaceNoProfile),
    }
}

pub(super) fn from_name(name: &str) -> Result<InteropAddress, InteropError> {
    let (address, chain) = name.split_once('@').ok_or(InteropError::TextMalformed)?;
    let (network, checksum) = match chain.split_once('#') {
        Some((network, checksum)) => (network, Some(checksum)),
        None => (chain, None),
    };
    if !network.contains(':') {
        return Err(InteropError::Label);
    }
    let parsed = InteropAddress::from_pair(network, address)?;
    match checksum {
        Some(checksum) if checksum != parsed.checksum() => Err(InteropError::Checksum),
        _ => Ok(parsed),
    }
}

/// CAIP-2 characters, but references of any length: whole genesis hashes and large chain ids exceed CAIP-2's 32.
fn split(network: &str) -> Option<(&str, &str)> {
    let (namespace, reference) = network.split_once(':')?;
    let is_namespace = (3..=8).contains(&namespace.len())
        && namespace.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    (is_namespace && !reference.is_empty() && has_reference_characters(reference))
        .then_some((namespace, reference))
}

/// A CAIP-2 reference.
pub(super) fn is_reference(text: &str) -> bool {
    (1..=32).contains(&text.len()) && has_reference_characters(text)
}

fn has_reference_characters(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn chain_id(reference: &str) -> Option<U256> {
    parse_decimal_u256(reference).filter(|id| !id.is_zero())
}

fn optional<T>(
    address: &str,
    parse: impl FnOnce(&str) -> Result<T, InteropError>,
) -> Result<Option<T>, InteropError> {
    if address.is_empty() { Ok(None) } else { parse(address).map(Some) }
}

fn evm_address(text: &str) -> Result<Address, InteropError> {
    let address = parse_address(text).ok_or(InteropError::Address)?;
    checked(text, address.to_checksum(None), address)
}

fn solana_address(text: &str) -> Result<[u8; 32], InteropError> {
    solana::parse_key(text).ok_or(InteropError::Address)
}

/// 64 digits, no shorter form: one spelling is enough.
fn starknet_address(text: &str) -> Result<[u8; 32], InteropError> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64).ok_or(InteropError::Address)?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes).map_err(|_| InteropError::Address)?;
    if !starknet::is_address(&bytes) {
        return Err(InteropError::Address);
    }
    checked(text, starknet::to_text(&bytes), bytes)
}

/// Mixed case is a checksum and must be right; one case alone carries none (ERC-55).
fn checked<T>(text: &str, with_checksum: String, value: T) -> Result<T, InteropError> {
    let digits = &text[2..];
    let mixed =
        digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
    if mixed && text != with_checksum { Err(InteropError::AddressChecksum) } else { Ok(value) }
}
