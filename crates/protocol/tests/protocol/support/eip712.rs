//! EIP-712 by hand.

use alloy_primitives::{Address, B256, U256, keccak256};

/// The fields of a token's domain.
#[derive(Clone, Debug)]
pub struct Domain {
    pub name: String,
    pub version: String,
    pub chain_id: u64,
    pub verifying_contract: Address,
}

impl Domain {
    pub fn separator(&self) -> B256 {
        words(&[
            keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
            keccak256(&self.name),
            keccak256(&self.version),
            U256::from(self.chain_id).into(),
            self.verifying_contract.into_word(),
        ])
    }
}

/// What a payer signs, as words.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub valid_after: U256,
    pub valid_before: U256,
    pub nonce: B256,
}

pub fn digest(message: &Message, separator: B256) -> B256 {
    let struct_hash = words(&[
        keccak256(
            "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
        ),
        message.from.into_word(),
        message.to.into_word(),
        message.value.into(),
        message.valid_after.into(),
        message.valid_before.into(),
        message.nonce,
    ]);
    keccak256([b"\x19\x01".as_slice(), separator.as_slice(), struct_hash.as_slice()].concat())
}

fn words(words: &[B256]) -> B256 {
    keccak256(words.concat())
}
