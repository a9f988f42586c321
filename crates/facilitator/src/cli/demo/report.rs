//! What the reader sees, and whether it is what was to be seen.

use alloy_primitives::U256;
use std::{
    fmt::Display,
    io::{self, Write},
};

/// One expectation about a step.
#[derive(Debug, PartialEq, Eq)]
struct Check {
    what: String,
    expected: String,
    found: String,
}

/// One thing that was tried. It went as expected if it was checked at all and every check holds.
#[derive(Debug, Default)]
pub(super) struct Step {
    title: String,
    pub(super) verify: String,
    pub(super) settle: String,
    pub(super) moved: String,
    pub(super) nonce: String,
    /// Lines below the step.
    pub(super) notes: Vec<String>,
    checks: Vec<Check>,
}

impl Step {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    pub(super) fn expect(&mut self, what: &str, expected: impl Display, found: impl Display) {
        let (expected, found) = (expected.to_string(), found.to_string());
        self.checks.push(Check { what: what.to_owned(), expected, found });
    }

    fn surprises(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.expected != check.found)
    }

    fn as_expected(&self) -> bool {
        !self.checks.is_empty() && self.surprises().next().is_none()
    }
}

/// One account's line in the books.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) who: String,
    /// Its address, for people.
    pub(super) name: String,
    pub(super) before: U256,
    pub(super) after: U256,
    /// `Transfer` logs that name it.
    pub(super) transfers: usize,
}

/// Prints steps as they end, and counts them.
#[derive(Debug)]
pub(super) struct Report<W> {
    out: W,
    steps: usize,
    as_expected: usize,
}

impl<W: Write> Report<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, steps: 0, as_expected: 0 }
    }

    /// A title and what belongs to it, one a line.
    pub(super) fn facts(&mut self, title: &str, facts: &[(&str, String)]) -> io::Result<()> {
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        writeln!(self.out, "{title}\n")?;
        for (name, fact) in facts {
            writeln!(self.out, "  {name:width$}  {fact}")?;
        }
        Ok(())
    }

    /// Begins a table of steps.
    pub(super) fn section(&mut self, title: &str) -> io::Result<()> {
        self.line("", title, ["/verify", "/settle", "moved USDC", "nonce"], "")
    }

    /// One row of the table.
    pub(super) fn step(&mut self, step: &Step) -> io::Result<()> {
        let good = step.as_expected();
        self.steps += 1;
        self.as_expected += usize::from(good);
        let number = self.steps.to_string();
        let cells = [&step.verify, &step.settle, &step.moved, &step.nonce].map(String::as_str);
        self.line(&number, &step.title, cells, if good { "ok" } else { "NOT AS EXPECTED" })?;
        for note in &step.notes {
            writeln!(self.out, "{:6}{note}", "")?;
        }
        if step.checks.is_empty() {
            writeln!(self.out, "{:6}! nothing was checked", "")?;
        }
        for Check { what, expected, found } in step.surprises() {
            writeln!(self.out, "{:6}! {what}: expected {expected:?}, found {found:?}", "")?;
        }
        Ok(())
    }

    /// What every account had and has.
    pub(super) fn books(&mut self, accounts: &[Account]) -> io::Result<()> {
        let title = "What moved on chain";
        writeln!(
            self.out,
            "\n{title:51}{:>10}{:>11}{:>12}{:>11}",
            "before", "after", "moved USDC", "Transfers"
        )?;
        for account in accounts {
            writeln!(
                self.out,
                "  {:49}{:>10}{:>11}{:>12}{:>11}\n{:6}{}",
                account.who,
                usdc(account.before),
                usdc(account.after),
                change(account.before, account.after),
                account.transfers,
                "",
                account.name,
            )?;
        }
        writeln!(self.out)
    }

    /// The last line, and whether every step went as expected.
    pub(super) fn verdict(mut self) -> anyhow::Result<bool> {
        writeln!(self.out, "\n{} of {} as expected", self.as_expected, self.steps)?;
        self.out.flush()?;
        Ok(self.steps > 0 && self.as_expected == self.steps)
    }

    fn line(&mut self, number: &str, title: &str, cells: [&str; 4], mark: &str) -> io::Result<()> {
        let [verify, settle, moved, nonce] = cells;
        let before = if number.is_empty() { "\n" } else { "" };
        // Titles of tables start at the margin, those of steps behind their number.
        let title =
            if number.is_empty() { format!("{title:55}") } else { format!("{number:>4}  {title:49}") };
        let line = format!("{before}{title}{verify:9}{settle:9}{moved:>10}  {nonce:8}{mark}");
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// Atomic units with the token's six decimals.
pub(super) fn usdc(amount: U256) -> String {
    let million = U256::from(1_000_000);
    format!("{}.{:0>6}", amount / million, (amount % million).to_string())
}

fn change(before: U256, after: U256) -> String {
    match before.cmp(&after) {
        std::cmp::Ordering::Less => format!("+{}", usdc(after - before)),
        std::cmp::Ordering::Equal => usdc(U256::ZERO),
        std::cmp::Ordering::Greater => format!("-{}", usdc(before - after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Step {
        let mut step = Step::new("a payment");
        step.expect("/settle success", true, "true");
        step
    }

    /// What the report says of these steps, and its verdict.
    fn report(steps: &[Step]) -> (String, bool) {
        let mut out = Vec::new();
        let mut report = Report::new(&mut out);
        for step in steps {
            report.step(step).unwrap();
        }
        let verdict = report.verdict().unwrap();
        (String::from_utf8(out).unwrap(), verdict)
    }

    #[test]
    fn all_as_expected() {
        let (text, verdict) = report(&[good(), good()]);
        assert!(verdict);
        assert!(text.ends_with("\n2 of 2 as expected\n"), "{text}");
    }

    #[test]
    fn one_surprise_spoils_the_verdict_and_is_named() {
        let mut bad = good();
        bad.expect("Transfer logs", 1, 2);
        let (text, verdict) = report(&[good(), bad, good()]);
        assert!(!verdict);
        assert!(text.contains("NOT AS EXPECTED"), "{text}");
        assert!(text.contains("! Transfer logs: expected \"1\", found \"2\""), "{text}");
        assert!(text.ends_with("\n2 of 3 as expected\n"), "{text}");
    }

    #[test]
    fn what_was_not_checked_is_not_as_expected() {
        let (text, verdict) = report(&[Step::new("a payment")]);
        assert!(!verdict);
        assert!(text.contains("nothing was checked"), "{text}");
        assert!(!report(&[]).1);
    }

    #[test]
    fn amounts_have_six_decimals() {
        let shown = [0_u64, 1, 10_000, 1_000_000, 12_345_678].map(|amount| usdc(U256::from(amount)));
        assert_eq!(shown, ["0.000000", "0.000001", "0.010000", "1.000000", "12.345678"]);
        assert_eq!(change(U256::from(2), U256::from(1)), "-0.000001");
        assert_eq!(change(U256::from(1), U256::from(2)), "+0.000001");
        assert_eq!(change(U256::from(1), U256::from(1)), "0.000000");
    }
}
