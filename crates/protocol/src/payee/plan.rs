//! What to read for a claim. All of it can be read in one `eth_call` at one block, as no question depends on an answer:
//! the digest that a contract wallet may have to vouch for is known beforehand.

use super::{Carried, Claim, Identity, Named, Policy};
use alloy_primitives::{Address, B256, Bytes};
use std::fmt;

/// What a claim needs to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: [`super::decide`] with [`super::Facts::none`].
    Nothing,
    /// These.
    Read(Questions),
}

/// At one block of the registry's chain: the header; `getAgentWallet`, `ownerOf` and `tokenURI` of the agent; the code
/// at the agent wallet; and, if there is one, the signature question. Then the file behind the tokenURI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questions {
    /// Registry and agent.
    pub identity: Identity,
    /// Only a contract can still vouch for the delegation, so it has to be asked.
    pub signature: Option<SignatureQuestion>,
}

/// `isValidSignature(digest, signature)`, to be asked of the agent wallet the registry names, and only if it is the one
/// named here and has code. Otherwise the fact stays [`super::Fact::NotAsked`].
///
/// `Debug` leaves the signature out.
#[derive(Clone, PartialEq, Eq)]
pub struct SignatureQuestion {
    /// The agent wallet, as the delegation names it.
    pub wallet: Address,
    /// What was signed.
    pub digest: B256,
    /// By what, exactly as it came: ERC-6492 wrappers are not opened, their factories never called.
    pub signature: Bytes,
}

impl fmt::Debug for SignatureQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignatureQuestion")
            .field("wallet", &self.wallet)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// What to read. Registries that are not trusted are not asked.
pub fn plan(claim: &Claim, policy: &Policy) -> Plan {
    let (Named::Identity(identity), _) = claim.identity() else { return Plan::Nothing };
    if !policy.registries.contains(&identity.registry) {
        return Plan::Nothing;
    }
    let signature = match &claim.delegation {
        Carried::Nothing | Carried::Malformed => None,
        Carried::Delegation(delegation) => {
            delegation.contract_question(&claim.subject(&identity)).map(|digest| SignatureQuestion {
                wallet: delegation.message.agent_wallet,
                digest,
                signature: delegation.signature.clone(),
            })
        }
    };
    Plan::Read(Questions { identity, signature })
}
