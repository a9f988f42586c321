//! Keys of the payers. Derived from names, so that none is written down.

use alloy_primitives::{Address, B256, keccak256};
use k256::ecdsa::SigningKey;

/// A secp256k1 key.
#[derive(Clone, Debug)]
pub struct Key(SigningKey);

impl Key {
    /// The key that belongs to `name`.
    pub fn named(name: &str) -> Self {
        Self::from_secret(keccak256(name))
    }

    /// The key with this secret.
    pub fn from_secret(secret: B256) -> Self {
        Self(SigningKey::from_bytes(&secret.0.into()).expect("a secret in range"))
    }

    /// Its address.
    pub fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// `r ‖ s ‖ v` with a low `s` and `v` 27 or 28.
    pub fn sign(&self, digest: B256) -> [u8; 65] {
        let (signature, recovery) =
            self.0.sign_prehash_recoverable(digest.as_slice()).expect("a digest can be signed");
        let mut out = [0; 65];
        out[..64].copy_from_slice(&signature.to_bytes());
        out[64] = 27 + recovery.to_byte();
        out
    }
}
