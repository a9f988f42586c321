//! What `/metrics` tells of a payment's adventures: numbers, and no names.

use crate::support::{Bench, DEADLINE, Metrics, SEND, Setup, StoreKind, until};
use alloy_primitives::U256;
use quittance_protocol::code::Code;
use quittance_testkit::{
    harness::{Fault, RpcProxy, Rule, process::Wait},
    jsonrpc::quantity,
};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;

impl Metrics {
    /// Of the only signer.
    fn lane_is(&self, state: &str) -> bool {
        let is = |state: &str| {
            let series =
                format!(r#"quittance_lane_state{{network="eip155:84532",lane="0",state="{state}"}}"#);
            self.get(&series) == 1.0
        };
        assert_eq!(
            ["funded", "low", "paused"].into_iter().filter(|state| is(state)).count(),
            1,
            "{}",
            self.0
        );
        is(state)
    }

    fn balance(&self) -> f64 {
        self.get(r#"quittance_lane_balance_wei{network="eip155:84532",lane="0"}"#)
    }

    /// Every counter that there is.
    fn counters(&self) -> BTreeSet<&str> {
        self.samples().map(|(series, _)| series).filter(|series| series.contains("_total{")).collect()
    }

    /// The operators' table has every series, with these labels.
    fn assert_the_table_is_complete(&self) {
        for (series, _) in self.samples() {
            let (name, labels) = series.split_once('{').unwrap();
            let of_histogram = name.strip_suffix("_bucket").or(name.strip_suffix("_sum"));
            let name = of_histogram.or(name.strip_suffix("_count")).unwrap_or(name);
            let row = OPERATING.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let listed = row.unwrap_or_else(|| panic!("no row for {series}")).split(" | ").nth(2).unwrap();
            let mut keys: Vec<_> = labels.split(',').map(|label| label.split('=').next().unwrap()).collect();
            keys.retain(|key| *key != "le");
            let mut listed: Vec<_> = listed.split(", ").map(|key| key.trim_matches('`')).collect();
            keys.sort_unstable();
            listed.sort_unstable();
            assert_eq!(keys, listed, "{series}");
            assert!(self.0.contains(&format!("# HELP {name} ")), "{series} is not described");
        }
    }

    /// Whatever strangers send, a label says one of a few words.
    fn assert_labels_are_closed(&self) {
        for (series, _) in self.samples() {
            let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
            for label in labels.split(',').filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once('=').unwrap();
                assert!(is_a_word(key, value.trim_matches('"')), "{series}");
            }
        }
        let hex = self.0.match_indices("0x").map(|(at, _)| self.0[at + 2..].chars());
        let longest = hex.map(|rest| rest.take_while(char::is_ascii_hexdigit).count()).max();
        assert!(longest.unwrap_or_default() < 40, "{}", self.0);
    }
}

const OPERATING: &str = include_str!("../../../../docs/OPERATING.md");

/// Of an answer, and of a payment that has ended.
const STATUSES: [&str; 14] = [
    "200",
    "400",
    "401",
    "404",
    "405",
    "408",
    "409",
    "413",
    "415",
    "503",
    "settled",
    "settled_elsewhere",
    "failed",
    "refused",
];

fn is_a_word(key: &str, value: &str) -> bool {
    match key {
        "network" => value == "eip155:84532",
        "lane" => value == "0",
        "use" => ["payments", "registry-0"].contains(&value),
        "state" => ["funded", "low", "paused"].contains(&value),
        "endpoint" => ["0", "verify", "settle", "other"].contains(&value),
        "said" => ["success", "pending", "lost"].contains(&value),
        "status" => STATUSES.contains(&value),
        "code" => value == "ok" || value.parse::<Code>().is_ok(),
        "method" => {
            let name = value.strip_prefix("eth_").or(value.strip_prefix("web3_"));
            name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphabetic()))
        }
        "outcome" => value.chars().all(|c| c.is_ascii_lowercase() || c == '-') && value.len() <= 20,
        "le" => value == "+Inf" || value.parse::<f64>().is_ok(),
        _ => false,
    }
}

/// Everything that is counted is there before it happens, and goes up when it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_what_happened_without_names() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().start().await;
    let counters = [
        "replacements",
        "rebroadcasts",
        "gaps_found",
        "gaps_filled",
        "foreign_nonces",
        "reorgs",
        "recoveries",
        "keeper_failures",
    ];
    let settled = r#"quittance_settlements_total{network="eip155:84532",status="settled"}"#;
    let delivered = r#"quittance_deliveries_total{said="success"}"#;
    let used = r#"quittance_answers_total{endpoint="verify",status="200",code="invalid_exact_evm_nonce_already_used"}"#;
    let yes = r#"quittance_answers_total{endpoint="settle",status="200",code="ok"}"#;
    let sent = r#"quittance_rpc_requests_total{network="eip155:84532",use="payments",endpoint="0",method="eth_sendRawTransaction",outcome="result"}"#;
    let fresh = Metrics::read(&bench).await;
    for name in counters {
        assert_eq!(fresh.of_network(&format!("quittance_{name}_total")), 0.0, "{name}");
    }
    for status in ["settled", "settled_elsewhere", "failed", "refused"] {
        let series = format!(r#"quittance_settlements_total{{network="eip155:84532",status="{status}"}}"#);
        assert_eq!(fresh.get(&series), 0.0);
    }
    for said in ["success", "pending", "lost"] {
        assert_eq!(fresh.get(&format!(r#"quittance_deliveries_total{{said="{said}"}}"#)), 0.0);
    }
    for series in [
        used,
        yes,
        sent,
        r#"quittance_answers_total{endpoint="settle",status="503",code="unexpected_settle_error"}"#,
        r#"quittance_payee_checks_total{outcome="mismatch"}"#,
    ] {
        assert_eq!(fresh.get(series), 0.0);
    }
    assert!(fresh.lane_is("funded") && fresh.balance() > 0.0);

    // Replaced, because the price has gone up before any block took it.
    let first = bench.payment().await;
    let call = bench.settling(&first);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let original = bench.sent()[0];
    bench.anvil.set_next_block_base_fee(100_000_000_000).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let replacement = bench.replacement_of(original).await;
    let waiting = Metrics::read(&bench).await;
    assert_eq!(waiting.get(r#"quittance_lane_open_slots{network="eip155:84532",lane="0"}"#), 1.0);
    assert!(waiting.of_network("quittance_oldest_open_payment_seconds") >= 1.0);
    bench.anvil.set_interval_mining(1).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap().success_of(&first), replacement);
    bench.verify(&first).await;

    // Two nonces that nothing of ours holds.
    bench.database().run("UPDATE lanes SET nonce_floor = 3").await;
    let second = bench.payment().await;
    bench.settle(&second).await.success_of(&second);
    bench.assert_paid_once(&[first.clone(), second]).await;
    let metrics = Metrics::read(&bench).await;
    let count = |name: &str| metrics.of_network(&format!("quittance_{name}_total"));
    assert_eq!((count("gaps_found"), count("gaps_filled")), (2.0, 2.0));
    assert_eq!((count("replacements"), count("reorgs"), count("foreign_nonces")), (1.0, 0.0, 0.0));
    assert_eq!((metrics.get(settled), metrics.get(delivered), metrics.get(yes)), (2.0, 2.0, 2.0));
    assert_eq!(metrics.get(used), 1.0);
    assert!(metrics.get(sent) >= 5.0, "two payments, a replacement and two fillers");
    assert!(metrics.of_network("quittance_keeper_last_pass_seconds") > 0.0);

    // Nobody asks for anything but the metrics.
    bench.anvil.set_interval_mining(0).await.unwrap();
    bench.anvil.set_balance(bench.signers[0], U256::ZERO).await.unwrap();
    let paused = until("a lane that is seen to be empty", DEADLINE, || async {
        let metrics = Metrics::read(&bench).await;
        metrics.lane_is("paused").then_some(metrics)
    })
    .await;
    assert_eq!(paused.balance(), 0.0);
    bench.assert_log_names_signers("cannot pay for a settlement");
    // And whatever else reads it is believed as well. This much lasts for some settlements, and not for a hundred.
    let latest = bench.anvil.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    let some = 20 * 150_000 * quantity(&latest["baseFeePerGas"]).unwrap();
    bench.anvil.set_balance(bench.signers[0], U256::from(some)).await.unwrap();
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 200);
    assert!(Metrics::read(&bench).await.lane_is("low"));
    bench.anvil.set_balance(bench.signers[0], U256::from(10).pow(U256::from(20))).await.unwrap();
    bench.verify(&bench.payment().await).await.valid();
    let again = Metrics::read(&bench).await;
    assert!(again.lane_is("funded") && again.balance() == 1e20, "{}", again.0);

    again.assert_labels_are_closed();
    again.assert_the_table_is_complete();
    let lower = again.0.to_lowercase();
    for name in [first.payer().to_string(), first.recipient().to_string(), first.nonce().to_string()] {
        assert!(!lower.contains(&name.to_lowercase()));
    }
}

const KEY: &str = "the-sellers-key";
/// The canonical one on test networks.
const REGISTRY: &str = "eip155:84532:0x8004A818BFB912233c491871b3d84c89A494BD9e";

/// The same server with the payee check on, a registry behind this node, and a key.
async fn with_a_registry(bench: &mut Bench, node: &RpcProxy) {
    let registry = format!("[[payee.registries]]\nid = \"{REGISTRY}\"\nrpc_urls = [\"{}\"]", node.url());
    let config = bench.config.clone().set("payee.mode", "report".into()).extra(&registry);
    let config = config.env("API_KEY", KEY).set("server.api_keys", json!(["env:API_KEY"]));
    bench.server.restart_with(config, Wait::Ready).await.unwrap();
}

/// Whoever asks for whatever: its counter was there before. And who reads a payee's registry does not speak for the payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_counted_that_was_not_there_at_zero() {
    let mut bench = Setup::new(StoreKind::Sqlite).start().await;
    let node = RpcProxy::start(bench.anvil.url()).await.unwrap();
    node.add(Rule::any().then(Fault::Drop));
    with_a_registry(&mut bench, &node).await;
    let fresh = Metrics::read(&bench).await;
    let client = bench.server.client().unwrap().api_key(KEY);

    let strangers = bench.server.client().unwrap();
    let payment = bench.payment().await;
    for path in ["/verify", "/settle", "/payee", "/supported", "/settlements", "/settlements/1"] {
        let method = if path.starts_with("/su") || path.starts_with("/settlements") { "GET" } else { "POST" };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(strangers.request(method, path, &[], None).await.unwrap().status, 401, "{path}");
        assert_eq!(client.request(Method::DELETE, path, &[], None).await.unwrap().status, 405, "{path}");
    }
    for path in ["/verify", "/settle", "/payee"] {
        let post = async |content_type: &str, body: &[u8]| {
            client.post_bytes(path, content_type, body.to_vec()).await.unwrap().status
        };
        assert_eq!(post("application/json", b"{").await, 400);
        assert_eq!(post("text/plain", b"{}").await, 415);
        assert_eq!(post("application/json", &[b' '; 300_000]).await, 413);
        client.post(path, &json!({}), &[]).await.unwrap();
    }
    client.settle_with(payment.body(), &[("Idempotency-Key", "")]).await.unwrap();
    assert_eq!(client.settle_with(payment.body(), &[("Idempotency-Key", "a")]).await.unwrap().status, 200);
    let other = bench.payment().await;
    assert_eq!(client.settle_with(other.body(), &[("Idempotency-Key", "a")]).await.unwrap().status, 409);
    assert_eq!(client.verify(other.body()).await.unwrap().0, 200);
    assert_eq!(client.get("/supported").await.unwrap().status, 200);
    for path in ["/settlements", "/settlements/1", "/settlements?network=1"] {
        assert_eq!(client.get(path).await.unwrap().status, 400);
    }
    assert_eq!(client.get(&format!("/settlements/{}", uuid::Uuid::nil())).await.unwrap().status, 404);
    assert_eq!(client.get("/nothing").await.unwrap().status, 404);
    let mut question = payment.body().clone();
    question["registry"] = REGISTRY.into();
    question["agentId"] = "1".into();
    let is_up = |metrics: &Metrics, asked_for: &str| {
        let labels = format!(r#"network="eip155:84532",use="{asked_for}",endpoint="0""#);
        metrics.get(&format!("quittance_rpc_endpoint_up{{{labels}}}")) == 1.0
    };
    assert!(is_up(&fresh, "registry-0"));
    let later = until("a registry whose node fails", DEADLINE, || async {
        let answer = client.post("/payee", &question, &[]).await.unwrap();
        assert_eq!((answer.status, &answer.json["outcome"]), (200, &"not-read".into()), "{}", answer.text);
        let metrics = Metrics::read(&bench).await;
        (!is_up(&metrics, "registry-0")).then_some(metrics)
    })
    .await;
    assert!(is_up(&later, "payments"));
    assert!(node.count("web3_clientVersion") > 0, "the registry's node was to be asked");
    let new: Vec<_> = later.counters().difference(&fresh.counters()).copied().collect();
    assert_eq!(new, Vec::<&str>::new(), "not there from the start");
    later.assert_labels_are_closed();
    later.assert_the_table_is_complete();
}
