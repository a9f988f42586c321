//! Answers that come late, or never.

use crate::support::{Endpoint, online::Online, shape};
use quittance_testkit::{
    SignedPayment, X402Version,
    client::Answer,
    harness::{Fault, Rule, process::Wait},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Within this, everybody is answered: Go clients wait 30 seconds.
const PATIENCE: Duration = Duration::from_secs(28);

async fn both(bench: &Online, verified: &SignedPayment, settled: &SignedPayment) -> [(Endpoint, Answer); 2] {
    let started = Instant::now();
    let answers = tokio::join!(bench.post(Endpoint::Verify, verified), bench.post(Endpoint::Settle, settled));
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    [(Endpoint::Verify, answers.0), (Endpoint::Settle, answers.1)]
}

/// Slow is not broken.
#[tokio::test]
async fn three_seconds_per_call_still_end_in_a_verdict() {
    let bench = Online::start().await;
    bench.proxy.add(Rule::any().then(Fault::Delay(Duration::from_secs(3))));
    let payments = [bench.payment(X402Version::V2).await.sign(), bench.payment(X402Version::V1).await.sign()];
    let [(_, valid), (_, settled)] = both(&bench, &payments[0], &payments[1]).await;
    shape::valid(&valid, payments[0].payer(), "3 s late");
    shape::settled(&settled, payments[1].payer(), payments[1].network(), "10000", "3 s late");
    let forged = payments[0].clone().with_signature(payments[1].signature().clone());
    let answer = bench.post(Endpoint::Verify, &forged).await;
    assert_eq!(answer.json["invalidReason"], "invalid_exact_evm_signature", "{}", answer.text);
}

#[tokio::test]
async fn an_answer_after_the_deadline_or_never_is_no_answer() {
    for fault in [Fault::Delay(Duration::from_secs(60)), Fault::Hang] {
        let bench = Online::start().await;
        let case = format!("{fault:?}");
        bench.proxy.add(Rule::any().then(fault));
        let payments =
            [bench.payment(X402Version::V2).await.sign(), bench.payment(X402Version::V1).await.sign()];
        for ((endpoint, answer), payment) in
            both(&bench, &payments[0], &payments[1]).await.iter().zip(&payments)
        {
            bench.is_undecided(*endpoint, answer, payment, &case);
            assert_eq!(bench.rows(payment).await, Vec::<Value>::new(), "{case}");
        }
        bench.proxy.clear();
        for payment in &payments {
            bench.accepted(payment, &format!("after {case}")).await;
        }
        assert_eq!(bench.proxy.count("eth_sendRawTransaction"), 2, "{case}");
    }
}

/// A node that does not answer is left alone for a while, so that nobody else waits for it; then it is tried again.
#[tokio::test]
async fn after_some_time_outs_the_answer_is_immediate() {
    let bench = Online::start().await;
    bench.proxy.add(Rule::any().then(Fault::Hang));
    let payment = bench.payment(X402Version::V2).await.sign();
    let hanging = [(); 4].map(|()| bench.post(Endpoint::Verify, &payment));
    let [a, b, c, d] = hanging;
    let answers = tokio::join!(a, b, c, d);
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        bench.is_undecided(Endpoint::Verify, &answer, &payment, "hanging");
    }
    let (asked, started) = (bench.proxy.count("eth_call"), Instant::now());
    bench.undecided(&payment, "left alone").await;
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(bench.proxy.count("eth_call"), asked, "nobody was asked");
    bench.proxy.clear();
    let deadline = Instant::now() + Duration::from_secs(10);
    let answer = loop {
        let answer = bench.post(Endpoint::Verify, &payment).await;
        if answer.status == 200 {
            break answer;
        }
        bench.is_undecided(Endpoint::Verify, &answer, &payment, "left alone");
        assert!(Instant::now() < deadline, "not asked again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    shape::valid(&answer, payment.payer(), "asked again");
    bench.settles(&payment, "asked again").await;
}

/// The server's own deadline. The settlement goes on behind the answer, and its result waits for the next call.
#[tokio::test]
async fn the_servers_own_deadline_ends_the_wait_and_not_the_work() {
    let bench = Online::start_with(
        |config| config.wait_seconds(1).set("server.request_timeout_ms", json!(1500)),
        Wait::Ready,
    )
    .await;
    bench.proxy.add(Rule::on("eth_call").then(Fault::Hang));
    let payments = [bench.payment(X402Version::V2).await.sign(), bench.payment(X402Version::V1).await.sign()];
    let started = Instant::now();
    for ((endpoint, answer), payment) in both(&bench, &payments[0], &payments[1]).await.iter().zip(&payments)
    {
        bench.is_undecided(*endpoint, answer, payment, "too late");
        assert_eq!(bench.rows(payment).await, Vec::<Value>::new());
    }
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    bench.proxy.clear();
    // Settled by the first call or by this one; in any case once.
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let answer = bench.post(Endpoint::Settle, &payments[1]).await;
        match answer.json["errorReason"].as_str() {
            None => {
                shape::settled(&answer, payments[1].payer(), payments[1].network(), "10000", "later");
                break;
            }
            Some("settlement_pending") => assert!(Instant::now() < deadline, "{}", answer.text),
            Some(_) => panic!("{}", answer.text),
        }
    }
    assert_eq!(bench.proxy.count_answered("eth_sendRawTransaction"), 1);
}
