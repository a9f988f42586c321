//! What is not HTTP, or too much of it.

use crate::support::{
    offline::{Offline, payment},
    raw::{DEADLINE, Raw},
};
use quittance_testkit::X402Version;

/// The server is as well as before.
async fn goes_on(bench: &Offline, case: &str) {
    assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200, "{case}");
}

#[tokio::test]
async fn what_is_not_http_is_refused_and_forgotten() {
    let bench = Offline::start().await;
    let noise: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("noise", noise),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(50)),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("another version", b"GET /healthz HTTP/9.9\r\n\r\n".to_vec()),
        ("no version", b"GET /healthz\r\n\r\n".to_vec()),
        ("no path", b"GET  HTTP/1.1\r\n\r\n".to_vec()),
        ("a space in the path", b"GET /a b HTTP/1.1\r\n\r\n".to_vec()),
        ("a control character in the path", b"GET /\x07 HTTP/1.1\r\n\r\n".to_vec()),
        ("a header without a colon", b"GET /healthz HTTP/1.1\r\nhost\r\n\r\n".to_vec()),
        ("a space before the colon", b"GET /healthz HTTP/1.1\r\nhost : q\r\n\r\n".to_vec()),
        ("a folded header", b"GET /healthz HTTP/1.1\r\nhost: q\r\n more\r\n\r\n".to_vec()),
        ("a NUL in a header", b"GET /healthz HTTP/1.1\r\nhost: q\0\r\n\r\n".to_vec()),
        (
            "a length that is no number",
            b"POST /verify HTTP/1.1\r\nhost: q\r\ncontent-length: x\r\n\r\n".to_vec(),
        ),
        ("a negative length", b"POST /verify HTTP/1.1\r\nhost: q\r\ncontent-length: -1\r\n\r\n".to_vec()),
        (
            "a length beyond all",
            b"POST /verify HTTP/1.1\r\nhost: q\r\ncontent-length: 99999999999999999999999\r\n\r\n".to_vec(),
        ),
        (
            "two lengths",
            b"POST /verify HTTP/1.1\r\nhost: q\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
        ),
        ("another encoding", b"POST /verify HTTP/1.1\r\nhost: q\r\ntransfer-encoding: gzip\r\n\r\n".to_vec()),
        (
            "chunked, but not last",
            b"POST /verify HTTP/1.1\r\nhost: q\r\ntransfer-encoding: chunked, gzip\r\n\r\n".to_vec(),
        ),
    ];
    for (case, bytes) in cases {
        let mut raw = Raw::connect(bench.client.base()).await;
        // The server may hang up before the last byte is sent.
        let _ = raw.send(&bytes).await;
        raw.finish().await;
        match raw.answer().await {
            Ok(answer) => {
                assert!((400..600).contains(&answer.status), "{case}: {}", answer.status);
                assert_ne!(answer.status, 500, "{case}");
            }
            Err(error) => assert!(error.to_string().contains("head of an answer"), "{case}: {error:#}"),
        }
        goes_on(&bench, case).await;
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn a_header_that_is_too_large_is_refused() {
    let bench = Offline::start().await;
    let many = (0..500).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
    for (case, headers) in [
        ("one of 1 MB", format!("x: {}\r\n", "y".repeat(1 << 20))),
        ("one of 100 KB", format!("authorization: Bearer {}\r\n", "y".repeat(100_000))),
        ("a name of 100 KB", format!("{}: y\r\n", "x".repeat(100_000))),
        ("500 of them", many),
    ] {
        let mut raw = Raw::connect(bench.client.base()).await;
        let _ = raw.send(format!("GET /supported HTTP/1.1\r\nhost: q\r\n{headers}\r\n")).await;
        if let Ok(answer) = raw.answer().await {
            assert_eq!(answer.status, 431, "{case}");
        }
        goes_on(&bench, case).await;
    }
    let mut raw = Raw::connect(bench.client.base()).await;
    let _ = raw.send(format!("GET /{} HTTP/1.1\r\nhost: q\r\n\r\n", "a".repeat(100_000))).await;
    if let Ok(answer) = raw.answer().await {
        assert!([404, 414, 431].contains(&answer.status), "{}", answer.status);
    }
    goes_on(&bench, "a long path").await;
    // Large, and still a header: cookies of a browser, a token of an identity provider.
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send(format!("GET /healthz HTTP/1.1\r\nhost: q\r\ncookie: {}\r\n\r\n", "c".repeat(16_000)))
        .await
        .unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
}

/// Two ways to say where a body ends must not hide a second request from one who reads only one of them.
#[tokio::test]
async fn a_body_with_two_ends_smuggles_nothing() {
    let bench = Offline::start().await;
    let hidden = "GET /supported HTTP/1.1\r\nhost: q\r\n\r\n";
    for head in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\ncontent-length: 5\r\n",
        "transfer-encoding : chunked\r\ncontent-length: 5\r\n",
    ] {
        let mut raw = Raw::connect(bench.client.base()).await;
        let request = format!(
            "POST /verify HTTP/1.1\r\nhost: q\r\ncontent-type: application/json\r\n{head}\r\n0\r\n\r\n{hidden}"
        );
        let _ = raw.send(request).await;
        raw.finish().await;
        if let Ok(first) = raw.answer().await {
            assert_eq!(first.status, 400, "{head:?} {}", first.text);
        }
        let second = raw.answer().await;
        assert!(second.is_err(), "{head:?}: {}", second.unwrap().text);
        goes_on(&bench, head).await;
    }
}

/// Old, simple callers.
#[tokio::test]
async fn http_1_0_is_answered_and_ends() {
    let bench = Offline::start().await;
    let body = payment(X402Version::V2).body().to_string();
    for (version, more) in [("1.0", ""), ("1.1", "host: q\r\nconnection: close\r\n"), ("1.0", "host: q\r\n")]
    {
        let mut raw = Raw::connect(bench.client.base()).await;
        raw.send(format!(
            "POST /verify HTTP/{version}\r\n{more}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await
        .unwrap();
        assert_eq!(raw.answer().await.unwrap().status, 503);
        raw.closes_within(DEADLINE).await;
    }
}

/// The path of a proxy's request is the path.
#[tokio::test]
async fn an_absolute_target_is_its_path() {
    let bench = Offline::start().await;
    for target in
        ["http://pay.example/healthz", "http://pay.example//healthz/", "https://pay.example:443/healthz?x"]
    {
        let mut raw = Raw::connect(bench.client.base()).await;
        raw.send(format!("GET {target} HTTP/1.1\r\nhost: pay.example\r\n\r\n")).await.unwrap();
        assert_eq!(raw.answer().await.unwrap().status, 200, "{target}");
    }
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send("OPTIONS * HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
    let answer = raw.answer().await.unwrap();
    assert!([200, 204, 404, 405].contains(&answer.status), "{}", answer.status);
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send("CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: q\r\n\r\n").await.unwrap();
    let answer = raw.answer().await.unwrap();
    assert!((400..500).contains(&answer.status), "{}", answer.status);
}
