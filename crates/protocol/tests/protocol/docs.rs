//! docs/RULES.md says what the code does.

use crate::support::{cases, steps::STEPS};
use quittance_protocol::{code::Code, wire::Version};
use std::{collections::HashSet, fs, path::Path};

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The cells of the tables in `text`, without header lines.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from:?}")) + from.len();
    let end = text[start..].find(to).unwrap_or_else(|| panic!("no {to:?}"));
    &text[start..start + end]
}

#[test]
fn the_precedence_is_the_one_the_tests_prove() {
    let rules = file("../../docs/RULES.md");
    let table = rows(between(&rules, "<!-- precedence -->", "<!-- end -->"));
    let written: Vec<(String, String, Vec<String>)> = table[1..]
        .iter()
        .map(|row| (row[0].clone(), row[1].clone(), quoted(&row[2]).into_iter().map(String::from).collect()))
        .collect();
    let proven: Vec<_> = STEPS
        .iter()
        .enumerate()
        .map(|(i, step)| {
            let mut codes = vec![step.code(Version::V2).to_string()];
            codes.extend(step.v1_code.map(|code| code.to_string()));
            ((i + 1).to_string(), step.name.to_owned(), codes)
        })
        .collect();
    assert_eq!(written, proven);
}

#[test]
fn every_code_stands_in_the_table_once() {
    let rules = file("../../docs/RULES.md");
    let table = rows(between(&rules, "## Codes", "## Where"));
    let written: Vec<_> = table[1..].iter().flat_map(|row| quoted(&row[0])).map(String::from).collect();
    let unique: HashSet<_> = written.iter().cloned().collect();
    assert_eq!(unique.len(), written.len(), "a code twice");
    let all: HashSet<_> = Code::ALL.iter().map(|code| code.to_string()).collect();
    assert_eq!(unique, all);
    // The steps a code names are the steps that give it.
    for row in &table[1..] {
        let code = quoted(&row[0])[0].to_owned();
        let steps: HashSet<usize> =
            row[1].split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        for (i, step) in STEPS.iter().enumerate() {
            let gives = step.code.as_str() == code || step.v1_code.is_some_and(|c| c.as_str() == code);
            assert!(!gives || steps.contains(&(i + 1)), "{code} is given by step {}", i + 1);
        }
    }
}

#[test]
fn every_test_named_exists() {
    let rules = file("../../docs/RULES.md");
    let ids: HashSet<String> = cases::all().into_iter().map(|case| case.id).collect();
    let sources: String = ["data", "facts", "precedence", "wire"]
        .map(|name| file(&format!("tests/protocol/{name}.rs")))
        .concat();
    let tables =
        [between(&rules, "<!-- precedence -->", "<!-- end -->"), between(&rules, "## Where", "## Proof")];
    for table in tables {
        for row in &rows(table)[1..] {
            let tests = quoted(row.last().expect("a cell"));
            assert!(!tests.is_empty(), "no test for {row:?}");
            for name in tests {
                assert!(ids.contains(name) || sources.contains(&format!("fn {name}(")), "no test {name}");
            }
        }
    }
    for prose in quoted(between(&rules, "## Precedence", "<!-- precedence -->")) {
        assert!(prose.starts_with("of_") && sources.contains(&format!("fn {prose}(")), "no test {prose}");
    }
    for data in quoted(between(&rules, "## The five MUST rules", "## Precedence")) {
        if data.ends_with(".json") {
            assert!(!file(&format!("../../{data}")).is_empty());
        }
    }
}
