//! The counters before one record, for a comparison with the recorder's counters.

use gpumem_capture::{CounterValues, DeviceOrdinal, Level, Seq};

use crate::replay::{CountersAt, Replay};

impl Replay {
    /// Keeps the counters before the record `seq` for [`Replay::counters_compared`].
    pub fn compare_counters_at(&mut self, seq: Seq) {
        self.counted = CountersAt::Before(seq);
    }

    /// The counters of a device and level before the requested record, which may be the end. `None` if none were
    /// requested, or if the capture no longer has them.
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
