//! Rule 1: a payer without code and a plain 65-byte signature: `s` above n/2 is refused.

use crate::{code::Code, facts::PayerCode, payment::Payment, signature::Shape, wire::Refusal};

pub(super) fn low_s(payment: &Payment, payer_code: PayerCode) -> Result<(), Refusal> {
    match payment.signature.shape() {
        Shape::Ecdsa(parts) if payer_code.is_empty() && !parts.is_canonical() => Err(Refusal::new(
            Code::NonCanonicalSignature,
            "the signature's s is above n/2; the token refuses it (rule 1)",
        )),
        _ => Ok(()),
    }
}
