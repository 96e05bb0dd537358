//! CUDA's functions: events, calls, and their durations.

use schemars::JsonSchema;
use serde::Serialize;

use crate::names::{CallOutcome, CallTimes};
use crate::replay::Replay;

/// What was recorded of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Calls {
    /// Its name; `None` where the capture does not say.
    pub function: Option<String>,
    /// Events.
    pub events: u64,
    /// Calls, also those that left no event or were made by another hooked function; `None` where the
    /// process did not come to its end, when the recorder writes them.
    pub calls: Option<u64>,
    /// Times of the calls that no other hooked function made, and that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesSummary>,
    /// The same of those that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_times: Option<TimesSummary>,
    /// The same of those that succeeded and within which a context was made or first seen or code loaded, or that freed
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up_times: Option<TimesSummary>,
}

/// Times of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimesSummary {
    /// Calls.
    pub calls: u64,
    /// Nanoseconds of all of them.
    pub total_ns: u64,
    /// Of one on average, rounded down.
    pub mean_ns: u64,
    /// Of the longest one.
    pub greatest_ns: u64,
    /// Powers of two that have calls.
    pub histogram: Vec<BucketSummary>,
}

/// Calls that took at least so long and less than twice that. The first bucket, of 512 ns, has shorter calls too, the last
/// one, of 2^32 ns, longer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BucketSummary {
    /// Nanoseconds, a power of two.
    pub from_ns: u64,
    /// Calls.
    pub calls: u64,
}

impl From<CallTimes> for TimesSummary {
    fn from(times: CallTimes) -> Self {
        let bucket = |(exponent, calls): &(u32, u64)| BucketSummary {
            from_ns: 1_u64.checked_shl(*exponent).unwrap_or(u64::MAX),
            calls: *calls,
        };
        Self {
            calls: times.calls,
            total_ns: times.total_ns,
            mean_ns: times.mean_ns(),
            greatest_ns: times.greatest_ns,
            histogram: times.histogram.iter().map(bucket).collect(),
        }
    }
}

/// All functions with any data, most events first.
pub(super) fn calls(replay: &Replay) -> Vec<Calls> {
    let names = &replay.names;
    let row = |function: Option<&str>, events| {
        let times = |outcome| Some(names.call_times(function?, outcome)?.into());
        Calls {
            function: function.map(str::to_owned),
            events,
            calls: function.and_then(|name| names.calls_of(name)),
            times: times(CallOutcome::Succeeded),
            failed_times: times(CallOutcome::Failed),
            set_up_times: times(CallOutcome::SetUp),
        }
    };
    let mut calls: Vec<Calls> = replay
        .calls
        .iter()
        .map(|(api, events)| row(names.apis.get(api).map(String::as_str), *events))
        .collect();
    for (name, _) in names.calls() {
        if !calls
            .iter()
            .any(|row| row.function.as_deref() == Some(name))
        {
            calls.push(row(Some(name), 0));
        }
    }
    calls.sort_by(|a, b| (b.events, &a.function).cmp(&(a.events, &b.function)));
    calls
}
