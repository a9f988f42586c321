//! Anvil and the contracts on it.

use alloy::primitives::{Address, B256, U256};
use quittance_testkit::{
    Anvil, DevChain, RpcClient, RpcError,
    anvil::TxPoolStatus,
    contracts,
    dev_accounts::{DEPLOYER, DEV_ACCOUNTS},
    dev_address,
    dev_chain::{MULTICALL3, salt},
    dev_signer,
};
use serde_json::{Value, json};

fn units(amount: u64) -> U256 {
    U256::from(amount)
}

#[tokio::test]
async fn the_dev_accounts_are_the_nodes() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let accounts: Vec<Address> =
        serde_json::from_value(anvil.rpc("eth_accounts", json!([])).await.unwrap()).unwrap();
    assert_eq!(accounts, (0..DEV_ACCOUNTS).map(dev_address).collect::<Vec<_>>());
    assert_eq!(anvil.client().chain_id().await.unwrap(), 84532);
    assert!(anvil.ws_url().starts_with("ws://127.0.0.1:"));
}

#[tokio::test]
async fn a_dropped_anvil_is_gone() {
    let anvil = Anvil::builder().chain_id(31337).timestamp(1_700_000_000).spawn().await.unwrap();
    let client = RpcClient::new(anvil.url()).unwrap();
    assert_eq!(client.chain_id().await.unwrap(), 31337);
    assert_eq!(client.block_timestamp().await.unwrap(), 1_700_000_000);
    drop(anvil);
    assert!(client.chain_id().await.is_err());
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    let error = Anvil::builder().arg("--no-such-flag").spawn().await.unwrap_err().to_string();
    assert!(error.contains("--no-such-flag"), "{error}");
}

#[tokio::test]
async fn a_fork_sees_the_state_and_leaves_the_origin_alone() {
    let origin = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&origin).await.unwrap();
    chain.mint(chain.token, dev_address(2), units(5)).await.unwrap();
    let fork = Anvil::builder().fork_url(origin.url()).spawn().await.unwrap();
    assert_eq!(fork.client().chain_id().await.unwrap(), 84532);
    let balance = chain.on(&fork).balance_of(chain.token, dev_address(2)).await.unwrap();
    assert_eq!(balance, units(5));
    fork.mine(3).await.unwrap();
    assert_eq!(
        fork.client().block_number().await.unwrap(),
        origin.client().block_number().await.unwrap() + 3
    );
}

#[tokio::test]
async fn deployment_costs_no_other_account_a_nonce() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    chain.mint(chain.token, dev_address(2), units(1)).await.unwrap();
    for index in 0..DEPLOYER {
        assert_eq!(anvil.nonce(dev_address(index), true).await.unwrap(), 0);
    }
    assert_eq!(
        chain.code(MULTICALL3).await.unwrap(),
        contracts::artifact("Multicall3").unwrap().deployed_bytecode
    );
}

#[tokio::test]
async fn a_signed_payment_moves_the_money() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let payment = chain.payment().await.unwrap().amount(40).sign();
    chain.mint(chain.token, payment.payer(), units(100)).await.unwrap();
    let from_block = anvil.client().block_number().await.unwrap() + 1;

    assert!(!chain.authorization_state(chain.token, payment.payer(), payment.nonce()).await.unwrap());
    let receipt = chain.settle_elsewhere(&payment).await.unwrap();
    assert!(receipt.success);
    assert!(chain.authorization_state(chain.token, payment.payer(), payment.nonce()).await.unwrap());
    assert_eq!(chain.balance_of(chain.token, payment.recipient()).await.unwrap(), units(40));
    let transfers = chain.transfers(chain.token, from_block).await.unwrap();
    assert_eq!(transfers.len(), 1);
    let transfer = &transfers[0];
    assert_eq!(
        (transfer.from, transfer.to, transfer.value),
        (payment.payer(), payment.recipient(), units(40))
    );
    assert_eq!((transfer.transaction, transfer.block), (receipt.transaction, receipt.block));

    assert!(!chain.settle_elsewhere(&payment).await.unwrap().success, "a second transfer reverts");
}

#[tokio::test]
async fn the_token_refuses_what_a_facilitator_must() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let builder = chain.payment().await.unwrap().amount(1);
    chain.mint(chain.token, builder.sign().payer(), units(100)).await.unwrap();
    let now = anvil.client().block_timestamp().await.unwrap();
    for refused in [
        builder.sign().high_s_twin().unwrap(),
        builder.clone().payer(dev_signer(3)).sign(),
        builder.clone().valid_before(now).sign(),
        builder.clone().valid_after(now + 1000).sign(),
        builder.clone().domain("USD Coin", "2").sign(),
    ] {
        assert!(!chain.settle_elsewhere(&refused).await.unwrap().success, "{:#}", refused.body());
    }
    let canceled = builder.sign();
    assert!(chain.cancel_authorization(&canceled).await.unwrap().success);
    assert!(!chain.settle_elsewhere(&canceled).await.unwrap().success);
    assert!(chain.settle_elsewhere(&builder.sign()).await.unwrap().success);
}

#[tokio::test]
async fn a_lenient_token_takes_the_twin() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let token = chain.deploy_token("LenientToken").await.unwrap();
    let twin = chain.payment().await.unwrap().asset(token).amount(1).sign().high_s_twin().unwrap();
    chain.mint(token, twin.payer(), units(1)).await.unwrap();
    assert!(chain.settle_elsewhere(&twin).await.unwrap().success);
}

#[tokio::test]
async fn a_split_signature_token_takes_the_split_call() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let token = chain.deploy_token("VrsOnlyToken").await.unwrap();
    let payment = chain.payment().await.unwrap().asset(token).amount(1).sign();
    chain.mint(token, payment.payer(), units(1)).await.unwrap();
    let call = payment.transfer_call_vrs().unwrap();
    assert!(chain.send(dev_address(DEPLOYER), Some(token), call).await.unwrap().success);
}

#[tokio::test]
async fn contract_payers_pay() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let owner = dev_signer(4);

    let deployed = chain.deploy_wallet1271(owner.address()).await.unwrap();
    let salt = salt("contract_payers_pay");
    let counterfactual = chain.wallet_address(owner.address(), salt).await.unwrap();
    assert!(chain.code(counterfactual).await.unwrap().is_empty());
    let create = DevChain::wallet_calldata(owner.address(), salt);
    assert!(chain.send(dev_address(DEPLOYER), Some(chain.wallet_factory), create).await.unwrap().success);
    assert!(!chain.code(counterfactual).await.unwrap().is_empty());

    let delegate = chain.deploy_contract("Delegate7702", &[]).await.unwrap();
    chain.set_7702_code(owner.address(), delegate).await.unwrap();
    assert_eq!(chain.code(owner.address()).await.unwrap().len(), 23);

    for wallet in [deployed, counterfactual, owner.address()] {
        chain.mint(chain.token, wallet, units(1)).await.unwrap();
        let payment = chain.payment().await.unwrap().wallet(wallet, owner.clone()).amount(1).sign();
        assert_eq!(payment.payer(), wallet);
        assert!(chain.settle_elsewhere(&payment).await.unwrap().success, "{wallet}");
    }
}

#[tokio::test]
async fn every_contract_deploys() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let word = |address: Address| address.into_word().to_vec();
    for name in contracts::names() {
        let inputs = constructor_inputs(&contracts::artifact(name).unwrap().abi);
        let deployed = match inputs.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => chain.deploy_contract(name, &[]).await,
            ["address"] => chain.deploy_contract(name, &word(chain.token)).await,
            ["address", "address"] => {
                chain.deploy_contract(name, &[word(chain.token), word(dev_address(5))].concat()).await
            }
            ["string", "string", "string", "uint8"] => chain.deploy_token(name).await,
            // The lenses run as creation code of a call and are never deployed.
            _ if name == "Lens" || name == "RegistryLens" => continue,
            other => panic!("{name}: constructor {other:?}"),
        };
        assert!(!chain.code(deployed.unwrap()).await.unwrap().is_empty(), "{name}");
    }
    assert!(contracts::artifact("NoSuchThing").unwrap_err().to_string().contains("FiatToken"));
}

fn constructor_inputs(abi: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let constructor = list(abi).into_iter().find(|entry| entry["type"] == "constructor");
    let inputs = constructor.map(|entry| list(&entry["inputs"])).unwrap_or_default();
    inputs.iter().map(|input| input["type"].as_str().unwrap_or("?").to_owned()).collect()
}

#[tokio::test]
async fn the_pool_and_the_miner_obey() {
    let anvil = Anvil::builder().no_mining().spawn().await.unwrap();
    let transfer = |nonce: u64| {
        json!([{"from": dev_address(0), "to": dev_address(1), "value": "0x1", "gas": "0x5208",
            "maxFeePerGas": "0x4a817c800", "maxPriorityFeePerGas": "0x1", "nonce": format!("{nonce:#x}")}])
    };
    let first: B256 =
        serde_json::from_value(anvil.rpc("eth_sendTransaction", transfer(0)).await.unwrap()).unwrap();
    anvil.rpc("eth_sendTransaction", transfer(2)).await.unwrap();
    assert_eq!(anvil.txpool_status().await.unwrap(), TxPoolStatus { pending: 1, queued: 1 });
    assert!(anvil.txpool_content().await.unwrap()["pending"].is_object());
    assert!(anvil.drop_transaction(first).await.unwrap());
    assert!(!anvil.drop_transaction(first).await.unwrap());
    anvil.drop_all().await.unwrap();
    assert_eq!(anvil.txpool_status().await.unwrap(), TxPoolStatus { pending: 0, queued: 0 });

    anvil.rpc("eth_sendTransaction", transfer(0)).await.unwrap();
    anvil.set_next_block_base_fee(7_000_000_000).await.unwrap();
    let next = anvil.client().block_timestamp().await.unwrap() + 1000;
    anvil.set_next_block_timestamp(next).await.unwrap();
    anvil.mine(1).await.unwrap();
    let block = anvil.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    assert_eq!(block["baseFeePerGas"], json!(format!("{:#x}", 7_000_000_000_u64)));
    assert_eq!(anvil.client().block_timestamp().await.unwrap(), next);
    assert_eq!(anvil.nonce(dev_address(0), false).await.unwrap(), 1);

    anvil.increase_time(500).await.unwrap();
    anvil.mine(1).await.unwrap();
    assert!(anvil.client().block_timestamp().await.unwrap() >= next + 500);
    anvil.set_automine(true).await.unwrap();
    anvil.rpc("eth_sendTransaction", transfer(1)).await.unwrap();
    assert_eq!(anvil.nonce(dev_address(0), true).await.unwrap(), 2);
}

#[tokio::test]
async fn history_can_be_undone() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let account = dev_address(3);
    let snapshot = anvil.snapshot().await.unwrap();
    chain.mint(chain.token, account, units(1)).await.unwrap();
    anvil.revert(snapshot).await.unwrap();
    assert_eq!(chain.balance_of(chain.token, account).await.unwrap(), units(0));
    assert!(anvil.revert(snapshot).await.is_err());

    chain.mint(chain.token, account, units(2)).await.unwrap();
    let height = anvil.client().block_number().await.unwrap();
    anvil.reorg(1).await.unwrap();
    assert_eq!(anvil.client().block_number().await.unwrap(), height);
    assert_eq!(chain.balance_of(chain.token, account).await.unwrap(), units(0));

    chain.mint(chain.token, account, units(3)).await.unwrap();
    let height = anvil.client().block_number().await.unwrap();
    anvil.rollback(1).await.unwrap();
    assert_eq!(anvil.client().block_number().await.unwrap(), height - 1);
    assert_eq!(chain.balance_of(chain.token, account).await.unwrap(), units(0));
}

#[tokio::test]
async fn accounts_can_be_set_up() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let account = Address::repeat_byte(0xaa);
    anvil.set_balance(account, units(10).pow(units(18))).await.unwrap();
    anvil.set_nonce(account, 7).await.unwrap();
    anvil.impersonate(account).await.unwrap();
    let send = json!([{"from": account, "to": dev_address(1), "value": "0x1"}]);
    anvil.rpc("eth_sendTransaction", send.clone()).await.unwrap();
    assert_eq!(anvil.nonce(account, true).await.unwrap(), 8);
    anvil.stop_impersonating(account).await.unwrap();
    let error = anvil.rpc("eth_sendTransaction", send).await.unwrap_err();
    assert!(error.downcast_ref::<RpcError>().is_some());
}

#[tokio::test]
async fn a_chain_that_does_not_mine_by_itself_still_gets_its_contracts() {
    for builder in [Anvil::builder().no_mining(), Anvil::builder().block_time(1)] {
        let anvil = builder.spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        chain.mint(chain.token, dev_address(2), units(1)).await.unwrap();
        assert_eq!(chain.balance_of(chain.token, dev_address(2)).await.unwrap(), units(1));
    }
}
