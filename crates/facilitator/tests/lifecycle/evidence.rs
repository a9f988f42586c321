//! What is believed, and what is not: receipts, state and logs of nodes that fail, lag, or live on a block that is gone.

use crate::support::{Bench, RECEIPT, Reply, SEND, Setup, StoreKind, Told, USED};
use alloy_primitives::{Address, B256, Bloom, Bytes, U256, address, keccak256};
use alloy_sol_types::SolValue as _;
use quittance_testkit::{
    SignedPayment, dev_address, dev_signer,
    harness::{
        Fault, Rule,
        process::Wait,
        proxy::{Call, RuleId},
    },
    jsonrpc::{hex_quantity, quantity},
};
use serde_json::{Value, json};
use std::collections::HashSet;
use tokio::task::JoinHandle;

const GET_BLOCK: &str = "eth_getBlockByNumber";
const FALSE: B256 = B256::ZERO;

/// Whether a call asks a token for the state of an authorization.
fn asks_for_state(call: &Call) -> bool {
    call.method == "eth_call"
        && call.params[0]["data"].as_str().is_some_and(|data| data.starts_with("0xe94a0102"))
}

/// From now on the state of authorizations is read from a node that is one block behind: its latest block does not know what has
/// happened, and it has no younger one.
fn one_block_behind(bench: &Bench) -> [RuleId; 2] {
    let latest = |call: &Call| asks_for_state(call) && call.params[1] == "latest";
    let younger = |call: &Call| asks_for_state(call) && call.params[1] != "latest";
    [
        bench.proxy.add(Rule::any().when(latest).then(Fault::Answer(json!(FALSE)))),
        bench.proxy.add(Rule::any().when(younger).then(Fault::error(-32000, "header not found"))),
    ]
}

/// The payment is settled by somebody else's transaction while ours is on its way to the node. Returns the other transaction and
/// the call that waits; ours is in the pool.
async fn overtaken(bench: &Bench, payment: &SignedPayment) -> (B256, JoinHandle<Option<Reply>>) {
    bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Hang));
    let call = bench.settling(payment);
    bench.proxy.wait_for(SEND, 1).await.unwrap();
    let theirs = bench.chain.settle_elsewhere(payment).await.unwrap();
    assert!(theirs.success);
    bench.proxy.release();
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    (theirs.transaction, call)
}

/// Whatever nodes said, it ends as what it was: executed once, by somebody else, and ours is the only transaction we signed.
async fn assert_settled_elsewhere(
    bench: &Bench,
    payment: &SignedPayment,
    theirs: B256,
    call: JoinHandle<Option<Reply>>,
) {
    assert_eq!(call.await.unwrap().unwrap().told(), Told::no(USED, theirs));
    let row = bench.row(payment).await;
    assert_eq!(
        (&row["status"], &row["transaction"]),
        (&"settled_elsewhere".into(), &theirs.to_string().into())
    );
    assert_eq!(bench.transfers().await.len(), 1);
    assert_eq!(bench.sent().into_iter().collect::<HashSet<_>>().len(), 1, "signed twice");
}

on_sqlite! {
    /// A preferred endpoint that answers errors is no reason to wait for it.
    async fn receipts_refused_by_the_preferred_endpoint(store) {
        let bench = Setup::new(store).second_endpoint().block_time(1).start().await;
        bench.proxy.add(Rule::on(RECEIPT).then(Fault::error(-32603, "internal error")));
        let payments = bench.payments(5).await;
        for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
            reply.success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!(bench.mined().await, 5);
    }

    /// Of several receipts, some cannot be read at one endpoint, another at the other: together they know all.
    async fn receipts_refused_by_turns(store) {
        let bench = Setup::new(store).second_endpoint().no_mining().start().await;
        let payments = bench.payments(4).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_answered(SEND, 4).await.unwrap();
        let sent = bench.sent();
        let refuse = |hash: B256| {
            Rule::on(RECEIPT).when(move |call| call.params[0] == json!(hash)).then(Fault::error(-32603, "internal error"))
        };
        bench.proxy.add(refuse(sent[0]));
        bench.proxy.add(refuse(sent[1]));
        bench.second_proxy.as_ref().unwrap().add(refuse(sent[2]));
        bench.anvil.mine(1).await.unwrap();
        for (call, payment) in calls.into_iter().zip(&payments) {
            call.await.unwrap().unwrap().success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
    }

    /// The only node takes no batches.
    async fn a_node_without_batches(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        bench.proxy.add(Rule::any().when(|call| call.batch).then(Fault::HttpStatus(400)));
        let payments = bench.payments(5).await;
        for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
            reply.success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
    }

    /// Ours reverts, because somebody else's was faster; the node that is asked about the authorization has not heard of it.
    async fn state_from_a_node_one_block_behind(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let (theirs, call) = overtaken(&bench, &payment).await;
        let [old, new] = one_block_behind(&bench);
        bench.anvil.mine(1).await.unwrap();
        bench.until_hits(&[old, new], 3).await;
        assert_eq!(bench.row(&payment).await["status"], "signed");
        bench.proxy.remove(old);
        bench.proxy.remove(new);
        assert_settled_elsewhere(&bench, &payment, theirs, call).await;
    }

    /// The same, where the node's latest block is old as well: what it says of that block is true, and of no use.
    async fn head_from_a_node_one_block_behind(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let before = bench.anvil.rpc(GET_BLOCK, json!(["latest", false])).await.unwrap();
        let (theirs, call) = overtaken(&bench, &payment).await;
        let stale = bench.proxy.add(
            Rule::on(GET_BLOCK).when(|call| call.params[0] == "latest").then(Fault::Answer(before)),
        );
        let states = one_block_behind(&bench);
        bench.anvil.mine(1).await.unwrap();
        bench.until_hits(&[stale, states[0]], 3).await;
        assert_eq!(bench.row(&payment).await["status"], "signed");
        bench.proxy.clear();
        assert_settled_elsewhere(&bench, &payment, theirs, call).await;
    }

    /// One URL with a node behind it that is some blocks late: nobody is judged by it while another one answers, and asking costs
    /// nothing where all agree. When it is all there is, the chain may have gone back.
    async fn facts_from_a_node_some_blocks_behind(store) {
        let bench = Setup::new(store).start().await;
        let before = bench.chain.client().block_number().await.unwrap();
        let payer = dev_signer(3);
        bench.chain.mint(bench.chain.token, payer.address(), U256::from(1_000_000)).await.unwrap();
        bench.anvil.mine(3).await.unwrap();
        let builder = bench.builder().await.payer(payer).valid_after(0_u64);
        let asked = |payment: SignedPayment| {
            bench.proxy.reset_records();
            let bench = &bench;
            async move { (bench.verify(&payment).await, bench.proxy.count("eth_call")) }
        };
        let (reply, calls) = asked(builder.clone().sign()).await;
        reply.valid();
        assert_eq!(calls, 1);
        let late = || {
            let at_an_old_block = move |mut params: Value| {
                params[1] = json!(hex_quantity(before));
                params
            };
            Rule::on("eth_call").then(Fault::rewrite_params(at_an_old_block))
        };
        bench.proxy.add(late().times(2));
        let (reply, calls) = asked(builder.clone().sign()).await;
        reply.valid();
        assert_eq!(calls, 3);
        bench.proxy.add(late());
        for expected in [3, 1] {
            let (reply, calls) = asked(builder.clone().sign()).await;
            assert_eq!((reply.invalid(), calls), ("invalid_exact_evm_insufficient_balance", expected));
        }
        bench.proxy.clear();
        let (reply, calls) = asked(builder.sign()).await;
        reply.valid();
        assert_eq!(calls, 1);
    }

    /// A node that says "unused" of every block: the log knows better.
    async fn state_that_is_wrong_for_ever(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let (theirs, call) = overtaken(&bench, &payment).await;
        bench.proxy.add(Rule::any().when(asks_for_state).then(Fault::Answer(json!(FALSE))));
        bench.anvil.mine(1).await.unwrap();
        assert_settled_elsewhere(&bench, &payment, theirs, call).await;
    }

    /// Our nonce is taken, the payment settled by somebody else, and the node asked has not heard of it: nothing is signed again.
    async fn no_second_transaction_on_stale_state(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
        bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
        let [old, new] = one_block_behind(&bench);
        bench.anvil.set_interval_mining(1).await.unwrap();
        bench.until_hits(&[old, new], 3).await;
        assert_eq!(bench.row(&payment).await["status"], "signed");
        bench.proxy.remove(old);
        bench.proxy.remove(new);
        assert_settled_elsewhere(&bench, &payment, theirs.transaction, call).await;
    }

    /// Our nonce is taken for good; the payer cancels, not at depth yet; then that block is gone, and the payment goes on.
    async fn canceled_in_a_block_that_goes_away(store) {
        let bench = Setup::new(store).no_mining().confirmations(3).start().await;
        let payment = bench.payment().await;
        let swallowing = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
        assert!(bench.chain.cancel_authorization(&payment).await.unwrap().success);
        bench.anvil.mine(1).await.unwrap();
        bench.proxy.wait_answered("eth_getLogs", 2).await.unwrap();
        assert_eq!(bench.row(&payment).await["status"], "signed");
        bench.proxy.remove(swallowing);
        bench.anvil.reorg(2).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        let hash = call.await.unwrap().unwrap().success_of(&payment);
        bench.assert_paid_once(std::slice::from_ref(&payment)).await;
        assert_eq!(bench.row(&payment).await["transaction"], hash.to_string());
        assert_eq!(bench.mined().await, 2, "the foreign one and ours");
    }

    /// The same, at depth: canceled is canceled.
    async fn canceled_at_depth(store) {
        let bench = Setup::new(store).no_mining().confirmations(3).start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
        let canceled = bench.chain.cancel_authorization(&payment).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().told(), Told::no(USED, canceled.transaction));
        assert_eq!(bench.row(&payment).await["status"], "failed");
        bench.assert_nothing_moved().await;
    }

    /// The second endpoint still has the receipt of a block that the first one has seen go.
    async fn receipt_of_an_orphaned_block_at_the_other_endpoint(store) {
        let bench = Setup::new(store).second_endpoint().no_mining().start().await;
        let second = bench.second_proxy.as_ref().unwrap();
        let payment = bench.payment().await;
        let hidden = [&bench.proxy, second].map(|proxy| proxy.add(Rule::on(RECEIPT).then(Fault::Answer(Value::Null))));
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let hash = bench.sent()[0];
        let orphaned = bench.anvil.rpc(RECEIPT, json!([hash])).await.unwrap();
        assert_eq!(orphaned["status"], "0x1");
        bench.anvil.reorg(1).await.unwrap();
        let believed = second.add(Rule::on(RECEIPT).then(Fault::Answer(orphaned)));
        second.remove(hidden[1]);
        bench.proxy.remove(hidden[0]);
        // Sent again: nobody believes it. To both, since the other endpoint may be right.
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        assert!(second.hits(believed) > 0);
        assert_eq!(bench.row(&payment).await["status"], "signed");
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().success_of(&payment), hash);
        bench.assert_one_transaction_paid(&payment, hash).await;
        let block = bench.transfers().await[0].block;
        assert_eq!(bench.row(&payment).await["blockNumber"], block.to_string());
    }

    /// The only node keeps the receipt of a block that is gone, while the chain grows over its place.
    async fn receipt_of_an_orphaned_block_at_depth(store) {
        let bench = Setup::new(store).no_mining().confirmations(3).start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "mined").await;
        let hash = bench.sent()[0];
        let orphaned = bench.anvil.rpc(RECEIPT, json!([hash])).await.unwrap();
        let kept = bench.proxy.add(Rule::on(RECEIPT).then(Fault::Answer(orphaned)));
        bench.anvil.reorg(1).await.unwrap();
        bench.anvil.mine(3).await.unwrap();
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        assert_eq!(bench.row(&payment).await["status"], "signed");
        bench.assert_nothing_moved().await;
        bench.proxy.remove(kept);
        bench.anvil.set_interval_mining(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().success_of(&payment), hash);
        bench.assert_one_transaction_paid(&payment, hash).await;
        let block = bench.transfers().await[0].block;
        assert_eq!(bench.row(&payment).await["blockNumber"], block.to_string());
    }

    /// A node that takes no block hashes (EIP-1898) is asked by number, and its word still counts.
    async fn a_node_that_takes_no_hashes(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let (theirs, call) = overtaken(&bench, &payment).await;
        let by_hash = |call: &Call| call.params[1].is_object();
        bench.proxy.add(Rule::any().when(by_hash).then(Fault::error(-32602, "invalid argument 1")));
        bench.anvil.mine(1).await.unwrap();
        assert_settled_elsewhere(&bench, &payment, theirs, call).await;
    }

    /// Prices that the preferred endpoint does not tell are asked of the next; they are not zero.
    async fn prices_refused_by_the_preferred_endpoint(store) {
        let mut bench = Setup::new(store).second_endpoint().start().await;
        let payment = bench.payment().await;
        let limited = Fault::error(-32005, "request rate limited");
        bench.proxy.add(Rule::on("eth_maxPriorityFeePerGas").then(limited));
        bench.crash_and_restart().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(tip_of(&bench, hash).await, market_tip(&bench).await);
    }

    /// Prices that nobody tells, of which nothing is known: no offer is made on a guess.
    async fn prices_refused_by_everybody(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        for (method, asks) in [("eth_maxPriorityFeePerGas", None), ("eth_call", Some(ORACLE))] {
            let limited = bench.proxy.add(
                Rule::on(method)
                    .when(move |call| asks.is_none_or(|asked| call.params[0]["to"] == json!(asked)))
                    .then(Fault::error(-32005, "request rate limited")),
            );
            // Not ready: without prices nobody knows whether the lane can pay.
            bench.server.restart(Wait::Healthy).await.unwrap();
            assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable, "{method}");
            assert!(bench.sent().is_empty());
            bench.proxy.remove(limited);
        }
        // There is an L1 fee, and its oracle knows neither question: not the same as a chain without one.
        let reverting = [0x60, 0x00, 0x60, 0x00, 0xfd].into();
        bench.anvil.set_code(ORACLE, &reverting).await.unwrap();
        bench.server.restart(Wait::Healthy).await.unwrap();
        assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable);
        assert!(bench.sent().is_empty());
        bench.anvil.set_code(ORACLE, &Bytes::new()).await.unwrap();
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(tip_of(&bench, hash).await, market_tip(&bench).await);
    }

    /// A chain whose nodes know no tip takes transactions without one.
    async fn no_such_method_is_no_tip(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let unknown = "the method eth_maxPriorityFeePerGas does not exist/is not available";
        bench.proxy.add(Rule::on("eth_maxPriorityFeePerGas").then(Fault::error(-32601, unknown)));
        bench.crash_and_restart().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(tip_of(&bench, hash).await, 0);
    }
}

/// Where chains of the OP stack keep the oracle of their L1 fee.
const ORACLE: alloy_primitives::Address = address!("420000000000000000000000000000000000000F");

async fn tip_of(bench: &Bench, hash: B256) -> u64 {
    let transaction = bench.anvil.rpc("eth_getTransactionByHash", json!([hash])).await.unwrap();
    quantity(&transaction["maxPriorityFeePerGas"]).unwrap()
}

async fn market_tip(bench: &Bench) -> u64 {
    quantity(&bench.anvil.rpc("eth_maxPriorityFeePerGas", json!([])).await.unwrap()).unwrap()
}

/// Answers receipts without their logs, with the bloom filter of those logs or without one.
fn cut_receipts(keeps_bloom: bool) -> Rule {
    Rule::on(RECEIPT).then(Fault::rewrite(move |mut receipt| {
        if receipt.is_object() {
            receipt["logs"] = json!([]);
            if !keeps_bloom {
                receipt["logsBloom"] = json!(Bloom::ZERO);
            }
        }
        receipt
    }))
}

/// Answers receipts with logs that another transaction, or another block, has left.
fn mixed_up_receipts(field: &'static str) -> Rule {
    Rule::on(RECEIPT).then(Fault::rewrite(move |mut receipt| {
        if let Some(logs) = receipt["logs"].as_array_mut() {
            logs.iter_mut().for_each(|log| log[field] = json!(B256::ZERO));
        }
        receipt
    }))
}

/// One call of Multicall3 that makes all of these.
fn batch(calls: &[(Address, Bytes)]) -> Bytes {
    let calls: Vec<_> = calls.iter().map(|(to, data)| (*to, false, data.clone())).collect();
    let selector = &keccak256("aggregate3((address,bool,bytes)[])")[..4];
    [selector, &(calls,).abi_encode_params()].concat().into()
}

/// Two payments that are promised, of which this transaction pays the second and uses the first one's nonce for less.
async fn one_of_two_paid_by(bench: &Bench, sender: Address) -> (SignedPayment, SignedPayment, B256) {
    let (unpaid, paid) = (bench.payment().await, bench.payment().await);
    bench.verify(&unpaid).await.valid();
    bench.verify(&paid).await.valid();
    let token = bench.chain.token;
    let spoilt = bench.builder().await.nonce(unpaid.nonce()).pay_to(unpaid.payer()).amount(1).sign();
    let calls = [(token, spoilt.transfer_call()), (token, paid.transfer_call())];
    let sent = bench.chain.send(sender, Some(bench.chain.multicall3), batch(&calls)).await.unwrap();
    assert!(sent.success);
    assert_eq!(bench.chain.balance_of(token, paid.recipient()).await.unwrap(), paid.value());
    (unpaid, paid, sent.transaction)
}

on_both_stores! {
    /// The money has moved, and the node shows a receipt that does not say so: that is no proof that it has not.
    async fn a_receipt_that_has_lost_its_logs(store) {
        let bench = Setup::new(store).start().await;
        let mut paid = Vec::new();
        let rules = [cut_receipts(true), cut_receipts(false), mixed_up_receipts("transactionHash"), mixed_up_receipts("blockHash")];
        for rule in rules {
            let rule = bench.proxy.add(rule);
            let payment = bench.payment().await;
            let call = bench.settling(&payment);
            bench.until_hits(&[rule], 3).await;
            assert_eq!(bench.row(&payment).await["status"], "signed");
            bench.proxy.remove(rule);
            call.await.unwrap().unwrap().success_of(&payment);
            assert_eq!(bench.row(&payment).await["status"], "settled");
            paid.push(payment);
        }
        bench.assert_paid_once(&paid).await;
        assert_eq!(bench.mined().await, 4, "nothing was signed twice");
    }

    /// The preferred endpoint has lost the logs for ever, the other one has them.
    async fn a_receipt_that_one_endpoint_has_whole(store) {
        let bench = Setup::new(store).second_endpoint().confirmations(2).block_time(1).start().await;
        let cut = bench.proxy.add(cut_receipts(false));
        let payment = bench.payment().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert!(bench.proxy.hits(cut) > 0);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Two promises to the same payee of the same amount; the payer executes one of them, and uses the other's nonce for nothing, in
    /// one transaction. It has paid once.
    async fn one_transfer_pays_one_of_two_promises(store) {
        let bench = Setup::new(store).start().await;
        let (unpaid, paid, hash) = one_of_two_paid_by(&bench, dev_address(9)).await;
        for (payment, status) in [(&unpaid, "refused"), (&paid, "settled_elsewhere")] {
            assert_eq!(bench.settle(payment).await.told(), Told::no(USED, hash));
            let row = bench.row(payment).await;
            assert_eq!((&row["status"], &row["transaction"]), (&status.into(), &hash.to_string().into()));
        }
        assert!(bench.sent().is_empty());
    }

    /// The same in a transaction of our signer, as where it deploys a wallet that does this: that it is ours makes it no payment of both.
    async fn one_transfer_of_ours_pays_one_of_two_promises(store) {
        let bench = Setup::new(store).start().await;
        let (unpaid, paid, hash) = one_of_two_paid_by(&bench, bench.signers[0]).await;
        assert_eq!(bench.settle(&unpaid).await.told(), Told::no(USED, hash));
        assert_eq!(bench.row(&unpaid).await["status"], "refused");
        assert_eq!(bench.settle(&paid).await.success_of(&paid), hash);
        assert_eq!(bench.settle(&unpaid).await.told(), Told::no(USED, ""));
        assert!(bench.sent().is_empty());
    }

    /// The store has lost its last commits, and a transaction of our signer with them. It is ours all the same.
    async fn a_transaction_of_ours_that_the_store_has_forgotten(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let ours = bench.chain.send(bench.signers[0], Some(payment.asset()), payment.transfer_call()).await.unwrap();
        assert!(ours.success);
        assert_eq!(bench.settle(&payment).await.success_of(&payment), ours.transaction);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(ours.transaction));
        bench.assert_one_transaction_paid(&payment, ours.transaction).await;
        let next = bench.payment().await;
        bench.settle(&next).await.success_of(&next);
        bench.assert_paid_once(&[payment, next]).await;
    }
}
