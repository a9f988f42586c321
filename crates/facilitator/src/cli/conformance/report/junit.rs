//! JUnit XML: a suite for each table, a test case for each row.

use super::{Report, Totals, date};
use crate::cli::conformance::{
    judge::{Outcome, Row},
    peer::Verdict,
};
use std::fmt::Write as _;

pub(super) fn write(report: &Report) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = format!("conformance of {} {}", report.product.name, report.product.version);
    let all = counts(&report.totals(), report.tables.iter().flat_map(|table| &table.rows));
    let _ = writeln!(out, "<testsuites name=\"{}\" {all}>", escaped(&name));
    for table in &report.tables {
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" timestamp=\"{}\" {}>",
            escaped(table.name),
            date(report.date),
            counts(&Totals::of(&table.rows), &table.rows),
        );
        for row in &table.rows {
            test(table.name, row, &mut out);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// A row fails once, whether the facilitator, the chain or both differ.
fn counts<'a>(totals: &Totals, rows: impl IntoIterator<Item = &'a Row>) -> String {
    let failures = rows.into_iter().filter(|row| row.outcome.differs() || row.chain.differs()).count();
    let skipped = totals.count(Outcome::NotRun) + totals.count(Outcome::NeedsAllowList);
    format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"", totals.rows())
}

fn test(table: &str, row: &Row, out: &mut String) {
    let name = format!("{} v{} {}", row.id, row.version.number(), row.step.as_str());
    let _ = write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escaped(table), escaped(&name));
    let got = match row.said.as_ref().map(|said| (&said.verdict, &said.message)) {
        None => String::new(),
        Some((Verdict::Valid, _)) => "valid".to_owned(),
        Some((Verdict::Refused(code), message)) => format!("refused, {code:?}: {message}"),
        Some((Verdict::None, message)) => message.clone(),
    };
    let expected =
        if row.valid { "valid".to_owned() } else { format!("refused, {}", row.codes.join(" or ")) };
    if row.outcome.differs() || row.chain.differs() {
        let kind = if row.outcome.differs() { row.outcome.word() } else { "chain-differs" };
        let text = format!("{}\nexpected: {expected}\ngot: {got}\n{}", row.claim, row.note);
        let _ = writeln!(
            out,
            ">\n      <failure type=\"{kind}\" message=\"{}\">{}</failure>\n    </testcase>",
            escaped(&row.claim),
            escaped(&text),
        );
    } else if matches!(row.outcome, Outcome::NotRun | Outcome::NeedsAllowList) {
        let why = if row.note.is_empty() { row.outcome.mark() } else { &row.note };
        let _ = writeln!(out, ">\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(why));
    } else {
        out.push_str("/>\n");
    }
}

/// Text and attributes; what XML 1.0 cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}
