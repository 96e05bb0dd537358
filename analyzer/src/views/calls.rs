//! CUDA's functions: events, calls, and their durations.

use schemars::JsonSchema;
use serde::Serialize;

use crate::names::{CallOutcome, CallTimes};
use crate::replay::Replay;

/// Events, calls and durations of one CUDA function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Calls {
    /// Name of the function; `None`: the capture does not contain the name.
    pub function: Option<String>,
    /// Number of events that calls of the function recorded.
    pub events: u64,
    /// Number of calls, including those that recorded no event and those made by another hooked function. `None`: the
    /// capture has no count, for example because the process was killed.
    pub calls: Option<u64>,
    /// Durations of the calls that succeeded, without those in `set_up_times`. Only calls made directly by the
    /// program or a library are timed, not those made by another hooked function. Absent: the capture has no such
    /// times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesSummary>,
    /// Durations of the timed calls that failed. Absent: the capture has no such times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_times: Option<TimesSummary>,
    /// Durations of the timed calls that succeeded and that created a context, used one for the first time, loaded
    /// code, or freed nothing (`cudaFree(NULL)`). Absent: the capture has no such times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up_times: Option<TimesSummary>,
}

/// Durations of a function's calls with the same outcome, without the time that the recorder took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimesSummary {
    /// Number of these calls.
    pub calls: u64,
    /// Sum of the durations in nanoseconds.
    pub total_ns: u64,
    /// Mean duration in nanoseconds, rounded down.
    pub mean_ns: u64,
    /// Longest duration in nanoseconds.
    pub greatest_ns: u64,
    /// Numbers of calls by duration, the shortest first. Buckets without calls are left out.
    pub histogram: Vec<BucketSummary>,
}

/// Calls that took at least `from_ns` and less than twice that. The first bucket (512 ns) also contains shorter
/// calls, the last one (2^32 ns) longer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BucketSummary {
    /// Lower bound of the durations in nanoseconds: a power of two from 2^9 to 2^32.
    pub from_ns: u64,
    /// Number of calls in the bucket.
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

/// All functions that have events, calls or durations, the one with the most events first.
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
