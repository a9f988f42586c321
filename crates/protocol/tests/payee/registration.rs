//! Registration files as they are found in the wild, and their limits.

use crate::support::{REGISTRY, identity};
use proptest::prelude::*;
use quittance_protocol::payee::{FileError, Origin, Registration};
use serde_json::{Value, json};

fn parse(file: &Value) -> Result<Registration, FileError> {
    Registration::parse(&serde_json::to_vec(file).unwrap())
}

fn lists(file: &Value, url: &str) -> bool {
    parse(file).unwrap().lists(&Origin::of_url(url).unwrap())
}

#[test]
fn endpoints_are_found_in_every_known_form() {
    let url = "https://example.com/a";
    for (file, listed) in [
        (json!({"services": [{"name": "web", "endpoint": url}]}), true),
        (json!({"endpoints": [{"name": "web", "endpoint": url}]}), true),
        (json!({"services": [], "endpoints": [{"name": "web", "endpoint": url}]}), true),
        (json!({"services": null, "endpoints": [{"name": "web", "endpoint": url}]}), true),
        (json!({"services": [{"type": "web", "url": url}]}), true),
        // The agent dropped it.
        (json!({"services": [{"endpoint": "https://new.example"}], "endpoints": [{"endpoint": url}]}), false),
        (json!({"services": [{"endpoint": null, "url": url}]}), false),
        (json!({"services": [null, 1, "x", [], {}, {"endpoint": {}}]}), false),
        (json!({"services": {"web": url}}), false),
        (json!({"services": "x"}), false),
        (json!({}), false),
        (
            json!({"services": [{"endpoint": "vitalik.eth"}, {"endpoint": "did:web:example.com"}, {"endpoint": "mail@example.com"}]}),
            false,
        ),
    ] {
        assert_eq!(lists(&file, url), listed, "{file}");
    }
}

#[test]
fn a_file_beyond_a_limit_is_not_half_read() {
    let services =
        |count: usize| json!({"services": vec![json!({"endpoint": "https://example.com"}); count]});
    assert!(parse(&services(256)).is_ok());
    assert_eq!(parse(&services(257)), Err(FileError::TooManyServices));
    let endpoint = |length: usize| {
        let start = "https://example.com/";
        json!({"services": [{"endpoint": format!("{start}{}", "a".repeat(length - start.len()))}]})
    };
    assert!(parse(&endpoint(2_048)).is_ok());
    assert_eq!(parse(&endpoint(2_049)), Err(FileError::EndpointTooLong));
    let payees = |count: usize| json!({"services": [{"name": "x402", "payees": vec![json!({}); count]}]});
    assert!(parse(&payees(64)).is_ok());
    assert_eq!(parse(&payees(65)), Err(FileError::TooManyPayees));
    assert_eq!(Registration::parse(b"[]"), Err(FileError::NotAnObject));
    assert_eq!(Registration::parse(b"<html>"), Err(FileError::Json));
    assert_eq!(Registration::parse(b"{\"a\":\"\xff\"}"), Err(FileError::Utf8));
    assert!(Registration::parse("\u{feff}{}".as_bytes()).is_ok());
}

#[test]
fn a_repeated_member_counts_as_in_javascript() {
    let file =
        br#"{"services":[{"endpoint":"https://a.example"}],"services":[{"endpoint":"https://b.example"}]}"#;
    let registration = Registration::parse(file).unwrap();
    assert!(!registration.lists(&Origin::of_url("https://a.example").unwrap()));
    assert!(registration.lists(&Origin::of_url("https://b.example").unwrap()));
}

#[test]
fn payees_are_declared_per_network_by_x402_services() {
    let payee = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    let entry = json!({"network": "eip155:8453", "payTo": payee});
    let declares = |file: &Value, network: &str, pay_to: &str| parse(file).unwrap().declares(network, pay_to);
    let file = json!({"services": [
        {"name": "web", "payees": [{"network": "eip155:1", "payTo": payee}]},
        {"name": "x402"},
        {"name": "x402", "payees": []},
        {"name": "X402", "payees": [null, {"network": "eip155:8453"}, entry]},
    ]});
    assert_eq!(declares(&file, "eip155:8453", payee), Some(true));
    assert_eq!(declares(&file, "eip155:8453", &payee.to_lowercase()), Some(true));
    assert_eq!(declares(&file, "eip155:1", payee), Some(false));
    assert_eq!(
        declares(&json!({"services": [{"name": "x402", "payees": []}]}), "eip155:1", payee),
        Some(false)
    );
    for without in [
        json!({}),
        json!({"services": [{"name": "x402"}]}),
        json!({"services": [{"name": "x402", "payees": {"network": "eip155:1"}}]}),
        json!({"services": [{"name": "web", "payees": []}]}),
    ] {
        assert_eq!(declares(&without, "eip155:1", payee), None, "{without}");
    }
}

#[test]
fn back_references_are_compared_as_identities() {
    let refers = |list: Value| parse(&json!({ "registrations": list })).unwrap().refers_to(&identity());
    assert_eq!(refers(json!([{"agentId": 20030, "agentRegistry": REGISTRY}])), Some(true));
    assert_eq!(refers(json!([{"agentId": "20030", "agentRegistry": REGISTRY.to_lowercase()}])), Some(true));
    assert_eq!(refers(json!([{"agentId": null, "agentRegistry": REGISTRY}])), Some(false));
    assert_eq!(refers(json!([{"agentId": 20031, "agentRegistry": REGISTRY}])), Some(false));
    assert_eq!(refers(json!([])), Some(false));
    assert_eq!(refers(json!(null)), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::from("https://example.com")),
    ];
    let names = prop::sample::select(vec![
        "services",
        "endpoints",
        "endpoint",
        "name",
        "url",
        "type",
        "payees",
        "network",
        "payTo",
        "registrations",
        "agentId",
        "agentRegistry",
        "active",
        "x",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_read_or_refused(file in any_json()) {
        match parse(&file) {
            Ok(registration) => {
                let origin = Origin::of_url("https://example.com").unwrap();
                let _ = (registration.lists(&origin), registration.declares("eip155:1", "0x"), registration.refers_to(&identity()));
            }
            Err(error) => prop_assert!(!file.is_object(), "{error}"),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(file in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Registration::parse(&file);
    }
}
