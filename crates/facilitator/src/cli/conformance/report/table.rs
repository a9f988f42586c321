//! Markdown that reads well as plain text: what differs first, then everything.

use super::{Report, Totals, date};
use crate::cli::conformance::{
    case::OnChain,
    judge::{Outcome, Row, Step},
    node::TRANSFER_GAS,
    peer::{Said, Verdict},
    probe::{ChainSays, Sent},
};
use quittance_testkit::X402Version;
use std::fmt::Write as _;

/// What each of the seven shapes is made of.
const SHAPES: [&str; 7] = [
    "bare, low s",
    "bare, high s",
    "wrapper: no factory, no calldata",
    "wrapper: no factory, calldata",
    "wrapper: factory, no calldata",
    "wrapper: factory, calldata",
    "wrapper: factory, no calldata, high s inside",
];

/// Longest answer in a table; the JSON report has all of it.
const GOT_CHARS_MAX: usize = 80;

/// The whole report.
pub(super) fn write(report: &Report) -> String {
    let mut out = summary(report);
    shapes(report, &mut out);
    for table in &report.tables {
        let _ = writeln!(out, "\n## {}\n", table.title);
        let _ = writeln!(out, "`testdata/rules/{}.json`. {}\n", table.name, line(&Totals::of(&table.rows)));
        rows(&merged(&table.rows), &mut out);
    }
    out
}

/// Who, when, how many, and every difference.
pub(super) fn summary(report: &Report) -> String {
    let mut out = String::new();
    let totals = report.totals();
    let Report { product, names, facts, .. } = report;
    let _ = writeln!(out, "# Conformance of {} {}\n", product.name, product.version);
    let versions = match (&names.v1, &names.v2) {
        (Some(v1), Some(v2)) => format!("{v2} (version 2), {v1} (version 1)"),
        (None, Some(v2)) => format!("{v2} (version 2 only)"),
        (Some(v1), None) => format!("{v1} (version 1 only)"),
        (None, None) => "none".to_owned(),
    };
    let found = |fact: Option<bool>, yes: &str, no: &str| match fact {
        Some(true) => yes.to_owned(),
        Some(false) => no.to_owned(),
        None => "could not be found out".to_owned(),
    };
    let facts = [
        ("product", format!("{}, version {}", product.name, product.version)),
        ("at", product.url.clone()),
        ("date", date(report.date)),
        ("tables of", concat!("quittance ", env!("CARGO_PKG_VERSION")).to_owned()),
        ("network", format!("{versions}, on {}", report.node)),
        (
            "cases",
            report.only.clone().map_or_else(|| "all".to_owned(), |only| format!("those that fit `{only}`")),
        ),
        ("sent to /settle", if report.settle_all { "all" } else { "a sample" }.to_owned()),
        (
            "/verify",
            found(
                facts.pending_set,
                "holds the nonce of what it accepts",
                "holds no nonces: it accepts a payment twice",
            ),
        ),
        (
            "factories of the tables",
            found(facts.allow_list, "allowed", "not allowed: the cases that need them are not judged"),
        ),
    ];
    let facts: Vec<_> = facts.into_iter().map(|(name, fact)| vec![name.to_owned(), fact]).collect();
    grid(&["", ""], &facts, &mut out);
    let _ = writeln!(out, "\n## Result\n");
    let mut counts: Vec<Vec<String>> = Vec::new();
    for table in &report.tables {
        counts.push(numbers(table.title, &Totals::of(&table.rows)));
    }
    counts.push(numbers("all", &totals));
    let heads: Vec<&str> =
        ["", "rows"].into_iter().chain(Outcome::ALL.iter().map(|outcome| outcome.mark())).collect();
    grid(&heads, &counts, &mut out);
    let _ = writeln!(
        out,
        "\nOn the chain: {} transfers sent past the facilitator, {} of them not as the tables say.\n\
         Accepted by /verify although the chain does not execute it within {TRANSFER_GAS} gas: {}.\n\
         Accepted by /verify and not brought by /settle: {}.",
        totals.sent, totals.chain_differs, totals.in_vain, totals.unpaid
    );
    let differences: Vec<&Row> = report
        .tables
        .iter()
        .flat_map(|table| &table.rows)
        .filter(|row| row.outcome.differs() || row.chain.differs())
        .collect();
    if differences.is_empty() {
        let _ = writeln!(out, "\nNothing differs.");
    } else {
        let _ = writeln!(out, "\n## What differs: {}\n", totals.differences());
        rows(&merged(differences), &mut out);
    }
    out
}

fn numbers(title: &str, totals: &Totals) -> Vec<String> {
    let counts = Outcome::ALL.iter().map(|outcome| totals.count(*outcome).to_string());
    [title.to_owned(), totals.rows().to_string()].into_iter().chain(counts).collect()
}

fn line(totals: &Totals) -> String {
    let counts = Outcome::ALL.into_iter().filter(|outcome| totals.count(*outcome) > 0);
    let counts: Vec<_> =
        counts.map(|outcome| format!("{} {}", totals.count(outcome), outcome.mark())).collect();
    format!("{} rows: {}.", totals.rows(), counts.join("; "))
}

/// The seven shapes by payer, as far as they were asked about.
fn shapes(report: &Report, out: &mut String) {
    let find = |number: usize, payer: &str, version: X402Version| {
        let id = format!("shape-{number}-{payer}");
        let rows = report.tables.iter().flat_map(|table| &table.rows);
        rows.clone()
            .find(|row| row.id == id && row.version == version && row.step == Step::Verify)
            .map_or_else(String::new, |row| match (&row.said, row.outcome) {
                (_, Outcome::NeedsAllowList) => Outcome::NeedsAllowList.mark().to_owned(),
                (Some(said), outcome) => {
                    let word = if said.verdict == Verdict::Valid { "valid" } else { "refused" };
                    let word = if said.verdict == Verdict::None { "no verdict" } else { word };
                    if outcome == Outcome::VerdictDiffers {
                        format!("{word} DIFFERS")
                    } else {
                        word.to_owned()
                    }
                }
                (None, outcome) => outcome.mark().to_owned(),
            })
    };
    let mut lines = Vec::new();
    for (number, shape) in (1..).zip(SHAPES) {
        let mut cells = vec![number.to_string(), shape.to_owned()];
        for payer in ["eoa", "undeployed"] {
            for version in [X402Version::V1, X402Version::V2] {
                cells.push(find(number, payer, version));
            }
        }
        lines.push(cells);
    }
    if lines.iter().all(|cells| cells.iter().skip(2).all(String::is_empty)) {
        return;
    }
    let _ = writeln!(out, "\n## The seven shapes of a signature without code at the payer\n");
    let _ = writeln!(
        out,
        "An EOA's own key signs, or the owner's of a wallet that is not deployed. Strict: only shape 1 of an EOA and shape 6\n\
         of such a wallet are valid.\n"
    );
    grid(&["#", "shape", "EOA, v1", "EOA, v2", "wallet, v1", "wallet, v2"], &lines, out);
}

/// Rows that came out the same are one line: both versions, and the two questions about one payment.
struct Line<'a> {
    versions: String,
    asked: String,
    row: &'a Row,
}

fn merged<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for row in rows {
        let version = row.version.number().to_string();
        let twin = lines.iter_mut().find(|line| {
            let other = line.row;
            !line.versions.contains(&version)
                && (&other.id, other.step, on_chain(other.chain)) == (&row.id, row.step, on_chain(row.chain))
                && same(other, row)
        });
        match twin {
            Some(line) => line.versions = format!("{}, {version}", line.versions),
            None => lines.push(Line { versions: version, asked: row.step.as_str().to_owned(), row }),
        }
    }
    let mut merged: Vec<Line<'_>> = Vec::new();
    for line in lines {
        // What the chain says stands with the first question.
        let twin = merged.iter_mut().find(|first| {
            first.row.id == line.row.id
                && first.versions == line.versions
                && line.row.chain == ChainSays::default()
                && same(first.row, line.row)
        });
        match twin {
            Some(first) => first.asked = format!("{}, {}", first.asked, line.asked),
            None => merged.push(line),
        }
    }
    merged
}

fn same(a: &Row, b: &Row) -> bool {
    let seen = |row: &Row| (expected(row), got(row), row.outcome);
    seen(a) == seen(b)
}

fn rows(lines: &[Line<'_>], out: &mut String) {
    let lines: Vec<Vec<String>> = lines
        .iter()
        .map(|Line { versions, asked, row }| {
            vec![
                row.id.clone(),
                versions.clone(),
                asked.clone(),
                expected(row),
                got(row),
                row.outcome.mark().to_owned(),
                on_chain(row.chain),
                row.claim.clone(),
            ]
        })
        .collect();
    grid(&["case", "v", "asked", "expected", "got", "result", "on chain", "claim"], &lines, out);
}

fn expected(row: &Row) -> String {
    match (row.valid, row.codes.first()) {
        (true, _) => "valid".to_owned(),
        (false, Some(code)) => code.clone(),
        (false, None) => "refused".to_owned(),
    }
}

/// The answer; "same" where it is the strict one.
fn got(row: &Row) -> String {
    let said = match &row.said {
        Some(said) if row.outcome == Outcome::Ok => {
            debug_assert_ne!(said.verdict, Verdict::None);
            "same".to_owned()
        }
        Some(said) => answer(said),
        None => "-".to_owned(),
    };
    let said = if row.note.is_empty() { said } else { format!("{said} ({})", row.note) };
    match said.char_indices().nth(GOT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    }
}

fn answer(said: &Said) -> String {
    let status = match said.http_status {
        0 | 200 => String::new(),
        status => format!(" (HTTP {status})"),
    };
    match &said.verdict {
        Verdict::Valid => format!("valid{status}"),
        Verdict::Refused(code) if code.is_empty() => format!("refused without a code{status}"),
        Verdict::Refused(code) => format!("{code}{status}"),
        Verdict::None => said.message.clone(),
    }
}

/// What the transfer did; with what the table says where that is something else.
fn on_chain(chain: ChainSays) -> String {
    let one = |sent: Sent| {
        let did = if sent.executes { "executes" } else { "reverts" };
        let claim = if sent.expected == OnChain::Executes { "executes" } else { "reverts" };
        if sent.differs() { format!("{did}, NOT {claim}") } else { did.to_owned() }
    };
    match (chain.direct.map(one), chain.unwrapped.map(one)) {
        (Some(direct), Some(unwrapped)) => format!("{direct}; unwrapped {unwrapped}"),
        (Some(direct), None) => direct,
        (None, _) => String::new(),
    }
}

/// A Markdown table; every column but the last is as wide as its widest cell.
fn grid(heads: &[&str], lines: &[Vec<String>], out: &mut String) {
    let lines: Vec<Vec<String>> =
        lines.iter().map(|cells| cells.iter().map(|cell| cell.replace('|', "\\|")).collect()).collect();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count());
        let head = heads.get(column).map_or(0, |head| head.chars().count());
        if column + 1 == heads.len() { head.max(3) } else { cells.max().unwrap_or(0).max(head).max(3) }
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut row = |cells: Vec<&str>| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        let _ = writeln!(out, "{text}|");
    };
    row(heads.to_vec());
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    row(dashes.iter().map(String::as_str).collect());
    for cells in &lines {
        row(cells.iter().map(String::as_str).collect());
    }
}
