//! Bodies that are not a JSON object, and the content types they come under.

use crate::support::offline::{Expect, Offline, VERSIONS, payment};
use quittance_testkit::X402Version;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const BOM: &[u8] = b"\xef\xbb\xbf";

fn valid() -> Vec<u8> {
    payment(X402Version::V2).body().to_string().into_bytes()
}

/// The valid body with one string replaced, as bytes: it need not be JSON afterwards.
fn with(from: &str, to: &[u8]) -> Vec<u8> {
    let body = payment(X402Version::V2).body().to_string();
    let (before, after) = body.split_once(from).unwrap();
    [before.as_bytes(), to, after.as_bytes()].concat()
}

#[tokio::test]
async fn what_is_not_json_is_400() {
    let bench = Offline::start().await;
    let valid = valid();
    let nested = |open: &str, inner: &str, close: &str, levels| {
        [open.repeat(levels), inner.to_owned(), close.repeat(levels)].concat().into_bytes()
    };
    let utf16: Vec<u8> = String::from_utf8_lossy(&valid).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("white space", b" \r\n\t".to_vec()),
        ("a word", b"payment".to_vec()),
        ("undefined", b"undefined".to_vec()),
        ("NaN", b"NaN".to_vec()),
        ("an open brace", b"{".to_vec()),
        ("half of it", valid[..valid.len() / 2].to_vec()),
        ("all but the last byte", valid[..valid.len() - 1].to_vec()),
        ("two documents", [valid.clone(), valid.clone()].concat()),
        ("something behind it", [&valid[..], b"x"].concat()),
        ("a byte order mark", [BOM, &valid].concat()),
        ("UTF-16", utf16),
        ("a NUL in front", [b"\0", &valid[..]].concat()),
        ("single quotes", b"{'x402Version':2}".to_vec()),
        ("bare keys", b"{x402Version:2}".to_vec()),
        ("a trailing comma", b"{\"x402Version\":2,}".to_vec()),
        ("a comment", b"{\"x402Version\":2}//".to_vec()),
        ("a form", b"x402Version=2&paymentPayload=".to_vec()),
        ("base64 of a payment", b"eyJ4NDAyVmVyc2lvbiI6Mn0=".to_vec()),
        ("a control character in a string", with("A report", b"A\nreport")),
        ("invalid UTF-8 in a string", with("A report", b"A \xff report")),
        ("half a character", with("A report", b"A \xe2\x82")),
        ("an encoded surrogate", with("A report", b"A \xed\xa0\x80")),
        ("half an escaped surrogate pair", with("A report", b"A \\ud800")),
        ("an unknown escape", with("A report", b"A \\x41")),
        ("a number no double holds", with("300", b"1e400")),
        ("10000 arrays deep", nested("[", "", "]", 10_000)),
        ("10000 objects deep", nested("{\"a\":", "1", "}", 10_000)),
        ("10000 open arrays", nested("[", "", "", 10_000)),
        ("10000 deep in a field nobody reads", with("\"A report\"", &nested("[", "", "]", 10_000))),
    ];
    for (case, bytes) in cases {
        bench.bytes_refused(JSON, &bytes, 400, case).await;
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn json_that_is_no_object_is_an_invalid_payload() {
    let bench = Offline::start().await;
    for body in [json!([]), json!([{}]), json!("{}"), json!(""), json!(7), json!(true), Value::Null] {
        bench.refused(&body, "invalid_payload", &body.to_string()).await;
    }
    bench.refused(&json!([payment(X402Version::V2).body()]), "invalid_payload", "a payment in a list").await;
    bench.refused(&json!({}), "invalid_x402_version", "an empty object").await;
    bench.refused(&json!({"x402Version": 2}), "invalid_payload", "a version alone").await;
    let no_payload =
        json!({"x402Version": 2, "paymentRequirements": payment(X402Version::V2).requirements()});
    bench.refused(&no_payload, "invalid_payload", "requirements alone").await;
    let no_requirements = json!({"x402Version": 2, "paymentPayload": payment(X402Version::V2).payload()});
    bench.refused(&no_requirements, "invalid_payment_requirements", "a payload alone").await;
    bench.nothing_reserved().await;
}

/// What writers of JSON do differently without meaning anything by it.
#[tokio::test]
async fn the_form_of_json_does_not_matter() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        let payment = payment(version);
        let compact = payment.body().to_string();
        let pretty = serde_json::to_string_pretty(payment.body()).unwrap();
        let escaped = compact.replace("exact", "\\u0065xact").replace("USDC", "\\u0055SDC");
        let reversed = reversed(payment.body());
        let spaced = format!("\r\n\t {compact} \n");
        // As in JavaScript and Python, the last of two equal keys counts.
        let doubled = compact.replacen("\"x402Version\":", "\"x402Version\":7,\"x402Version\":", 1);
        for text in [compact, pretty, escaped, reversed, spaced, doubled] {
            let before = bench.asked();
            let answer = bench.client.post_bytes("/verify", JSON, text.clone().into_bytes()).await.unwrap();
            assert_eq!(answer.status, 503, "{text} {}", answer.text);
            assert!(bench.asked() > before, "{text}");
        }
    }
    let twice = with("\"validAfter\":", b"\"from\":\"nobody\",\"validAfter\":");
    let answer = bench.client.post_bytes("/verify", JSON, twice).await.unwrap();
    assert!(matches!(answer.status, 200 | 503), "{}", answer.text);
    bench.nothing_reserved().await;
}

/// The object with its keys in the opposite order, at every level.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().rev().map(|(key, value)| format!("{}:{}", json!(key), reversed(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

#[tokio::test]
async fn only_json_types_are_read() {
    let bench = Offline::start().await;
    let valid = valid();
    for content_type in [
        "",
        "text/plain",
        "text/json",
        "text/html; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/octet-stream",
        "application/jsonx",
        "application/json, text/plain",
        "application",
        "json",
        "*/*",
        "; charset=utf-8",
        "+json",
    ] {
        bench.bytes_refused(content_type, &valid, 415, content_type).await;
        bench.bytes_refused(content_type, b"", 415, content_type).await;
    }
    for content_type in [
        "application/json",
        "APPLICATION/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=\"UTF-8\"; q=1",
        " application/json ",
        "application/vnd.x402+json",
    ] {
        let answer = bench.client.post_bytes("/verify", content_type, valid.clone()).await.unwrap();
        assert_eq!(answer.status, 503, "{content_type:?} {}", answer.text);
    }
    // The body is read as UTF-8 whatever the parameter says.
    let latin1 = with("A report", b"\xa3");
    bench.bytes_refused("application/json; charset=iso-8859-1", &latin1, 400, "latin 1").await;
    let two_types = [("content-type", "text/plain"), ("content-type", "application/json")];
    let answer =
        bench.client.request(reqwest::Method::POST, "/verify", &two_types, Some(valid)).await.unwrap();
    assert_eq!(answer.status, 415, "{}", answer.text);
    bench.expect(payment(X402Version::V2).body(), Expect::Asked, "unchanged").await;
    bench.nothing_reserved().await;
}
