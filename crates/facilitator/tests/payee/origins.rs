//! Which agent a server was first verified under: remembered across crashes and by all replicas.

use crate::{
    agents::registry_id,
    stage::{Agent, BINARY, CHAIN_ID, NETWORK, RESOURCE, Stage, THIEF, said},
};
use quittance_testkit::{
    Facilitator,
    harness::{ConfigBuilder, NetworkConfig, PgCluster, QuittanceProcess, process::Wait},
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use std::sync::Arc;

const CHANGED: &str = "identity-changed";

/// A database that the test can look into.
struct Database {
    _cluster: Arc<PgCluster>,
    url: String,
}

impl Database {
    async fn create() -> Self {
        let cluster = PgCluster::shared().await.unwrap();
        let url = cluster.create_database().await.unwrap();
        Self { _cluster: cluster, url }
    }

    async fn run(&self, sql: &'static str) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }

    async fn list(&self, sql: &str) -> Vec<String> {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let sql = AssertSqlSafe(sql.to_owned());
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

async fn stage(mode: &str, database: Option<&Database>) -> Stage {
    Stage::start_with(mode, |config| {
        let config = config.set("payee.registry_allow_private_hosts", json!(true));
        match database {
            Some(database) => config.store_url(database.url.clone()),
            None => config,
        }
    })
    .await
}

/// What `POST /payee` of one server says of a payment to `pay_to` for the resource.
async fn ask(client: &Facilitator, agent: &Agent, pay_to: alloy_primitives::Address) -> (String, Value) {
    let body = json!({ "paymentRequirements": agent.requirement(pay_to, Value::Null), "resource": RESOURCE });
    let answer = client.post("/payee", &body, &[]).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    (said(&answer.json).0.to_owned(), answer.json["notes"].clone())
}

fn verified(notes: &[&str]) -> (String, Value) {
    ("verified-wallet".to_owned(), json!(notes))
}

/// The seller is verified once. The server dies, and in its next life somebody names an agent of its own for the same server.
async fn a_hijacker_is_noted_after_a_crash(mut stage: Stage) {
    let (seller, hijacker) = (stage.agent().await, stage.agent().await);
    assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[]));
    stage.server.restart(Wait::Ready).await.unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&stage.client, &hijacker, hijacker.wallet).await, verified(&[CHANGED]));
    }
    assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[]));

    // The same beside a payment.
    stage.server.restart(Wait::Ready).await.unwrap();
    let payment = stage.payment(hijacker.named(Value::Null), hijacker.wallet).await;
    for body in [stage.verify(&payment).await, stage.settle(&payment).await] {
        assert_eq!(said(&body["extra"]["payee"]), ("verified-wallet", ""), "{body}");
        assert_eq!(body["extra"]["payee"]["notes"], json!([CHANGED]), "{body}");
    }
    assert!(stage.server.log_text().contains("verified under another identity"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hijacker_is_noted_after_a_crash_sqlite() {
    a_hijacker_is_noted_after_a_crash(stage("report", None).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hijacker_is_noted_after_a_crash_postgres() {
    let database = Database::create().await;
    a_hijacker_is_noted_after_a_crash(stage("report", Some(&database)).await).await;
}

/// What one replica has learned the others know, also one that has just looked in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hijacker_is_noted_by_another_replica() {
    let database = Database::create().await;
    let stage = stage("report", Some(&database)).await;
    let config = ConfigBuilder::new()
        .unwrap()
        .network(NetworkConfig::new(CHAIN_ID).rpc_url(stage.proxy.url()).dev_signer(0))
        .store_url(database.url.clone())
        .set("payee.mode", json!("report"))
        .set("payee.registry_allow_private_hosts", json!(true))
        .extra(&format!(
            "[[payee.registries]]\nid = \"{}\"\nrpc_urls = [\"{}\"]\n",
            registry_id(CHAIN_ID),
            stage.registry.url()
        ));
    let replica = QuittanceProcess::start(BINARY, config).await.unwrap();
    let there = replica.client().unwrap();
    let (seller, hijacker) = (stage.agent().await, stage.agent().await);
    assert_eq!(ask(&there, &hijacker, THIEF).await, ("mismatch".to_owned(), json!([])));
    assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[]));
    assert_eq!(ask(&there, &hijacker, hijacker.wallet).await, verified(&[CHANGED]));
    // Not verified, and noted all the same.
    assert_eq!(ask(&there, &hijacker, THIEF).await, ("mismatch".to_owned(), json!([CHANGED])));
    assert_eq!(ask(&there, &seller, seller.wallet).await, verified(&[]));
}

/// What was asked of the store a moment ago is not asked again; and a store that does not answer costs a note, not a check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_with_everything_at_hand_asks_the_store_nothing() {
    let database = Database::create().await;
    let stage = stage("report", Some(&database)).await;
    let (seller, hijacker) = (stage.agent().await, stage.agent().await);
    assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[]));
    database.run("ALTER TABLE payee_origins RENAME TO elsewhere").await;
    for _ in 0..3 {
        assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[]));
        assert_eq!(ask(&stage.client, &hijacker, hijacker.wallet).await, verified(&[CHANGED]));
        assert_eq!(ask(&stage.client, &hijacker, THIEF).await.1, json!([CHANGED]));
    }
    assert!(!stage.server.log_text().contains("identities of origins are not known"));

    let mut elsewhere = seller;
    let file = crate::agents::file_of(&["https://other.example/report"]);
    let uri = stage.files.put("/other.json", crate::files::Page::Json(file));
    elsewhere.id = crate::agents::register(&stage.chain, &uri).await;
    let body = json!({
        "paymentRequirements": elsewhere.requirement(elsewhere.wallet, Value::Null),
        "resource": "https://other.example/report",
    });
    let answer = stage.payee(&body).await;
    assert_eq!((said(&answer).0, &answer["notes"]), ("verified-wallet", &json!([])));
    assert!(stage.server.log_text().contains("identities of origins are not known"));
}

/// As docs/PAYEE.md tells operators to look, and to forget.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_looks_and_forgets() {
    let database = Database::create().await;
    let mut stage = stage("report", Some(&database)).await;
    let (wrong, seller) = (stage.agent().await, stage.agent().await);
    assert_eq!(ask(&stage.client, &wrong, wrong.wallet).await, verified(&[]));
    assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[CHANGED]));
    let documentation = std::fs::read_to_string("../../docs/PAYEE.md").unwrap();
    let (look, forget) = (
        "SELECT origin, registry, agent_id, verified_at_ms FROM payee_origins",
        "DELETE FROM payee_origins WHERE origin = 'https://seller.example'",
    );
    assert!(documentation.contains(look) && documentation.contains(forget));
    assert_eq!(database.list(look).await, ["https://seller.example"]);
    database.run(forget).await;
    stage.server.restart(Wait::Ready).await.unwrap();
    assert_eq!(ask(&stage.client, &seller, seller.wallet).await, verified(&[]));
    assert_eq!(ask(&stage.client, &wrong, wrong.wallet).await, verified(&[CHANGED]));
}

/// With the check turned off, payments teach nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_that_are_not_checked_are_not_remembered() {
    let database = Database::create().await;
    let stage = stage("off", Some(&database)).await;
    let seller = stage.agent().await;
    let payment = stage.payment(seller.named(Value::Null), seller.wallet).await;
    assert_eq!(stage.verify(&payment).await["isValid"], true);
    assert_eq!(stage.settle(&payment).await["network"], NETWORK);
    assert_eq!(stage.registry.http_requests(), 0);
    assert_eq!(database.list("SELECT origin FROM payee_origins").await, Vec::<String>::new());
}
