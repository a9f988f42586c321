//! The shape of answers: every field there, none too many, nothing null.

use super::Endpoint;
use alloy_primitives::Address;
use quittance_testkit::client::Answer;
use serde_json::Value;

/// Longest text for a person that an answer may carry.
const MESSAGE_CHARACTERS_MAX: usize = 500;

/// An answer that says no.
#[derive(Clone, Debug)]
pub(crate) struct No<'a> {
    pub(crate) status: u16,
    pub(crate) code: &'a str,
    /// What `network` repeats; only `/settle` has it.
    pub(crate) network: &'a str,
    pub(crate) payer: Option<Address>,
}

impl No<'_> {
    /// The whole body is as it must be when nothing was sent.
    pub(crate) fn check(&self, endpoint: Endpoint, answer: &Answer, case: &str) {
        let case = format!("{endpoint:?}, {case}: {} {}", answer.status, answer.text);
        assert_eq!(answer.status, self.status, "{case}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{case}");
        let body = answer.json.as_object().unwrap_or_else(|| panic!("not an object: {case}"));
        let (flag, reason, message) = match endpoint {
            Endpoint::Verify => ("isValid", "invalidReason", "invalidMessage"),
            Endpoint::Settle => ("success", "errorReason", "errorMessage"),
        };
        let mut expected = vec![flag, reason, message];
        if endpoint == Endpoint::Settle {
            expected.extend(["transaction", "network"]);
            assert_eq!(body.get("transaction"), Some(&Value::from("")), "{case}");
            assert_eq!(body.get("network"), Some(&Value::from(self.network)), "{case}");
        }
        if let Some(payer) = self.payer {
            expected.push("payer");
            assert_eq!(body.get("payer"), Some(&Value::from(payer.to_checksum(None))), "{case}");
        }
        if let Some(extra) = body.get("extra") {
            // Only a cause the code has no word for.
            expected.push("extra");
            let names: Vec<&String> = extra.as_object().into_iter().flat_map(|extra| extra.keys()).collect();
            assert_eq!(names, ["cause"], "{case}");
        }
        assert_eq!(body[flag], false, "{case}");
        assert_eq!(body.get(reason).and_then(Value::as_str), Some(self.code), "{case}");
        let text = body.get(message).and_then(Value::as_str).unwrap_or_default();
        let length = text.chars().count();
        assert!((1..=MESSAGE_CHARACTERS_MAX).contains(&length), "{length} characters of message: {case}");
        let mut keys: Vec<&str> = body.keys().map(String::as_str).collect();
        keys.sort_unstable();
        expected.sort_unstable();
        assert_eq!(keys, expected, "{case}");
        let retry = answer.header("retry-after").is_some();
        assert_eq!(
            retry,
            matches!(self.status, 429 | 503),
            "Retry-After goes with what is worth a retry: {case}"
        );
    }
}

/// `isValid: true` for this payer; `reserved`: with the row it now has.
pub(crate) fn valid(answer: &Answer, payer: Address, case: &str) {
    let case = format!("{case}: {} {}", answer.status, answer.text);
    assert_eq!(answer.status, 200, "{case}");
    assert_eq!(answer.json["isValid"], true, "{case}");
    assert_eq!(answer.json["payer"], payer.to_checksum(None), "{case}");
    assert!(
        answer.json.get("invalidReason").is_none() && answer.json.get("invalidMessage").is_none(),
        "{case}"
    );
    no_nulls(&answer.json, &case);
}

/// `success: true`, with everything a seller needs; the transaction's hash.
pub(crate) fn settled(answer: &Answer, payer: Address, network: &str, amount: &str, case: &str) -> String {
    let case = format!("{case}: {} {}", answer.status, answer.text);
    assert_eq!(answer.status, 200, "{case}");
    let body = &answer.json;
    assert_eq!(body["success"], true, "{case}");
    assert_eq!(body["payer"], payer.to_checksum(None), "{case}");
    assert_eq!(body["network"], network, "{case}");
    assert_eq!(body["amount"], amount, "{case}");
    assert!(body.get("errorReason").is_none() && body.get("errorMessage").is_none(), "{case}");
    no_nulls(body, &case);
    let hash = body["transaction"].as_str().unwrap_or_default();
    assert!(hash.len() == 66 && hash.starts_with("0x"), "{case}");
    hash.to_owned()
}

/// Absent instead of null, at every depth.
pub(crate) fn no_nulls(value: &Value, case: &str) {
    match value {
        Value::Null => panic!("null in an answer: {case}"),
        Value::Array(list) => list.iter().for_each(|value| no_nulls(value, case)),
        Value::Object(map) => map.values().for_each(|value| no_nulls(value, case)),
        _ => {}
    }
}

/// What answers repeat from a request, read again here: the network.
pub(crate) fn network_of(body: &Value) -> &str {
    ["/paymentRequirements/network", "/paymentPayload/accepted/network", "/paymentPayload/network"]
        .iter()
        .filter_map(|pointer| body.pointer(pointer)?.as_str())
        .find(|name| (1..=64).contains(&name.len()))
        .unwrap_or("unknown:unknown")
}

/// What answers repeat from a request, read again here: the payer, whenever it parses.
pub(crate) fn payer_of(body: &Value) -> Option<Address> {
    let text = body.pointer("/paymentPayload/payload/authorization/from")?.as_str()?;
    let digits = text.strip_prefix("0x")?;
    let plain = digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| text.parse().ok()).flatten()
}
