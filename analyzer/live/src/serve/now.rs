//! The head of a frame as JSON: the program, its devices, its failures.

use crate::frames::{DeviceNow, Failure, Frame, LevelPeak, State};
use serde::Serialize;

/// The most failures on the page.
const FAILURES: usize = 8;

#[derive(Serialize)]
pub(super) struct Now<'a> {
    state: &'static str,
    /// The progress of reading in bytes: (read, all).
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<(u64, u64)>,
    /// When the program ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// Why reading stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    seq: u64,
    time: u64,
    events: u64,
    steps: u64,
    phase: Option<&'static str>,
    pid: u32,
    command: Option<&'a str>,
    devices: Vec<Device<'a>>,
    peaks: Vec<Peak>,
    failure_count: u64,
    failures: Vec<Failed>,
}

#[derive(Serialize)]
struct Device<'a> {
    device: u8,
    name: Option<&'a str>,
    total: Option<u64>,
    process: u64,
    tensor: u64,
    driver: u64,
    reserved: Option<u64>,
    physical: u64,
    peak_tensor: u64,
    peak_driver: u64,
    peak_time: Option<u64>,
    nvml: Option<u64>,
}

/// The peak so far of a level on a device.
#[derive(Serialize)]
struct Peak {
    device: u8,
    level: &'static str,
    bytes: u64,
    seq: u64,
}

#[derive(Serialize)]
struct Failed {
    seq: u64,
    time: u64,
    device: u8,
    bytes: u64,
    is_exception: bool,
}

impl<'a> Now<'a> {
    pub(super) fn of(frame: &'a Frame) -> Self {
        let (mut read, mut ended, mut why) = (None, None, None);
        let state = match &frame.state {
            State::CatchingUp(at, all) => {
                read = Some((*at, *all));
                "reading"
            }
            State::Running => "running",
            State::Ended(at) => {
                ended = Some(at.0);
                "ended"
            }
            State::Killed(at) => {
                ended = Some(at.0);
                "killed"
            }
            State::Stopped(of) => {
                why = Some(of.as_str());
                "stopped"
            }
        };
        Self {
            state,
            read,
            ended,
            why,
            seq: frame.seq.0,
            time: frame.time.0,
            events: frame.events,
            steps: frame.steps,
            phase: frame
                .at
                .as_ref()
                .and_then(|at| at.phase)
                .map(|of| of.word()),
            pid: frame.pid,
            command: frame.command.as_deref(),
            devices: frame.devices.iter().map(device).collect(),
            peaks: frame.peaks.iter().map(peak).collect(),
            failure_count: frame.failure_count,
            failures: frame.failures.iter().take(FAILURES).map(failed).collect(),
        }
    }
}

fn device(on: &DeviceNow) -> Device<'_> {
    Device {
        device: on.device.0,
        name: on.name.as_deref(),
        total: on.total,
        process: on.process(),
        tensor: on.now.tensor,
        driver: on.now.driver,
        reserved: on.now.reserved,
        physical: on.now.physical,
        peak_tensor: on.at_peak.tensor,
        peak_driver: on.at_peak.driver,
        peak_time: on.peak.map(|(_, at)| at.0),
        nvml: on.nvml(),
    }
}

fn peak(of: &LevelPeak) -> Peak {
    Peak {
        device: of.device.0,
        level: of.level.name(),
        bytes: of.bytes,
        seq: of.seq.0,
    }
}

fn failed(of: &Failure) -> Failed {
    Failed {
        seq: of.seq.0,
        time: of.time.0,
        device: of.device.0,
        bytes: of.bytes,
        is_exception: of.is_exception,
    }
}
