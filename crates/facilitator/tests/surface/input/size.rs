//! Bodies at the limit, above it, and far above it, of known and of unknown length.

use crate::support::{
    Endpoint,
    offline::{Offline, payment, unread},
    raw::{Raw, post},
};
use quittance_testkit::X402Version;
use serde_json::json;

const LIMIT: usize = 4096;
const HUGE: usize = 50 * 1024 * 1024;

async fn bench() -> Offline {
    Offline::start_with(|config| config.set("server.body_bytes_max", json!(LIMIT))).await
}

/// A payment with white space behind it.
fn padded(length: usize) -> Vec<u8> {
    let mut body = payment(X402Version::V2).body().to_string().into_bytes();
    assert!(body.len() < length);
    body.resize(length, b' ');
    body
}

fn chunked(endpoint: Endpoint, chunks: &[&[u8]]) -> Vec<u8> {
    let mut request = format!(
        "POST {} HTTP/1.1\r\nhost: quittance\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        endpoint.path()
    )
    .into_bytes();
    for chunk in chunks {
        request.extend(format!("{:x}\r\n", chunk.len()).bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_and_one_byte_more_is_413() {
    let bench = bench().await;
    for endpoint in Endpoint::BOTH {
        let post = |body| bench.client.post_bytes(endpoint.path(), "application/json", body);
        assert_eq!(post(padded(LIMIT)).await.unwrap().status, 503);
        unread(413, endpoint, &post(padded(LIMIT + 1)).await.unwrap(), "one byte more");
        unread(413, endpoint, &post(vec![b' '; LIMIT + 1]).await.unwrap(), "white space");
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn a_body_in_chunks_has_the_same_limit() {
    let bench = bench().await;
    for endpoint in Endpoint::BOTH {
        for size in [7, 1000, LIMIT] {
            for (length, status) in [(LIMIT, 503), (LIMIT + 1, 413), (4 * LIMIT, 413)] {
                let body = padded(length);
                let chunks: Vec<&[u8]> = body.chunks(size).collect();
                let mut raw = Raw::connect(bench.client.base()).await;
                raw.send([&chunked(endpoint, &chunks)[..], b"0\r\n\r\n"].concat()).await.unwrap();
                let answer = raw.answer().await.unwrap();
                let case = format!("{length} bytes in chunks of {size}");
                assert_eq!(answer.status, status, "{endpoint:?}, {case}: {}", answer.text);
                if status == 413 {
                    unread(413, endpoint, &answer, &case);
                }
            }
        }
    }
    bench.nothing_reserved().await;
}

/// Nobody has to send 50 MB to be told that it is too much.
#[tokio::test]
async fn an_announced_length_is_refused_at_once() {
    let bench = bench().await;
    for endpoint in Endpoint::BOTH {
        for expectation in ["", "expect: 100-continue\r\n"] {
            let mut raw = Raw::connect(bench.client.base()).await;
            raw.send(format!(
                "POST {} HTTP/1.1\r\nhost: quittance\r\ncontent-type: application/json\r\n{expectation}content-length: {HUGE}\r\n\r\n{{",
                endpoint.path()
            ))
            .await
            .unwrap();
            unread(413, endpoint, &raw.answer().await.unwrap(), "announced");
        }
    }
    bench.nothing_reserved().await;
}

/// A caller who sends it all the same and listens meanwhile, as HTTP clients do, gets the answer and not a reset.
#[tokio::test]
async fn a_body_of_50_megabytes_is_413_for_ordinary_clients() {
    let bench = bench().await;
    for endpoint in Endpoint::BOTH {
        for _ in 0..3 {
            let answer = bench.client.post_bytes(endpoint.path(), "application/json", vec![b' '; HUGE]).await;
            unread(413, endpoint, &answer.unwrap(), "50 MB");
        }
    }
    // The connection is not used for anything else afterwards, and the server goes on.
    assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
    bench.nothing_reserved().await;
}

/// A body without end is given up on at the limit.
#[tokio::test]
async fn endless_chunks_are_cut_off() {
    let bench = bench().await;
    for endpoint in Endpoint::BOTH {
        let mut raw = Raw::connect(bench.client.base()).await;
        let chunk = [b' '; 1000];
        raw.send(chunked(endpoint, &[&chunk, &chunk, &chunk, &chunk, &chunk])).await.unwrap();
        unread(413, endpoint, &raw.answer().await.unwrap(), "no end yet");
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_payment() {
    let bench = bench().await;
    for endpoint in Endpoint::BOTH {
        let whole = post(endpoint.path(), &padded(2000));
        let before = bench.asked();
        for cut in [whole.len() - 1900, whole.len() - 1] {
            let mut raw = Raw::connect(bench.client.base()).await;
            raw.send(&whole[..cut]).await.unwrap();
            raw.finish().await;
            // Whoever still listens is told; a bare end is fair too.
            if let Ok(answer) = raw.answer().await {
                unread(400, endpoint, &answer, "broken off");
            }
        }
        for broken in ["zz\r\n", "5\r\nabc", "-1\r\n", "ffffffffffffffffff\r\n"] {
            let mut raw = Raw::connect(bench.client.base()).await;
            raw.send([&chunked(endpoint, &[])[..], broken.as_bytes()].concat()).await.unwrap();
            raw.finish().await;
            if let Ok(answer) = raw.answer().await {
                unread(400, endpoint, &answer, broken);
            }
        }
        assert_eq!(bench.asked(), before);
    }
    bench.nothing_reserved().await;
}
