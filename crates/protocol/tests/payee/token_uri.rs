//! testdata/payee/token_uri.json, and what strangers could put into a tokenURI to hurt us.

use crate::support::{data, list, text};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use quittance_protocol::payee::{Cid, FILE_BYTES_MAX, FileError, InlineForm, TokenUri, TokenUriError};
use serde_json::Value;
use std::io::Write;

fn parse(uri: &str) -> Result<TokenUri, TokenUriError> {
    TokenUri::parse(uri.as_bytes())
}

fn refused(uri: &str) -> &'static str {
    parse(uri).expect_err(uri).code()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_token_uri_in_the_data() {
    let data = data("token_uri");
    assert_eq!(data["maxBytes"], FILE_BYTES_MAX);
    let vectors = list(&data, "vectors");
    for vector in vectors {
        let uri = vector["uri"].as_str().unwrap();
        let class = vector["class"].as_str().unwrap();
        match parse(uri) {
            Ok(TokenUri::Inline { form, file }) => {
                assert_eq!(form.as_str(), class, "{uri}");
                assert_eq!(Value::Object(file), vector["json"], "{uri}");
            }
            Ok(TokenUri::Https(url)) => {
                assert_eq!(class, "https", "{uri}");
                assert_eq!(url.as_str(), vector["fetch"], "{uri}");
            }
            Ok(TokenUri::Ipfs { cid, path }) => {
                assert_eq!(class, "ipfs", "{uri}");
                assert_eq!(
                    (cid.as_str(), path.as_str()),
                    (vector["cid"].as_str().unwrap(), vector["path"].as_str().unwrap())
                );
            }
            Err(error) => {
                assert_eq!(class, "error", "{uri}: {error}");
                assert_eq!(Some(error.code()), text(vector, "/error"), "{uri}");
            }
        }
    }
    assert_eq!(vectors.len(), 43);
}

#[test]
fn a_gzip_bomb_goes_off_behind_the_limit() {
    let bomb = gzip(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < FILE_BYTES_MAX / 8);
    let uri = format!("data:application/json;enc=gzip;base64,{}", base64(&bomb));
    assert_eq!(refused(&uri), "too-large");
    let mut exact = vec![b' '; FILE_BYTES_MAX];
    exact[..2].copy_from_slice(b"{}");
    let uri = |bytes: &[u8]| format!("data:application/json;enc=gzip;base64,{}", base64(&gzip(bytes)));
    assert!(parse(&uri(&exact)).is_ok());
    exact.push(b' ');
    assert_eq!(refused(&uri(&exact)), "too-large");
}

#[test]
fn gzip_may_have_members_but_no_remains() {
    let uri = |bytes: &[u8]| format!("data:application/json;enc=gzip;base64,{}", base64(bytes));
    let members = [gzip(b"{\"name\":"), gzip(b"\"a\"}")].concat();
    assert!(matches!(parse(&uri(&members)), Ok(TokenUri::Inline { form: InlineForm::Gzip, .. })));
    assert_eq!(refused(&uri(&[gzip(b"{}").as_slice(), b"garbage"].concat())), "gzip");
    let whole = gzip(b"{}");
    assert_eq!(refused(&uri(&whole[..whole.len() - 1])), "gzip");
}

#[test]
fn limits_of_the_uri_itself() {
    let padded = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
    assert!(parse(&padded(FILE_BYTES_MAX)).is_ok());
    assert_eq!(parse(&padded(FILE_BYTES_MAX + 1)), Err(TokenUriError::TooLarge));
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert!(parse(&nested(32)).is_ok());
    assert_eq!(parse(&nested(33)), Err(TokenUriError::File(FileError::TooDeep)));
    let in_arrays = format!("{{\"a\":{}{}}}", "[".repeat(32), "]".repeat(32));
    assert_eq!(parse(&in_arrays), Err(TokenUriError::File(FileError::TooDeep)));
    assert_eq!(parse(&nested(10_000)), Err(TokenUriError::File(FileError::Json)));
}

#[test]
fn garbage_is_named() {
    for (uri, code) in [
        ("{", "json"),
        ("{}\0", "json"),
        ("[1]", "not-a-uri"),
        ("\0\0\0", "not-a-uri"),
        ("//example.com/a", "not-a-uri"),
        ("https:example.com/a", "not-a-uri"),
        ("https://example.com\\@evil.example/a", "not-a-uri"),
        ("https://exa mple.com/a", "not-a-uri"),
        ("https://:pw@example.com/a", "userinfo"),
        ("data:", "data-malformed"),
        ("data:text/plain,{}", "data-media-type"),
        ("data:application/json;charset=utf-16,{}", "unsupported-encoding"),
        ("data:application/json;enc=br;base64,AAAA", "unsupported-encoding"),
        ("data:application/json;enc=gzip,AAAA", "unsupported-encoding"),
        ("data:application/json;base64,e30=e30=", "base64"),
        ("data:application/json;base64,", "json"),
        ("data:application/json,", "json"),
        ("data:application/json,%ff", "utf8"),
        ("data:application/json,null", "not-an-object"),
        ("ipfs:QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG", "cid"),
        ("ipfs:///QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG", "cid"),
        ("ipfs://qmywapjzv5czsna625s3xf2nemtygpphdwez79ojwnpbdg", "cid"),
    ] {
        assert_eq!(refused(uri), code, "{uri:?}");
    }
    assert_eq!(TokenUri::parse(b"https://example.com/\xff"), Err(TokenUriError::Utf8));
}

#[test]
fn bits_left_over_are_forgiven_as_browsers_do() {
    for data in ["e30=", "e31=", "e30", "e31", " e3 0 "] {
        assert!(parse(&format!("data:application/json;base64,{data}")).is_ok(), "{data}");
    }
}

#[test]
fn a_fragment_is_not_fetched() {
    let Ok(TokenUri::Https(url)) = parse("https://example.com/a?b#c") else { panic!() };
    assert_eq!(url.as_str(), "https://example.com/a?b");
}

#[test]
fn an_ipfs_path_stays_below_its_root() {
    let root = "ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG";
    for (path, plain) in
        [("/", ""), ("/a/b.json", "a/b.json"), ("/a%20b", "a b"), ("/a/", "a"), ("/..a", "..a")]
    {
        let Ok(TokenUri::Ipfs { path: parsed, .. }) = parse(&format!("{root}{path}")) else {
            panic!("{path}")
        };
        assert_eq!(parsed, plain);
    }
    for path in
        ["/..", "/a/../b", "/.", "/%2e%2E/x", "/a%2fb", "/a//b", "/a\\b", "/a?x", "/a#x", "/%00", "/%ff"]
    {
        assert_eq!(refused(&format!("{root}{path}")), "cid-path", "{path}");
    }
    let long = |length| parse(&format!("{root}/{}", "a".repeat(length)));
    assert!(long(255).is_ok());
    assert_eq!(long(256), Err(TokenUriError::CidPath));
}

#[test]
fn content_identifiers_are_whole() {
    let v0 = Cid::parse("QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG").unwrap();
    assert_eq!((v0.codec(), v0.hash_code(), v0.digest().len()), (Cid::DAG_PB, Cid::SHA2_256, 32));
    let v1 = Cid::parse("bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi").unwrap();
    assert_eq!((v1.codec(), v1.hash_code(), v1.digest().len()), (Cid::DAG_PB, Cid::SHA2_256, 32));
    let upper = Cid::parse("BAFYBEIGDYRZT5SFP7UDM7HU76UH7Y26NF3EFUYLQABF3OCLGTQY55FBZDI").unwrap();
    assert_eq!(upper.digest(), v1.digest());
    // The raw block "hello world" of the IPFS documentation.
    let raw = Cid::parse("bafkreifzjut3te7nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e").unwrap();
    assert_eq!(raw.codec(), Cid::RAW);
    assert!(Cid::parse("bafkreiaha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4").is_some());
    for bad in [
        "",
        "b",
        "z",
        "example.com",
        "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbd",
        "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG1",
        "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzd",
        "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdia",
        "Bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi",
        "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzd1",
        "baaaaaaaaaa",
        // Version 2, version 0 in base32, a codec written longer than it is, a digest shorter and longer than it says.
        "bajkreiaha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4",
        "babybeiaha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4",
        "bahkqaeraa4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dq",
        "bafkreiaha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyh",
        "bafkrehyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4",
        // A hash of no bytes.
        "bafkqaaa",
    ] {
        assert_eq!(Cid::parse(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_classified(uri in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = TokenUri::parse(&uri);
    }

    #[test]
    fn any_text_behind_a_known_start_is_classified(
        start in prop::sample::select(vec![
            "data:", "data:application/json,", "data:application/json;base64,",
            "data:application/json;enc=gzip;base64,", "https://", "ipfs://", "ipfs://ipfs/", "{",
        ]),
        rest in "\\PC{0,80}",
    ) {
        let _ = parse(&format!("{start}{rest}"));
    }

    #[test]
    fn broken_gzip_is_refused(at in 0_usize..40, flip in 1_u8..) {
        let mut bytes = gzip(b"{\"name\":\"agent\",\"services\":[]}");
        let at = at % bytes.len();
        bytes[at] ^= flip;
        // Time, flags and system in the header are not covered by its checksum; nothing else gets through.
        let file = parse(&format!("data:application/json;enc=gzip;base64,{}", base64(&bytes)));
        prop_assert!(file.is_err() || at < 10);
    }

    #[test]
    fn what_base64_holds_comes_out(name in "\\PC{0,40}") {
        let json = serde_json::json!({ "name": name });
        let expected = TokenUri::Inline { form: InlineForm::Base64, file: json.as_object().unwrap().clone() };
        let encoded = base64(json.to_string().as_bytes());
        for data in [encoded.clone(), encoded.trim_end_matches('=').into(), encoded.replace('+', "-").replace('/', "_")] {
            let parsed = parse(&format!("data:application/json;base64,{data}"));
            prop_assert_eq!(parsed.as_ref(), Ok(&expected));
        }
    }
}
