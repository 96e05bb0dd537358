//! Prometheus' text exposition format, for node_exporter's textfile collector and push gateways.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::views::{DeviceSummary, LevelSummary, Summary};

/// A metric's name, kind and help.
type About = (&'static str, &'static str, &'static str);

/// One metric under construction.
struct Metric<'a> {
    out: &'a mut String,
    name: &'static str,
    rank: Option<u64>,
}

impl<'a> Metric<'a> {
    fn begin(out: &'a mut String, rank: Option<u64>, about: About) -> Self {
        let (name, kind, help) = about;
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Self { out, name, rank }
    }

    /// One line. Labels have the given order, and the rank is last.
    fn sample(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let rank = self.rank.map(|rank| rank.to_string());
        let all = labels.iter().copied();
        let all = all.chain(rank.as_deref().map(|rank| ("rank", rank)));
        let labels: Vec<String> = all
            .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.out, "{}{labels} {value}", self.name);
    }
}

/// A label's value: backslashes, quotes and line ends are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A level of a device. A figure that the summary lacks has no line.
struct Row {
    device: String,
    level: &'static str,
    live: Option<u64>,
    peak: Option<u64>,
    allocations: Option<u64>,
    frees: Option<u64>,
}

impl Row {
    fn of(device: String, level: &'static str, figures: LevelSummary) -> Self {
        Self {
            device,
            level,
            live: Some(figures.live_bytes),
            peak: Some(figures.peak_bytes),
            allocations: Some(figures.allocations),
            frees: Some(figures.frees),
        }
    }
}

/// The levels of each device; pinned memory has the device `none`.
fn levels(summary: &Summary) -> Vec<Row> {
    let of = |device: &DeviceSummary| {
        let ordinal = || device.ordinal.to_string();
        let physical = Row {
            device: ordinal(),
            level: "physical",
            live: device.physical.live_bytes,
            peak: device.physical.peak_bytes,
            allocations: None,
            frees: None,
        };
        [
            Row::of(ordinal(), "tensor", device.tensor),
            Row::of(ordinal(), "driver", device.driver),
            Row::of(ordinal(), "host", device.host),
            physical,
        ]
    };
    let mut levels: Vec<_> = summary.devices.iter().flat_map(of).collect();
    if let Some(host) = summary.host_of_no_device {
        levels.push(Row::of("none".into(), "host", host));
    }
    levels
}

/// Writes a summary's figures.
///
/// # Errors
/// The writer's.
pub fn prometheus(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    let rank = summary.process.rank;
    let levels = levels(summary);
    let mut by_level = |about, figure: &dyn Fn(&Row) -> Option<u64>| {
        let mut metric = Metric::begin(&mut text, rank, about);
        for row in &levels {
            if let Some(figure) = figure(row) {
                metric.sample(&[("device", &row.device), ("level", row.level)], figure);
            }
        }
    };
    let gauge = |name, help| (name, "gauge", help);
    let counter = |name, help| (name, "counter", help);
    by_level(
        gauge(
            "gpumem_process_memory_bytes",
            "Live bytes of a level. Levels overlap: do not add them.",
        ),
        &|level| level.live,
    );
    by_level(
        gauge(
            "gpumem_process_memory_peak_bytes",
            "Peak of the live bytes of a level.",
        ),
        &|level| level.peak,
    );
    by_level(
        counter("gpumem_allocations_total", "Allocations."),
        &|level| level.allocations,
    );
    by_level(counter("gpumem_frees_total", "Frees."), &|level| {
        level.frees
    });
    by_device(&mut text, summary);
    let mut single = |about, value: u64| {
        Metric::begin(&mut text, rank, about).sample(&[], value);
    };
    single(
        counter("gpumem_events_total", "Events in the capture."),
        summary.events,
    );
    single(
        counter("gpumem_lost_events_total", "Events that the recorder lost."),
        summary.lost_events,
    );
    single(
        counter(
            "gpumem_out_of_memory_total",
            "Allocations that failed because memory ran out.",
        ),
        summary.out_of_memory_events,
    );
    single(
        counter("gpumem_steps_total", "Steps of the training that ended."),
        summary.steps,
    );
    single(
        gauge("gpumem_exact", "1 if the figures are exact, else 0."),
        u64::from(summary.exact),
    );
    let process = &summary.process;
    let pid = process.pid.to_string();
    let coordinates = process.coordinates.as_ref().map(ToString::to_string);
    let labels = [
        ("command", process.command.as_deref()),
        ("host", process.host.as_deref()),
        ("pid", Some(&*pid)),
        ("job_name", process.job.as_deref()),
        ("coordinates", coordinates.as_deref()),
    ];
    let labels: Vec<(&str, &str)> = labels
        .iter()
        .filter_map(|(label, text)| Some((*label, (*text)?)))
        .collect();
    Metric::begin(
        &mut text,
        rank,
        gauge("gpumem_capture_info", "The program that ran; always 1."),
    )
    .sample(&labels, 1);
    out.write_all(text.as_bytes())
}

/// Gets a figure of a device, if it was measured.
type Figure = dyn Fn(&DeviceSummary) -> Option<i128>;

/// Figures that a device has once. Those that were not measured have no line.
fn by_device(text: &mut String, summary: &Summary) {
    let figures: [(About, &Figure); 5] = [
        (
            (
                "gpumem_reserved_bytes",
                "gauge",
                "Bytes that the framework has reserved from the driver.",
            ),
            &|device| Some(device.reserved.live_bytes.into()),
        ),
        (
            (
                "gpumem_reserved_peak_bytes",
                "gauge",
                "Peak of the bytes that the framework reserved from the driver.",
            ),
            &|device| Some(device.reserved.peak_bytes.into()),
        ),
        (
            (
                "gpumem_nvml_process_bytes",
                "gauge",
                "NVML's figure of this process at its last reading.",
            ),
            &|device| device.nvml_process_bytes.map(Into::into),
        ),
        (
            (
                "gpumem_unexplained_bytes",
                "gauge",
                "NVML's figure of this process minus the explained bytes.",
            ),
            &|device| device.unexplained_bytes.map(Into::into),
        ),
        (
            (
                "gpumem_limit_bytes",
                "gauge",
                "Memory of the card, or its limit.",
            ),
            &|device| device.total_bytes.map(Into::into),
        ),
    ];
    for ((name, kind, help), figure) in figures {
        let lines: Vec<(u8, i128)> = summary
            .devices
            .iter()
            .filter_map(|device| Some((device.ordinal, figure(device)?)))
            .collect();
        if lines.is_empty() {
            continue;
        }
        let mut metric = Metric::begin(text, summary.process.rank, (name, kind, help));
        for (ordinal, value) in lines {
            metric.sample(&[("device", &ordinal.to_string())], value);
        }
    }
}
