//! A payment whose window opens in the next block, judged by what the latest one says.
//!
//! What is in no block yet may never be. Only the time of the next block is believed, and that the call executes then, where the
//! latest block bears it out: money on its way to the payer is not there, money on its way from it is gone.

use quittance_protocol::facts::{Block, ChainFacts};

/// Facts of the latest block at the time of the next. `None`: transactions that nobody has mined decide more than the time does.
pub(super) fn at_its_time(latest: &ChainFacts, next: ChainFacts) -> Option<ChainFacts> {
    let is_the_same = latest.payer_code == next.payer_code
        && latest.erc1271 == next.erc1271
        && latest.asset_has_code == next.asset_has_code
        && latest.domain_separator == next.domain_separator
        && latest.eip5267 == next.eip5267
        && latest.token_name == next.token_name
        && latest.token_version == next.token_version;
    is_the_same.then(|| ChainFacts {
        block: Block { timestamp: next.block.timestamp, ..latest.block },
        authorization_state: match (latest.authorization_state, next.authorization_state) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        payer_balance: [latest.payer_balance, next.payer_balance].into_iter().flatten().min(),
        // The recipient's is compared with its balance after the call, which ran there.
        ..next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, U256};
    use quittance_protocol::{
        facts::{Erc1271Answer, PayerCode},
        units::{Network, UnixSeconds},
    };

    fn facts(number: u64, balance: u64) -> ChainFacts {
        ChainFacts {
            block: Block {
                network: Network::from_chain_id(84_532).unwrap(),
                number,
                timestamp: UnixSeconds(1_000 + number),
                base_fee: number.into(),
            },
            payer_code: PayerCode::Empty,
            asset_has_code: true,
            authorization_state: Some(false),
            payer_balance: Some(U256::from(balance)),
            pay_to_balance: Some(U256::from(number)),
            domain_separator: Some(B256::ZERO),
            eip5267: None,
            token_name: Some("USD Coin".into()),
            token_version: Some("2".into()),
            erc1271: None,
            direct: Vec::new(),
            deploying: Vec::new(),
        }
    }

    #[test]
    fn only_the_time_is_the_next_blocks() {
        for (has, will_have, counts) in [(0, 1_000, 0), (1_000, 0, 0), (5, 5, 5)] {
            let facts = at_its_time(&facts(7, has), facts(8, will_have)).unwrap();
            let Block { number, timestamp, base_fee, .. } = facts.block;
            assert_eq!((number, timestamp.0, base_fee), (7, 1_008, 7));
            assert_eq!(facts.payer_balance, Some(U256::from(counts)));
            assert_eq!(facts.pay_to_balance, Some(U256::from(8)), "where the call ran");
        }
    }

    #[test]
    fn a_nonce_is_unused_if_both_say_so() {
        let states = [None, Some(false), Some(true)];
        for (is, will_be) in states.into_iter().flat_map(|is| states.map(|will_be| (is, will_be))) {
            let latest = ChainFacts { authorization_state: is, ..facts(7, 1) };
            let next = ChainFacts { authorization_state: will_be, ..facts(8, 1) };
            let expected = match [is, will_be] {
                both if both.contains(&Some(true)) => Some(true),
                both if both.contains(&None) => None,
                _ => Some(false),
            };
            let known = at_its_time(&latest, next).unwrap().authorization_state;
            assert_eq!(known, expected, "{is:?}, {will_be:?}");
        }
    }

    #[test]
    fn another_payer_or_token_in_the_next_block_is_no_evidence() {
        let latest = facts(7, 1);
        let yes = Erc1271Answer { success: true, return_size: 32, word: B256::ZERO };
        for next in [
            ChainFacts { payer_code: PayerCode::Contract, ..facts(8, 1) },
            ChainFacts { payer_code: PayerCode::Delegated(Address::ZERO), ..facts(8, 1) },
            ChainFacts { erc1271: Some(yes), ..facts(8, 1) },
            ChainFacts { asset_has_code: false, ..facts(8, 1) },
            ChainFacts { domain_separator: None, ..facts(8, 1) },
            ChainFacts { eip5267: Some(("USD Coin".into(), "2".into())), ..facts(8, 1) },
            ChainFacts { token_name: None, ..facts(8, 1) },
            ChainFacts { token_version: None, ..facts(8, 1) },
        ] {
            assert_eq!(at_its_time(&latest, next), None);
        }
    }
}
