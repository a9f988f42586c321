//! Callers who take their time.

use crate::support::{
    Endpoint,
    offline::{Offline, payment},
    raw::{Raw, post},
    shape::No,
};
use quittance_testkit::X402Version;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// A head that never ends is cut off, and nobody else waits for it. A kept connection on which nothing is asked has longer.
#[tokio::test]
async fn a_slow_header_is_cut_off() {
    const CUT_OFF: Duration = Duration::from_secs(15);
    let bench = Offline::start().await;
    let mut silent = Raw::connect(bench.client.base()).await;
    let [mut kept, mut second] =
        [Raw::connect(bench.client.base()).await, Raw::connect(bench.client.base()).await];
    for raw in [&mut kept, &mut second] {
        raw.send("GET /healthz HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
        assert_eq!(raw.answer().await.unwrap().status, 200);
    }
    let mut dripping = Raw::connect(bench.client.base()).await;
    let started = Instant::now();
    for raw in [&mut dripping, &mut second] {
        raw.send("POST /verify HTTP/1.1\r\n").await.unwrap();
    }
    // A byte now and then does not keep the door open, not even on a connection that was good before.
    for number in 0.. {
        let header = format!("x-{number}: y\r\n");
        let (first, second) = tokio::join!(dripping.send(&header), second.send(&header));
        if (first.is_err() && second.is_err()) || started.elapsed() > CUT_OFF {
            break;
        }
        assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(started.elapsed() < CUT_OFF, "still open after {:?}", started.elapsed());
    silent.closes_within(Duration::from_secs(1)).await;
    kept.send("GET /healthz HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
    assert_eq!(kept.answer().await.unwrap().status, 200);
}

/// A body that never ends is answered with 408: by `server.request_timeout_ms` at the latest, by ten seconds if that is longer.
#[tokio::test]
async fn a_slow_body_is_given_up_on() {
    let bench =
        Offline::start_with(|config| config.wait_seconds(1).set("server.request_timeout_ms", json!(1200)))
            .await;
    gives_up_on_bodies(&bench, Duration::from_secs(1), Duration::from_secs(5)).await;
    gives_up_on_bodies(&Offline::start().await, Duration::from_secs(9), Duration::from_secs(15)).await;
}

async fn gives_up_on_bodies(bench: &Offline, from: Duration, to: Duration) {
    let before = bench.asked();
    let body = payment(X402Version::V2).body().to_string().into_bytes();
    let late = Endpoint::BOTH.map(|endpoint| {
        let whole = post(endpoint.path(), &body);
        async move {
            let started = Instant::now();
            let mut raw = Raw::connect(bench.client.base()).await;
            // Trickling gains nothing.
            let (last, first) = whole.split_last().unwrap();
            raw.send(&first[..first.len() - 3]).await.unwrap();
            for byte in &first[first.len() - 3..] {
                tokio::time::sleep(from / 4).await;
                raw.send([*byte]).await.unwrap();
            }
            let answer = raw.answer().await.unwrap();
            let (status, code) = (408, endpoint.unexpected());
            No { status, code, network: "unknown:unknown", payer: None }.check(endpoint, &answer, "slow");
            assert_eq!(answer.header("connection"), Some("close"));
            let waited = started.elapsed();
            assert!(from < waited && waited < to, "{waited:?}");
            // Its last byte comes too late.
            let _ = raw.send([*last]).await;
        }
    });
    futures::future::join_all(late).await;
    assert_eq!(bench.asked(), before);
    bench.nothing_reserved().await;
}

/// Containers are killed ten seconds after they were asked to stop: a body that is still coming must not take them.
#[tokio::test]
async fn a_body_that_is_still_coming_does_not_hold_up_the_end() {
    let mut bench = Offline::start().await;
    let body = payment(X402Version::V2).body().to_string().into_bytes();
    let mut calls = Vec::new();
    for endpoint in Endpoint::BOTH {
        for of_unknown_length in [false, true] {
            let mut raw = Raw::connect(bench.client.base()).await;
            let whole = post(endpoint.path(), &body);
            let half = whole[..whole.len() - 5].to_vec();
            let text = String::from_utf8(half).unwrap();
            let text = match of_unknown_length {
                false => text,
                true => {
                    let (head, sent) = text.split_once("\r\n\r\n").unwrap();
                    let (head, _) = head.rsplit_once("\r\n").unwrap();
                    format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{sent}\r\n", sent.len())
                }
            };
            raw.send(text).await.unwrap();
            calls.push((endpoint, raw));
        }
    }
    // They have come as far as they will.
    assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
    let started = Instant::now();
    bench.server.terminate().unwrap();
    for (endpoint, raw) in &mut calls {
        let answer = raw.answer().await.unwrap();
        let code = endpoint.unexpected();
        No { status: 503, code, network: "unknown:unknown", payer: None }.check(*endpoint, &answer, "late");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // Nobody closes its side.
    let stopped = bench.server.exit(Duration::from_secs(6)).await.expect("a prompt end");
    assert_eq!(stopped.code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
    drop(calls);
}

/// A caller who does not read its answers holds nobody up, and has to go.
#[tokio::test]
async fn a_caller_who_does_not_read_holds_nobody_up() {
    let bench = Offline::start().await;
    let mut deaf = Raw::connect(bench.client.base()).await;
    // Far more answers than fit into any buffer; the server stops reading at some point.
    let request = b"GET /supported HTTP/1.1\r\nhost: q\r\n\r\n".repeat(1000);
    let mut stopped: Option<Instant> = None;
    let end = loop {
        let sent = deaf.send(&request);
        match tokio::time::timeout(Duration::from_millis(300), sent).await {
            Ok(Ok(())) => stopped = None,
            Ok(Err(end)) => break end,
            // No room: what the server has read and not answered yet comes first, then it waits for the caller to read.
            Err(_) => {
                let stopped = stopped.get_or_insert_with(Instant::now).elapsed();
                assert!(stopped < Duration::from_secs(45), "still open");
                assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
            }
        }
    };
    assert!(end.downcast_ref::<std::io::Error>().is_some(), "{end:#}");
    for _ in 0..20 {
        assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
    }
}
