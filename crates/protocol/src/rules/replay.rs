//! Rule 5, the chain's half: the nonce is neither used nor canceled. The other half is the pending set, in the store.

use crate::{code::Code, facts::ChainFacts, wire::Refusal};

pub(super) fn unused_on_chain(facts: &ChainFacts) -> Result<(), Refusal> {
    match facts.authorization_state {
        Some(false) => Ok(()),
        Some(true) => Err(Refusal::new(
            Code::NonceAlreadyUsed,
            "the token says this authorization nonce is used or canceled (rule 5)",
        )),
        None => Err(Refusal::new(
            Code::Eip3009NotSupported,
            "paymentRequirements.asset does not answer authorizationState(address,bytes32)",
        )),
    }
}
