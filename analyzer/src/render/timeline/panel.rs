//! One device's part of the picture: what is said above it, the bands with their axes, host memory, lanes, legend.

use std::fmt::Write as _;

use super::colours::class;
use super::columns::{Span, columns, host};
use super::layout::{
    CHART, LARGE, LEFT, RIGHT, ROW, area, byte_axis, exact, height, lines, text, title,
};
use super::scale::{axis_ticks, length_text, tick_text};
use super::{failures_line, lanes, legend, marks, peak_line, retries_line};
use crate::render::bytes;
use crate::views::{BandKind, DeviceTimeline, Timeline, TimelinePoint};

/// Height of the chart, and of that of host memory.
const HEIGHT: usize = 280;
const HOST: usize = 56;
/// Host memory has a chart of its own from this part of the device's scale on.
const WORTH: u64 = 200;

/// What is drawn of one device.
pub(super) struct Panel<'a> {
    pub timeline: &'a Timeline,
    pub device: &'a DeviceTimeline,
    pub span: &'a Span,
    /// The bands are one level.
    pub level: bool,
    pub columns: Vec<Option<&'a TimelinePoint>>,
    /// What the highest column has.
    pub most: u64,
}

impl<'a> Panel<'a> {
    pub fn new(timeline: &'a Timeline, device: &'a DeviceTimeline, span: &'a Span) -> Self {
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

    /// Draws it from `top` on; says where it ends.
    pub fn draw(&self, top: usize, out: &mut String) -> usize {
        let mut y = lines(top + 24, "h", &super::title(self.device), out);
        if let Some(peak) = &self.device.peak {
            y = lines(y, "f", &peak_line(self.device, peak), out);
        }
        if let Some(line) = failures_line(self.timeline, self.device) {
            y = lines(y, "o", &line, out);
        }
        if let Some(line) = retries_line(self.timeline, self.device) {
            y = lines(y, "f", &line, out);
        }
        let chart = y - 10 + marks::above(self);
        let mut y = chart;
        if !self.device.bands.is_empty() {
            y = self.chart(chart, out);
            self.folds(chart, chart + HEIGHT, out);
            let below = lanes::draw(self.timeline, self.span, y, out);
            if below > y {
                self.folds(y - 2, below - 6, out);
            }
            y = below + 6;
        }
        y = self.host(y, out);
        y = legend::draw(self, y, out);
        self.notes(y, out)
    }

    /// Where a time is.
    pub fn x(&self, time: u64) -> f64 {
        LEFT as f64 + CHART as f64 * self.span.axis.share(time)
    }

    /// The bands, their axes, peak and failures; returns where it ends.
    fn chart(&self, top: usize, out: &mut String) -> usize {
        let bottom = top + HEIGHT;
        byte_axis(self.most, top, HEIGHT, 24.0, out);
        let mut below = vec![0_u64; CHART];
        for (index, class) in self.classes().into_iter().enumerate() {
            let above: Vec<u64> = self
                .columns
                .iter()
                .zip(&below)
                .map(|(point, below)| {
                    let bytes = point.and_then(|point| point.bytes.get(index));
                    below.saturating_add(bytes.copied().unwrap_or(0))
                })
                .collect();
            let path = area(&above, &below, |bytes| self.y(bytes, bottom));
            let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>");
            below = above;
        }
        self.nvml(bottom, out);
        self.slices(top, out);
        self.times(bottom, out);
        marks::draw(self, top, bottom, out);
        bottom + 40
    }

    /// Where bytes are.
    pub fn y(&self, bytes: u64, bottom: usize) -> f64 {
        height(bytes, self.most, bottom, HEIGHT)
    }

    /// The classes of the bands.
    pub fn classes(&self) -> Vec<&'static str> {
        let mut libraries = 0;
        let bands = self.device.bands.iter();
        bands
            .map(|band| {
                let class = class(band, libraries);
                libraries += usize::from(band.kind == BandKind::Library);
                class
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
            let (x, y) = (self.x(time), self.y(bytes, bottom));
            let _ = match path.is_empty() {
                true => write!(path, "M{x:.1} {y:.1}"),
                false => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        if !path.is_empty() {
            let _ = writeln!(out, "<path class=\"nvml\" d=\"{path}\"/>");
        }
    }

    /// Slices of the chart that say on hovering what there was, to the byte.
    fn slices(&self, top: usize, out: &mut String) {
        /// How wide a slice is at least.
        const LEAST: usize = 6;
        let seq = |column: usize| self.columns[column].map(|point| point.seq);
        let rank = |point: &TimelinePoint| match self.level {
            true => (point.sum(), 0),
            false => (point.tensor_bytes, point.sum()),
        };
        let mut from = 0;
        while from < CHART {
            let mut to = (from + LEAST).min(CHART);
            // What stays as it is is one slice.
            if to < CHART && (from..to).all(|column| seq(column) == seq(from)) {
                to = (to..CHART)
                    .find(|column| seq(*column) != seq(from))
                    .unwrap_or(CHART);
            }
            let points = self.columns[from..to].iter().flatten();
            if let Some(point) = points.rev().max_by_key(|point| rank(point)) {
                let (x, width) = (LEFT + from, to - from);
                let _ = writeln!(
                    out,
                    "<rect class=\"slice\" x=\"{x}\" y=\"{top}\" width=\"{width}\" \
                     height=\"{HEIGHT}\">{}</rect>",
                    title(&self.said(point))
                );
            }
            from = to;
        }
    }

    /// What there was at a point, the topmost band first.
    pub fn said(&self, point: &TimelinePoint) -> Vec<String> {
        let moment = super::moment(point.seq, gpumem_capture::Nanos(point.time_ns));
        let bands = self.device.bands.iter().zip(&point.bytes).rev();
        let bands = bands.filter(|(_, bytes)| **bytes > 0);
        let bands = bands.map(|(band, bytes)| format!("{}: {}", band.name, exact(*bytes)));
        let together =
            (self.device.bands.len() > 1).then(|| format!("together: {}", exact(point.sum())));
        [moment].into_iter().chain(bands).chain(together).collect()
    }

    /// The axis of time; what has no room for its label has none.
    fn times(&self, bottom: usize, out: &mut String) {
        let mut taken: Vec<[f64; 2]> = Vec::new();
        let mut place = |x: f64, label: &str| {
            let half = (label.chars().count() as f64 * LARGE / 2.0).max(1.0);
            let x = x.clamp(LEFT as f64 - half, RIGHT as f64 + 10.0 - half);
            let [from, to] = [x - half, x + half];
            let fits = taken
                .iter()
                .all(|had| had[1] + 8.0 <= from || to + 8.0 <= had[0]);
            if fits {
                taken.push([from, to]);
            }
            fits.then_some(x)
        };
        let y = bottom + 27;
        for [from, to] in self.span.axis.folds() {
            let x = (self.x(*from) + self.x(*to)) / 2.0;
            let label = format!("≈{}", length_text(to - from));
            if let Some(x) = place(x, &label) {
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y}\" class=\"m f\">{label}</text>"
                );
            }
        }
        let (ticks, step) = axis_ticks(&self.span.axis);
        for tick in ticks {
            let (at, label) = (self.x(tick), tick_text(tick, step));
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{at:.1} {bottom}v5\"/>");
            if let Some(x) = place(at, &label) {
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y}\" class=\"m f\">{label}</text>"
                );
            }
        }
        let _ = writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {bottom}H{RIGHT}\"/>");
    }

    /// Breaks in the axis of time, from one height to another.
    fn folds(&self, top: usize, bottom: usize, out: &mut String) {
        for [from, to] in self.span.axis.folds() {
            let (left, right) = (self.x(*from) + 3.0, self.x(*to) - 3.0);
            let (mut down, mut up, mut y) = (String::new(), String::new(), top as f64);
            let mut side = 0.0;
            while y <= bottom as f64 {
                let _ = write!(down, "L{:.1} {y:.0}", left + side);
                up.insert_str(0, &format!("L{:.1} {y:.0}", right + side));
                side = 3.0 - side;
                y += 7.0;
            }
            let [down_only, up_only] = [&down, &up].map(|path| path.replacen('L', "M", 1));
            let _ = writeln!(
                out,
                "<g><path class=\"back\" d=\"{down_only}{up}Z\"/>\
                 <path class=\"fold\" d=\"{down_only}{up_only}\"/>{}</g>",
                title(&[format!("{} without an event", length_text(to - from))])
            );
        }
    }

    /// Pinned host memory, where it is worth a chart.
    fn host(&self, top: usize, out: &mut String) -> usize {
        let host = host(self.device, self.span);
        let most = host.iter().copied().max().unwrap_or(0);
        if most == 0 || self.level {
            return top;
        }
        let said = bytes(most);
        let bands = !self.device.bands.is_empty();
        if bands && most.saturating_mul(WORTH) < self.most {
            let line = format!("pinned host memory: at most {said}");
            let line = text(LEFT, top + 18, "f", &line);
            out.push_str(&line.replace("</text>", &format!("{}</text>", title(&[exact(most)]))));
            return top + ROW;
        }
        let chart = top + 30;
        let head = format!("pinned host memory, at most {said}");
        out.push_str(&text(LEFT, top + 20, "f", &head));
        let bottom = chart + HOST;
        let path = area(&host, &vec![0; CHART], |bytes| {
            height(bytes, most, bottom, HOST)
        });
        let _ = writeln!(
            out,
            "<path class=\"host\" d=\"{path}\">{}</path>\n<path class=\"axis\" d=\"M{LEFT} {bottom}H{RIGHT}\"/>",
            title(&[format!("pinned host memory, at most {}", exact(most))])
        );
        bottom + 10
    }

    /// What the picture leaves out.
    fn notes(&self, mut y: usize, out: &mut String) -> usize {
        if self.device.bands.is_empty() {
            return y;
        }
        if let Some(line) = super::folds_line(self.timeline) {
            y = lines(y + 18, "f", &line, out) - 18;
        }
        for line in lanes::left_out(self.timeline, self.span) {
            y = lines(y + 18, "f", &line, out) - 18;
        }
        y
    }
}
