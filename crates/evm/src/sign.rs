//! Signers, and the transactions they sign. The only use of a private key.

use crate::fees::Fees;
use alloy::{
    consensus::{
        SignableTransaction, Signed, Transaction, TxEip1559, TxEnvelope, TxLegacy,
        transaction::SignerRecoverable,
    },
    eips::eip2718::{Decodable2718, Encodable2718},
    network::TxSignerSync,
    signers::local::PrivateKeySigner,
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex};
use quittance_protocol::units::{LaneNonce, Network};
use std::fmt;

/// A local private key. `Debug` shows the address.
#[derive(Clone)]
pub struct LaneSigner(PrivateKeySigner);

/// Not a private key. Says nothing of what was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// Not 32 bytes of hex, or not a scalar of the curve.
    #[error("not a private key (32 bytes of hex)")]
    NotAKey,
    /// The transaction could not be signed.
    #[error("signing failed")]
    Signing,
}

/// Signed and encoded. `Debug` shows the hash.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedTransaction {
    /// EIP-2718 bytes.
    pub raw: Bytes,
    /// Their hash.
    pub hash: B256,
}

impl fmt::Debug for SignedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SignedTransaction").field(&self.hash).finish()
    }
}

impl fmt::Debug for LaneSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LaneSigner").field(&self.address()).finish()
    }
}

impl LaneSigner {
    /// From 64 hex digits, with or without 0x.
    pub fn from_hex(key: &str) -> Result<Self, BadKey> {
        let bytes: [u8; 32] =
            hex::decode(key.trim()).map_err(|_| BadKey::NotAKey)?.try_into().map_err(|_| BadKey::NotAKey)?;
        PrivateKeySigner::from_bytes(&B256::new(bytes)).map(Self).map_err(|_| BadKey::NotAKey)
    }

    /// The signer's address.
    pub fn address(&self) -> Address {
        self.0.address()
    }

    /// Signs a call that carries no value. `form`: what the chain understands.
    #[allow(clippy::too_many_arguments, reason = "the fields of a transaction")]
    pub fn sign_call(
        &self,
        form: Form,
        network: Network,
        nonce: LaneNonce,
        fees: Fees,
        gas_limit: u64,
        to: Address,
        data: Bytes,
    ) -> Result<SignedTransaction, BadKey> {
        let (chain_id, to, value) = (network.chain_id(), TxKind::Call(to), U256::ZERO);
        match form {
            Form::Eip1559 => self.sign(TxEip1559 {
                chain_id,
                nonce: nonce.0,
                gas_limit,
                max_fee_per_gas: fees.max_fee_per_gas,
                max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
                to,
                value,
                access_list: Default::default(),
                input: data,
            }),
            // With the chain id in its signature (EIP-155): it must not be valid on another chain.
            Form::Legacy => self.sign(TxLegacy {
                chain_id: Some(chain_id),
                nonce: nonce.0,
                gas_price: fees.max_fee_per_gas,
                gas_limit,
                to,
                value,
                input: data,
            }),
        }
    }

    fn sign<T>(&self, mut transaction: T) -> Result<SignedTransaction, BadKey>
    where
        T: SignableTransaction<Signature>,
        Signed<T>: Into<TxEnvelope>,
    {
        let signature = self.0.sign_transaction_sync(&mut transaction).map_err(|_| BadKey::Signing)?;
        let envelope: TxEnvelope = transaction.into_signed(signature).into();
        Ok(SignedTransaction { raw: envelope.encoded_2718().into(), hash: *envelope.tx_hash() })
    }
}

/// Which transactions a chain understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With a base fee.
    Eip1559,
    /// With a gas price only.
    Legacy,
}

/// What a signed transaction of ours calls.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedCall {
    /// Target.
    pub to: Address,
    /// Calldata.
    pub data: Bytes,
    /// Gas limit.
    pub gas_limit: u64,
}

impl fmt::Debug for SignedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedCall").field("to", &self.to).finish_non_exhaustive()
    }
}

/// Reads the call back from stored bytes, to sign it again under another nonce or fee.
pub fn call_of(raw: &Bytes) -> Option<SignedCall> {
    let envelope = TxEnvelope::decode_2718(&mut raw.as_ref()).ok()?;
    Some(SignedCall { to: envelope.to()?, data: envelope.input().clone(), gas_limit: envelope.gas_limit() })
}

/// Who signed stored bytes.
pub fn signer_of(raw: &Bytes) -> Option<Address> {
    TxEnvelope::decode_2718(&mut raw.as_ref()).ok()?.recover_signer().ok()
}
