//! One device's part of the picture: the bands, the phases and steps below them, host memory, the legend.

use std::fmt::Write as _;

use super::columns::{Span, columns, host};
use super::layout::{
    CHART, LEFT, LEGEND, RIGHT, area, byte_axis, colour, cut, escaped, height, swatch, text,
};
use super::scale::{step_stride, tick_text, time_ticks};
use super::{failures_line, peak_line, retries_line, title};
use crate::render::bytes;
use crate::views::{BandKind, DeviceTimeline, Timeline, TimelinePoint};

/// Height of the chart, and of that of host memory.
const HEIGHT: usize = 240;
const HOST: usize = 48;
/// Height of the band of phases.
const PHASES: usize = 12;
/// A row of text.
const ROW: usize = 18;
/// Labels of steps are so far apart.
const LABEL: usize = 40;

const PHASE_COLOURS: [(&str, &str); 5] = [
    ("backward", "#8e44ad"),
    ("optimizer", "#16a085"),
    ("zero_grad", "#f1a340"),
    ("another phase", "#7f8c8d"),
    ("forward", "#d5e3f0"),
];

/// What is drawn of one device.
pub(super) struct Panel<'a> {
    timeline: &'a Timeline,
    device: &'a DeviceTimeline,
    span: Span,
    level: bool,
    columns: Vec<Option<&'a TimelinePoint>>,
    most: u64,
}

impl<'a> Panel<'a> {
    pub fn new(timeline: &'a Timeline, device: &'a DeviceTimeline, span: Span) -> Self {
        let level = device.bands.iter().any(|band| band.kind == BandKind::Level);
        let columns = columns(device, span, level);
        let sums = columns.iter().flatten().map(|point| point.sum());
        let most = sums.max().unwrap_or(0).max(1);
        Self {
            timeline,
            device,
            span,
            level,
            columns,
            most,
        }
    }

    /// Draws it from `top` on; says how high it is.
    pub fn draw(&self, top: usize, out: &mut String) -> usize {
        out.push_str(&text(16, top + 16, "h", &title(self.device)));
        let mut y = top + 36;
        if let Some(peak) = &self.device.peak {
            let line = peak_line(self.device, peak);
            out.push_str(&text(16, y, "f", &cut(&line, 130)));
            y += ROW;
        }
        if let Some(line) = failures_line(self.timeline, self.device) {
            out.push_str(&text(16, y, "o", &cut(&line, 130)));
            y += ROW;
        }
        if let Some(line) = retries_line(self.timeline, self.device) {
            out.push_str(&text(16, y, "f", &line));
            y += ROW;
        }
        let chart = y + 8;
        let mut y = chart;
        if !self.device.bands.is_empty() {
            y = self.chart(chart, out);
            y = self.course(y, out);
        }
        y = self.host(y, out);
        let legend = self.legend(chart, out);
        y.max(legend) + 24 - top
    }

    fn x(&self, time: u64) -> f64 {
        let passed = time.saturating_sub(self.span.from) as f64;
        LEFT as f64 + CHART as f64 * passed / self.span.length() as f64
    }

    /// The bands, their axes, peak and failures; returns where it ends.
    fn chart(&self, top: usize, out: &mut String) -> usize {
        let bottom = top + HEIGHT;
        byte_axis(self.most, top, HEIGHT, out);
        let mut below = vec![0_u64; CHART];
        for (index, colour) in self.colours().into_iter().enumerate() {
            let above: Vec<u64> = self
                .columns
                .iter()
                .zip(&below)
                .map(|(point, below)| {
                    let bytes = point.and_then(|point| point.bytes.get(index));
                    below.saturating_add(bytes.copied().unwrap_or(0))
                })
                .collect();
            let y = |bytes: u64| height(bytes, self.most, bottom, HEIGHT);
            let path = area(&above, &below, y);
            let _ = writeln!(out, "<path fill=\"{colour}\" d=\"{path}\"/>");
            below = above;
        }
        self.nvml(bottom, out);
        let (ticks, step) = time_ticks(self.span.from, self.span.to);
        for tick in ticks {
            let x = self.x(tick);
            let _ = writeln!(
                out,
                "<path class=\"x\" d=\"M{x:.1} {bottom}v4\"/><text x=\"{x:.1}\" y=\"{}\" \
                 class=\"m f\">{}</text>",
                bottom + 17,
                tick_text(tick, step)
            );
        }
        let right = LEFT + CHART;
        let _ = writeln!(out, "<path class=\"x\" d=\"M{LEFT} {bottom}H{right}\"/>");
        self.marks(top, bottom, out);
        bottom + 24
    }

    fn colours(&self) -> Vec<&'static str> {
        let mut libraries = 0;
        let bands = self.device.bands.iter();
        bands
            .map(|band| {
                let colour = colour(band, libraries);
                libraries += usize::from(band.kind == BandKind::Library);
                colour
            })
            .collect()
    }

    /// What NVML said of this process.
    fn nvml(&self, bottom: usize, out: &mut String) {
        if self.level {
            return;
        }
        let readings = self.device.buckets.iter();
        let mut path = String::new();
        for (time, bytes) in
            readings.filter_map(|bucket| Some((bucket.last.time_ns, bucket.nvml_process_bytes?)))
        {
            let (x, y) = (self.x(time), height(bytes, self.most, bottom, HEIGHT));
            let _ = match path.is_empty() {
                true => write!(path, "M{x:.1} {y:.1}"),
                false => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        if !path.is_empty() {
            let _ = writeln!(
                out,
                "<path fill=\"none\" stroke=\"#444\" stroke-dasharray=\"3 3\" d=\"{path}\"/>"
            );
        }
    }

    /// The peak, and what failed.
    fn marks(&self, top: usize, bottom: usize, out: &mut String) {
        let failures = self.timeline.failures.iter();
        for failure in failures.filter(|failure| failure.device == self.device.device) {
            let x = self.x(failure.time_ns);
            let (left, right, under) = (x - 4.0, x + 4.0, bottom - 7);
            let _ = writeln!(
                out,
                "<path stroke=\"#b3261e\" fill=\"#b3261e\" d=\"M{x:.1} {top}V{bottom}\
                 M{x:.1} {bottom}L{left:.1} {under}H{right:.1}Z\"><title>out of memory: {} asked for, \
                 event {}</title></path>",
                bytes(failure.bytes),
                failure.seq
            );
        }
        let peak = self.device.peak.as_ref();
        if let Some(peak) = peak.filter(|peak| self.span.has(peak.time_ns)) {
            let (x, y) = (
                self.x(peak.time_ns),
                height(peak.sum(), self.most, bottom, HEIGHT),
            );
            let _ = writeln!(
                out,
                "<path stroke=\"#1b1f24\" stroke-dasharray=\"2 3\" d=\"M{x:.1} {top}V{bottom}\"/>\
                 <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#fff\" stroke=\"#1b1f24\" \
                 stroke-width=\"2\"><title>{}</title></circle>",
                escaped(&peak_line(self.device, peak))
            );
        }
    }

    /// Phases and steps.
    fn course(&self, top: usize, out: &mut String) -> usize {
        let course = &self.timeline.course;
        if course.is_empty() {
            return top;
        }
        let mut y = top;
        if self.timeline.trains {
            out.push_str(&text(LEFT - 8, y + 10, "e f", "phases"));
            self.phases(y, out);
            y += PHASES + 4;
        }
        let last = course.iter().filter_map(|bucket| bucket.step).next_back();
        if let Some(last) = last {
            out.push_str(&text(LEFT - 8, y + 11, "e f", "steps end"));
            let (stride, mut shown, mut free) = (step_stride(last), 0, (LEFT + 12) as f64);
            for (step, time) in course.iter().filter_map(|b| Some((b.step?, b.step_ns?))) {
                let x = self.x(time);
                if step / stride == shown / stride || x < free {
                    continue;
                }
                (shown, free) = (step, x + LABEL as f64);
                let _ = writeln!(
                    out,
                    "<path class=\"x\" d=\"M{x:.1} {y}v4\"/><text x=\"{x:.1}\" y=\"{}\" \
                     class=\"m f\">{step}</text>",
                    y + 15
                );
            }
            y += ROW + 2;
        }
        y + 6
    }

    /// In each column the phases one above the other, each as high as its share of the time.
    fn phases(&self, top: usize, out: &mut String) {
        let mut time = vec![[0_u64; 5]; CHART];
        let width = self.span.length() as f64 / CHART as f64;
        for bucket in &self.timeline.course {
            let (from, to) = (
                self.span.column(bucket.from_ns),
                self.span.column(bucket.to_ns),
            );
            for column in &mut time[from..=to] {
                let phases = [
                    bucket.backward_ns,
                    bucket.optimizer_ns,
                    bucket.zero_grad_ns,
                    bucket.other_ns,
                ];
                for (sum, ns) in column.iter_mut().zip(phases) {
                    *sum += ns;
                }
                column[4] += bucket.to_ns.saturating_sub(bucket.from_ns);
            }
        }
        let shares = |column: &[u64; 5]| {
            let whole = (column[4] as f64).max(width);
            let parts = [0, 1, 2, 3].map(|part| column[part] as f64 / whole);
            let forward = 1.0 - parts.iter().sum::<f64>();
            [parts[0], parts[1], parts[2], parts[3], forward.max(0.0)]
        };
        let shares: Vec<[f64; 5]> = time.iter().map(shares).collect();
        let mut below = vec![0_u64; CHART];
        for (part, (name, colour)) in PHASE_COLOURS.iter().enumerate() {
            let above: Vec<u64> = shares
                .iter()
                .zip(&below)
                .map(|(share, below)| below + (share[part] * 120.0).round() as u64)
                .map(|bytes| bytes.min(120))
                .collect();
            let bottom = (top + PHASES) as f64;
            let path = area(&above, &below, |share| {
                bottom - share as f64 * PHASES as f64 / 120.0
            });
            let _ = writeln!(
                out,
                "<path fill=\"{colour}\" d=\"{path}\"><title>{name}</title></path>"
            );
            below = above;
        }
    }

    /// Pinned host memory.
    fn host(&self, top: usize, out: &mut String) -> usize {
        let host = host(self.device, self.span);
        let most = host.iter().copied().max().unwrap_or(0);
        if most == 0 || self.level {
            return top;
        }
        let chart = top + 22;
        let head = format!("pinned host memory, at most {}", bytes(most));
        out.push_str(&text(LEFT, top + 14, "f", &head));
        let bottom = chart + HOST;
        let path = area(&host, &vec![0; CHART], |bytes| {
            height(bytes, most, bottom, HOST)
        });
        let right = LEFT + CHART;
        let _ = writeln!(
            out,
            "<path fill=\"#7b9e3b\" d=\"{path}\"/>\n<path class=\"x\" d=\"M{LEFT} {bottom}H{right}\"/>"
        );
        bottom + 8
    }

    /// Names of the bands with what they have at the peak, the topmost first.
    fn legend(&self, top: usize, out: &mut String) -> usize {
        let mut y = top + 10;
        let peak = self.device.peak.as_ref();
        let figure = |bytes: u64| super::bytes(bytes);
        if !self.device.bands.is_empty() {
            out.push_str(&text(RIGHT, y, "e f", "at the peak"));
        }
        let bands = self.device.bands.iter().zip(self.colours()).enumerate();
        let rows: Vec<_> = bands.collect();
        for (index, (band, colour)) in rows.into_iter().rev() {
            y += ROW;
            swatch(y, colour, out);
            out.push_str(&text(LEGEND + 18, y, "", &cut(&band.name, 28)));
            let bytes = peak.and_then(|peak| peak.bytes.get(index)).copied();
            out.push_str(&text(RIGHT, y, "e", &figure(bytes.unwrap_or(0))));
        }
        if self.device.bands.len() > 1
            && let Some(peak) = peak
        {
            y += ROW;
            out.push_str(&text(LEGEND + 18, y, "f", "together"));
            out.push_str(&text(RIGHT, y, "e f", &figure(peak.sum())));
        }
        let any_nvml = |buckets: &[crate::views::TimelineBucket]| {
            buckets
                .iter()
                .any(|bucket| bucket.nvml_process_bytes.is_some())
        };
        if !self.level && any_nvml(&self.device.buckets) {
            y += ROW + 6;
            let (from, to, at) = (LEGEND, LEGEND + 12, y - 4);
            let _ = writeln!(
                out,
                "<path stroke=\"#444\" stroke-dasharray=\"3 3\" d=\"M{from} {at}H{to}\"/>"
            );
            out.push_str(&text(LEGEND + 18, y, "", "NVML, this process"));
        }
        if self.timeline.trains && !self.device.bands.is_empty() {
            y += 6;
            let course = &self.timeline.course;
            let other = course.iter().any(|bucket| bucket.other_ns > 0);
            let zero = course.iter().any(|bucket| bucket.zero_grad_ns > 0);
            for (name, colour) in PHASE_COLOURS {
                if (name == "another phase" && !other) || (name == "zero_grad" && !zero) {
                    continue;
                }
                y += ROW;
                swatch(y, colour, out);
                out.push_str(&text(LEGEND + 18, y, "", name));
            }
        }
        y
    }
}
