//! Schemes and networks that are not served, or do not fit together.

use crate::support::offline::{Offline, payment};
use quittance_testkit::X402Version::{self, V1, V2};
use serde_json::{Value, json};

/// Where the payload names scheme and network.
fn inner(version: X402Version, field: &str) -> String {
    match version {
        V1 => format!("/paymentPayload/{field}"),
        V2 => format!("/paymentPayload/accepted/{field}"),
    }
}

fn with(version: X402Version, field: &str, inside: &str, outside: &str) -> Value {
    payment(version)
        .with_value(&inner(version, field), json!(inside))
        .with_value(&format!("/paymentRequirements/{field}"), json!(outside))
        .body()
        .clone()
}

#[tokio::test]
async fn other_schemes_are_not_served() {
    let bench = Offline::start().await;
    for version in [V1, V2] {
        for scheme in [
            "upto",
            "batch-settlement",
            "auth-capture",
            "EXACT",
            "Exact",
            " exact",
            "exact ",
            "exact\u{0}",
            "*",
            "\u{435}xact",
        ] {
            let case = format!("{version:?} {scheme:?}");
            bench.refused(&with(version, "scheme", scheme, scheme), "unsupported_scheme", &case).await;
            bench.refused(&with(version, "scheme", "exact", scheme), "unsupported_scheme", &case).await;
            bench.refused(&with(version, "scheme", scheme, "exact"), "invalid_exact_evm_scheme", &case).await;
        }
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn other_networks_are_not_served() {
    let bench = Offline::start().await;
    let names = [
        (
            V2,
            vec![
                "eip155:8453",
                "eip155:1",
                "eip155:0",
                "eip155:-84532",
                "eip155:084532",
                "eip155:0x14a34",
                "eip155:84532 ",
                " eip155:84532",
                "EIP155:84532",
                "eip155:84532:1",
                "eip155:",
                "eip155",
                "84532",
                "eip155:*",
                "eip155:18446744073709636148",
                "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
                // The name of version 1.
                "base-sepolia",
            ],
        ),
        (
            V1,
            vec![
                "base",
                "Base-Sepolia",
                "BASE-SEPOLIA",
                "base-sepolia ",
                "base_sepolia",
                "84532",
                "sepolia",
                // The name of version 2.
                "eip155:84532",
            ],
        ),
    ];
    for (version, names) in names {
        let served = payment(version).network().to_owned();
        for name in names {
            let case = format!("{version:?} {name:?}");
            bench.refused(&with(version, "network", name, name), "invalid_network", &case).await;
            bench.refused(&with(version, "network", &served, name), "invalid_network", &case).await;
            let mismatch = "invalid_exact_evm_network_mismatch";
            bench.refused(&with(version, "network", name, &served), mismatch, &case).await;
        }
    }
    bench.nothing_reserved().await;
}

/// An answer repeats the network, but not whatever else somebody puts there.
#[tokio::test]
async fn a_name_too_long_to_be_a_network_is_not_repeated() {
    let bench = Offline::start().await;
    for length in [64, 65, 5_000] {
        let name = "n".repeat(length);
        bench
            .refused(&with(V2, "network", &name, &name), "invalid_network", &format!("{length} letters"))
            .await;
    }
    for name in ["\u{202e}eip155:84532", "eip155:\r\n84532", "<script>alert(1)</script>", "\u{0}"] {
        bench.refused(&with(V2, "network", name, name), "invalid_network", name).await;
    }
    bench.nothing_reserved().await;
}

/// A network without a name of version 1 is served in version 2 alone.
#[tokio::test]
async fn an_empty_v1_name_serves_no_version_1() {
    let bench = Offline::start_without_v1().await;
    bench.refused(payment(V1).body(), "invalid_network", "version 1").await;
    bench.refused(&with(V1, "network", "eip155:84532", "eip155:84532"), "invalid_network", "CAIP-2").await;
    bench.expect(payment(V2).body(), crate::support::offline::Expect::Asked, "version 2").await;
    let kinds = bench.client.get("/supported").await.unwrap().json["kinds"].clone();
    assert_eq!(kinds, json!([{"x402Version": 2, "scheme": "exact", "network": "eip155:84532"}]));
}

/// On a network that is not served, that is the answer. A pair that cannot be is named beside it, and addresses that nobody
/// here can judge leave a line in the log and no complaint.
#[tokio::test]
async fn addresses_on_a_network_that_is_not_served() {
    let bench = Offline::start().await;
    let solana = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
    let unjudged = || bench.server.log_text().matches("cannot be judged here").count();
    for (network, pair, logged) in
        [(solana, true, false), ("eip155:8453", false, false), ("hedera:mainnet", false, true)]
    {
        let before = unjudged();
        let body = with(V2, "network", network, network);
        bench.refused(&body, "invalid_network", network).await;
        let answer = bench.client.post("/verify", &body, &[]).await.unwrap();
        let message = answer.json["invalidMessage"].as_str().unwrap();
        assert_eq!(message.ends_with("fit together with paymentRequirements.payTo"), pair, "{message}");
        assert_eq!(unjudged() > before, logged, "{network}");
    }
    assert!(bench.server.log_text().contains("hedera") && !bench.server.log_text().contains("mainnet"));
    bench.nothing_reserved().await;
}
