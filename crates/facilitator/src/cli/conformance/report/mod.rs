//! The result, in three forms.

mod json;
mod junit;
mod table;

use super::{
    args::Format,
    judge::{Outcome, Row},
    peer::Product,
    run::Facts,
    terms::Names,
};
use anyhow::Context as _;
use std::path::Path;

/// Everything a report says.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) product: Product,
    pub(super) names: Names,
    pub(super) node: String,
    /// Seconds since 1970.
    pub(super) date: u64,
    pub(super) only: Option<String>,
    pub(super) settle_all: bool,
    pub(super) facts: Facts,
    pub(super) tables: Vec<Rows>,
}

/// The rows of one table.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) rows: Vec<Row>,
}

/// How many rows came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    counts: [usize; Outcome::ALL.len()],
    /// Transfers sent to the chain.
    pub(super) sent: usize,
    /// Of these, those that did what the table does not say.
    pub(super) chain_differs: usize,
    /// Payments accepted that the chain does not execute.
    pub(super) in_vain: usize,
    /// Payments accepted by `/verify` that `/settle` did not bring.
    pub(super) unpaid: usize,
}

impl Totals {
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut totals = Self::default();
        for row in rows {
            for (outcome, count) in Outcome::ALL.iter().zip(&mut totals.counts) {
                *count += usize::from(*outcome == row.outcome);
            }
            totals.sent += row.chain.sent().count();
            totals.chain_differs += row.chain.sent().filter(|sent| sent.differs()).count();
            totals.in_vain += usize::from(row.accepted_in_vain());
            totals.unpaid += usize::from(row.unpaid);
        }
        totals
    }

    pub(super) fn count(&self, outcome: Outcome) -> usize {
        Outcome::ALL.iter().zip(self.counts).find(|(known, _)| **known == outcome).map_or(0, |(_, n)| n)
    }

    pub(super) fn rows(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Everything that is not as the tables say.
    pub(super) fn differences(&self) -> usize {
        let rows: usize = Outcome::ALL.into_iter().filter(|o| o.differs()).map(|o| self.count(o)).sum();
        rows + self.chain_differs
    }
}

impl Report {
    pub(super) fn totals(&self) -> Totals {
        Totals::of(self.tables.iter().flat_map(|table| &table.rows))
    }

    /// The whole report.
    pub(super) fn write(&self, format: Format) -> String {
        match format {
            Format::Table => table::write(self),
            Format::Json => json::write(self),
            Format::Junit => junit::write(self),
        }
    }

    /// What a reader needs who has the rest in a file.
    pub(super) fn summary(&self) -> String {
        table::summary(self)
    }

    /// Writes a file, in the form its ending names.
    pub(super) fn save(&self, file: &Path, otherwise: Format) -> anyhow::Result<()> {
        let format = match file.extension().and_then(|ending| ending.to_str()) {
            Some("json") => Format::Json,
            Some("xml") => Format::Junit,
            Some("md") => Format::Table,
            _ => otherwise,
        };
        std::fs::write(file, self.write(format)).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// UTC, as RFC 3339 has it.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March end with their leap day (the algorithm is "civil from days" of H. Hinnant).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_796_050_476, "2026-11-30T14:54:36Z"),
            (1_893_456_000, "2030-01-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
