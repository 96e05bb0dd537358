//! Counts of calls and results.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::functions::{ALL, Api, NOT_SUPPORTED};

/// Calls by function and by result.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    calls: Vec<BTreeMap<u32, u64>>,
    /// Sequences that ran to their end.
    pub sequences: u64,
    /// Points at which the two sides were compared.
    pub comparisons: u64,
    /// Calls that are valid according to the model and that failed with an error other than out of
    /// memory.
    pub surprises: u64,
    /// Descriptions of the first of them.
    told: Vec<String>,
}

impl Statistics {
    /// Counts a call.
    pub fn called(&mut self, api: Api, code: u32) {
        if self.calls.is_empty() {
            self.calls.resize(ALL.len(), BTreeMap::new());
        }
        if let Some(codes) = self.calls.get_mut(api as usize) {
            *codes.entry(code).or_insert(0) += 1;
        }
    }

    /// Counts a surprise.
    pub fn surprised(&mut self, told: impl FnOnce() -> String) {
        self.surprises += 1;
        if self.told.len() < 5 {
            self.told.push(told());
        }
    }

    /// Adds another thread's counts.
    pub fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.comparisons += other.comparisons;
        self.surprises += other.surprises;
        self.told.extend(other.told.iter().cloned());
        self.told.truncate(5);
        if self.calls.is_empty() {
            self.calls.resize(ALL.len(), BTreeMap::new());
        }
        for (ours, theirs) in self.calls.iter_mut().zip(&other.calls) {
            for (code, count) in theirs {
                *ours.entry(*code).or_insert(0) += count;
            }
        }
    }

    /// One line of JSON: totals, calls by function (`[calls, failed calls]`), failures by code, and
    /// the functions that were not called or not supported.
    pub fn json(&self) -> String {
        let mut failures = BTreeMap::new();
        let (mut calls, mut apis, mut uncovered) = (0, String::new(), String::new());
        for (place, function) in ALL.iter().enumerate() {
            let empty = BTreeMap::new();
            let codes = self.calls.get(place).unwrap_or(&empty);
            let all: u64 = codes.values().sum();
            let good = codes.get(&0).copied().unwrap_or(0);
            calls += all;
            for (code, count) in codes.iter().filter(|(code, _)| **code != 0) {
                *failures.entry(*code).or_insert(0) += count;
            }
            if codes.keys().all(|code| *code == NOT_SUPPORTED) {
                let comma = if uncovered.is_empty() { "" } else { "," };
                let _ = write!(uncovered, "{comma}\"{}\"", function.symbol);
            } else {
                let comma = if apis.is_empty() { "" } else { "," };
                let _ = write!(
                    apis,
                    "{comma}\"{}\":[{all},{}]",
                    function.symbol,
                    all - good
                );
            }
        }
        let failures: Vec<String> = failures
            .iter()
            .map(|(code, count): (&u32, &u64)| format!("\"{code}\":{count}"))
            .collect();
        format!(
            "{{\"sequences\":{},\"calls\":{calls},\"comparisons\":{},\"surprises\":{},\
             \"first_surprises\":{:?},\"failures\":{{{}}},\"not_covered\":[{uncovered}],\"apis\":{{{apis}}}}}",
            self.sequences,
            self.comparisons,
            self.surprises,
            self.told,
            failures.join(",")
        )
    }
}
