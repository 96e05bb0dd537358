//! The lines of a trace.

use std::io::{self, Write};

use gpumem_capture::Nanos;
use serde_json::{Value, json};

/// The output: one event a line. The first error stops it.
pub(super) struct Lines<'a> {
    out: &'a mut dyn Write,
    failed: Option<io::Error>,
    any: bool,
    /// The process's number in the trace.
    pub(super) pid: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub(super) started: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: &'a mut dyn Write, pid: u64, started: u64) -> Self {
        let mut lines = Self {
            out,
            failed: None,
            any: false,
            pid,
            started,
        };
        lines.raw("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
        lines
    }

    fn raw(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    fn line(&mut self, text: &str) {
        let separator = if self.any { ",\n" } else { "\n" };
        self.any = true;
        self.raw(separator);
        self.raw(text);
    }

    /// Microseconds since 1970, as a number with all digits.
    fn stamp(&self, time: Nanos) -> String {
        let nanos = self.started.saturating_add(time.0);
        format!("{}.{:03}", nanos / 1000, nanos % 1000)
    }

    /// An event. `more` is a list of further fields, each with a comma before it.
    pub(super) fn event(&mut self, phase: char, name: &str, time: Nanos, track: u32, more: &str) {
        let (name, stamp, pid) = (json!(name), self.stamp(time), self.pid);
        self.line(&format!(
            r#"{{"ph":"{phase}","name":{name},"ts":{stamp},"pid":{pid},"tid":{track}{more}}}"#
        ));
    }

    pub(super) fn metadata(&mut self, name: &str, track: u32, args: &Value) {
        let pid = self.pid;
        self.line(&format!(
            r#"{{"ph":"M","name":"{name}","pid":{pid},"tid":{track},"args":{args}}}"#
        ));
    }

    /// Ends the trace.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let other = json!({
            "otherData": {
                "exporter": concat!("gpumem-analyze ", env!("CARGO_PKG_VERSION")),
                "started_unix_ns": self.started,
            }
        });
        let other = other.to_string();
        self.raw("\n],");
        self.raw(other.trim_start_matches('{'));
        self.raw("\n");
        self.failed.map_or(Ok(()), Err)
    }
}
