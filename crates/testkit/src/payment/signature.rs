//! Shapes of signature bytes.

use alloy::{
    primitives::{Address, B256, Bytes, Signature, U256, b256, uint},
    sol_types::SolValue as _,
};
use anyhow::{Context as _, Result, ensure};

/// The order of secp256k1.
const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// What the last 32 bytes of an ERC-6492 wrapper are.
pub const ERC6492_SUFFIX: B256 = b256!("6492649264926492649264926492649264926492649264926492649264926492");

/// The other ECDSA signature of the same digest by the same key: `(r, n − s)` with the recovery bit turned.
pub fn high_s_twin(signature: &[u8]) -> Result<Bytes> {
    ensure!(signature.len() == 65, "a twin needs a 65-byte signature, not {} bytes", signature.len());
    let s = U256::from_be_slice(&signature[32..64]);
    ensure!(!s.is_zero() && s < ORDER, "s is out of range");
    let v = match signature[64] {
        0 => 1,
        1 => 0,
        27 => 28,
        28 => 27,
        other => anyhow::bail!("v is {other}"),
    };
    let mut twin = signature.to_vec();
    twin[32..64].copy_from_slice(&(ORDER - s).to_be_bytes::<32>());
    twin[64] = v;
    Ok(twin.into())
}

/// The same signature with another last byte.
pub fn with_v(signature: &[u8], v: u8) -> Result<Bytes> {
    ensure!(signature.len() == 65, "v is the last of 65 bytes, not of {}", signature.len());
    let mut changed = signature.to_vec();
    changed[64] = v;
    Ok(changed.into())
}

/// Wraps `inner` as ERC-6492 says: who deploys the wallet, by which call, and the wallet's own signature.
pub fn erc6492(factory: Address, calldata: &Bytes, inner: &Bytes) -> Bytes {
    let mut wrapper = (factory, calldata.clone(), inner.clone()).abi_encode_params();
    wrapper.extend_from_slice(ERC6492_SUFFIX.as_slice());
    wrapper.into()
}

/// Who signed `digest`. Takes both twins, as plain `ecrecover` does.
pub fn recover(digest: B256, signature: &[u8]) -> Result<Address> {
    let signature = Signature::from_raw(signature).context("not a 65-byte signature")?;
    signature.recover_address_from_prehash(&digest).context("no key fits")
}
