//! The counters before one record, to be compared with those that the recorder kept.

use std::collections::BTreeMap;

use gpumem_capture::{CounterValues, DeviceOrdinal, Level, Seq};

use crate::replay::Replay;

/// The counters of all levels as of one place in the order of records.
#[derive(Debug, Default)]
pub(crate) enum CountersAt {
    /// They are not asked for.
    #[default]
    Unwanted,
    /// No record from there on was seen yet.
    Before(Seq),
    /// The place lies before the first record that is known as itself.
    Unknown,
    Found(BTreeMap<(DeviceOrdinal, Level), CounterValues>),
}

impl Replay {
    /// Has the counters as they are before the record `seq` kept for [`Replay::counters_compared`].
    pub fn compare_counters_at(&mut self, seq: Seq) {
        self.counted = CountersAt::Before(seq);
    }

    /// The counters of a device and level before the record that they were asked for, which may be the end. None: they
    /// were not asked for, or are not known any more.
    pub fn counters_compared(&self, device: DeviceOrdinal, level: Level) -> Option<CounterValues> {
        match &self.counted {
            CountersAt::Unwanted | CountersAt::Unknown => None,
            CountersAt::Before(_) => Some(self.counters(device, level)),
            CountersAt::Found(levels) => {
                Some(levels.get(&(device, level)).copied().unwrap_or_default())
            }
        }
    }

    #[cold]
    pub(crate) fn keep_counters(&mut self) {
        let levels = self
            .levels
            .iter()
            .map(|(place, state)| (*place, state.counters));
        self.counted = CountersAt::Found(levels.collect());
    }
}
