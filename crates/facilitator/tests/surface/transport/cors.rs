//! Browsers: nobody's page may call, unless its origin is listed.

use crate::support::offline::{Offline, payment};
use quittance_testkit::{X402Version, client::Answer};
use reqwest::Method;
use serde_json::json;

const LISTED: &str = "https://shop.example";
const OTHER_LISTED: &str = "http://localhost:3000";

fn allowed(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

async fn preflight(bench: &Offline, path: &str, origin: &str, headers: &str) -> Answer {
    let mut all = vec![("origin", origin), ("access-control-request-method", "POST")];
    if !headers.is_empty() {
        all.push(("access-control-request-headers", headers));
    }
    bench.client.request(Method::OPTIONS, path, &all, None).await.unwrap()
}

async fn post(bench: &Offline, path: &str, origin: &str) -> Answer {
    bench.client.post(path, payment(X402Version::V2).body(), &[("origin", origin)]).await.unwrap()
}

#[tokio::test]
async fn no_origin_is_allowed_by_default() {
    let bench = Offline::start().await;
    for origin in [LISTED, "null", "*", "http://127.0.0.1:4021"] {
        for path in ["/verify", "/settle", "/supported"] {
            let answer = preflight(&bench, path, origin, "content-type").await;
            assert_eq!((answer.status, allowed(&answer)), (405, None), "{path} {origin}");
        }
        for path in ["/verify", "/settle", "/nowhere"] {
            let answer = post(&bench, path, origin).await;
            assert_eq!(allowed(&answer), None, "{path} {origin}");
            assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")), "{path}");
        }
    }
}

async fn listed() -> Offline {
    Offline::start_with(|config| config.set("server.cors_origins", json!([LISTED, OTHER_LISTED]))).await
}

#[tokio::test]
async fn a_listed_origin_may_send_what_it_likes() {
    let bench = listed().await;
    let many: Vec<String> = (0..100).map(|i| format!("x-header-{i}")).collect();
    let many = many.join(",");
    for origin in [LISTED, OTHER_LISTED] {
        for path in ["/verify", "/settle", "/supported", "//verify", "/verify/", "/nowhere"] {
            for headers in [
                "",
                "content-type",
                "Content-Type, Authorization, PAYMENT-SIGNATURE, X-PAYMENT, Idempotency-Key",
                "x-never-heard-of,traceparent",
                "baggage , sentry-trace",
                many.as_str(),
            ] {
                let answer = preflight(&bench, path, origin, headers).await;
                let case = format!("{origin} {path} {headers}");
                assert_eq!((answer.status, answer.text.as_str()), (204, ""), "{case}");
                assert_eq!(allowed(&answer), Some(origin), "{case}");
                let methods = answer.header("access-control-allow-methods").unwrap_or_default();
                assert!(methods.contains("POST") && methods.contains("GET"), "{case}: {methods}");
                if !headers.is_empty() {
                    assert_eq!(answer.header("access-control-allow-headers"), Some(headers), "{case}");
                }
                assert_eq!(answer.header("access-control-allow-credentials"), None, "{case}");
            }
        }
        // The answers themselves, good or bad, can be read by the page.
        for path in ["/verify", "/settle", "/nowhere"] {
            assert_eq!(allowed(&post(&bench, path, origin).await), Some(origin), "{path}");
        }
        let refused =
            bench.client.request(Method::POST, "/verify", &[("origin", origin)], None).await.unwrap();
        assert_eq!((refused.status, allowed(&refused)), (415, Some(origin)));
        let late = post(&bench, "/settle", origin).await;
        let exposed = late.header("access-control-expose-headers").unwrap_or_default().to_lowercase();
        assert!(late.status == 503 && exposed.contains("retry-after"), "{exposed}");
    }
    bench.nothing_reserved().await;
}

/// An `OPTIONS` that asks for no permission is a method like any other.
#[tokio::test]
async fn what_is_no_preflight_is_405() {
    let bench = listed().await;
    for path in ["/verify", "/settle", "/supported", "//verify/"] {
        for headers in [
            vec![],
            vec![("origin", LISTED)],
            vec![("access-control-request-method", "POST")],
            vec![("access-control-request-headers", "content-type")],
        ] {
            let answer = bench.client.request(Method::OPTIONS, path, &headers, None).await.unwrap();
            assert_eq!(answer.status, 405, "{path} {headers:?} {}", answer.text);
            assert!(answer.header("allow").is_some(), "{path} {headers:?}");
        }
    }
    let answer = bench.client.request(Method::OPTIONS, "/nowhere", &[], None).await.unwrap();
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn an_origin_that_is_not_listed_stays_outside() {
    let bench = listed().await;
    for origin in [
        "https://evil.example",
        "https://shop.example.evil.example",
        "https://xshop.example",
        "http://shop.example",
        "https://shop.example:8443",
        "https://shop.example/",
        "https://SHOP.example",
        "null",
        "*",
        "",
    ] {
        for path in ["/verify", "/settle"] {
            assert_eq!(allowed(&preflight(&bench, path, origin, "content-type").await), None, "{origin}");
            assert_eq!(allowed(&post(&bench, path, origin).await), None, "{origin}");
        }
    }
    // Caches must not hand one origin's answer to another.
    let answer = post(&bench, "/verify", LISTED).await;
    assert!(answer.header("vary").unwrap_or_default().to_lowercase().contains("origin"));
}
