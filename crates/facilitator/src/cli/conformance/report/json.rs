//! JSON for programs; docs/CONFORMANCE.md describes it. A line for each row, so that two reports can be compared.

use super::{Report, Rows, Totals, date};
use crate::cli::conformance::{
    case::OnChain,
    judge::{Outcome, Row},
    peer::{Said, Verdict},
    probe::Sent,
};
use quittance_testkit::X402Version;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Changes when a reader of the old form would misread the new one.
const FORMAT: &str = "quittance-conformance/1";

pub(super) fn write(report: &Report) -> String {
    let mut out = String::from("{\n");
    let product = &report.product;
    let network = &report.names;
    for (key, value) in [
        ("format", json!(FORMAT)),
        ("date", json!(date(report.date))),
        ("product", json!({"name": product.name, "version": product.version, "url": product.url})),
        ("tablesOf", json!({"name": "quittance", "version": env!("CARGO_PKG_VERSION")})),
        (
            "network",
            json!({"chainId": network.chain_id, "v1": network.v1, "v2": network.v2, "node": report.node}),
        ),
        ("only", json!(report.only)),
        ("settle", json!(if report.settle_all { "all" } else { "sample" })),
        ("verifyHoldsNonces", json!(report.facts.pending_set)),
        ("factoriesAllowed", json!(report.facts.allow_list)),
        ("totals", totals(&report.totals())),
    ] {
        let _ = writeln!(out, "  \"{key}\": {value},");
    }
    let tables: Vec<String> = report.tables.iter().map(table).collect();
    let _ = write!(out, "  \"tables\": [\n{}\n  ]\n}}\n", tables.join(",\n"));
    out
}

fn table(table: &Rows) -> String {
    let cases: Vec<String> = table.rows.chunk_by(|a, b| a.id == b.id).map(case).collect();
    format!(
        "    {{\"name\": {}, \"title\": {}, \"totals\": {}, \"cases\": [\n{}\n    ]}}",
        json!(table.name),
        json!(table.title),
        totals(&Totals::of(&table.rows)),
        cases.join(",\n"),
    )
}

/// All rows of one case.
fn case(rows: &[Row]) -> String {
    let codes = |version| rows.iter().find(|row| row.version == version).map(|row| &row.codes);
    let first = rows.first();
    let lines: Vec<String> = rows.iter().map(|row| format!("        {}", line(row))).collect();
    format!(
        "      {{\"case\": {}, \"claim\": {}, \"valid\": {}, \"codes\": {}, \"rows\": [\n{}\n      ]}}",
        json!(first.map(|row| &row.id)),
        json!(first.map(|row| &row.claim)),
        json!(first.map(|row| row.valid)),
        json!({"1": codes(X402Version::V1), "2": codes(X402Version::V2)}),
        lines.join(",\n"),
    )
}

fn totals(totals: &Totals) -> Value {
    let mut object = Map::new();
    object.insert("rows".to_owned(), totals.rows().into());
    object.insert("differences".to_owned(), totals.differences().into());
    for outcome in Outcome::ALL {
        object.insert(outcome.word().to_owned(), totals.count(outcome).into());
    }
    object.insert("onChainSent".to_owned(), totals.sent.into());
    object.insert("onChainDiffers".to_owned(), totals.chain_differs.into());
    object.insert("acceptedInVain".to_owned(), totals.in_vain.into());
    object.insert("acceptedUnpaid".to_owned(), totals.unpaid.into());
    object.into()
}

/// One row. What there is nothing to say about is left out.
fn line(row: &Row) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(key.to_owned(), value);
        }
    };
    put("version", Some(row.version.number().into()));
    put("asked", Some(row.step.as_str().into()));
    put("result", Some(row.outcome.word().into()));
    put("got", row.said.as_ref().map(said));
    put("note", text(&row.note));
    put("onChain", row.chain.direct.map(sent));
    put("onChainUnwrapped", row.chain.unwrapped.map(sent));
    put("acceptedInVain", row.accepted_in_vain().then_some(true.into()));
    put("acceptedUnpaid", row.unpaid.then_some(true.into()));
    object.into()
}

fn said(said: &Said) -> Value {
    let (verdict, code) = match &said.verdict {
        Verdict::Valid => ("valid", None),
        Verdict::Refused(code) => ("refused", Some(code.clone().into())),
        Verdict::None => ("none", None),
    };
    let mut object = Map::new();
    object.insert("verdict".to_owned(), verdict.into());
    object.insert("http".to_owned(), said.http_status.into());
    for (key, value) in
        [("code", code), ("message", text(&said.message)), ("transaction", text(&said.transaction))]
    {
        if let Some(value) = value {
            object.insert(key.to_owned(), value);
        }
    }
    object.into()
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| text.into())
}

fn sent(sent: Sent) -> Value {
    let word = |executes: bool| if executes { "executes" } else { "reverts" };
    json!({"expected": word(sent.expected == OnChain::Executes), "got": word(sent.executes)})
}
