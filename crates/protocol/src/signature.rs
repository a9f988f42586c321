//! The shape of a signature, decided by its bytes alone; what it must prove depends on the payer's code.

use alloy_primitives::{Address, B256, Bytes, U256, b256};
use alloy_sol_types::{SolValue, sol_data};
use k256::ecdsa::{RecoveryId, Signature as EcdsaSignature, VerifyingKey};
use std::fmt;

/// The last word of an ERC-6492 wrapper.
pub const ERC6492_SUFFIX: B256 = b256!("6492649264926492649264926492649264926492649264926492649264926492");

/// Half the order of secp256k1: a canonical `s` is not above it (rule 1).
pub const SECP256K1_HALF_ORDER: B256 =
    b256!("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0");

/// Signature bytes and what they look like. `Debug` shows only the shape.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature {
    bytes: Bytes,
    shape: Shape,
}

/// What signature bytes look like.
#[derive(Clone, PartialEq, Eq)]
pub enum Shape {
    /// 65 bytes: `r ‖ s ‖ v`.
    Ecdsa(Ecdsa),
    /// An ERC-6492 wrapper.
    Erc6492(Erc6492),
    /// Ends like an ERC-6492 wrapper, but is not the canonical encoding of one, or wraps another wrapper.
    MalformedErc6492,
    /// Anything else; only a contract can judge it.
    Opaque,
}

/// `r ‖ s ‖ v`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ecdsa {
    /// First word.
    pub r: B256,
    /// Second word.
    pub s: B256,
    /// Last byte.
    pub v: u8,
}

/// `abi.encode(address factory, bytes factoryCalldata, bytes signature) ‖ suffix`.
#[derive(Clone, PartialEq, Eq)]
pub struct Erc6492 {
    /// Called to deploy the payer.
    pub factory: Address,
    /// With this.
    pub factory_calldata: Bytes,
    /// The signature the deployed payer is asked about.
    pub inner: Bytes,
}

impl Erc6492 {
    /// Deployment data is present when there is a factory and at least one byte to call it with (spec/x402.md §7, 9).
    pub fn is_complete(&self) -> bool {
        !self.factory.is_zero() && !self.factory_calldata.is_empty()
    }
}

impl Signature {
    /// Classifies; every byte string has a shape.
    pub fn parse(bytes: Bytes) -> Self {
        let shape = match bytes.strip_suffix(ERC6492_SUFFIX.as_slice()) {
            // The suffix is tested first: 65 bytes that end with it are a broken wrapper, not an ECDSA signature.
            Some(body) => unwrap_erc6492(body).map_or(Shape::MalformedErc6492, Shape::Erc6492),
            None => Ecdsa::from_bytes(&bytes).map_or(Shape::Opaque, Shape::Ecdsa),
        };
        Self { bytes, shape }
    }

    /// As they came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What they look like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What a deployed payer is asked about: the wrapped signature of a wrapper, else the bytes themselves.
    pub fn for_contract(&self) -> &Bytes {
        match &self.shape {
            Shape::Erc6492(wrapper) => &wrapper.inner,
            _ => &self.bytes,
        }
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({:?}, {} bytes)", self.shape, self.bytes.len())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ecdsa(_) => "ecdsa",
            Self::Erc6492(_) => "erc6492",
            Self::MalformedErc6492 => "malformed erc6492",
            Self::Opaque => "opaque",
        })
    }
}

impl fmt::Debug for Ecdsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ecdsa").field("v", &self.v).finish_non_exhaustive()
    }
}

impl fmt::Debug for Erc6492 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erc6492").field("factory", &self.factory).finish_non_exhaustive()
    }
}

/// Strict: decoding then encoding must give the same bytes back, so that offsets are canonical, padding is zero and
/// nothing trails.
fn unwrap_erc6492(body: &[u8]) -> Option<Erc6492> {
    type Tuple = (sol_data::Address, sol_data::Bytes, sol_data::Bytes);
    let (factory, factory_calldata, inner) =
        <Tuple as alloy_sol_types::SolType>::abi_decode_params_validate(body).ok()?;
    let canonical = (factory, &factory_calldata, &inner).abi_encode_params() == body;
    let nested = inner.ends_with(ERC6492_SUFFIX.as_slice());
    (canonical && !nested).then_some(Erc6492 { factory, factory_calldata, inner })
}

impl Ecdsa {
    /// Exactly 65 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 65] = bytes.try_into().ok()?;
        Some(Self { r: B256::from_slice(&bytes[..32]), s: B256::from_slice(&bytes[32..64]), v: bytes[64] })
    }

    /// Rule 1: `s <= n/2`. The twin with `n - s` recovers to the same address, and tokens refuse it.
    pub fn is_canonical(&self) -> bool {
        self.s <= SECP256K1_HALF_ORDER
    }

    /// `v` as tokens want it: 27 or 28; clients also send the y parity 0 or 1 (spec/x402.md §3).
    pub fn legacy_v(&self) -> Option<u8> {
        match self.v {
            0 | 27 => Some(27),
            1 | 28 => Some(28),
            _ => None,
        }
    }

    /// The address whose key signed `digest`; `None` when no key did, when `v` is none of 0, 1, 27 and 28, and for a
    /// high `s`, which the curve library refuses as well.
    pub fn recover(&self, digest: B256) -> Option<Address> {
        let recovery = RecoveryId::from_byte(self.legacy_v()? - 27)?;
        let signature = EcdsaSignature::from_scalars(self.r.0, self.s.0).ok()?;
        let key = VerifyingKey::recover_from_prehash(digest.as_slice(), &signature, recovery).ok()?;
        Some(Address::from_public_key(&key))
    }

    /// The other signature of the same key over the same digest: `n - s` and the other parity.
    pub fn high_s_twin(&self) -> Self {
        const ORDER: B256 = b256!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
        let s = U256::from_be_bytes(ORDER.0).wrapping_sub(U256::from_be_bytes(self.s.0));
        let v = if self.legacy_v() == Some(27) { 28 } else { 27 };
        Self { r: self.r, s: B256::from(s.to_be_bytes()), v }
    }

    /// `r ‖ s ‖ v`.
    pub fn to_bytes(&self) -> Bytes {
        [self.r.as_slice(), self.s.as_slice(), &[self.v]].concat().into()
    }
}
