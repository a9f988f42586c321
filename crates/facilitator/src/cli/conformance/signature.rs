//! Bytes of signatures, right and wrong. Written by hand, so that no library repairs what is to be broken.

use super::{
    contracts::Factories,
    keys::Key,
    word::{Calldata, Encoding, FactorySpec, Scalar, SignatureSpec, WrapperSpec},
};
use alloy_primitives::{Address, B256, Bytes, U256, uint};

const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// What the last 32 bytes of an ERC-6492 wrapper are.
const SUFFIX: [u8; 32] =
    alloy_primitives::hex!("6492649264926492649264926492649264926492649264926492649264926492");

/// What goes into signatures of one payment.
#[derive(Clone, Debug)]
pub(super) struct Signing {
    pub(super) key: Key,
    pub(super) stranger: Key,
    pub(super) factories: Factories,
    /// Deploys the key's wallet.
    pub(super) deploy: Bytes,
}

/// The parts of a wrapper.
#[derive(Clone, Debug)]
pub(super) struct Wrapper {
    pub(super) factory: Address,
    pub(super) calldata: Bytes,
    pub(super) inner: Vec<u8>,
}

impl Signing {
    /// The bytes that `spec` describes.
    pub(super) fn bytes(&self, spec: &SignatureSpec, digest: B256) -> anyhow::Result<Vec<u8>> {
        let plain = self.key.sign(digest)?;
        let with = |at: usize, bytes: &[u8]| {
            let mut out = plain.to_vec();
            out[at..at + bytes.len()].copy_from_slice(bytes);
            out
        };
        let scalar = |scalar: Scalar| match scalar {
            Scalar::Zero => [0; 32],
            Scalar::Order => ORDER.to_be_bytes(),
            Scalar::Max => [0xff; 32],
        };
        Ok(match spec {
            SignatureSpec::LowS => plain.to_vec(),
            SignatureSpec::HighS => high_s_twin(&plain).to_vec(),
            SignatureSpec::HighSParity => {
                let mut twin = high_s_twin(&plain);
                twin[64] -= 27;
                twin.to_vec()
            }
            SignatureSpec::Parity => with(64, &[plain[64] - 27]),
            SignatureSpec::OtherParity => with(64, &[turned(plain[64])]),
            SignatureSpec::V(v) => with(64, &[*v]),
            SignatureSpec::R(word) => with(0, &scalar(*word)),
            SignatureSpec::S(word) => with(32, &scalar(*word)),
            SignatureSpec::Zeros => vec![0; 65],
            SignatureSpec::OtherKey => self.stranger.sign(digest)?.to_vec(),
            SignatureSpec::Empty => Vec::new(),
            SignatureSpec::Length(length) => {
                let mut out = plain.to_vec();
                out.resize(*length, 0);
                out
            }
            SignatureSpec::EndingInSuffix => with(33, &SUFFIX),
            SignatureSpec::Wrapped(spec) => written(&self.wrapper(spec, digest)?, spec.encoding),
        })
    }

    /// What is in the wrapper that `spec` describes.
    pub(super) fn wrapper(&self, spec: &WrapperSpec, digest: B256) -> anyhow::Result<Wrapper> {
        let factory = match spec.factory {
            FactorySpec::Zero => Address::ZERO,
            FactorySpec::Listed(factory) => self.factories.listed(factory)?,
            FactorySpec::Unlisted(factory) => self.factories.unlisted(factory)?,
        };
        let calldata = match spec.calldata {
            Calldata::Deploy => self.deploy.clone(),
            Calldata::Empty => Bytes::new(),
            Calldata::OneByte => Bytes::from_static(&[0]),
        };
        let inner = self.bytes(spec.inner.as_ref().unwrap_or(&SignatureSpec::LowS), digest)?;
        Ok(Wrapper { factory, calldata, inner })
    }
}

fn turned(v: u8) -> u8 {
    if v == 27 { 28 } else { 27 }
}

/// `(r, n - s)` and the other parity: the same key over the same digest.
fn high_s_twin(low: &[u8; 65]) -> [u8; 65] {
    let mut twin = *low;
    let s = U256::from_be_slice(&low[32..64]);
    twin[32..64].copy_from_slice(&ORDER.wrapping_sub(s).to_be_bytes::<32>());
    twin[64] = turned(low[64]);
    twin
}

fn word(number: usize) -> [u8; 32] {
    U256::from(number).to_be_bytes()
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().div_ceil(32) * 32, 0);
    out
}

/// `abi.encode(factory, calldata, inner)` as `encoding` spoils it, and the suffix.
fn written(wrapper: &Wrapper, encoding: Encoding) -> Vec<u8> {
    let Wrapper { factory, calldata, inner } = wrapper;
    let tail = |bytes: &[u8]| [word(bytes.len()).to_vec(), padded(bytes)].concat();
    let (calldata_tail, inner_tail) = (tail(calldata), tail(inner));
    let inner_offset = 96 + calldata_tail.len();
    let head = |calldata: usize, inner: usize| {
        [factory.into_word().to_vec(), word(calldata).to_vec(), word(inner).to_vec()].concat()
    };
    let mut body = [head(96, inner_offset), calldata_tail.clone(), inner_tail.clone()].concat();
    match encoding {
        Encoding::Canonical => {}
        Encoding::SuffixOnly => body.clear(),
        Encoding::TrailingByte => body.push(0),
        Encoding::TrailingWord => body.extend([0; 32]),
        Encoding::Truncated => body.truncate(body.len().saturating_sub(32)),
        Encoding::DirtyAddress => body[11] = 1,
        Encoding::DirtyPadding => {
            if let Some(last) = body.last_mut() {
                *last = 1;
            }
        }
        Encoding::OddOffset => {
            body = [head(96, inner_offset + 1), calldata_tail, vec![0], inner_tail].concat()
        }
        Encoding::Gap => {
            body = [head(96, inner_offset + 32), calldata_tail, vec![0; 32], inner_tail].concat()
        }
        Encoding::SwappedTails => {
            body = [head(96 + inner_tail.len(), 96), inner_tail, calldata_tail].concat();
        }
        Encoding::SharedTail => body[32..64].copy_from_slice(&word(inner_offset)),
        Encoding::HugeOffset => body[64..96].copy_from_slice(&[0xff; 32]),
        Encoding::HugeLength => body[inner_offset..inner_offset + 32].copy_from_slice(&[0xff; 32]),
        Encoding::Tuple => body = [word(32).to_vec(), body].concat(),
    }
    body.extend(SUFFIX);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::conformance::keys::Seed;

    fn wrapper() -> Wrapper {
        Wrapper { factory: Address::repeat_byte(0xfa), calldata: vec![1; 68].into(), inner: vec![2; 65] }
    }

    #[test]
    fn a_wrapper_is_what_everyone_else_writes() {
        let Wrapper { factory, calldata, inner } = wrapper();
        let theirs = quittance_testkit::payment::erc6492(factory, &calldata, &inner.clone().into());
        assert_eq!(written(&wrapper(), Encoding::Canonical), theirs.to_vec());
    }

    #[test]
    fn the_twin_is_by_the_same_key() {
        let key = Seed::random().key("payer").unwrap();
        let digest = B256::repeat_byte(7);
        let low = key.sign(digest).unwrap();
        let theirs = quittance_testkit::payment::high_s_twin(&low).unwrap();
        assert_eq!(high_s_twin(&low).to_vec(), theirs.to_vec());
        for signature in [low, high_s_twin(&low)] {
            assert_eq!(quittance_testkit::payment::recover(digest, &signature).unwrap(), key.address());
        }
    }
}
