//! The tables, as they stand in testdata/rules, embedded.

use super::case::{Case, Need};
use anyhow::{Context as _, ensure};
use std::collections::HashSet;

/// Name, title and text of every table, in the order of the report.
const TABLES: [(&str, &str, &str); 8] = [
    (
        "rule-1-canonical",
        "Rule 1: canonical signatures",
        include_str!("../../../../../testdata/rules/rule-1-canonical.json"),
    ),
    (
        "rule-2-signer",
        "Rule 2: the signer is the payer",
        include_str!("../../../../../testdata/rules/rule-2-signer.json"),
    ),
    (
        "rule-3-window",
        "Rule 3: the window of time",
        include_str!("../../../../../testdata/rules/rule-3-window.json"),
    ),
    (
        "rule-4-value",
        "Rule 4: the exact value to the exact recipient",
        include_str!("../../../../../testdata/rules/rule-4-value.json"),
    ),
    ("rule-5-replay", "Rule 5: replay", include_str!("../../../../../testdata/rules/rule-5-replay.json")),
    ("wrappers", "ERC-6492 wrappers", include_str!("../../../../../testdata/rules/wrappers.json")),
    ("token", "The token's own truth", include_str!("../../../../../testdata/rules/token.json")),
    ("wire", "The request", include_str!("../../../../../testdata/rules/wire.json")),
];

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) cases: Vec<Case>,
}

/// Every table, with the cases that fit; tables without any are left out.
pub(super) fn tables(only: Option<&str>) -> anyhow::Result<Vec<Table>> {
    let mut tables = Vec::new();
    let mut ids = HashSet::new();
    for (name, title, text) in TABLES {
        let mut cases: Vec<Case> = serde_json::from_str(text).with_context(|| format!("table {name}"))?;
        for case in &cases {
            ensure!(ids.insert(case.id.clone()), "case {} stands in the tables twice", case.id);
            check(case).with_context(|| format!("case {}", case.id))?;
        }
        if let Some(glob) = only {
            cases.retain(|case| fits(glob, &case.id) || fits(glob, name));
        }
        if !cases.is_empty() {
            tables.push(Table { name, title, cases });
        }
    }
    ensure!(!tables.is_empty(), "no case and no table fits {:?}", only.unwrap_or_default());
    Ok(tables)
}

/// What the types alone do not say.
fn check(case: &Case) -> anyhow::Result<()> {
    for version in &case.versions {
        let refused = !case.expect.codes(*version).is_empty();
        ensure!(case.expect.valid != refused, "it has codes exactly when it is refused");
    }
    let needs = |need| case.needs.contains(&need);
    ensure!(case.mutations.policy.is_some() == needs(Need::Policy), "a policy is a need");
    ensure!(case.mutations.chain.block_time.is_some() == needs(Need::BlockTime), "a block time is a need");
    Ok(())
}

/// `*` is any text, `?` any one character.
fn fits(glob: &str, text: &str) -> bool {
    match glob.chars().next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = &glob[1..];
            text.char_indices().any(|(at, _)| fits(rest, &text[at..])) || fits(rest, "")
        }
        Some(wanted) => text
            .chars()
            .next()
            .is_some_and(|found| wanted == '?' || wanted == found)
            .then(|| {
                (&glob[wanted.len_utf8()..], text.char_indices().nth(1).map_or("", |(at, _)| &text[at..]))
            })
            .is_some_and(|(glob, text)| fits(glob, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_embedded_and_parses() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rules");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".json").map(String::from))
            .collect();
        let mut embedded: Vec<String> = tables(None).unwrap().iter().map(|table| table.name.into()).collect();
        files.sort();
        embedded.sort();
        assert_eq!(embedded, files);
    }

    #[test]
    fn nothing_unknown_is_skipped() {
        let good = r#"{"id": "a", "claim": "A.", "versions": [2], "payer": "eoa", "token": "FiatToken",
            "mutations": {}, "expect": {"valid": true}, "onchain": "executes"}"#;
        assert!(serde_json::from_str::<Case>(good).is_ok());
        for (from, to) in [
            ("\"id\"", "\"extra\": 1, \"id\""),
            ("[2]", "[3]"),
            ("eoa", "eoa2"),
            ("FiatToken", "OtherToken"),
            ("executes", "explodes"),
            ("{\"valid\": true}", "{\"valid\": true, \"code\": \"x\"}"),
            ("{},", "{\"values\": \"1\"},"),
            ("{},", "{\"value\": \"+2\"},"),
            ("{},", "{\"validAfter\": \"later\"},"),
            ("{},", "{\"payTo\": \"somebody\"},"),
            ("{},", "{\"signature\": \"highs\"},"),
            ("{},", "{\"signature\": \"r=s\"},"),
            ("{},", "{\"signature\": {\"erc6492\": {\"factory\": \"Nobody\"}}},"),
            ("{},", "{\"signature\": {\"erc6492\": {\"encodings\": \"gap\"}}},"),
            ("{},", "{\"chain\": {\"nonce\": \"spent\"}},"),
            ("{},", "{\"wire\": [{\"set\": \"/a\"}]},"),
            ("{},", "{\"wire\": [{\"remove\": \"/a\", \"value\": 1}]},"),
            ("{},", "{\"policy\": {\"margin\": 1}},"),
            ("{},", "{\"replay\": \"same\"},"),
            ("{},", "{\"signed\": {\"nonce\": \"mine\"}},"),
        ] {
            let spoilt = good.replacen(from, to, 1);
            assert_ne!(spoilt, good);
            assert!(serde_json::from_str::<Case>(&spoilt).is_err(), "{spoilt}");
        }
    }

    #[test]
    fn globs() {
        for (glob, text) in
            [("*", ""), ("a*", "a"), ("a*c", "abcbc"), ("?b", "ab"), ("*-eoa", "high-s-eoa"), ("ab", "ab")]
        {
            assert!(fits(glob, text), "{glob} {text}");
        }
        for (glob, text) in [("", "a"), ("a", "ab"), ("?", ""), ("a*c", "ab"), ("b*", "ab")] {
            assert!(!fits(glob, text), "{glob} {text}");
        }
        assert_eq!(tables(Some("shape-*-eoa")).unwrap().iter().map(|t| t.cases.len()).sum::<usize>(), 7);
        assert_eq!(tables(Some("rule-4-*")).unwrap().len(), 1);
        assert!(tables(Some("nothing")).is_err());
    }
}
