//! Definitions of a capture that differ in its replay, and the numbers of events that they refer to.

use gpumem_capture::{Definition, DeviceOrdinal, Event, EventKind, Level, ProcessKey, Seq};
use rustc_hash::FxHashMap;

/// Maps numbers of events in the recorded capture to those in the capture of the replay.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The newest free of each block.
    frees: FxHashMap<(DeviceOrdinal, Level, u64), u64>,
    failures: FxHashMap<u64, u64>,
    /// The newest end of a phase: its numbers in the recorded capture and in the replay.
    phase_end: Option<(u64, u64)>,
}

impl Numbers {
    /// The event `seq` was written as `now`.
    pub(crate) fn wrote(&mut self, seq: u64, event: &Event, now: Seq) {
        match event.kind {
            EventKind::FREE => {
                let block = (event.device, event.level, event.ptr);
                self.frees.insert(block, now.0);
            }
            EventKind::OUT_OF_MEMORY => drop(self.failures.insert(seq, now.0)),
            EventKind::PHASE_END => self.phase_end = Some((seq, now.0)),
            _ => {}
        }
    }

    /// The free that a CANCEL refers to.
    pub(crate) fn free(&self, cancel: &Event) -> u64 {
        let block = (cancel.device, cancel.level, cancel.ptr);
        self.frees.get(&block).copied().unwrap_or(0)
    }

    fn phase_end(&self, seq: &str) -> Option<u64> {
        let (there, here) = self.phase_end?;
        (seq.parse() == Ok(there)).then_some(here)
    }

    fn failure(&self, seq: &str) -> Option<u64> {
        self.failures.get(&seq.parse().ok()?).copied()
    }
}

/// Whether a fact counts calls of one of CUDA's functions.
fn is_of_cuda(key: &str) -> bool {
    let of_calls = [
        ProcessKey::CALLS,
        ProcessKey::CALL_TIMES,
        ProcessKey::FAILED_CALL_TIMES,
        ProcessKey::SET_UP_CALL_TIMES,
    ];
    let mut functions = of_calls
        .iter()
        .filter_map(|prefix| key.strip_prefix(prefix));
    functions.any(|function| function.starts_with("cu"))
}

/// Facts of a replay.
#[derive(Debug)]
pub(crate) struct Facts {
    device: DeviceOrdinal,
    /// The card's bytes.
    pub(crate) card: u64,
}

impl Facts {
    pub(crate) fn new(device: DeviceOrdinal, card: u64) -> Self {
        Self { device, card }
    }

    /// A definition as the replay has it; `None` to leave it out.
    pub(crate) fn of_replay(
        &self,
        definition: &Definition,
        numbers: &Numbers,
    ) -> Option<Definition> {
        match definition {
            Definition::Process { key, value } => {
                let (key, value) = self.process(key, value, numbers)?;
                Some(Definition::Process { key, value })
            }
            Definition::Device {
                ordinal,
                uuid,
                name,
                pci,
                ..
            } if *ordinal == self.device => Some(Definition::Device {
                ordinal: *ordinal,
                total_bytes: self.card,
                uuid: *uuid,
                name: name.clone(),
                pci: pci.clone(),
            }),
            other => Some(other.clone()),
        }
    }

    fn process(&self, key: &str, value: &str, numbers: &Numbers) -> Option<(String, String)> {
        let same = Some((key.to_owned(), value.to_owned()));
        match key {
            // The replay's own settings were written first.
            ProcessKey::ALLOCATOR_CONF => None,
            _ if key.starts_with(ProcessKey::REPLAYED) => None,
            ProcessKey::LIMIT => Some((key.to_owned(), self.limits(value))),
            ProcessKey::TRAINED_UNTIL => {
                let seq = numbers.phase_end(value)?;
                Some((key.to_owned(), seq.to_string()))
            }
            // The number and durations of the allocator's calls to CUDA are unknown.
            _ if is_of_cuda(key) => None,
            // The blocks have other addresses.
            _ if key.starts_with(ProcessKey::HOLDERS) => None,
            _ => match key.strip_prefix(ProcessKey::POSTMORTEM) {
                Some(seq) => {
                    let key = format!("{}{}", ProcessKey::POSTMORTEM, numbers.failure(seq)?);
                    Some((key, value.to_owned()))
                }
                None => same,
            },
        }
    }

    /// Limits of other devices; the replayed device has its card's size.
    fn limits(&self, value: &str) -> String {
        let own = format!("{}=", self.device.0);
        let others = value
            .split(',')
            .filter(|of| of.contains('=') && !of.starts_with(&own));
        others.collect::<Vec<_>>().join(",")
    }
}
