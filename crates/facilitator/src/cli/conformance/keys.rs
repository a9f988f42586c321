//! Keys of payers, made anew for every run, so that a chain can be used again.

use alloy_primitives::{Address, B256, keccak256};
use k256::ecdsa::SigningKey;

/// What everything random in a run is derived from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(B256);

impl Seed {
    pub(super) fn random() -> Self {
        Self(keccak256(uuid::Uuid::new_v4().as_bytes()))
    }

    /// What `name` means under this seed.
    pub(super) fn derive(self, name: &str) -> Self {
        Self(self.word(name))
    }

    pub(super) fn word(self, name: &str) -> B256 {
        keccak256([self.0.as_slice(), name.as_bytes()].concat())
    }

    /// An address nobody has a key of.
    pub(super) fn address(self, name: &str) -> Address {
        Address::from_word(self.word(name))
    }

    pub(super) fn key(self, name: &str) -> anyhow::Result<Key> {
        Ok(Key(SigningKey::from_bytes(&self.word(name).0.into())?))
    }
}

/// A secp256k1 key.
#[derive(Clone, Debug)]
pub(super) struct Key(SigningKey);

impl Key {
    pub(super) fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// `r ‖ s ‖ v` with a low `s` and `v` 27 or 28.
    pub(super) fn sign(&self, digest: B256) -> anyhow::Result<[u8; 65]> {
        let (signature, recovery) = self.0.sign_prehash_recoverable(digest.as_slice())?;
        let mut out = [0; 65];
        out[..64].copy_from_slice(&signature.to_bytes());
        out[64] = 27 + recovery.to_byte();
        Ok(out)
    }
}
