//! Nothing that gives power is in a log, whatever happens and however much is logged.

use crate::{
    rules::cast::{Cast, Kind},
    support::{Endpoint, cli::no_secrets, offline::VERSIONS},
};
use quittance_testkit::{
    Facilitator, SignedPayment, X402Version, dev_signer,
    harness::{ConfigBuilder, Fault, Rule, SECRET_MARKER},
    payment::high_s_twin,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Every library is asked to say all it can.
const EVERYTHING: &str = "trace,hyper=trace,hyper_util=trace,reqwest=trace,alloy=trace,alloy_rpc_client=trace,\
                          alloy_transport_http=trace,sqlx=trace,tower=trace,tower_http=trace,axum=trace,tokio=trace";
/// Shorter runs of hex digits are ids and addresses.
const TELLING: usize = 64;

fn everything(config: ConfigBuilder) -> ConfigBuilder {
    config
        .set("server.api_keys", json!(["env:API_KEY"]))
        .set("server.body_bytes_max", json!(300_000))
        .wait_seconds(2)
        .env("API_KEY", format!("{SECRET_MARKER}-k3y"))
        .env("RUST_LOG", EVERYTHING)
        .env("RUST_BACKTRACE", "full")
}

struct Session {
    cast: Cast,
    client: Facilitator,
    /// Everything that was shown to the server.
    payments: Vec<SignedPayment>,
}

impl Session {
    async fn start() -> Self {
        let cast = Cast::start_with(everything).await;
        let client = cast.bench.client.clone().api_key(format!("{SECRET_MARKER}-k3y"));
        Self { cast, client, payments: Vec::new() }
    }

    /// Sends it to both endpoints; their answers hold none of it either.
    async fn show(&mut self, payment: SignedPayment) -> [Value; 2] {
        let mut answers = [Value::Null, Value::Null];
        for (answer, endpoint) in answers.iter_mut().zip(Endpoint::BOTH) {
            let got = endpoint.post(&self.client, payment.body()).await;
            no_secrets(&got.text);
            assert!(!got.text.contains(&text(payment.signature())), "{}", got.text);
            *answer = got.json;
        }
        self.payments.push(payment);
        answers
    }

    /// All that must be in no log.
    fn powers(&self) -> Vec<String> {
        let signed = self.payments.iter().flat_map(|payment| {
            [text(payment.signature()), text(payment.nonce().as_slice()), text(payment.transfer_call())]
        });
        let sent = self.cast.bench.proxy.calls();
        let sent = sent.iter().flat_map(|call| strings(&call.params));
        let sent = sent.map(|text| text.trim_start_matches("0x").to_owned());
        signed.chain(sent).filter(|text| text.len() >= TELLING).collect()
    }
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    alloy_primitives::hex::encode(bytes)
}

/// Every string in a value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(strings).collect(),
        Value::Object(map) => map.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn a_whole_session_leaves_no_power_in_the_log() {
    let mut session = Session::start().await;
    for version in VERSIONS {
        accepted(&mut session, version).await;
        refused(&mut session, version).await;
        unreadable(&mut session, version).await;
        faulty(&mut session, version).await;
    }
    // What the operator's tools collect.
    let operator = Facilitator::new(session.cast.bench.server.operator_url()).unwrap();
    let metrics = operator.get("/metrics").await.unwrap();
    assert_eq!(metrics.status, 200);
    assert!(session.cast.bench.server.sigterm().await.unwrap().success());

    let log = format!("{}{}", metrics.text, session.cast.bench.server.log_text());
    assert!(log.contains("signed") && log.contains("no decision"), "the session is in the log: {log}");
    no_secrets(&log);
    let lower = log.to_lowercase();
    let powers = session.powers();
    assert!(powers.len() > 100, "{}", powers.len());
    let hashes: Vec<String> = hashes(&session);
    for power in powers {
        // A transaction's hash is public, and asked for by receipts.
        if !hashes.contains(&power) {
            assert!(!lower.contains(&power.to_lowercase()), "{power:.80}… is in the log");
        }
    }
}

fn hashes(session: &Session) -> Vec<String> {
    let receipts = session.cast.bench.proxy.calls_of("eth_getTransactionReceipt");
    receipts
        .iter()
        .flat_map(|call| strings(&call.params))
        .map(|hash| hash.trim_start_matches("0x").to_owned())
        .collect()
}

async fn accepted(session: &mut Session, version: X402Version) {
    for kind in Kind::ALL {
        let payment = session.cast.sign(kind, session.cast.bench.payment(version).await).await;
        let [verified, settled] = session.show(payment.clone()).await;
        assert_eq!(
            (&verified["isValid"], &settled["success"]),
            (&json!(true), &json!(true)),
            "{verified} {settled}"
        );
        // A replay, with an idempotency key this time.
        session.show(payment.clone()).await;
        let key = [("idempotency-key", "session-key-1")];
        session.client.settle_with(payment.body(), &key).await.unwrap();
    }
}

async fn refused(session: &mut Session, version: X402Version) {
    let code = if version == X402Version::V1 { "V1" } else { "V2" };
    for kind in Kind::ALL {
        let builder = session.cast.bench.payment(version).await;
        let stranger = session.cast.sign_as(kind, builder.clone(), Some(7), |signature| signature).await;
        let twin = session
            .cast
            .sign_as(kind, builder.clone(), Some(7), |signature| high_s_twin(&signature).unwrap())
            .await;
        let late = session.cast.sign(kind, builder.clone().valid_before(1)).await;
        let dear = session.cast.sign(kind, builder.clone().amount(u128::MAX)).await;
        let named = session.cast.sign(kind, builder.domain("USD Coin", "2")).await;
        for payment in [stranger, twin, late, dear, named] {
            let [verified, settled] = session.show(payment).await;
            assert_eq!(
                (&verified["isValid"], &settled["success"]),
                (&json!(false), &json!(false)),
                "{code} {kind:?}"
            );
        }
    }
}

/// Bodies that hold a payment and are none.
async fn unreadable(session: &mut Session, version: X402Version) {
    let payment = session.cast.bench.payment(version).await.sign();
    let body = payment.body().to_string();
    let long = payment.clone().with_signature(vec![0xab; 100_000]);
    let odd = payment.clone().with_value("/paymentPayload/payload/authorization/value", json!("0x10"));
    let field = payment.clone().with_value("/paymentRequirements/network", json!(text(payment.signature())));
    for changed in [long, odd, field] {
        session.client.post("/verify", changed.body(), &[]).await.unwrap();
        session.client.post("/settle", changed.body(), &[]).await.unwrap();
    }
    for bytes in
        [body[..body.len() - 1].to_owned(), format!("[{body}"), format!("{body}{}", " ".repeat(300_000))]
    {
        session.client.post_bytes("/settle", "application/json", bytes.clone().into_bytes()).await.unwrap();
        session.client.post_bytes("/verify", "text/plain", bytes.into_bytes()).await.unwrap();
    }
    // Where it does not belong: the path, the query, a header; and without a key.
    let signature = text(payment.signature());
    session.client.get(&format!("/{signature}")).await.unwrap();
    session.client.get(&format!("/settlements?signature={signature}")).await.unwrap();
    session.client.get(&format!("/settlements/{signature}?key={SECRET_MARKER}")).await.unwrap();
    let headers = [("payment-signature", body.as_str()), ("idempotency-key", signature.as_str())];
    session.client.post("/settle", payment.body(), &headers).await.unwrap();
    let wrong = session.cast.bench.client.clone().api_key(format!("{SECRET_MARKER}-wrong"));
    assert_eq!(wrong.verify(payment.body()).await.unwrap().0, 401);
    session.payments.push(payment);
}

/// A node that fails in words, by silence, and on the way.
async fn faulty(session: &mut Session, version: X402Version) {
    let words = format!("at http://127.0.0.1/{SECRET_MARKER}: 0x{}", "ab".repeat(65));
    let faults = [
        ("eth_call", Fault::error(3, words.clone())),
        ("eth_call", Fault::Body(format!("<html>{words}</html>"))),
        ("eth_call", Fault::Answer(json!(words))),
        ("eth_call", Fault::HttpStatus(401)),
        ("eth_call", Fault::Drop),
        ("eth_sendRawTransaction", Fault::error(-32000, words.clone())),
        ("eth_sendRawTransaction", Fault::error(-32000, format!("insufficient funds {words}"))),
        ("eth_sendRawTransaction", Fault::lost_answer()),
        ("eth_getTransactionReceipt", Fault::error(-32000, words.clone())),
        ("eth_getTransactionReceipt", Fault::Answer(json!({"transactionHash": words}))),
    ];
    for (method, fault) in faults {
        let payment = session.cast.sign(Kind::Wallet, session.cast.bench.payment(version).await).await;
        session.cast.bench.proxy.add(Rule::on(method).times(3).then(fault));
        session.show(payment).await;
        session.cast.bench.proxy.clear();
    }
    // Settled behind the caller's back in the end; a caller who hangs up is told nothing.
    let payment = session.cast.bench.payment(version).await.payer(dev_signer(2)).sign();
    let hasty = Facilitator::with_timeout(session.client.base(), Duration::from_millis(30)).unwrap();
    let hasty = hasty.api_key(format!("{SECRET_MARKER}-k3y"));
    let _ = hasty.settle(payment.body()).await;
    session.cast.bench.proxy.down(true);
    session.show(payment).await;
    session.cast.bench.proxy.down(false);
}
