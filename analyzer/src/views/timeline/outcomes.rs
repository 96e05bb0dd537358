//! The number of failed allocations, and of retries, up to a point in time.

use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;

use super::stretch::Stretch;
use super::{TimelineFailure, TimelineRetries};
use crate::replay::Replay;
use crate::views::json::ordinal;

/// The counts up to a point in time, or in a stretch of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    pub failure_count: u64,
    answered: BTreeMap<DeviceOrdinal, u64>,
}

impl Outcomes {
    /// The current counts of the replay.
    pub fn of(replay: &Replay) -> Self {
        let devices = replay.devices.keys();
        Self {
            failure_count: replay.failures.count(),
            answered: devices
                .map(|device| (*device, replay.failures.answered_on(*device)))
                .collect(),
        }
    }

    /// The difference from earlier counts.
    pub fn since(mut self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        self.failure_count = self.failure_count.saturating_sub(before.failure_count);
        for (device, count) in &mut self.answered {
            let had = before.answered.get(device).copied();
            *count = count.saturating_sub(had.unwrap_or(0));
        }
        self
    }

    /// Retries by device.
    pub fn retries(&self) -> Vec<TimelineRetries> {
        let answered = self.answered.iter().filter(|(_, count)| **count > 0);
        answered
            .map(|(device, count)| TimelineRetries {
                device: ordinal(*device),
                count: *count,
            })
            .collect()
    }

    /// The failures of a stretch that are listed individually.
    pub fn failures(&self, replay: &Replay, stretch: Stretch) -> Vec<TimelineFailure> {
        let all = replay.failures.all().into_iter();
        let of = all.filter(|(_, failure)| stretch.has(failure.seq));
        of.map(|(_, failure)| TimelineFailure {
            seq: failure.seq.0,
            time_ns: failure.event.time.0,
            device: ordinal(failure.event.device),
            bytes: failure.event.bytes,
        })
        .collect()
    }
}
