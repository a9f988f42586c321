//! Two nodes of one chain, of which the preferred one stays behind for long, and catches up in the end.

use crate::support::{Bench, DEADLINE, RECEIPT, SEND, Setup, StoreKind, Told, USED, unix_now, until};
use quittance_testkit::{
    Anvil, Facilitator, SignedPayment, dev_signer,
    harness::{Fault, Rule, process::Wait},
};
use std::time::Duration;

const AN_HOUR: u64 = 3600;
const HEADER: &str = "eth_getBlockByNumber";

/// A chain that is an hour behind, so that it can be brought to the present while a copy of it stays there.
fn an_hour_ago(store: StoreKind) -> Setup {
    Setup::new(store).second_endpoint().started_ago(AN_HOUR)
}

/// A node that knows what the bench's node knows now, and learns nothing more.
async fn copy(bench: &Bench) -> Anvil {
    let copy = Anvil::builder().timestamp(unix_now() - AN_HOUR).no_mining().spawn().await.unwrap();
    copy.load_state(bench.anvil.dump_state().await.unwrap()).await.unwrap();
    copy
}

async fn goes_on_to_the_present(bench: &Bench) {
    bench.anvil.set_next_block_timestamp(unix_now()).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
}

/// Valid in the past as well as now: the stale node's own time has nothing against it.
async fn payment(bench: &Bench, payer: usize, amount: u64) -> SignedPayment {
    bench.builder().await.payer(dev_signer(payer)).amount(amount).valid_after(0_u64).sign()
}

async fn lag_seconds(bench: &Bench, endpoint: usize) -> f64 {
    let operator = Facilitator::new(bench.server.operator_url()).unwrap();
    let metrics = operator.get("/metrics").await.unwrap().text;
    let labels = format!(r#"network="eip155:84532",use="payments",endpoint="{endpoint}""#);
    let name = format!("quittance_rpc_endpoint_lag_seconds{{{labels}}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

/// Verifies new payments until the first endpoint is asked for facts again.
async fn until_the_first_is_asked(bench: &Bench) {
    bench.proxy.reset_records();
    until("the first endpoint is asked", DEADLINE, || async {
        bench.verify(&payment(bench, 4, 1).await).await.valid();
        (bench.proxy.count_answered("eth_call") > 0).then_some(())
    })
    .await;
}

on_both_stores! {
    /// The server has never seen the preferred node any other way.
    async fn stale_from_the_start(store) {
        let mut bench = an_hour_ago(store).start().await;
        let behind = copy(&bench).await;
        goes_on_to_the_present(&bench).await;
        // Since then one authorization was used, and one payer has spent everything.
        let used = payment(&bench, 5, 10_000).await;
        let everything = bench.chain.balance_of(bench.chain.token, dev_signer(6).address()).await.unwrap();
        let spent = payment(&bench, 6, u64::try_from(everything).unwrap()).await;
        for payment in [&used, &spent] {
            assert!(bench.chain.settle_elsewhere(payment).await.unwrap().success);
        }
        let poor = payment(&bench, 6, 10_000).await;
        let at_the_copy = bench.chain.on(&behind);
        assert!(!at_the_copy.authorization_state(used.asset(), used.payer(), used.nonce()).await.unwrap());
        assert_eq!(at_the_copy.balance_of(poor.asset(), poor.payer()).await.unwrap(), everything);

        bench.proxy.set_upstream(behind.url());
        bench.server.restart(Wait::Ready).await.unwrap();
        for (payment, code) in [
            (&used, USED),
            (&poor, "invalid_exact_evm_insufficient_balance"),
        ] {
            let verified = bench.verify(payment).await;
            assert_eq!((verified.status, verified.json["invalidReason"].as_str()), (200, Some(code)));
            assert!(matches!(bench.settle(payment).await.told(), Told::No(reason, _) if reason == code));
        }
        let started_at = bench.anvil.client().block_number().await.unwrap();
        bench.started_at = started_at;
        let good = payment(&bench, 4, 10_000).await;
        bench.verify(&good).await.valid();
        let hash = bench.settle(&good).await.success_of(&good);
        bench.assert_one_transaction_paid(&good, hash).await;
        assert_eq!(bench.proxy.count(SEND), 0, "the bytes went to the node that keeps up");
        let lag = lag_seconds(&bench, 0).await;
        assert!((3_500.0..3_700.0).contains(&lag), "{lag}");
        assert!(lag_seconds(&bench, 1).await < 1.0);

        behind.load_state(bench.anvil.dump_state().await.unwrap()).await.unwrap();
        until_the_first_is_asked(&bench).await;
        assert!(lag_seconds(&bench, 0).await < 30.0);
    }

    /// Behind the preferred URL there is suddenly another node, with settlements in every state.
    async fn stale_in_the_middle_of_traffic(store) {
        let bench = an_hour_ago(store).signers(2).block_time(1).start().await;
        let behind = copy(&bench).await;
        goes_on_to_the_present(&bench).await;
        let payments = bench.payments(40).await;
        let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
        bench.proxy.wait_for(SEND, 10).await.unwrap();
        bench.proxy.set_upstream(behind.url());
        let mut hashes = Vec::new();
        for caller in callers {
            hashes.push(caller.await.unwrap());
        }
        // A second settle of each, and what only the copy would take for unused.
        for (payment, hash) in payments.iter().zip(hashes) {
            assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
        }
        let elsewhere = payment(&bench, 5, 10_000).await;
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (40, 40));
        assert!(bench.chain.settle_elsewhere(&elsewhere).await.unwrap().success);
        assert!(matches!(bench.settle(&elsewhere).await.told(), Told::No(code, _) if code.contains("nonce_already_used")));

        bench.proxy.set_upstream(bench.anvil.url());
        until_the_first_is_asked(&bench).await;
        bench.proxy.reset_records();
        let last = payment(&bench, 4, 10_000).await;
        bench.settle(&last).await.success_of(&last);
        assert_eq!(bench.proxy.count(SEND), 1, "the first is preferred again");
    }

    /// While the node that keeps up is away, the stale one is not believed in its place; with it, everything goes on.
    async fn the_only_one_left_is_stale(store) {
        let bench = an_hour_ago(store).start().await;
        let behind = copy(&bench).await;
        goes_on_to_the_present(&bench).await;
        let signed = payment(&bench, 4, 10_000).await;
        // Sent, and the answer never seen.
        let hidden = bench.proxy.add(Rule::on(RECEIPT).then(Fault::Answer(serde_json::Value::Null)));
        let second = bench.second_proxy.as_ref().unwrap();
        second.wait_answered(HEADER, 1).await.unwrap();
        second.down(true);
        let caller = bench.insisting(&signed);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.proxy.set_upstream(behind.url());
        bench.proxy.remove(hidden);
        let used = payment(&bench, 5, 10_000).await;
        assert!(bench.chain.settle_elsewhere(&used).await.unwrap().success);
        for _ in 0..5 {
            let reply = bench.verify(&used).await;
            assert_eq!((reply.status, reply.json["isValid"].as_bool()), (503, Some(false)), "{reply:?}");
        }
        second.down(false);
        let hash = caller.await.unwrap();
        assert_eq!(bench.settle(&signed).await.told(), Told::Duplicate(hash));
        let reply = bench.verify(&used).await;
        assert_eq!(reply.json["invalidReason"], USED);
        assert_eq!(bench.mined().await, 1);
    }
}

/// Longer than what was seen of an endpoint's latest block counts for.
const QUIET: Duration = Duration::from_secs(6);

/// The preferred node fell behind while nobody asked. The first who asks again is not judged by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_after_a_quiet_while() {
    let bench = an_hour_ago(StoreKind::Sqlite).start().await;
    let behind = copy(&bench).await;
    goes_on_to_the_present(&bench).await;
    let used = payment(&bench, 5, 10_000).await;
    assert!(bench.chain.settle_elsewhere(&used).await.unwrap().success);
    bench.proxy.set_upstream(behind.url());
    tokio::time::sleep(QUIET).await;
    bench.proxy.reset_records();
    let reply = bench.verify(&used).await;
    assert_eq!(reply.json["invalidReason"], USED, "{reply:?}");
    assert!(bench.proxy.count_answered("eth_call") > 0, "the preferred one was asked, and not believed");
}
