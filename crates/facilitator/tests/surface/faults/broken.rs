//! Answers that are no answers.

use crate::support::{Endpoint, offline::VERSIONS, online::Online, shape};
use alloy_primitives::{Bytes, hex, keccak256};
use quittance_testkit::{
    Anvil, SignedPayment, X402Version, dev_signer,
    harness::{Fault, Rule, SECRET_MARKER},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A node's words, with all that must not be passed on.
fn words() -> String {
    format!("execution reverted: FiatTokenV2: invalid signature, said http://127.0.0.1:8545/{SECRET_MARKER}")
}

fn bodies() -> Vec<(&'static str, Fault)> {
    let body = |text: &str| Fault::Body(text.to_owned());
    vec![
        ("a page", body("<html><body>Bad gateway at http://127.0.0.1/SECRETKEYMARKER</body></html>")),
        ("nothing", body("")),
        ("null", body("null")),
        ("true", body("true")),
        ("an empty object", body("{}")),
        ("an empty list", body("[]")),
        ("half an answer", body(r#"{"jsonrpc":"2.0","id":0,"resu"#)),
        ("no result", body(r#"{"jsonrpc":"2.0","id":0}"#)),
        ("a list of answers", body(r#"[{"jsonrpc":"2.0","id":0,"result":"0x"}]"#)),
        ("a null error beside null", body(r#"{"jsonrpc":"2.0","id":0,"error":null,"result":null}"#)),
        ("an error of another shape", body(r#"{"jsonrpc":"2.0","id":0,"error":"SECRETKEYMARKER"}"#)),
        ("not even text", body("\u{0}\u{1}\u{2}")),
        ("ten megabytes of nothing", Fault::Body(" ".repeat(10_000_000))),
    ]
}

fn results() -> Vec<(&'static str, Fault)> {
    vec![
        ("null", Fault::Answer(Value::Null)),
        ("0x", Fault::Answer(json!("0x"))),
        ("0x00", Fault::Answer(json!("0x00"))),
        ("a word of zero", Fault::Answer(json!(format!("0x{}", "0".repeat(64))))),
        ("a word of ones", Fault::Answer(json!(format!("0x{}", "f".repeat(64))))),
        ("noise", Fault::Answer(json!(noise(4096)))),
        ("odd hex", Fault::Answer(json!("0x0"))),
        ("text", Fault::Answer(json!("SECRETKEYMARKER"))),
        ("a number", Fault::Answer(json!(1))),
        ("an object", Fault::Answer(json!({"to": SECRET_MARKER}))),
        ("true", Fault::Answer(json!(true))),
        ("half the bytes", Fault::rewrite(|result| cut(&result, 2))),
        ("all but a word", Fault::rewrite(|result| json!(&text(&result)[..text(&result).len() - 64]))),
        ("all but a byte", Fault::rewrite(|result| json!(&text(&result)[..text(&result).len() - 2]))),
        ("noise of the right length", Fault::rewrite(|result| json!(noise(text(&result).len() / 2 - 1)))),
        (
            "the right head, then noise",
            Fault::rewrite(|result| {
                let head = &text(&result)[..2 + 64 * 2];
                json!(format!("{head}{}", &noise(text(&result).len() / 2 - 65)[2..]))
            }),
        ),
    ]
}

fn errors() -> Vec<(&'static str, Fault)> {
    let error = |code, data: Value| Fault::Error { code, message: words(), data };
    let reason = hex::encode_prefixed(
        [&hex::decode("08c379a0").unwrap()[..], &[0; 31], &[32], &[0; 31], &[5], b"wrong", &[0; 27]].concat(),
    );
    vec![
        ("a revert", error(3, json!(reason))),
        ("a revert without data", error(3, Value::Null)),
        ("a revert with its own code", error(-32000, json!("0x"))),
        ("a limit", error(-32005, json!({"see": "http://127.0.0.1/SECRETKEYMARKER"}))),
        ("no such method", error(-32601, Value::Null)),
        ("an internal error", error(-32603, Value::Null)),
        ("an error of code 0", error(0, Value::Null)),
        ("no funds", Fault::error(-32000, "insufficient funds for gas * price + value")),
        ("a state that is gone", Fault::error(-32000, "missing trie node (path )")),
    ]
}

fn statuses() -> Vec<(&'static str, Fault)> {
    [
        (301, "301"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (429, "429"),
        (500, "500"),
        (502, "502"),
        (503, "503"),
    ]
    .map(|(status, case)| (case, Fault::HttpStatus(status)))
    .to_vec()
}

fn text(result: &Value) -> String {
    result.as_str().unwrap().to_owned()
}

fn cut(result: &Value, part: usize) -> Value {
    let text = text(result);
    json!(&text[..text.len() / part / 2 * 2])
}

/// Bytes nobody chose, always the same.
fn noise(length: usize) -> String {
    let mut bytes = Vec::with_capacity(length + 32);
    let mut word = keccak256("noise");
    while bytes.len() < length {
        bytes.extend_from_slice(word.as_slice());
        word = keccak256(word);
    }
    bytes.truncate(length);
    hex::encode_prefixed(bytes)
}

/// Meets every fault with a payment nothing is wrong with and with one whose signature is another's: neither is decided.
async fn none_is_an_answer(faults: Vec<(&'static str, Fault)>) {
    let bench = Online::start().await;
    let mut number = 0;
    for (case, fault) in faults {
        for version in VERSIONS {
            let good = bench.payment(version).await.sign();
            let forged = bench.payment(version).await.sign().with_signature(stranger(&bench, version).await);
            bench.proxy.add(Rule::any().then(fault.clone()));
            for payment in [&good, &forged] {
                bench.undecided(payment, &format!("{case}, {version:?}")).await;
                assert_eq!(bench.rows(payment).await, Vec::<Value>::new(), "{case}");
            }
            bench.proxy.clear();
            // Over the moment the node is back.
            number += 1;
            bench.accepted(&good, &format!("after {case}")).await;
            assert_eq!(bench.proxy.count("eth_sendRawTransaction"), number, "{case}");
        }
    }
}

async fn stranger(bench: &Online, version: X402Version) -> Bytes {
    bench.payment(version).await.payer(dev_signer(3)).sign().signature().clone()
}

#[tokio::test]
async fn http_errors_are_no_answer() {
    none_is_an_answer(statuses()).await;
}

#[tokio::test]
async fn other_bodies_are_no_answer() {
    none_is_an_answer(bodies()).await;
}

#[tokio::test]
async fn node_errors_are_no_answer() {
    none_is_an_answer(errors()).await;
}

#[tokio::test]
async fn other_results_are_no_answer() {
    none_is_an_answer(results()).await;
}

#[tokio::test]
async fn cut_connections_are_no_answer() {
    none_is_an_answer(vec![("cut before", Fault::Drop), ("cut after", Fault::lost_answer())]).await;
}

#[tokio::test]
async fn a_node_that_is_down_is_no_answer() {
    let bench = Online::start().await;
    for version in VERSIONS {
        let payment = bench.payment(version).await.sign();
        bench.proxy.down(true);
        bench.undecided(&payment, "down").await;
        assert_eq!(bench.rows(&payment).await, Vec::<Value>::new());
        let ready = bench.client.get("/readyz").await.unwrap();
        assert_eq!(ready.status, 503);
        bench.tells_nothing(&ready, "down");
        bench.proxy.down(false);
        bench.accepted(&payment, "up again").await;
    }
    assert_eq!(bench.proxy.count("eth_sendRawTransaction"), 2);
}

/// A right answer about another chain says nothing about this one.
#[tokio::test]
async fn another_chain_is_no_answer() {
    let bench = Online::start().await;
    let other = Anvil::builder().chain_id(1).spawn().await.unwrap();
    for version in VERSIONS {
        let payment = bench.payment(version).await.sign();
        bench.proxy.set_upstream(other.url());
        bench.undecided(&payment, "another chain").await;
        assert_eq!(bench.rows(&payment).await, Vec::<Value>::new());
        let ready = bench.client.get("/readyz").await.unwrap();
        assert_eq!(ready.status, 503);
        assert!(ready.text.contains("chain 1"), "{}", ready.text);
        bench.proxy.set_upstream(bench.anvil.url());
        bench.accepted(&payment, "the right chain again").await;
    }
}

/// The answer to another question, with its id: JSON-RPC's own way to tell them apart.
#[tokio::test]
async fn the_answer_to_another_request_is_no_answer() {
    let bench = Online::start().await;
    let seen: Arc<Mutex<Option<Value>>> = Arc::default();
    let keep = seen.clone();
    let watch = Fault::rewrite(move |result| {
        *keep.lock().unwrap() = Some(result.clone());
        result
    });
    bench.proxy.add(Rule::on("eth_call").then(watch));
    let rich = bench.payment(X402Version::V2).await.sign();
    shape::valid(&bench.post(Endpoint::Verify, &rich).await, rich.payer(), "control");
    bench.proxy.clear();
    let answer = seen.lock().unwrap().clone().unwrap();
    for id in [json!(987_654_321), json!("0"), Value::Null, json!(-1)] {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": answer}).to_string();
        bench.proxy.add(Rule::on("eth_call").then(Fault::Body(body)));
        // Nobody ever paid this one a cent; the other payment's facts say otherwise.
        let poor: SignedPayment = bench.payment(X402Version::V2).await.payer(dev_signer(5)).sign();
        bench.undecided(&poor, &format!("id {id}")).await;
        bench.proxy.clear();
    }
}

/// A node that lies about one word can be believed or not; the server takes no harm from it, and one that lies about the
/// shape is never believed.
#[tokio::test]
async fn a_corrupted_word_does_no_harm() {
    let bench = Online::start().await;
    let poor = bench.payment(X402Version::V2).await.payer(dev_signer(5)).sign();
    let words = Arc::new(Mutex::new(0));
    let seen = words.clone();
    bench.proxy.add(Rule::on("eth_call").times(1).then(Fault::rewrite(move |result| {
        *seen.lock().unwrap() = (text(&result).len() - 2) / 64;
        result
    })));
    bench.refused(&poor, "invalid_exact_evm_insufficient_balance", "control").await;
    let words = *words.lock().unwrap();
    assert!(words > 40, "{words}");
    let values = [
        "0".repeat(64),
        "f".repeat(64),
        format!("{:064x}", 1),
        format!("{:064x}", u64::MAX),
        format!("8{}", "0".repeat(63)),
    ];
    for number in 0..words {
        for value in values.clone() {
            let case = format!("word {number} is {value}");
            let at = 2 + 64 * number;
            let change = move |result: Value| {
                let mut text = text(&result);
                text.replace_range(at..at + 64, &value);
                json!(text)
            };
            bench.proxy.add(Rule::on("eth_call").then(Fault::rewrite(change)));
            let answer = bench.post(Endpoint::Verify, &poor).await;
            match answer.status {
                503 => bench.is_undecided(Endpoint::Verify, &answer, &poor, &case),
                status => assert_eq!(
                    (status, answer.json["isValid"].as_bool()),
                    (200, Some(false)),
                    "{case} {}",
                    answer.text
                ),
            }
            bench.proxy.clear();
        }
    }
    let good = bench.payment(X402Version::V2).await.sign();
    bench.accepted(&good, "afterwards").await;
}
