//! Which of several endpoints is asked, and when one is left alone.

use crate::support::{Bench, DEADLINE, RECEIPT, Reply, SEND, Setup, StoreKind, unix_now, until};
use quittance_testkit::{
    Anvil, Facilitator,
    harness::{Fault, RpcProxy, Rule},
};
use std::time::Duration;
use tokio::time::Instant;

/// What `/verify` takes when nobody is waited for: needs no more than parsing.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Less than any wait for an endpoint.
const NO_WAIT: Duration = Duration::from_secs(4);
/// How long a call waits.
const CALL: Duration = Duration::from_secs(5);

async fn start() -> Bench {
    Setup::new(StoreKind::Sqlite).second_endpoint().start().await
}

fn second(bench: &Bench) -> &RpcProxy {
    bench.second_proxy.as_ref().unwrap()
}

async fn verify_new(bench: &Bench) -> (Reply, Duration) {
    let payment = bench.payment().await;
    #[allow(clippy::disallowed_methods, reason = "how long an answer took")]
    let started = Instant::now();
    (bench.verify(&payment).await, started.elapsed())
}

/// So many calls at once that wait for an endpoint that does not answer.
async fn wait_in_vain(bench: &Bench) {
    let calls = tokio::join!(verify_new(bench), verify_new(bench), verify_new(bench));
    for (_, took) in [calls.0, calls.1, calls.2] {
        assert!(took >= CALL, "{took:?}");
    }
}

async fn is_up(bench: &Bench, endpoint: usize) -> bool {
    let operator = Facilitator::new(bench.server.operator_url()).unwrap();
    let metrics = operator.get("/metrics").await.unwrap().text;
    let labels = format!(r#"network="eip155:84532",use="payments",endpoint="{endpoint}""#);
    let name = format!("quittance_rpc_endpoint_up{{{labels}}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("{metrics}")) == "1"
}

/// However long it lasts, no payment waits to find out whether the node is back; and it is noticed without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resting_one_costs_no_payment_anything() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    verify_new(&bench).await.0.valid();
    assert!(is_up(&bench, 0).await);
    let hanging = bench.proxy.add(Rule::any().then(Fault::Hang));
    wait_in_vain(&bench).await;
    assert!(!is_up(&bench, 0).await);
    let (asked, probed) = (bench.proxy.count("eth_call"), bench.proxy.count("eth_chainId"));
    let mut fastest = CALL;
    // Longer than it takes a probe to wait in vain, and for the next one to begin.
    while bench.proxy.count("eth_chainId") < probed + 2 {
        let (reply, took) = verify_new(&bench).await;
        assert_eq!(
            (reply.status, reply.json["invalidReason"].as_str()),
            (503, Some("unexpected_verify_error"))
        );
        assert!(took < NO_WAIT, "{took:?}");
        fastest = fastest.min(took);
    }
    assert!(fastest < AT_ONCE, "{fastest:?}");
    assert_eq!(bench.proxy.count("eth_call"), asked, "nobody was asked");
    bench.proxy.remove(hanging);
    // Nobody pays for finding out.
    bench.proxy.wait_answered("eth_getBlockByNumber", 1).await.unwrap();
    until("it is up again", DEADLINE, || async { is_up(&bench, 0).await.then_some(()) }).await;
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_one_transaction_paid(&payment, hash).await;
    let probes = bench.proxy.count("eth_chainId");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bench.proxy.count("eth_chainId"), probes, "it is not probed any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_takes_over_at_once_while_one_rests() {
    let bench = start().await;
    let hanging = bench.proxy.add(Rule::any().then(Fault::Hang));
    wait_in_vain(&bench).await;
    let asked = bench.proxy.count("eth_call");
    for _ in 0..5 {
        let (reply, took) = verify_new(&bench).await;
        reply.valid();
        assert!(took < NO_WAIT, "{took:?}");
    }
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    assert_eq!((bench.proxy.count("eth_call"), bench.proxy.count(SEND)), (asked, 0));
    bench.proxy.remove(hanging);
    until("the first is asked again", DEADLINE, || async {
        let (reply, took) = verify_new(&bench).await;
        reply.valid();
        assert!(took < NO_WAIT, "{took:?}");
        (bench.proxy.count("eth_call") > asked).then_some(())
    })
    .await;
}

/// Failing costs a round trip and no wait: not every call pays it, and it stays the last resort.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_fails_fast_is_asked_last() {
    let bench = start().await;
    let failing = bench.proxy.add(Rule::any().then(Fault::HttpStatus(502)));
    for _ in 0..3 {
        verify_new(&bench).await.0.valid();
    }
    let asked = bench.proxy.count("eth_call");
    for _ in 0..5 {
        verify_new(&bench).await.0.valid();
    }
    assert_eq!(bench.proxy.count("eth_call"), asked);
    assert!(!is_up(&bench, 0).await);
    second(&bench).down(true);
    bench.proxy.remove(failing);
    verify_new(&bench).await.0.valid();
    second(&bench).down(false);
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    assert_eq!(bench.proxy.count(SEND), 1, "the first is preferred again");
}

/// Where there is one, it works the moment it is back, however often it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_one_never_rests_for_failing() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    bench.proxy.down(true);
    for _ in 0..20 {
        assert_eq!(verify_new(&bench).await.0.status, 503);
    }
    bench.proxy.down(false);
    verify_new(&bench).await.0.valid();
}

/// An endpoint that is gone for good does not keep the other from seeing payments through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_gone_holds_nothing_up() {
    for gone_is_first in [true, false] {
        let bench = Setup::new(StoreKind::Sqlite).second_endpoint().no_mining().start().await;
        let (gone, there) =
            if gone_is_first { (&bench.proxy, second(&bench)) } else { (second(&bench), &bench.proxy) };
        gone.down(true);
        let payment = bench.payment().await;
        let caller = bench.insisting(&payment);
        there.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.drop_all().await.unwrap();
        // Without anybody's help it is sent again.
        there.wait_answered(SEND, 2).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let hash = caller.await.unwrap();
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

/// Longer than every interval at which anything is looked at.
const QUIET: Duration = Duration::from_secs(7);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_with_two_asks_neither() {
    let bench = Setup::new(StoreKind::Sqlite)
        .second_endpoint()
        .set("settle.reorg_watch_seconds", 0.into())
        .start()
        .await;
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    let looked = |proxy: &RpcProxy| proxy.count("eth_getBlockByNumber");
    assert!(looked(second(&bench)) > 0, "while there is traffic, the other one is looked at");
    assert_eq!(second(&bench).count("eth_call") + second(&bench).count(RECEIPT), 0);
    // A look may be under way.
    until("quiet", DEADLINE, || async {
        let before = second(&bench).http_requests() + bench.proxy.http_requests();
        tokio::time::sleep(Duration::from_secs(1)).await;
        (before == second(&bench).http_requests() + bench.proxy.http_requests()).then_some(())
    })
    .await;
    bench.proxy.reset_records();
    second(&bench).reset_records();
    tokio::time::sleep(QUIET).await;
    assert_eq!((bench.proxy.calls(), second(&bench).calls()), (vec![], vec![]));
}

/// All nodes of a chain that stands still are equally old: nobody is late, and the first stays preferred.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_that_stands_still_makes_nobody_late() {
    let bench = Setup::new(StoreKind::Sqlite).second_endpoint().started_ago(3600).start().await;
    let verify = async || {
        let payment = bench.builder().await.now(unix_now()).valid_after(0_u64).sign();
        bench.verify(&payment).await.valid();
    };
    for _ in 0..3 {
        verify().await;
    }
    second(&bench).wait_answered("eth_getBlockByNumber", 1).await.unwrap();
    let asked = bench.proxy.count("eth_call");
    verify().await;
    assert_eq!((bench.proxy.count("eth_call"), second(&bench).count("eth_call")), (asked + 1, 0));
}

/// A node that is wrong about the time makes nobody late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_from_the_future_puts_nobody_out() {
    let bench = start().await;
    let future = Anvil::builder().spawn().await.unwrap();
    future.load_state(bench.anvil.dump_state().await.unwrap()).await.unwrap();
    future.increase_time(864_000).await.unwrap();
    future.mine(1).await.unwrap();
    second(&bench).set_upstream(future.url());
    second(&bench).reset_records();
    bench.proxy.reset_records();
    until("the other one is looked at", DEADLINE, || async {
        verify_new(&bench).await.0.valid();
        (second(&bench).count_answered("eth_getBlockByNumber") > 0).then_some(())
    })
    .await;
    let asked = bench.proxy.count("eth_call");
    verify_new(&bench).await.0.valid();
    assert_eq!((bench.proxy.count("eth_call"), second(&bench).count("eth_call")), (asked + 1, 0));
}

/// A URL that leads to another chain is not asked; what its blocks say of time is nothing to this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_chain_is_passed_over() {
    let bench = start().await;
    let other = Anvil::builder().chain_id(1).spawn().await.unwrap();
    bench.proxy.set_upstream(other.url());
    bench.proxy.reset_records();
    until("the first is seen for what it is", DEADLINE, || async {
        let asked = bench.proxy.count("eth_call");
        verify_new(&bench).await.0.valid();
        (bench.proxy.count("eth_call") == asked).then_some(())
    })
    .await;
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    assert_eq!((bench.proxy.count(SEND), bench.proxy.count(RECEIPT)), (0, 0));
    bench.proxy.set_upstream(bench.anvil.url());
    until("the first is asked again", DEADLINE, || async {
        let asked = bench.proxy.count("eth_call");
        verify_new(&bench).await.0.valid();
        (bench.proxy.count("eth_call") > asked).then_some(())
    })
    .await;
}
