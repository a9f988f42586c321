//! What the operator's listener says of `/metrics`.

use super::{Bench, DEADLINE, until};
use quittance_testkit::Facilitator;
use std::cell::RefCell;

/// One look.
#[derive(Debug)]
pub(crate) struct Metrics(pub(crate) String);

impl Metrics {
    pub(crate) async fn read(bench: &Bench) -> Self {
        let operator = Facilitator::new(bench.server.operator_url()).unwrap();
        Self(operator.get("/metrics").await.unwrap().text)
    }

    /// Waits until counters have these values: a row is seen a moment before it is counted.
    ///
    /// Of the only network, `reorgs` is `quittance_reorgs_total`; `deliveries said=lost` and
    /// `settlements status=failed` are those with that label.
    pub(crate) async fn until_counted(bench: &Bench, expected: &[(&str, u64)]) {
        let what = format!("counters at {expected:?}");
        let seen = RefCell::new(Vec::new());
        let counted = until(&what, DEADLINE, || async {
            let metrics = Self::read(bench).await;
            let now: Vec<_> = expected.iter().map(|(name, _)| (*name, metrics.count(name))).collect();
            let is_over = now.iter().zip(expected).any(|((_, now), (_, expected))| now > expected);
            let is_there = now == expected;
            *seen.borrow_mut() = now;
            (is_there || is_over).then_some(is_there)
        });
        assert!(counted.await, "{:?}, not {expected:?}", seen.borrow());
    }

    /// A counter by its short name.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let (name, label) = name.split_once(' ').unwrap_or((name, ""));
        let labels = match label.split_once('=') {
            // An answer's delivery is of no network.
            Some(("said", said)) => format!(r#"said="{said}""#),
            Some((key, value)) => format!(r#"network="eip155:84532",{key}="{value}""#),
            None => r#"network="eip155:84532""#.to_owned(),
        };
        self.text(&format!("quittance_{name}_total{{{labels}}}")).parse().unwrap()
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.0.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap())
    }

    fn text(&self, series: &str) -> &str {
        let found = self.samples().find_map(|(name, value)| (name == series).then_some(value));
        found.unwrap_or_else(|| panic!("no {series}\n{}", self.0))
    }

    /// A value by its name and labels.
    pub(crate) fn get(&self, series: &str) -> f64 {
        self.text(series).parse().unwrap()
    }

    /// A value of the only network.
    pub(crate) fn of_network(&self, name: &str) -> f64 {
        self.get(&format!(r#"{name}{{network="eip155:84532"}}"#))
    }
}
