//! `Authorization: Bearer KEY`.

use crate::support::{
    Endpoint,
    offline::{Offline, payment},
    shape::No,
};
use quittance_testkit::{X402Version, client::Answer, harness::SECRET_MARKER};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;

fn key(number: u8) -> String {
    format!("{SECRET_MARKER}-{number}-4f9d1c")
}

async fn bench() -> Offline {
    // One of them from a file, as containers get them, with the line end an editor leaves.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{}\n", key(2))).unwrap();
    let keys = json!(["env:KEY_ONE", format!("file:{}", file.path().display())]);
    Offline::start_with(|config| config.set("server.api_keys", keys).env("KEY_ONE", key(1))).await
}

async fn post(bench: &Offline, endpoint: Endpoint, authorization: &[&str]) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(authorization.iter().map(|value| ("authorization", *value)));
    let body = payment(X402Version::V2).body().to_string().into_bytes();
    bench.client.request(Method::POST, endpoint.path(), &headers, Some(body)).await.unwrap()
}

#[tokio::test]
async fn a_wrong_key_is_401_whatever_is_wrong_with_it() {
    let bench = bench().await;
    let before = bench.asked();
    let (one, two) = (key(1), key(2));
    let wrong = [
        vec![],
        vec![String::new()],
        vec!["Bearer".to_owned()],
        vec!["Bearer ".to_owned()],
        vec![one.clone()],
        vec![format!("Basic {one}")],
        vec![format!("Bearer:{one}")],
        vec![format!("Bearer\t{one}")],
        vec![format!("Bearer  {one}")],
        vec![format!("Bearer \"{one}\"")],
        vec![format!("Bearer {}", &one[1..])],
        vec![format!("Bearer {}", &one[..one.len() - 1])],
        vec![format!("Bearer {one}x")],
        vec![format!("Bearer {}", one.to_lowercase())],
        vec![format!("Bearer {one},{two}")],
        vec![format!("Bearer {one} {two}")],
        vec![format!("Bearer {}", "k".repeat(8_000))],
        vec!["Bearer env:KEY_ONE".to_owned()],
        vec!["Bearer wrong".to_owned(), format!("Bearer {one}")],
    ];
    for endpoint in Endpoint::BOTH {
        let mut texts = BTreeSet::new();
        for authorization in &wrong {
            let authorization: Vec<&str> = authorization.iter().map(String::as_str).collect();
            let answer = post(&bench, endpoint, &authorization).await;
            let (status, code) = (401, endpoint.unexpected());
            let case = format!("{authorization:.30?}");
            No { status, code, network: "unknown:unknown", payer: None }.check(endpoint, &answer, &case);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{case}");
            texts.insert(answer.text);
        }
        assert_eq!(texts.len(), 1, "the answer does not tell how wrong it was");
    }
    assert_eq!(bench.asked(), before);
    bench_log_is_silent(&bench);
}

fn bench_log_is_silent(bench: &Offline) {
    assert!(!bench.server.log_text().contains(SECRET_MARKER));
}

#[tokio::test]
async fn a_right_key_opens_every_path() {
    let bench = bench().await;
    for key in [key(1), key(2)] {
        for authorization in [format!("Bearer {key}"), format!("bearer {key}"), format!("BEARER {key}")] {
            for endpoint in Endpoint::BOTH {
                let answer = post(&bench, endpoint, &[authorization.as_str()]).await;
                assert_eq!(answer.status, 503, "{}", answer.text);
            }
            let headers = [("authorization", authorization.as_str())];
            for path in ["/supported", "/settlements?network=eip155:84532"] {
                let answer = bench.client.request(Method::GET, path, &headers, None).await.unwrap();
                assert_eq!(answer.status, 200, "{path}");
            }
        }
    }
    bench_log_is_silent(&bench);
}

#[tokio::test]
async fn only_the_probes_are_open() {
    let bench = bench().await;
    for path in
        ["/supported", "/settlements?network=eip155:84532", "/settlements/1", "//supported", "/supported/"]
    {
        let answer = bench.client.get(path).await.unwrap();
        assert_eq!(answer.status, 401, "{path} {}", answer.text);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
        let error = answer.json["error"].as_str().unwrap();
        assert!(!error.contains("verify"), "{path} {}", answer.text);
    }
    // Which methods a path takes is nobody's business without a key.
    assert_eq!(bench.client.get("/verify").await.unwrap().status, 401);
    for endpoint in Endpoint::BOTH {
        for path in [format!("/{}", endpoint.path()), format!("{}/", endpoint.path())] {
            let answer = bench.client.post(&path, payment(X402Version::V2).body(), &[]).await.unwrap();
            assert_eq!(answer.status, 401, "{path}");
        }
        let in_query = format!("{}?api_key={}&access_token={}", endpoint.path(), key(1), key(1));
        let answer = bench.client.post(&in_query, payment(X402Version::V2).body(), &[]).await.unwrap();
        assert_eq!(answer.status, 401);
        let other_headers = [("x-api-key", key(1)), ("proxy-authorization", format!("Bearer {}", key(1)))];
        for (name, value) in &other_headers {
            let body = payment(X402Version::V2);
            let answer =
                bench.client.post(endpoint.path(), body.body(), &[(*name, value.as_str())]).await.unwrap();
            assert_eq!(answer.status, 401, "{name}");
        }
    }
    assert_eq!(bench.client.get("/healthz").await.unwrap().status, 200);
    let ready = bench.client.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503, "its node is not there");
    bench_log_is_silent(&bench);
}

/// A browser asks before it sends the key.
#[tokio::test]
async fn a_preflight_needs_no_key() {
    let origin = "https://shop.example";
    let bench = Offline::start_with(|config| {
        config
            .set("server.api_keys", json!(["env:KEY_ONE"]))
            .set("server.cors_origins", json!([origin]))
            .env("KEY_ONE", key(1))
    })
    .await;
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization"),
    ];
    let answer = bench.client.request(Method::OPTIONS, "/settle", &headers, None).await.unwrap();
    assert_eq!(answer.status, 204, "{}", answer.text);
    let answer =
        bench.client.post("/settle", payment(X402Version::V2).body(), &[("origin", origin)]).await.unwrap();
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (401, Some(origin)));
}
