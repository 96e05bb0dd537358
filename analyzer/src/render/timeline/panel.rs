//! One device's part of the picture: headings, the bands with their axes, host memory, lanes, legend.

use std::fmt::Write as _;

use super::chart::{Chart, HEIGHT};
use super::columns::host;
use super::layout::{
    CHART, LARGE, LEFT, RIGHT, ROW, area, byte_axis, exact, height, lines, text, title,
};
use super::scale::{axis_ticks, length_text, tick_text};
use super::{failures_line, lanes, legend, marks, peak_line, retries_line};
use crate::render::bytes;
use crate::views::TimelinePoint;

/// Height of the chart of host memory.
const HOST: usize = 56;
/// The least size of host memory for a separate chart, as a fraction 1 / `WORTH` of the device's scale.
const WORTH: u64 = 200;

/// Draws a device.
pub(super) struct Panel<'a> {
    pub chart: Chart<'a>,
}

impl Panel<'_> {
    /// Draws it from `top` on. Returns where it ends.
    pub fn draw(&self, top: usize, out: &mut String) -> usize {
        let mut y = lines(top + 24, "h", &super::title(self.chart.device), out);
        if let Some(peak) = &self.chart.device.peak {
            y = lines(y, "f", &peak_line(self.chart.device, peak), out);
        }
        if let Some(line) = failures_line(self.chart.timeline, self.chart.device) {
            y = lines(y, "o", &line, out);
        }
        if let Some(line) = retries_line(self.chart.timeline, self.chart.device) {
            y = lines(y, "f", &line, out);
        }
        let chart = y - 10 + marks::above(&self.chart);
        let mut y = chart;
        if !self.chart.device.bands.is_empty() {
            y = self.bands(chart, out);
            self.folds(chart, chart + HEIGHT, out);
            let below = lanes::draw(self.chart.timeline, self.chart.span, y, out);
            if below > y {
                self.folds(y - 2, below - 6, out);
            }
            y = below + 6;
        }
        y = self.host(y, out);
        y = legend::draw(&self.chart, y, out);
        self.notes(y, out)
    }

    /// The bands, their axes, peak and failures. Returns where they end.
    fn bands(&self, top: usize, out: &mut String) -> usize {
        let bottom = top + HEIGHT;
        byte_axis(self.chart.most, top, HEIGHT, 24.0, out);
        let mut below = vec![0_u64; CHART];
        for (index, class) in self.chart.classes().into_iter().enumerate() {
            let above: Vec<u64> = self
                .chart
                .columns
                .iter()
                .zip(&below)
                .map(|(point, below)| {
                    let bytes = point.and_then(|point| point.bytes.get(index));
                    below.saturating_add(bytes.copied().unwrap_or(0))
                })
                .collect();
            let path = area(&above, &below, |bytes| self.chart.y(bytes, bottom));
            let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>");
            below = above;
        }
        self.nvml(bottom, out);
        self.slices(top, out);
        self.times(bottom, out);
        marks::draw(&self.chart, top, bottom, out);
        bottom + 40
    }

    /// NVML's figures of this process.
    fn nvml(&self, bottom: usize, out: &mut String) {
        if self.chart.level {
            return;
        }
        let readings = self.chart.device.buckets.iter();
        let mut path = String::new();
        for (time, bytes) in
            readings.filter_map(|bucket| Some((bucket.last.time_ns, bucket.nvml_process_bytes?)))
        {
            let (x, y) = (self.chart.x(time), self.chart.y(bytes, bottom));
            let _ = match path.is_empty() {
                true => write!(path, "M{x:.1} {y:.1}"),
                false => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        if !path.is_empty() {
            let _ = writeln!(out, "<path class=\"nvml\" d=\"{path}\"/>");
        }
    }

    /// Slices of the chart whose titles show exact bytes on hovering.
    fn slices(&self, top: usize, out: &mut String) {
        /// The minimum width of a slice.
        const LEAST: usize = 6;
        let seq = |column: usize| self.chart.columns[column].map(|point| point.seq);
        let rank = |point: &TimelinePoint| match self.chart.level {
            true => (point.sum(), 0),
            false => (point.tensor_bytes, point.sum()),
        };
        let mut from = 0;
        while from < CHART {
            let mut to = (from + LEAST).min(CHART);
            // A stretch without changes is one slice.
            if to < CHART && (from..to).all(|column| seq(column) == seq(from)) {
                to = (to..CHART)
                    .find(|column| seq(*column) != seq(from))
                    .unwrap_or(CHART);
            }
            let points = self.chart.columns[from..to].iter().flatten();
            if let Some(point) = points.rev().max_by_key(|point| rank(point)) {
                let (x, width) = (LEFT + from, to - from);
                let _ = writeln!(
                    out,
                    "<rect class=\"slice\" x=\"{x}\" y=\"{top}\" width=\"{width}\" \
                     height=\"{HEIGHT}\">{}</rect>",
                    title(&self.chart.said(point))
                );
            }
            from = to;
        }
    }

    /// The axis of time. Ticks without room for a label have none.
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
        for [from, to] in self.chart.span.axis.folds() {
            let x = (self.chart.x(*from) + self.chart.x(*to)) / 2.0;
            let label = format!("≈{}", length_text(to - from));
            if let Some(x) = place(x, &label) {
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y}\" class=\"m f\">{label}</text>"
                );
            }
        }
        let (ticks, step) = axis_ticks(&self.chart.span.axis);
        for tick in ticks {
            let (at, label) = (self.chart.x(tick), tick_text(tick, step));
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

    /// Breaks in the axis of time, between two heights.
    fn folds(&self, top: usize, bottom: usize, out: &mut String) {
        for [from, to] in self.chart.span.axis.folds() {
            let (left, right) = (self.chart.x(*from) + 3.0, self.chart.x(*to) - 3.0);
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

    /// Pinned host memory, if it is large enough for a chart.
    fn host(&self, top: usize, out: &mut String) -> usize {
        let host = host(self.chart.device, self.chart.span);
        let most = host.iter().copied().max().unwrap_or(0);
        if most == 0 || self.chart.level {
            return top;
        }
        let said = bytes(most);
        let bands = !self.chart.device.bands.is_empty();
        if bands && most.saturating_mul(WORTH) < self.chart.most {
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

    /// Notes about what the picture omits.
    fn notes(&self, mut y: usize, out: &mut String) -> usize {
        if self.chart.device.bands.is_empty() {
            return y;
        }
        if let Some(line) = super::folds_line(self.chart.timeline) {
            y = lines(y + 18, "f", &line, out) - 18;
        }
        for line in lanes::left_out(self.chart.timeline, self.chart.span) {
            y = lines(y + 18, "f", &line, out) - 18;
        }
        y
    }
}
