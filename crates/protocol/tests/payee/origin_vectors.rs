//! testdata/payee/origins.json.

use crate::support::{data, list, text};
use proptest::prelude::*;
use quittance_protocol::payee::Origin;

/// With the port, written or not.
fn in_full(origin: &Origin) -> String {
    format!("{}://{}:{}", origin.scheme().as_str(), origin.host(), origin.port())
}

#[test]
fn every_origin_in_the_data() {
    let data = data("origins");
    let vectors = list(&data, "vectors");
    for vector in vectors {
        let origin = |field: &str| Origin::of_url(vector[field].as_str().unwrap());
        let (resource, endpoint) = (origin("resource"), origin("endpoint"));
        assert_eq!(resource.as_ref().map(in_full).as_deref(), text(vector, "/resourceOrigin"), "{vector}");
        assert_eq!(endpoint.as_ref().map(in_full).as_deref(), text(vector, "/endpointOrigin"), "{vector}");
        let matches = resource.is_some().then(|| resource == endpoint);
        assert_eq!(matches, vector["match"].as_bool(), "{vector}");
    }
    assert_eq!(vectors.len(), 38);
}

#[test]
fn urls_that_parsers_read_differently_have_no_origin() {
    for url in [
        "https:///example.com/",
        "https:////example.com/",
        "https:/example.com/",
        "https://@/",
        "https://:443/",
        "https://example.com:/\u{7f}",
        "https://example.com/\u{a0}",
        "https://example.com/\u{2028}",
        "https://exam%00ple.com/",
        "https://exam%2fple.com/",
        "https://[::1/",
        "https://1.2.3.256/",
        "javascript://example.com/",
        "blob:https://example.com/",
        "",
    ] {
        assert_eq!(Origin::of_url(url), None, "{url:?}");
    }
    assert_eq!(Origin::of_url(&format!("https://{}.com/", "ü".repeat(600))), None);
}

#[test]
fn a_bare_origin_has_nothing_but_scheme_host_and_port() {
    for bare in ["https://example.com", "HTTPS://Example.COM:443", "http://[::1]:8080"] {
        assert!(Origin::parse_bare(bare).is_some(), "{bare}");
    }
    for not_bare in [
        "https://example.com/",
        "https://example.com?",
        "https://example.com#",
        "https://u@example.com",
        "https://@example.com",
        "example.com",
        "*",
        "null",
    ] {
        assert_eq!(Origin::parse_bare(not_bare), None, "{not_bare}");
    }
}

proptest! {
    #[test]
    fn any_text_has_one_origin_or_none(url in "(https?|wss?|ftp)?(://|:)?\\PC{0,40}") {
        if let Some(origin) = Origin::of_url(&url) {
            let again = Origin::parse_bare(&origin.to_string());
            prop_assert_eq!(again.as_ref(), Some(&origin));
            let with_path = format!("{origin}/a/b?c=https://other.example#d");
            prop_assert_eq!(Origin::of_url(&with_path), Some(origin));
        }
    }

    #[test]
    fn the_path_never_changes_the_origin(path in "[!-\\[\\]-~]{0,60}") {
        let origin = Origin::of_url("https://example.com");
        prop_assert_eq!(Origin::of_url(&format!("https://example.com/{path}")), origin);
    }
}
