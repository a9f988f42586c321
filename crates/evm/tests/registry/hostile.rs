//! Registries whose tokenURI does what it can to keep the rest from being read.

use crate::stage::{LACKS, Lack, Stage, about, now, read};
use alloy_primitives::{Address, Bytes, U256};
use quittance_evm::registry::Ways;
use quittance_protocol::payee::{Fact, Registered};
use quittance_testkit::dev_address;

const HOSTILE: Address = Address::repeat_byte(0xba);

/// A contract that answers `answer` to everything, but to tokenURI what `uri` does.
fn registry(answer: Address, uri: &[u8]) -> Bytes {
    const SELECTOR_IS_TOKEN_URI: &[u8] = &[
        0x60, 0x00, 0x35, 0x60, 0xe0, 0x1c, // PUSH 0, CALLDATALOAD, PUSH 0xe0, SHR
        0x63, 0xc8, 0x7b, 0x56, 0xdd, 0x14, // PUSH selector, EQ
    ];
    const RETURN_A_WORD: &[u8] = &[0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3];
    let push_answer = [&[0x73][..], answer.as_slice()].concat();
    let behind = SELECTOR_IS_TOKEN_URI.len() + 3 + push_answer.len() + RETURN_A_WORD.len();
    let jump = [0x60, u8::try_from(behind).unwrap(), 0x57]; // PUSH, JUMPI
    [SELECTOR_IS_TOKEN_URI, &jump, &push_answer, RETURN_A_WORD, &[0x5b], uri].concat().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_uri_hides_nothing_but_itself() {
    let stage = Stage::start().await;
    let seller = dev_address(3);
    let questions = about(HOSTILE, U256::from(1));
    for (what, uri) in [
        ("burns all gas", &[0xfe][..]),
        ("returns more than a file may hold", &[0x62, 0x05, 0x00, 0x00, 0x60, 0x00, 0xf3]),
        ("reverts with as much", &[0x62, 0x05, 0x00, 0x00, 0x60, 0x00, 0xfd]),
        ("returns half a word", &[0x60, 0x10, 0x60, 0x00, 0xf3]),
        ("returns nothing", &[0x00]),
    ] {
        stage.anvil.set_code(HOSTILE, &registry(seller, uri)).await.unwrap();
        for lack in LACKS {
            stage.lack(lack).await;
            let reading = stage.read(&questions).await.unwrap();
            let registered = Registered { agent_wallet: seller, owner: Some(seller) };
            assert_eq!(reading.registry, Fact::Read(registered), "{what}, {lack:?}");
            assert!(matches!(reading.token_uri, Fact::Unread(_)), "{what}, {lack:?}: {reading:?}");
            assert!(matches!(reading.code, Fact::Read(_)), "{what}, {lack:?}");
        }
    }
}

/// Or a stranger's URI would have every agent of the registry read call by call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_uri_that_multicall_cannot_return_does_not_end_multicall() {
    let stage = Stage::start().await;
    stage.lack(Lack::CreationCode).await;
    let code = registry(dev_address(3), &[0x62, 0x20, 0x00, 0x00, 0x60, 0x00, 0xf3]);
    stage.anvil.set_code(HOSTILE, &code).await.unwrap();
    let (pool, ways) = (stage.pool(), Ways::default());
    let questions = about(HOSTILE, U256::from(1));
    read(&pool, &ways, &questions, now()).await.unwrap();
    stage.node.reset_records();
    read(&pool, &ways, &questions, now()).await.unwrap();
    // With the URI, without it, and the URI alone.
    assert_eq!(stage.node.count("eth_call"), 3);
    assert_eq!(stage.node.count("eth_chainId"), 0);
}
