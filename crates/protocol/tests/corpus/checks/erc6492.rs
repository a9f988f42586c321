//! Signature bytes: kept as they came, and read as a second reader reads them.

use super::{
    from_hex,
    sig::{self, Read},
};
use alloy_primitives::{Address, Bytes};
use quittance_protocol::signature::{Shape, Signature};

/// The input as it is, with the suffix (nobody finds 32 bytes by chance), and as what is wrapped.
pub fn check(input: &[u8]) {
    if let Some(bytes) = from_hex(input) {
        signature(&bytes);
    }
    signature(input);
    signature(&[input, &sig::SUFFIX].concat());
    if let Some((&split, rest)) = input.split_first() {
        let (factory, rest) = rest.split_at(rest.len().min(20));
        let (calldata, inner) = rest.split_at(rest.len().min(usize::from(split)));
        wrapper(Address::left_padding_from(factory), calldata, inner);
    }
}

fn signature(bytes: &[u8]) {
    let signature = Signature::parse(Bytes::copy_from_slice(bytes));
    assert_eq!(signature.bytes()[..], *bytes, "bytes are kept as they came");
    let read = match signature.shape() {
        Shape::Ecdsa(parts) => {
            assert_eq!(parts.to_bytes()[..], *bytes);
            assert_eq!(signature.for_contract(), signature.bytes());
            Read::Ecdsa
        }
        Shape::Erc6492(wrapper) => {
            let (factory, calldata, inner) =
                (wrapper.factory, wrapper.factory_calldata.to_vec(), wrapper.inner.to_vec());
            assert_eq!(
                sig::wrapper(factory, &calldata, &inner),
                bytes,
                "there is one way to write a wrapper"
            );
            assert_eq!(signature.for_contract(), &wrapper.inner);
            assert_eq!(wrapper.is_complete(), !factory.is_zero() && !calldata.is_empty());
            Read::Wrapper { factory, calldata, inner }
        }
        Shape::MalformedErc6492 => {
            assert_eq!(signature.for_contract(), signature.bytes(), "a broken wrapper is not opened");
            Read::Malformed
        }
        Shape::Opaque => Read::Opaque,
    };
    assert_eq!(read, sig::read(bytes), "two readers");
}

/// What was wrapped comes out again, and nothing beside it.
fn wrapper(factory: Address, calldata: &[u8], inner: &[u8]) {
    let bytes = sig::wrapper(factory, calldata, inner);
    signature(&bytes);
    let parsed = Signature::parse(bytes.clone().into());
    let is_nested = inner.ends_with(&sig::SUFFIX);
    assert_eq!(matches!(parsed.shape(), Shape::Erc6492(_)), !is_nested);
    signature(&[bytes.as_slice(), &[0]].concat());
    for encoding in
        ["trailing-word", "gap", "swapped-tails", "shared-tail", "dirty-address", "huge-length", "tuple"]
    {
        let miswritten = sig::miswritten(encoding, factory, calldata, inner);
        signature(&miswritten);
        // Of two equal tails, each can stand for the other; no other way of writing is a second one.
        if miswritten != bytes {
            let parsed = Signature::parse(miswritten.into());
            assert_eq!(*parsed.shape(), Shape::MalformedErc6492, "{encoding}");
        }
    }
}
