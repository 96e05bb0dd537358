//! Metrics, independent of their format.

use std::collections::BTreeSet;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It grows until its program ends.
    Counter,
}

/// A value. Bytes are exact integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Whole(i128),
    /// A floating-point number.
    Real(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Names and values of labels.
pub type Labels = Vec<(String, String)>;

/// A metric and its samples.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name; a counter's ends in `_total`.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    ///  Its description, in one line.
    pub help: &'static str,
    /// Samples with distinct label sets.
    pub samples: Vec<(Labels, Value)>,
    seen: BTreeSet<Labels>,
}

impl Family {
    /// Its unit, if its name has one.
    pub fn unit(&self) -> Option<&'static str> {
        let base = self.name.trim_end_matches("_total");
        let units = ["bytes", "seconds", "ratio"];
        units.into_iter().find(|unit| base.ends_with(unit))
    }
}

/// All metrics of one scrape, in the order in which they were added first.
#[derive(Clone, Debug, Default)]
pub struct Families(Vec<Family>);

impl Families {
    /// Adds to a gauge.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: impl Into<Value>,
    ) {
        self.add(Kind::Gauge, name, help, labels, value.into());
    }

    /// Adds to a counter.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: u64,
    ) {
        self.add(Kind::Counter, name, help, labels, value.into());
    }

    /// A sample whose labels exist already is omitted, because a scrape with duplicates is rejected as a whole.
    fn add(
        &mut self,
        kind: Kind,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: Value,
    ) {
        let at = self.0.iter().position(|family| family.name == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(Family {
                name,
                kind,
                help,
                samples: Vec::new(),
                seen: BTreeSet::new(),
            });
            self.0.len() - 1
        });
        let given = labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Labels = given
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let family = &mut self.0[at];
        if family.seen.insert(labels.clone()) {
            family.samples.push((labels, value));
        }
    }

    /// All metrics.
    pub fn all(&self) -> &[Family] {
        &self.0
    }
}
