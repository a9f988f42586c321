//! Bodies that are not a JSON object, and the content types they come under.

use crate::support::{
    Endpoint,
    offline::{Expect, Offline, VERSIONS, payment, unread},
    shape::{No, network_of, payer_of},
};
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
        ("an unknown escape", with("A report", b"A \\x41")),
        ("an unknown escape and half a pair", with("A report", b"A \\x41 \\ud800")),
        ("half an escape", with("A report", b"A \\ud8")),
        ("10000 open arrays", "[".repeat(10_000).into_bytes()),
        ("open arrays up to the limit", "[".repeat(262_144).into_bytes()),
        ("open objects up to the limit", "{\"\":".repeat(52_428).into_bytes()),
    ];
    for (case, bytes) in cases {
        bench.bytes_refused(JSON, &bytes, 400, case).await;
    }
    bench.nothing_reserved().await;
}

/// A valid body with text in the place of the value at a pointer.
fn with_raw(version: X402Version, pointer: &str, raw: &str) -> String {
    const HERE: &str = "the place";
    let mut body = payment(version).body().clone();
    let (object, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(object).unwrap()[name] = HERE.into();
    body.to_string().replace(&json!(HERE).to_string(), raw)
}

/// Grammar makes a text JSON: that a reader cannot hold all of it does not.
#[tokio::test]
async fn json_that_is_hard_to_hold_is_judged_like_any_other() {
    let bench = Offline::start().await;
    let digits = "1".repeat(400);
    let check = async |text: &str, expect: Expect, body: &Value| {
        for endpoint in Endpoint::BOTH {
            let before = bench.asked();
            let answer =
                bench.client.post_bytes(endpoint.path(), JSON, text.as_bytes().to_vec()).await.unwrap();
            let (status, code) = match expect {
                Expect::Refused(code) => (200, code),
                Expect::Asked => (503, endpoint.unexpected()),
            };
            let case = &text[..text.len().min(3_000)];
            No { status, code, network: network_of(body), payer: payer_of(body) }
                .check(endpoint, &answer, case);
            assert_eq!(bench.asked() > before, expect == Expect::Asked, "{case}");
            if answer.status == 200 && text.len() > 3_000 {
                assert!(answer.text.contains("127 levels"), "{}", answer.text);
            }
        }
    };
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for version in VERSIONS {
        let body = payment(version).body().clone();
        let text = match version {
            X402Version::V1 => "/paymentRequirements/description",
            X402Version::V2 => "/paymentPayload/resource/description",
        };
        // What JSON.stringify writes for a text that was cut within an emoji.
        check(&with_raw(version, text, "\"Weather report \\ud83d\""), Expect::Asked, &body).await;
        for raw in ["1e400", "-1e400", &digits, "\"\\udc00\"", "{\"$serde_json::private::RawValue\":1}"] {
            check(&with_raw(version, "/unknown", raw), Expect::Asked, &body).await;
        }
        for raw in ["1e400", &digits] {
            let timeout = with_raw(version, "/paymentRequirements/maxTimeoutSeconds", raw);
            check(&timeout, Expect::Refused("invalid_payment_requirements"), &body).await;
            check(&with_raw(version, "/x402Version", raw), Expect::Refused("invalid_x402_version"), &body)
                .await;
            let value = with_raw(version, "/paymentPayload/payload/authorization/value", raw);
            check(&value, Expect::Refused("invalid_payload"), &body).await;
        }
        check(&with_raw(version, "/unknown", &deep), Expect::Refused("invalid_payload"), &body).await;
    }
    let half = "\\ud800".repeat(43_000);
    for (text, code) in [
        (deep.clone(), "invalid_payload"),
        ("{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000), "invalid_payload"),
        ("[".repeat(131_072) + &"]".repeat(131_072), "invalid_payload"),
    ] {
        check(&text, Expect::Refused(code), &Value::Null).await;
    }
    // The worst of the largest.
    for (text, code) in [
        (format!("\"{half}\""), "invalid_payload"),
        (format!("[1e400{}]", " ".repeat(260_000)), "invalid_payload"),
        ("1".repeat(262_144), "invalid_payload"),
        (format!("{{\"x\":[{}1]}}", "1e400,".repeat(43_000)), "invalid_x402_version"),
    ] {
        for endpoint in Endpoint::BOTH {
            let answer =
                bench.client.post_bytes(endpoint.path(), JSON, text.clone().into_bytes()).await.unwrap();
            No { status: 200, code, network: "unknown:unknown", payer: None }.check(endpoint, &answer, code);
        }
    }
    // A name that the JSON library keeps for itself: texts that are JSON, one within the other. On a worker's stack.
    let mut texts = "1".to_owned();
    while texts.len() < 64 * 1024 {
        let text = json!("[".repeat(120) + &texts + &"]".repeat(120));
        texts = format!("{{\"$serde_json::private::RawValue\":{text}}}");
    }
    check(&with_raw(X402Version::V2, "/unknown", &texts), Expect::Asked, payment(X402Version::V2).body())
        .await;
    // The payee check reads its bodies the same way.
    let ask = async |extra: &str| {
        let body = payment(X402Version::V2).body().to_string();
        let body = body.replacen('{', &format!("{{{extra}"), 1);
        bench.client.post_bytes("/payee", JSON, body.into_bytes()).await.unwrap()
    };
    let plain = ask("").await;
    for extra in ["\"x\":\"\\ud83d\",", "\"x\":1e400,"] {
        let answer = ask(extra).await;
        assert_eq!(
            (answer.status, &answer.json["outcome"]),
            (plain.status, &plain.json["outcome"]),
            "{extra}"
        );
    }
    let answer = ask(&format!("\"x\":{deep},")).await;
    assert_eq!((answer.status, &answer.json["error"]), (400, &json!("invalid_payload")), "{}", answer.text);
    assert!(answer.text.contains("127 levels"), "{}", answer.text);
    bench.nothing_reserved().await;
}

/// What it unpacks to is not looked at.
#[tokio::test]
async fn bodies_are_not_unpacked() {
    let bench = Offline::start().await;
    for (coding, status) in [
        ("gzip", 415),
        ("br", 415),
        ("deflate, identity", 415),
        ("identity, gzip", 415),
        ("x", 415),
        ("identity", 503),
        ("Identity", 503),
        ("", 503),
    ] {
        for endpoint in Endpoint::BOTH {
            let headers = [("content-type", JSON), ("content-encoding", coding)];
            let request =
                bench.client.request(reqwest::Method::POST, endpoint.path(), &headers, Some(valid()));
            let answer = request.await.unwrap();
            match status {
                415 => unread(status, endpoint, &answer, coding),
                _ => assert_eq!(answer.status, status, "{coding:?} {}", answer.text),
            }
        }
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
    // Read as UTF-8, such a text could be another one.
    for charset in ["iso-8859-1", "\"UTF-16\"", "us-ascii", "utf-8x", ""] {
        for content_type in [
            format!("application/json; charset={charset}"),
            format!("application/json;q=1; Charset={charset}"),
        ] {
            bench.bytes_refused(&content_type, &valid, 415, &content_type).await;
        }
    }
    let two_types = [("content-type", "text/plain"), ("content-type", "application/json")];
    let answer =
        bench.client.request(reqwest::Method::POST, "/verify", &two_types, Some(valid)).await.unwrap();
    assert_eq!(answer.status, 415, "{}", answer.text);
    bench.expect(payment(X402Version::V2).body(), Expect::Asked, "unchanged").await;
    bench.nothing_reserved().await;
}
