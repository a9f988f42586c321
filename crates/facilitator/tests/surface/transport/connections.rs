//! Connections that are kept, filled, and shared.

use crate::support::{
    Endpoint,
    offline::{Offline, payment},
    online::Online,
    raw::{DEADLINE, Raw, post},
    shape,
};
use quittance_testkit::X402Version;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let bench = Offline::start().await;
    let body = payment(X402Version::V2).body().to_string().into_bytes();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: q\r\n\r\n").into_bytes();
    let requests = [
        (post("/verify", &body), 503),
        (get("/healthz"), 200),
        (post("/settle", b"["), 400),
        (get("/nowhere"), 404),
        (post("/settle", &body), 503),
        (get("/verify"), 405),
        (post("/verify", b"{}"), 200),
        (get("/supported"), 200),
    ];
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send(requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect::<Vec<u8>>()).await.unwrap();
    for (number, (_, status)) in requests.iter().enumerate() {
        let answer = raw.answer().await.unwrap();
        assert_eq!(answer.status, *status, "answer {number}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_connection_is_kept_over_every_kind_of_answer() {
    let bench = Offline::start().await;
    let body = payment(X402Version::V2).body().to_string().into_bytes();
    let mut raw = Raw::connect(bench.client.base()).await;
    for _ in 0..20 {
        for (bytes, status) in [(&body[..], 503), (b"{", 400), (b"[]", 200), (b"", 400)] {
            raw.send(post("/verify", bytes)).await.unwrap();
            assert_eq!(raw.answer().await.unwrap().status, status);
        }
        raw.send("GET /verify HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
        assert_eq!(raw.answer().await.unwrap().status, 405);
    }
}

/// A connection that ends with its answer says so: a caller that kept it would send the next request into the closing.
#[tokio::test]
async fn the_end_of_a_connection_is_announced() {
    let bench = Offline::start().await;
    let large = vec![b' '; 400_000];
    let typed = |path: &str, content_type: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: q\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    for (path, content_type, status) in [
        ("/verify", "application/json", 413),
        ("/settle", "application/json", 413),
        ("/settle", "text/plain", 415),
        ("/supported", "application/json", 405),
        ("/nowhere", "application/json", 404),
    ] {
        let mut raw = Raw::connect(bench.client.base()).await;
        raw.send(typed(path, content_type, &large)).await.unwrap();
        let answer = raw.answer().await.unwrap();
        assert_eq!(
            (answer.status, answer.header("connection")),
            (status, Some("close")),
            "{path} {content_type}"
        );
        raw.closes_within(DEADLINE).await;
    }
    // Clients that pool connections go on without noticing.
    for _ in 0..20 {
        for (path, content_type) in
            [("/verify", "application/json"), ("/settle", "text/plain"), ("/nowhere", "x/y")]
        {
            let answer = bench.client.post_bytes(path, content_type, large.clone()).await.unwrap();
            assert!((400..500).contains(&answer.status), "{}", answer.status);
        }
    }
}

#[tokio::test]
async fn an_answer_with_a_hundred_before_it() {
    let bench = Offline::start().await;
    let body = payment(X402Version::V2).body().to_string();
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send(format!(
        "POST /verify HTTP/1.1\r\nhost: q\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ))
    .await
    .unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 100);
    raw.send(body).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 503);
}

/// Connections on which nothing happens cost the others nothing.
#[tokio::test]
async fn many_idle_connections_leave_the_others_alone() {
    const IDLE: usize = 400;
    let bench = Offline::start().await;
    let mut idle = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let mut raw = Raw::connect(bench.client.base()).await;
        match number % 3 {
            0 => {}
            1 => raw.send("POST /verify HTTP/1.1\r\nho").await.unwrap(),
            _ => raw.send(&post("/verify", &[b' '; 100])[..150]).await.unwrap(),
        }
        idle.push(raw);
    }
    let body = payment(X402Version::V2);
    let started = Instant::now();
    for _ in 0..50 {
        for endpoint in Endpoint::BOTH {
            assert_eq!(endpoint.post(&bench.client, body.body()).await.status, 503);
        }
        assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    drop(idle);
    assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
    bench.nothing_reserved().await;
}

/// Many callers at once: every one of them gets its own answer.
#[tokio::test]
async fn a_crowd_is_served() {
    let bench = Online::start().await;
    let builder = bench.payment(X402Version::V2).await.amount(1);
    let payments: Vec<_> = (0..60).map(|_| builder.sign()).collect();
    let calls = payments.iter().map(|payment| bench.post(Endpoint::Verify, payment));
    let answers = futures::future::join_all(calls).await;
    for (payment, answer) in payments.iter().zip(&answers) {
        shape::valid(answer, payment.payer(), "a crowd");
    }
    let ids: std::collections::BTreeSet<String> =
        answers.iter().map(|answer| answer.json["extra"]["settlementId"].to_string()).collect();
    assert_eq!(ids.len(), payments.len());
}

/// Who says that nothing more will come has hung up, as far as HTTP goes. The payment is settled, and told once.
#[tokio::test]
async fn a_caller_who_closes_one_side_is_told_at_most_once() {
    let bench = Online::start().await;
    let payment = bench.payment(X402Version::V2).await.sign();
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send(post("/settle", payment.body().to_string().as_bytes())).await.unwrap();
    raw.finish().await;
    let first = raw.answer().await.ok();
    let second = bench.post(Endpoint::Settle, &payment).await;
    let told = |success: &serde_json::Value| usize::from(*success == json!(true));
    let successes =
        first.as_ref().map_or(0, |answer| told(&answer.json["success"])) + told(&second.json["success"]);
    assert_eq!(successes, 1, "{:?} {}", first.map(|answer| answer.text), second.text);
    assert_eq!(bench.proxy.count_answered("eth_sendRawTransaction"), 1);
}
