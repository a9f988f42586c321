//! `version ‖ chain type ‖ length ‖ chain reference ‖ length ‖ address` (ERC-7930, CAIP-350).

use super::{Cluster, InteropError, Parts, starknet, text::is_reference};
use alloy_primitives::{Address, U256};

/// Version 1. The top bit of later ones tells whether they can be read as this one; none are.
pub(super) const VERSION: [u8; 2] = [0, 1];

const EIP155: [u8; 2] = [0, 0];
const BIP122: [u8; 2] = [0, 1];
const SOLANA: [u8; 2] = [0, 2];
const STARKNET: [u8; 2] = [0, 3];

pub(super) fn decode(blob: &[u8]) -> Result<Parts, InteropError> {
    let &[version_high, version_low, type_high, type_low, ref rest @ ..] = blob else {
        return Err(InteropError::TooShort);
    };
    if rest.len() < 2 {
        return Err(InteropError::TooShort);
    }
    if [version_high, version_low] != VERSION {
        return Err(InteropError::Version);
    }
    let (reference, rest) = part(rest)?;
    let (address, rest) = part(rest)?;
    if !rest.is_empty() {
        return Err(InteropError::TrailingBytes);
    }
    if reference.is_empty() && address.is_empty() {
        return Err(InteropError::Empty);
    }
    match [type_high, type_low] {
        EIP155 => Ok(Parts::Eip155(
            present(reference).map(chain_id).transpose()?,
            present(address).map(fixed).transpose()?.map(Address::new),
        )),
        SOLANA => Ok(Parts::Solana(
            present(reference).map(cluster).transpose()?,
            present(address).map(fixed).transpose()?,
        )),
        STARKNET => Ok(Parts::Starknet(
            present(reference).map(name).transpose()?,
            present(address).map(starknet_address).transpose()?,
        )),
        BIP122 => Err(InteropError::NamespaceNoProfile),
        _ => Err(InteropError::ChainTypeUnknown),
    }
}

pub(super) fn encode(parts: &Parts) -> Vec<u8> {
    let (chain_type, reference, address) = match parts {
        Parts::Eip155(chain, address) => (
            EIP155,
            chain.map(|id| id.to_be_bytes_trimmed_vec()),
            address.as_ref().map(|address| address.as_slice()),
        ),
        Parts::Solana(cluster, address) => (
            SOLANA,
            cluster.map(|cluster| cluster.hash().to_vec()),
            address.as_ref().map(<[u8; 32]>::as_slice),
        ),
        Parts::Starknet(name, address) => (
            STARKNET,
            name.as_ref().map(|name| name.as_bytes().to_vec()),
            address.as_ref().map(<[u8; 32]>::as_slice),
        ),
    };
    let mut blob = [VERSION, chain_type].concat();
    for part in [reference.as_deref(), address] {
        let part = part.unwrap_or_default();
        // No profile has parts longer than 32 bytes.
        blob.push(u8::try_from(part.len()).unwrap_or(u8::MAX));
        blob.extend_from_slice(part);
    }
    blob
}

/// A length byte and as many bytes.
fn part(bytes: &[u8]) -> Result<(&[u8], &[u8]), InteropError> {
    let (length, rest) = bytes.split_first().ok_or(InteropError::Truncated)?;
    rest.split_at_checked(usize::from(*length)).ok_or(InteropError::Truncated)
}

fn present(part: &[u8]) -> Option<&[u8]> {
    Some(part).filter(|part| !part.is_empty())
}

fn fixed<const N: usize>(address: &[u8]) -> Result<[u8; N], InteropError> {
    address.try_into().map_err(|_| InteropError::AddressLength)
}

fn chain_id(reference: &[u8]) -> Result<U256, InteropError> {
    if reference.len() > 32 {
        return Err(InteropError::ChainReferenceLength);
    }
    if reference.first() == Some(&0) {
        return Err(InteropError::ChainReferenceNonMinimal);
    }
    Ok(U256::from_be_slice(reference))
}

fn cluster(reference: &[u8]) -> Result<Cluster, InteropError> {
    let hash: [u8; 32] = reference.try_into().map_err(|_| InteropError::ChainReferenceLength)?;
    Cluster::by_hash(&hash).ok_or(InteropError::ChainUnknown)
}

fn name(reference: &[u8]) -> Result<String, InteropError> {
    if reference.len() > 32 {
        return Err(InteropError::ChainReferenceLength);
    }
    let name = std::str::from_utf8(reference).map_err(|_| InteropError::ChainReference)?;
    if is_reference(name) { Ok(name.into()) } else { Err(InteropError::ChainReference) }
}

fn starknet_address(address: &[u8]) -> Result<[u8; 32], InteropError> {
    let address = fixed(address)?;
    if starknet::is_address(&address) { Ok(address) } else { Err(InteropError::Address) }
}
