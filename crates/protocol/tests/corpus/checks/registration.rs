//! A tokenURI and a registration file: both are strangers' to write, and both have limits.

use quittance_protocol::payee::{
    Cid, FILE_BYTES_MAX, InlineForm, Origin, Registration, TokenUri, TokenUriError,
};
use serde_json::{Map, Value};

const DEPTH_MAX: usize = 32;
const SERVICES_MAX: usize = 256;
const PAYEES_MAX: usize = 64;

/// The input as a tokenURI, and as the file itself.
pub fn check(input: &[u8]) {
    let parsed = TokenUri::parse(input);
    if input.len() > FILE_BYTES_MAX {
        assert_eq!(parsed, Err(TokenUriError::TooLarge));
        assert!(Registration::parse(input).is_err());
        return;
    }
    match &parsed {
        Ok(TokenUri::Inline { form, file }) => {
            inline(file);
            if *form == InlineForm::Bare {
                // Without a scheme the URI is the file.
                assert_eq!(Registration::parse(input.trim_ascii()), Registration::from_object(file));
            }
        }
        Ok(TokenUri::Https(url)) => {
            assert_eq!(url.scheme(), "https");
            assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            // What is fetched is what the text says.
            let text = std::str::from_utf8(input).expect("a URI is text").trim_ascii();
            let origin = Origin::of_url(text).expect("what is fetched has an origin");
            assert_eq!(
                (Some(origin.host()), Some(origin.port())),
                (url.host_str(), url.port_or_known_default())
            );
        }
        Ok(TokenUri::Ipfs { cid, path }) => {
            assert_eq!(Cid::parse(cid.as_str()).as_ref(), Some(cid));
            assert!(!cid.digest().is_empty());
            assert!(!path.contains('\\') && !path.chars().any(char::is_control));
            if !path.is_empty() {
                assert!(path.split('/').all(|name| !["", ".", ".."].contains(&name)), "{path}");
            }
        }
        Err(error) => assert!(!error.code().is_empty() && !error.to_string().is_empty()),
    }
    match Registration::parse(input) {
        Ok(registration) => within_limits(&registration),
        Err(error) => assert!(!error.code().is_empty() && !error.to_string().is_empty()),
    }
}

fn inline(file: &Map<String, Value>) {
    assert!(file.values().all(|value| depth(value) < DEPTH_MAX));
    let count = |name: &str| file.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let listed = if count("services") > 0 { count("services") } else { count("endpoints") };
    match Registration::from_object(file) {
        Ok(registration) => {
            assert_eq!(registration.services.len(), listed, "no service is dropped");
            within_limits(&registration);
        }
        Err(error) => assert!(!error.code().is_empty()),
    }
}

/// How many arrays and objects are within each other.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn within_limits(registration: &Registration) {
    assert!(registration.services.len() <= SERVICES_MAX);
    let mut has_payees = false;
    for service in &registration.services {
        if let Some(origin) = &service.origin {
            assert!(registration.lists(origin));
            // An origin's own text names it again, unless a name grew past the limit when it was put into ASCII.
            let text = origin.to_string();
            let is_short = text.len() <= 1_024;
            assert!(!is_short || Origin::parse_bare(&text).as_ref() == Some(origin), "{text}");
        }
        let payees = service.payees.as_deref().unwrap_or_default();
        assert!(payees.len() <= PAYEES_MAX);
        if service.is_x402 {
            has_payees |= service.payees.is_some();
            for payee in payees {
                assert_eq!(registration.declares(&payee.network, &payee.pay_to), Some(true));
            }
        }
    }
    assert_eq!(registration.declares("eip155:1", "nobody").is_some(), has_payees);
    for identity in registration.registrations.iter().flatten() {
        assert_eq!(registration.refers_to(identity), Some(true));
    }
}
