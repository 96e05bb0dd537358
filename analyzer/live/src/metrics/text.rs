//! Prometheus' text format 0.0.4 and OpenMetrics 1.0.

use std::fmt::Write as _;

use super::families::{Families, Family, Kind, Labels};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The format that an `Accept` header requests.
    pub fn of(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The metrics as text.
pub fn text(families: &Families, format: Format) -> String {
    let mut text = String::new();
    for family in families.all() {
        head(&mut text, family, format);
        for (labels, value) in &family.samples {
            let labels = in_braces(labels);
            let _ = writeln!(text, "{}{labels} {value}", family.name);
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn head(text: &mut String, family: &Family, format: Format) {
    // OpenMetrics names a counter without the suffix of its samples.
    let name = match (format, family.kind) {
        (Format::OpenMetrics, Kind::Counter) => family.name.trim_end_matches("_total"),
        _ => family.name,
    };
    let kind = match family.kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
    };
    let _ = writeln!(text, "# HELP {name} {}", family.help);
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if let (Format::OpenMetrics, Some(unit)) = (format, family.unit()) {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
}

fn in_braces(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs = labels.iter();
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_have_the_same_samples() {
        let mut families = Families::default();
        families.counter("gpumem_a_total", "A.", &[("b", "\"\\\n"), ("c", "")], 3);
        families.counter("gpumem_a_total", "A.", &[("b", "\"\\\n")], 4);
        families.gauge("gpumem_d_bytes", "D.", &[], u64::MAX);
        let sample = "gpumem_a_total{b=\"\\\"\\\\\\n\"} 3\n";
        let prometheus = text(&families, Format::Prometheus);
        assert_eq!(
            prometheus,
            format!(
                "# HELP gpumem_a_total A.\n# TYPE gpumem_a_total counter\n{sample}\
                 # HELP gpumem_d_bytes D.\n# TYPE gpumem_d_bytes gauge\ngpumem_d_bytes 18446744073709551615\n"
            )
        );
        let open = text(&families, Format::OpenMetrics);
        assert!(open.contains("# TYPE gpumem_a counter\n") && open.contains(sample));
        assert!(open.contains("# UNIT gpumem_d_bytes bytes\n") && open.ends_with("# EOF\n"));
    }
}
