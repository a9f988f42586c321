//! Rule 4: exactly the amount, to exactly the recipient.

use crate::{
    code::Code,
    payment::{Authorization, Requirement},
    wire::{Refusal, Version},
};

pub(super) fn recipient(a: &Authorization, requirement: &Requirement) -> Result<(), Refusal> {
    if a.to == requirement.pay_to {
        return Ok(());
    }
    Err(Refusal::new(Code::RecipientMismatch, "authorization.to is not paymentRequirements.payTo"))
}

pub(super) fn amount(a: &Authorization, requirement: &Requirement, version: Version) -> Result<(), Refusal> {
    if a.value == requirement.amount {
        return Ok(());
    }
    let code = match version {
        Version::V1 => Code::ValueMismatchV1,
        Version::V2 => Code::ValueMismatch,
    };
    Err(Refusal::new(
        code,
        format!("authorization.value is {}, required is exactly {} (rule 4)", a.value, requirement.amount),
    ))
}
