//! JSON for programs; docs/CONFORMANCE.md describes it.

use super::{Report, Totals, date};
use crate::cli::conformance::{
    case::OnChain,
    judge::{Outcome, Row},
    peer::{Said, Verdict},
    probe::Sent,
};
use serde_json::{Map, Value, json};

/// Changes when a reader of the old form would misread the new one.
const FORMAT: &str = "quittance-conformance/1";

pub(super) fn write(report: &Report) -> anyhow::Result<String> {
    let tables: Vec<Value> = report
        .tables
        .iter()
        .map(|table| {
            json!({
                "name": table.name,
                "title": table.title,
                "totals": totals(&Totals::of(&table.rows)),
                "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
            })
        })
        .collect();
    let document = json!({
        "format": FORMAT,
        "date": date(report.date),
        "product": {
            "name": report.product.name, "version": report.product.version, "url": report.product.url,
        },
        "tables_of": concat!("quittance ", env!("CARGO_PKG_VERSION")),
        "network": {
            "chainId": report.names.chain_id, "v1": report.names.v1, "v2": report.names.v2, "node": report.node,
        },
        "only": report.only,
        "settle": if report.settle_all { "all" } else { "sample" },
        "verifyHoldsNonces": report.facts.pending_set,
        "factoriesAllowed": report.facts.allow_list,
        "totals": totals(&report.totals()),
        "tables": tables,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
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
    object.into()
}

fn row(row: &Row) -> Value {
    json!({
        "case": row.id,
        "claim": row.claim,
        "version": row.version.number(),
        "asked": row.step.as_str(),
        "expected": { "valid": row.valid, "codes": row.codes },
        "got": row.said.as_ref().map(said),
        "result": row.outcome.word(),
        "note": if row.note.is_empty() { Value::Null } else { row.note.clone().into() },
        "onChain": row.chain.direct.map(sent),
        "onChainUnwrapped": row.chain.unwrapped.map(sent),
        "acceptedInVain": row.accepted_in_vain(),
    })
}

fn said(said: &Said) -> Value {
    let (verdict, code) = match &said.verdict {
        Verdict::Valid => ("valid", Value::Null),
        Verdict::Refused(code) => ("refused", code.clone().into()),
        Verdict::None => ("none", Value::Null),
    };
    json!({
        "verdict": verdict,
        "code": code,
        "http": said.http_status,
        "message": said.message,
        "transaction": if said.transaction.is_empty() { Value::Null } else { said.transaction.clone().into() },
    })
}

fn sent(sent: Sent) -> Value {
    let word = |executes: bool| if executes { "executes" } else { "reverts" };
    json!({
        "expected": word(sent.expected == OnChain::Executes),
        "got": word(sent.executes),
    })
}
