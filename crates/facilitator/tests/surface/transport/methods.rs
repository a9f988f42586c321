//! Methods and paths.

use crate::support::{
    Endpoint,
    offline::{Offline, payment},
    raw::Raw,
    shape::No,
};
use quittance_testkit::{X402Version, client::Answer};
use reqwest::Method;

fn method(name: &str) -> Method {
    Method::from_bytes(name.as_bytes()).unwrap()
}

async fn request(bench: &Offline, name: &str, path: &str) -> Answer {
    bench.client.request(method(name), path, &[], None).await.unwrap()
}

#[tokio::test]
async fn another_method_is_405() {
    let bench = Offline::start().await;
    let before = bench.asked();
    for endpoint in Endpoint::BOTH {
        for name in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "post"] {
            let answer = request(&bench, name, endpoint.path()).await;
            let (status, code) = (405, endpoint.unexpected());
            No { status, code, network: "unknown:unknown", payer: None }.check(endpoint, &answer, name);
            assert_eq!(answer.header("allow"), Some("POST"), "{name}");
        }
        let answer = request(&bench, "HEAD", endpoint.path()).await;
        assert_eq!((answer.status, answer.text.as_str()), (405, ""));
    }
    for path in ["/supported", "/healthz", "/readyz", "/settlements", "/settlements/1"] {
        for name in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = request(&bench, name, path).await;
            let case = format!("{name} {path} {}", answer.text);
            assert_eq!(answer.status, 405, "{case}");
            assert_eq!(answer.header("content-type"), Some("application/json"), "{case}");
            assert!(answer.header("allow").unwrap().contains("GET"), "{case}");
            // Nothing was verified here.
            let error = answer.json["error"].as_str().unwrap();
            assert!(!error.contains("verify") && !error.contains("settle"), "{case}");
        }
    }
    assert_eq!(bench.asked(), before);
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let bench = Offline::start().await;
    for path in ["/supported", "/healthz"] {
        let (head, get) = (request(&bench, "HEAD", path).await, request(&bench, "GET", path).await);
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
        assert!(get.json.is_object(), "{path}");
    }
}

/// Go clients keep a base URL's trailing slash; a redirect would lose the body.
#[tokio::test]
async fn slashes_more_or_less_make_no_difference() {
    let bench = Offline::start().await;
    let body = payment(X402Version::V2);
    for endpoint in Endpoint::BOTH {
        let path = endpoint.path();
        for path in [
            format!("/{path}"),
            format!("{path}/"),
            format!("//{path}//"),
            format!("{path}?x=1"),
            format!("/{path}/?x=1&y=%2f"),
            format!("{path}?"),
        ] {
            let answer = bench.client.post(&path, body.body(), &[]).await.unwrap();
            assert_eq!(answer.status, 503, "{path} {}", answer.text);
            let (status, code) = (503, endpoint.unexpected());
            No { status, code, network: body.network(), payer: Some(body.payer()) }
                .check(endpoint, &answer, &path);
        }
        // The shape of the answer does not depend on how the path was written either.
        let answer = request(&bench, "GET", &format!("/{path}/")).await;
        let (status, code) = (405, endpoint.unexpected());
        No { status, code, network: "unknown:unknown", payer: None }.check(endpoint, &answer, "GET");
    }
    for path in ["//supported", "/supported/", "//supported//", "/supported?x=1"] {
        let answer = bench.client.get(path).await.unwrap();
        assert_eq!((answer.status, answer.json["kinds"].is_array()), (200, true), "{path}");
    }
}

#[tokio::test]
async fn other_paths_are_404() {
    let bench = Offline::start().await;
    for path in [
        "/",
        "/verif",
        "/verify/1",
        "/Verify",
        "/VERIFY",
        "/verify%2f",
        "/%76erify",
        "/v1/verify",
        "/api/verify",
        "/verify;x=1",
        "/settle/settle",
        "/.well-known/x402",
        "/metrics",
        "/close",
        "/quittance.toml",
        "/..%2f..%2fetc%2fpasswd",
        "/\u{e9}",
    ] {
        for name in ["GET", "POST", "OPTIONS"] {
            let answer = request(&bench, name, path).await;
            assert_eq!(answer.status, 404, "{name} {path} {}", answer.text);
            assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
            assert!(answer.json["error"].is_string(), "{path} {}", answer.text);
            assert!(!answer.text.contains("verify"), "a path is not repeated: {}", answer.text);
        }
    }
    let mut raw = Raw::connect(bench.client.base()).await;
    raw.send("GET /./verify HTTP/1.1\r\nhost: q\r\n\r\nGET /x/../verify HTTP/1.1\r\nhost: q\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..2 {
        assert_eq!(raw.answer().await.unwrap().status, 404);
    }
}

/// What can be asked about settlements, and what cannot.
#[tokio::test]
async fn a_question_about_settlements_that_makes_no_sense_is_400() {
    let bench = Offline::start().await;
    for path in [
        "/settlements",
        "/settlements/",
        "/settlements?",
        "/settlements?x=1",
        "/settlements?payer=0x00",
        "/settlements?payer=%ff",
        "/settlements?payer=",
        "/settlements?asset=USDC",
        "/settlements?nonce=1",
        "/settlements?nonce=0x",
        "/settlements?network=eip155:1",
        "/settlements?network=",
        "/settlements?payer=0x209693Bc6afc0C5328bA36FaF03C514EF312287C&limit=1",
        "/settlements?payer=0x209693Bc6afc0C5328bA36FaF03C514EF312287C&payer=0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
        "/settlements?payer=0x209693Bc6afc0C5328bA36FaF03C514EF312287C&network=base-sepolia&network=eip155:84532",
        "/settlements/1",
        "/settlements/not-a-uuid",
        "/settlements/%ff",
        "/settlements/%00",
        "/settlements/'%20or%201=1",
    ] {
        let answer = bench.client.get(path).await.unwrap();
        assert_eq!(answer.status, 400, "{path} {}", answer.text);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{path} {}", answer.text);
        assert!(answer.json["error"].is_string(), "{path} {}", answer.text);
    }
    let unknown = bench.client.get("/settlements/01890a5d-ac96-774b-bcce-b302099a8057").await.unwrap();
    assert_eq!(unknown.status, 404, "{}", unknown.text);
    for path in [
        "/settlements?network=base-sepolia",
        "/settlements?network=eip155%3A84532",
        "/settlements?payer=0x209693bc6afc0c5328ba36faf03c514ef312287c",
    ] {
        let answer = bench.client.get(path).await.unwrap();
        assert_eq!((answer.status, answer.text.as_str()), (200, r#"{"settlements":[]}"#), "{path}");
    }
}
