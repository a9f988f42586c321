//! Raw answers to facts. Nothing is taken for granted: the registry may be an older build, or no contract at all.

use super::{RegistryAnswer, RegistryRead};
use alloy_primitives::{Address, B256, Bytes, U256};
use quittance_protocol::{
    facts::Erc1271Answer,
    payee::{FILE_BYTES_MAX, Fact, Questions, Registered, UnreadReason, WalletCode, address_answer},
};

/// How far the lens got with the tokenURI.
pub(super) enum Uri {
    Whole(Bytes),
    /// Cut, or too expensive for the lens, or refused by the registry: a call of its own will tell.
    Elsewhere,
    Unread(UnreadReason),
}

pub(super) fn registered(agent_wallet: &RegistryRead, owner: &RegistryRead) -> Fact<Registered> {
    let owner = match owner {
        RegistryRead { asked: true, success: false, .. } => None,
        read => match address("ownerOf", read) {
            Fact::Read(owner) => Some(owner),
            Fact::Unread(reason) => return Fact::Unread(reason),
            Fact::NotAsked => return Fact::NotAsked,
        },
    };
    match address("getAgentWallet", agent_wallet) {
        Fact::Read(agent_wallet) => Fact::Read(Registered { agent_wallet, owner }),
        Fact::Unread(reason) => Fact::Unread(reason),
        Fact::NotAsked => Fact::NotAsked,
    }
}

pub(super) fn no_contract<T>() -> Fact<T> {
    Fact::Unread(UnreadReason::new("there is no contract at the registry's address at this block"))
}

fn address(function: &str, read: &RegistryRead) -> Fact<Address> {
    match read {
        RegistryRead { asked: false, .. } => {
            Fact::Unread(UnreadReason::new(format_args!("{function} failed, maybe for want of gas")))
        }
        RegistryRead { success: false, .. } => {
            Fact::Unread(UnreadReason::new(format_args!("{function} reverted")))
        }
        read if read.size != U256::from(read.data.len()) => {
            Fact::Unread(UnreadReason::new("the registry's answer is not one address"))
        }
        read => address_answer(&read.data),
    }
}

pub(super) fn token_uri(read: &RegistryRead) -> Uri {
    let unread = |reason| Uri::Unread(UnreadReason::new(reason));
    match read {
        read if read.success && read.size.is_zero() => unread("tokenURI answered nothing"),
        read if read.success && read.size == U256::from(read.data.len()) => {
            string(&read.data).map_or_else(|| unread("tokenURI did not answer one string"), Uri::Whole)
        }
        _ => Uri::Elsewhere,
    }
}

/// Exactly one ABI-encoded string: offset, length, text, zeros up to a whole word, and nothing behind it.
fn string(answer: &[u8]) -> Option<Bytes> {
    let word = |index: usize| answer.get(index * 32..index * 32 + 32).map(U256::from_be_slice);
    let length = usize::try_from(word(1)?).ok()?;
    let is_string = word(0)? == U256::from(32)
        && length <= FILE_BYTES_MAX
        && answer.len() == 64 + length.next_multiple_of(32);
    let (text, padding) = answer.get(64..).filter(|_| is_string)?.split_at_checked(length)?;
    padding.iter().all(|byte| *byte == 0).then(|| Bytes::copy_from_slice(text))
}

pub(super) fn code(answer: &RegistryAnswer) -> Fact<WalletCode> {
    let size = usize::try_from(answer.walletCodeSize).unwrap_or(usize::MAX);
    if answer.walletCodePrefix.len() != size.min(23) {
        return Fact::Unread(UnreadReason::new("the code at the agent wallet is not what its size says"));
    }
    Fact::Read(WalletCode::of(size, &answer.walletCodePrefix))
}

pub(super) fn erc1271(
    answer: &RegistryAnswer,
    questions: &Questions,
    wallet: Option<Address>,
) -> Fact<Erc1271Answer> {
    let read = &answer.erc1271;
    let meant = questions.signature.as_ref().is_some_and(|question| Some(question.wallet) == wallet);
    if !meant || answer.walletCodeSize.is_zero() {
        return Fact::NotAsked;
    }
    if !read.asked {
        return Fact::Unread(UnreadReason::new("the node gave too little gas for isValidSignature"));
    }
    Fact::Read(signature_answer(read))
}

pub(super) fn signature_answer(read: &RegistryRead) -> Erc1271Answer {
    let word = read.data.get(..32).map(B256::from_slice).unwrap_or_default();
    Erc1271Answer { success: read.success, return_size: u64::try_from(read.size).unwrap_or(u64::MAX), word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_sol_types::SolValue;

    #[test]
    fn only_one_whole_string_is_a_string() {
        for text in ["", "x", &"y".repeat(32), &"z".repeat(33)] {
            let encoded = text.to_owned().abi_encode();
            assert_eq!(string(&encoded), Some(Bytes::copy_from_slice(text.as_bytes())));
            assert_eq!(string(&encoded[..encoded.len() - 1]), None);
            assert_eq!(string(&[encoded.as_slice(), &[0; 32]].concat()), None);
            let mut elsewhere = encoded.clone();
            elsewhere[31] = 0x40;
            assert_eq!(string(&elsewhere), None);
        }
        let mut dirty = "x".to_owned().abi_encode();
        *dirty.last_mut().unwrap() = 1;
        assert_eq!(string(&dirty), None);
        let huge = [U256::from(32).to_be_bytes::<32>(), U256::MAX.to_be_bytes()].concat();
        for nothing in [&[][..], &[0; 32], &[0; 64], &huge] {
            assert_eq!(string(nothing), None);
        }
    }
}
