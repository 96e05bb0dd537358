//! A device in a frame.

use gpumem_analyzer::replay::{Levels, Reading, Replay};
use gpumem_capture::{CounterValues, DeviceOrdinal, Level, Nanos, Seq};
use gpumem_judge::Growth;

use super::growth::LiveGrowth;

/// A device in a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceNow {
    /// Its ordinal.
    pub device: DeviceOrdinal,
    /// Its name, if the capture has it.
    pub name: Option<String>,
    /// Bytes of the card, or of a lower limit.
    pub total: Option<u64>,
    /// Its current figures.
    pub now: Levels,
    /// Its figures at its peak.
    pub at_peak: Levels,
    /// Event and time of the peak.
    pub peak: Option<(Seq, Nanos)>,
    /// The peak of what PyTorch's allocator held.
    pub reserved_peak: u64,
    /// NVML's newest reading.
    pub reading: Option<Reading>,
    /// The most reliable reading: see [`gpumem_analyzer::replay::Readings::best`].
    pub best_reading: Option<Reading>,
    /// Its UUID, if the capture has it.
    pub uuid: Option<String>,
    /// The counters of each level that had an event.
    pub counters: Vec<(Level, CounterValues)>,
    /// Growth of live memory per step, or per round of a loop: see [`LiveGrowth`](super::LiveGrowth).
    pub step_growth: Option<Growth>,
    /// Refusals after which PyTorch's allocator got the memory.
    pub retries: u64,
}

impl DeviceNow {
    /// The known memory of the process: the physical memory, or that of CUDA or PyTorch if the former is unknown.
    pub fn process(&self) -> u64 {
        match self.now.physical {
            0 => self.now.driver.max(self.now.reserved.unwrap_or(0)),
            physical => physical,
        }
    }

    /// NVML's newest figure of the process.
    pub fn nvml(&self) -> Option<u64> {
        self.reading.and_then(|reading| reading.process)
    }
}

/// The state of each device.
pub(crate) fn devices(replay: &Replay, growth: &LiveGrowth) -> Vec<DeviceNow> {
    let real = |(device, _): &(&DeviceOrdinal, _)| **device != DeviceOrdinal::NONE;
    let devices = replay.devices.iter().filter(real);
    devices
        .map(|(device, on)| {
            let named = replay.names.devices.get(device);
            DeviceNow {
                device: *device,
                name: named.map(|named| named.name.clone()),
                total: replay
                    .limit_of(*device)
                    .or(named.map(|named| named.total_bytes)),
                now: on.now,
                at_peak: on.at_peak,
                peak: on.moment,
                reserved_peak: on.reserved_peak,
                reading: on.readings.last,
                best_reading: on.readings.best(),
                uuid: named.and_then(|named| named.uuid_text()),
                counters: counters(replay, *device),
                step_growth: growth.of(*device),
                retries: replay.failures.answered_on(*device),
            }
        })
        .collect()
}

pub(crate) fn counters(replay: &Replay, device: DeviceOrdinal) -> Vec<(Level, CounterValues)> {
    let levels = [Level::TENSOR, Level::DRIVER, Level::HOST, Level::PHYSICAL];
    let known = |level: &Level| replay.levels.contains_key(&(device, *level));
    let of = |level| (level, replay.counters(device, level));
    levels.into_iter().filter(known).map(of).collect()
}
