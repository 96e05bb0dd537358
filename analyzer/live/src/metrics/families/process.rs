//! The memory of a process.

use crate::frames::{DeviceNow, State};
use gpumem_capture::{CounterValues, Level};

use super::capture::Capture;
use super::family::Families;

const NS: f64 = 1e9;

pub(super) fn add(to: &mut Families, capture: &Capture) {
    let frame = &capture.frame;
    for device in &frame.devices {
        let ordinal = device.device.0.to_string();
        let uuid = device.uuid.as_deref().unwrap_or_default();
        let on = [("device", &*ordinal), ("UUID", uuid)];
        levels(to, &device.counters, capture, &on);
        figures(to, device, &capture.with(&on));
    }
    if let Some(host) = frame.host {
        let on = [("device", "none")];
        levels(to, &[(Level::HOST, host)], capture, &on);
    }
    let labels = capture.with(&[]);
    let counters = [
        (
            "gpumem_out_of_memory_total",
            "Allocations that failed because memory ran out.",
            Some(frame.failure_count),
        ),
        (
            "gpumem_steps_total",
            "Steps of the training that ended.",
            Some(frame.steps),
        ),
        (
            "gpumem_events_total",
            "Events that were read.",
            Some(frame.events),
        ),
        (
            "gpumem_lost_events_total",
            "Events that the recorder lost; known once the program has ended.",
            frame.lost,
        ),
    ];
    for (name, help, value) in counters {
        if let Some(value) = value {
            to.counter(name, help, &labels, value);
        }
    }
    if let Some(is_exact) = frame.exact {
        to.gauge(
            "gpumem_exact",
            "1 if the figures are exact, else 0; known once the whole capture was read.",
            &labels,
            u64::from(is_exact),
        );
    }
    let started = frame.started_wall_ns as f64 / NS;
    to.gauge(
        "gpumem_capture_start_timestamp_seconds",
        "When recording began, since 1970.",
        &labels,
        started,
    );
    to.gauge(
        "gpumem_last_event_timestamp_seconds",
        "Time of the newest event, since 1970.",
        &labels,
        started + frame.time.0 as f64 / NS,
    );
    to.gauge(
        "gpumem_capture_state",
        "State of the program: catching_up (its earlier events are being read), running, ended, killed, stopped (unreadable); always 1.",
        &capture.with(&[("state", word(&frame.state))]),
        1_u64,
    );
    info(to, capture);
}

fn levels(
    to: &mut Families,
    counters: &[(Level, CounterValues)],
    capture: &Capture,
    on: &[(&str, &str)],
) {
    for (level, counters) in counters {
        let labels = [on, &[("level", level.name())]].concat();
        let labels = capture.with(&labels);
        to.gauge(
            "gpumem_process_memory_bytes",
            "Live bytes of a level. Levels overlap: do not add them.",
            &labels,
            counters.live,
        );
        to.gauge(
            "gpumem_process_memory_peak_bytes",
            "Peak of the live bytes of a level.",
            &labels,
            counters.peak,
        );
        to.counter(
            "gpumem_allocations_total",
            "Allocations.",
            &labels,
            counters.allocations,
        );
        to.counter("gpumem_frees_total", "Frees.", &labels, counters.frees);
    }
}

fn figures(to: &mut Families, device: &DeviceNow, labels: &[(&str, &str)]) {
    let reserved = device.now.reserved;
    let free = reserved.map(|reserved| reserved.saturating_sub(device.now.tensor));
    let reading = device.best_reading;
    let unsigned = [
        (
            "gpumem_reserved_bytes",
            "Bytes that the framework's allocator has reserved from the driver: its figure at the newest tensor event, minus the bytes freed since.",
            reserved,
        ),
        (
            "gpumem_reserved_peak_bytes",
            "Peak of the bytes that the framework's allocator reserved from the driver.",
            reserved.map(|_| device.reserved_peak),
        ),
        (
            "gpumem_reserved_unallocated_bytes",
            "Reserved but unallocated bytes of the framework's allocator.",
            free,
        ),
        (
            "gpumem_nvml_process_bytes",
            "NVML's figure of this process at its last settled reading.",
            reading.and_then(|reading| reading.process),
        ),
        (
            "gpumem_limit_bytes",
            "Memory of the card, or its limit.",
            device.total,
        ),
    ];
    for (name, help, value) in unsigned {
        if let Some(value) = value {
            to.gauge(name, help, labels, value);
        }
    }
    let signed = [
        (
            "gpumem_unexplained_bytes",
            "NVML's figure of this process minus the explained bytes.",
            reading.and_then(|reading| reading.unexplained()),
        ),
        (
            "gpumem_step_growth_bytes",
            "Growth of live memory per step, or per round of the program's loop, over the last 32; 0: it does not grow.",
            device
                .step_growth
                .map(|of| if of.is_growth { of.per_round } else { 0 }),
        ),
    ];
    for (name, help, value) in signed {
        if let Some(value) = value {
            to.gauge(name, help, labels, value);
        }
    }
    to.counter(
        "gpumem_retries_total",
        "Refused requests that succeeded after PyTorch's allocator freed its cache.",
        labels,
        device.retries,
    );
}

fn info(to: &mut Families, capture: &Capture) {
    let frame = &capture.frame;
    let process = &frame.process;
    let number = |of: Option<u64>| of.map(|of| of.to_string()).unwrap_or_default();
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    let coordinates = process.coordinates.as_ref().map(ToString::to_string);
    let labels = [
        ("pid", frame.pid.to_string()),
        ("command", text(&frame.command)),
        ("host", text(&frame.row.host)),
        // `job` is one of Prometheus' own labels.
        ("job_name", text(&process.job)),
        ("world_size", number(process.world_size)),
        ("local_rank", number(frame.row.local_rank)),
        ("coordinates", coordinates.unwrap_or_default()),
        ("pod_uid", capture.pod.pod_uid.clone()),
        ("driver_version", text(&process.driver_version)),
    ];
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, of)| (*name, &**of)).collect();
    to.gauge(
        "gpumem_capture_info",
        "The program; always 1.",
        &capture.with(&labels),
        1_u64,
    );
}

fn word(state: &State) -> &'static str {
    match state {
        State::CatchingUp(..) => "catching_up",
        State::Running => "running",
        State::Ended(_) => "ended",
        State::Killed(_) => "killed",
        State::Stopped(_) => "stopped",
    }
}
