//! Four ways to ask, one answer; and what each costs.

use crate::stage::{
    CHAIN_ID, LACKS, Lack, REGISTRY, SELLER, Stage, about, by_hash, now, read, refuse, seconds_after, sign,
    signed,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use quittance_evm::registry::{Reading, Ways};
use quittance_protocol::{
    facts::Erc1271Answer,
    payee::{Fact, Registered, WalletCode},
};
use quittance_testkit::{
    dev_address,
    harness::{Fault, RpcProxy, Rule},
};

/// Asked of this wallet in the tests about signatures.
fn question(agent: U256, wallet: Address) -> quittance_protocol::payee::Questions {
    signed(about(REGISTRY, agent), wallet, B256::repeat_byte(7), Bytes::from(vec![1; 65]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_reads_the_same() {
    let stage = Stage::start().await;
    let seller = dev_address(SELLER);
    let deploy = async |name| stage.chain.deploy_contract(name, &[]).await.unwrap();
    let delegate = deploy("Delegate7702").await;
    stage.chain.set_7702_code(dev_address(7), delegate).await.unwrap();
    let contract = stage.chain.deploy_wallet1271(seller).await.unwrap();
    let uri = "https://seller.example/agent.json";

    let mut cases = vec![
        (about(REGISTRY, stage.agent(uri, seller).await), Fact::Read(WalletCode::Empty)),
        (about(REGISTRY, stage.agent("", Address::ZERO).await), Fact::Read(WalletCode::Empty)),
        (about(REGISTRY, stage.agent(uri, contract).await), Fact::Read(WalletCode::Contract)),
        (
            about(REGISTRY, stage.agent(uri, dev_address(7)).await),
            Fact::Read(WalletCode::Delegated(delegate)),
        ),
        // Longer than what the lens carries.
        (about(REGISTRY, stage.agent(&"x".repeat(20_000), seller).await), Fact::Read(WalletCode::Empty)),
        // No such agent.
        (about(REGISTRY, U256::from(999)), Fact::Read(WalletCode::Empty)),
        // Somebody else is asked about: nobody is.
        (question(stage.agent(uri, contract).await, seller), Fact::Read(WalletCode::Contract)),
        (question(stage.agent(uri, seller).await, seller), Fact::Read(WalletCode::Empty)),
    ];
    for name in [
        "Wallet1271Rejecting",
        "Wallet1271Reverting",
        "Wallet1271GasBurner",
        "Wallet1271ReturnBomb",
        "Wallet1271BadPadding",
        "Wallet1271Short",
    ] {
        let wallet = deploy(name).await;
        cases.push((question(stage.agent(uri, wallet).await, wallet), Fact::Read(WalletCode::Contract)));
    }
    for (case, (questions, code)) in cases.iter().enumerate() {
        let mut readings = Vec::new();
        for lack in LACKS {
            stage.lack(lack).await;
            let mut reading = stage.read(questions).await.unwrap();
            if let Fact::Read(refused @ Erc1271Answer { success: false, .. }) = &mut reading.erc1271 {
                // With which words it reverted is of no account.
                *refused = Erc1271Answer { success: false, return_size: 0, word: B256::ZERO };
            }
            readings.push(reading);
        }
        let [lens, others @ ..] = readings.as_slice() else { panic!() };
        assert_eq!(&lens.code, code, "{case}");
        assert!(matches!(lens.registry, Fact::Read(_)), "{case}: {lens:?}");
        for other in others {
            assert_eq!(other, lens, "{case}: {questions:?}");
        }
    }
    let Reading { registry, token_uri, erc1271, .. } = stage.read(&cases[0].0).await.unwrap();
    assert_eq!(registry, Fact::Read(Registered { agent_wallet: seller, owner: Some(seller) }));
    assert_eq!((token_uri, erc1271), (Fact::Read(uri.into()), Fact::NotAsked));
    let nobody = stage.read(&cases[5].0).await.unwrap().registry;
    assert_eq!(nobody, Fact::Read(Registered { agent_wallet: Address::ZERO, owner: None }));
}

/// No contract is no wallet of zero.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_no_registry_nothing_is_read() {
    let stage = Stage::start().await;
    for lack in LACKS {
        stage.lack(lack).await;
        let reading = stage.read(&about(Address::repeat_byte(9), U256::ZERO)).await.unwrap();
        let reason = reading.registry.value().unwrap_err();
        assert_eq!(
            reason.as_str(),
            "there is no contract at the registry's address at this block",
            "{lack:?}"
        );
        assert!(matches!((reading.token_uri, reading.code), (Fact::Unread(_), Fact::Unread(_))), "{lack:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_way_costs_at_first_and_once_it_is_known() {
    let stage = Stage::start().await;
    let agent = stage.agent("https://seller.example/agent.json", dev_address(SELLER)).await;
    let wallet = stage.chain.deploy_wallet1271(dev_address(SELLER)).await.unwrap();
    let contract = stage.agent("https://seller.example/agent.json", wallet).await;
    // Requests beside the header that B is chosen by: of calls, code, headers, chain ids.
    for (lack, first, known, with_signature) in [
        (Lack::Nothing, [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]),
        (Lack::Hashes, [2, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0]),
        (Lack::CreationCode, [3, 1, 1, 0], [1, 1, 1, 0], [2, 1, 1, 0]),
        (Lack::Multicall, [6, 1, 1, 1], [3, 1, 1, 1], [4, 1, 1, 1]),
    ] {
        stage.lack(lack).await;
        let (pool, ways) = (stage.pool(), Ways::default());
        let plainly = about(REGISTRY, agent);
        for (questions, expected) in
            [(&plainly, first), (&plainly, known), (&question(contract, wallet), with_signature)]
        {
            stage.node.reset_records();
            read(&pool, &ways, questions, now()).await.unwrap();
            assert_eq!(requests(&stage.node), expected, "{lack:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_a_moment_is_forgotten() {
    let stage = Stage::start().await;
    let questions = about(REGISTRY, stage.agent("https://seller.example", dev_address(SELLER)).await);
    let (pool, ways, start) = (stage.pool(), Ways::default(), now());
    stage.node.add(Rule::on("eth_call").when(by_hash).times(1).then(Fault::HttpStatus(503)));
    for (seconds, expected) in
        [(0, [2, 0, 1, 0]), (299, [1, 0, 1, 0]), (300, [1, 0, 0, 0]), (301, [1, 0, 0, 0])]
    {
        stage.node.reset_records();
        read(&pool, &ways, &questions, seconds_after(start, seconds)).await.unwrap();
        assert_eq!(requests(&stage.node), expected, "after {seconds} s");
    }
    // And a way that was known and is gone is not insisted on.
    stage.lack(Lack::CreationCode).await;
    read(&pool, &ways, &questions, seconds_after(start, 302)).await.unwrap();
    stage.lack(Lack::Nothing).await;
    stage.anvil.set_code(quittance_testkit::dev_chain::MULTICALL3, &Bytes::new()).await.unwrap();
    stage.node.reset_records();
    read(&pool, &ways, &questions, seconds_after(start, 303)).await.unwrap();
    assert_eq!(requests(&stage.node), [2, 0, 0, 0], "Multicall3, then the lens");
    refuse(&stage.node, |_| true);
    assert!(read(&pool, &ways, &questions, seconds_after(start, 304)).await.is_err());
}

/// The contract wallet's word reaches the reading whichever way it was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_wallet_vouches_in_every_way() {
    let stage = Stage::start().await;
    let key = dev_address(5);
    let wallet = stage.chain.deploy_wallet1271(key).await.unwrap();
    let agent = stage.agent("https://seller.example", wallet).await;
    let digest = B256::repeat_byte(0x42);
    let signature = sign(5, digest);
    let mut magic = B256::ZERO;
    magic[..4].copy_from_slice(&[0x16, 0x26, 0xba, 0x7e]);
    for lack in LACKS {
        stage.lack(lack).await;
        let reading =
            stage.read(&signed(about(REGISTRY, agent), wallet, digest, signature.clone())).await.unwrap();
        let vouched = Erc1271Answer { success: true, return_size: 32, word: magic };
        assert_eq!(reading.erc1271, Fact::Read(vouched), "{lack:?}");
    }
    assert_eq!(stage.chain.chain_id(), CHAIN_ID);
}

fn requests(node: &RpcProxy) -> [u64; 4] {
    let header = node.count("eth_getBlockByNumber") - 1;
    [node.count("eth_call"), node.count("eth_getCode"), header, node.count("eth_chainId")]
}
