//! Callers who open, and begin, and do not go on. The others are served as if they were not there.

use crate::support::{
    BINARY, Endpoint, config, network,
    offline::{Offline, payment},
    online::Online,
    raw::{DEADLINE, Raw, post},
    shape::{self, No},
};
use quittance_testkit::{
    Facilitator, SignedPayment, X402Version,
    harness::{Fault, QuittanceProcess, Rule, process::Wait},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, time::Duration};
use tokio::time::Instant;

/// An answer that waited for nobody. Every wait of the server for its callers is longer.
const PROMPTLY: Duration = Duration::from_secs(8);

/// Somebody new, on a connection of its own, is answered at once: that the chain cannot be read, which only those are told
/// whose request has a place.
async fn served(base: &str, payment: &SignedPayment) {
    for endpoint in Endpoint::BOTH {
        let started = Instant::now();
        let answer = endpoint.post(&Facilitator::new(base).unwrap(), payment.body()).await;
        let (status, code) = (503, endpoint.unexpected());
        No { status, code, network: payment.network(), payer: Some(payment.payer()) }.check(
            endpoint,
            &answer,
            "somebody new",
        );
        assert!(answer.text.contains("the chain could not be read"), "{}", answer.text);
        assert!(started.elapsed() < PROMPTLY, "{:?}", started.elapsed());
    }
}

/// Half a request, of every kind; the last one has had an answer and is kept.
async fn stall(base: &str, kind: usize) -> Raw {
    let mut raw = Raw::connect(base).await;
    let whole = post("/settle", payment(X402Version::V2).body().to_string().as_bytes());
    match kind % 4 {
        0 => {}
        1 => raw.send("POST /verify HTTP/1.1\r\nho").await.unwrap(),
        2 => raw.send(&whole[..whole.len() - 1]).await.unwrap(),
        _ => {
            raw.send("GET /healthz HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
            assert_eq!(raw.answer().await.unwrap().status, 200);
        }
    }
    raw
}

/// As many sockets as a test here opens.
fn allow_sockets(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|soft| soft < count) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limit }).unwrap();
    }
}

#[tokio::test]
async fn whoever_comes_gets_the_seat_of_the_longest_wait() {
    const SEATS: usize = 16;
    let bench = Offline::start_with(|config| config.set("server.connections_max", json!(SEATS))).await;
    let (base, payment) = (bench.client.base(), payment(X402Version::V2));
    let mut stalled = Vec::new();
    for kind in 0..4 * SEATS {
        stalled.push(stall(base, kind).await);
    }
    served(base, &payment).await;
    for raw in &mut stalled[..3 * SEATS] {
        raw.closes_within(PROMPTLY).await;
    }
    // The last kept one still has its seat, and a request on it counts as news.
    let kept = stalled.last_mut().unwrap();
    for _ in 0..2 * SEATS {
        kept.send("GET /healthz HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
        assert_eq!(kept.answer().await.unwrap().status, 200);
        stall(base, 0).await;
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn a_request_that_is_worked_on_keeps_its_seat() {
    const SEATS: usize = 8;
    let bench =
        Online::start_with(|config| config.set("server.connections_max", json!(SEATS)), Wait::Ready).await;
    let payment = bench.payment(X402Version::V2).await.sign();
    bench.proxy.add(Rule::on("eth_call").then(Fault::Hang));
    let mut working = Raw::connect(bench.client.base()).await;
    working.send(post("/verify", payment.body().to_string().as_bytes())).await.unwrap();
    bench.proxy.wait_for("eth_call", 1).await.unwrap();
    let mut stalled = Vec::new();
    for kind in 0..3 * SEATS {
        stalled.push(stall(bench.client.base(), kind).await);
    }
    stalled[0].closes_within(PROMPTLY).await;
    bench.proxy.clear();
    bench.proxy.release();
    shape::valid(&working.answer().await.unwrap(), payment.payer(), "in work");
}

/// More requests have begun to come than may be worked on. What has not come takes no place.
#[tokio::test]
async fn half_bodies_take_no_place() {
    const HALVES: usize = 2300;
    allow_sockets(4096);
    let bench = Offline::start().await;
    let (base, payment) = (bench.client.base(), payment(X402Version::V2));
    let mut halves = Vec::with_capacity(HALVES);
    for _ in 0..HALVES {
        halves.push(stall(base, 2).await);
    }
    served(base, &payment).await;
    // Who goes on in time is served as well.
    let last = halves.last_mut().unwrap();
    last.send("}").await.unwrap();
    assert!(last.answer().await.unwrap().text.contains("the chain could not be read"));
}

/// Large bodies share what memory there is for them. When it is taken, another large one is told so at once, and payments of
/// ordinary size are served.
#[tokio::test]
async fn large_bodies_are_bounded_together() {
    const LARGE: usize = 16 << 20;
    let bench = Offline::start_with(|config| config.set("server.body_bytes_max", json!(LARGE))).await;
    let (base, payment) = (bench.client.base(), payment(X402Version::V2));
    let mut body = payment.body().to_string().into_bytes();
    body.resize(LARGE, b' ');
    let whole = post("/verify", &body);
    let mut halves = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::connect(base).await;
        raw.send(&whole[..whole.len() - 1]).await.unwrap();
        halves.push(raw);
    }
    // What was sent may not have been read yet.
    let deadline = Instant::now() + PROMPTLY;
    loop {
        let answer = bench.client.post_bytes("/verify", "application/json", body.clone()).await.unwrap();
        let (status, code) = (503, "unexpected_verify_error");
        if answer.text.contains("too many requests") {
            No { status, code, network: "unknown:unknown", payer: None }.check(
                Endpoint::Verify,
                &answer,
                "no room",
            );
            break;
        }
        assert!(Instant::now() < deadline, "{}", answer.text);
    }
    served(base, &payment).await;
    // Room is given back by whoever is done.
    for mut raw in halves {
        raw.send(&whole[whole.len() - 1..]).await.unwrap();
        assert!(raw.answer().await.unwrap().text.contains("the chain could not be read"));
    }
    let answer = bench.client.post_bytes("/verify", "application/json", body).await.unwrap();
    assert!(answer.text.contains("the chain could not be read"), "{}", answer.text);
    bench.nothing_reserved().await;
}

/// A server that a shell has given few open files.
async fn with_files(limit: &str) -> QuittanceProcess {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("quittance");
    std::fs::write(&path, format!("#!/bin/sh\nulimit {limit} && exec '{BINARY}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let config = config(network("http://127.0.0.1:1"));
    QuittanceProcess::start_until(path, config, Wait::Healthy).await.unwrap()
}

#[tokio::test]
async fn connections_leave_open_files_to_the_rest() {
    let (idle, payment) = (400, payment(X402Version::V2));
    // A soft limit is raised: nobody has to go.
    let server = with_files("-S -n 256").await;
    let mut first = Raw::connect(&server.base_url()).await;
    let mut stalled = Vec::new();
    for _ in 0..idle {
        stalled.push(stall(&server.base_url(), 0).await);
    }
    served(&server.base_url(), &payment).await;
    first.send("GET /healthz HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
    assert_eq!(first.answer().await.unwrap().status, 200);
    assert!(!server.log_text().contains("too few file descriptors"));
    // A hard one is kept to.
    let server = with_files("-n 256").await;
    let mut first = Raw::connect(&server.base_url()).await;
    for _ in 0..idle {
        stalled.push(stall(&server.base_url(), 0).await);
    }
    served(&server.base_url(), &payment).await;
    first.closes_within(DEADLINE).await;
    assert!(server.log_text().contains("too few file descriptors"));
}
