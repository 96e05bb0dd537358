//! Pushes metrics to a collector: OTLP over HTTP, in protocol buffers.

use std::path::Path;
use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Said;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};

use super::families::{Families, Family, Kind, Labels, Value};

/// The time limit of a push.
const LIMIT: Duration = Duration::from_secs(10);

/// Why pushing cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The URL is invalid.
    #[error("{0}: not a URL of a collector, such as http://host:4318")]
    Url(String),
}

/// A collector.
pub(crate) struct Push {
    url: Uri,
    agent: Agent,
    host: String,
    /// Whether the last push failed, so that an unreachable collector causes only one message.
    failed: bool,
}

impl Push {
    /// A push to the collector at a base URL; the metrics are posted to its path `/v1/metrics`.
    pub(crate) fn new(base: &str) -> Result<Self, PushError> {
        let url = format!("{}/v1/metrics", base.trim_end_matches('/'));
        let url = url.parse().ok().filter(|url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some()
        });
        let url = url.ok_or_else(|| PushError::Url(base.to_owned()))?;
        // Fails if a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let roots = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
        // A collector may close a connection between two pushes, so each push has its own.
        let config = Agent::config_builder()
            .timeout_global(Some(LIMIT))
            .http_status_as_error(false)
            .max_idle_connections(0)
            .tls_config(roots.build());
        let host =
            gpumem_files::read::text(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default();
        Ok(Self {
            url,
            agent: config.build().new_agent(),
            host: host.trim().to_owned(),
            failed: false,
        })
    }

    /// Pushes repeatedly.
    pub(crate) fn run(
        mut self,
        every: Duration,
        families: &dyn Fn() -> Families,
        say: fn(&str),
    ) -> ! {
        loop {
            std::thread::sleep(every);
            match (self.push(&families()), self.failed) {
                (Ok(()), true) => {
                    self.failed = false;
                    say(&format!(
                        "{}: the collector accepts metrics again",
                        self.url
                    ));
                }
                (Err(error), false) => {
                    self.failed = true;
                    say(&format!(
                        "{}: {error}: tried again every {} s",
                        self.url,
                        every.as_secs()
                    ));
                }
                _ => {}
            }
        }
    }

    /// Figures of a failed push are dropped: the next push has newer ones, and counters lose nothing.
    fn push(&self, families: &Families) -> Result<(), String> {
        let body = request(families, &self.host).encode_to_vec();
        let request = self.agent.post(&self.url);
        let request = request.content_type("application/x-protobuf");
        match request.send(&body) {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("the collector answers {}", answer.status())),
            Err(ureq::Error::Io(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn request(families: &Families, host: &str) -> ExportMetricsServiceRequest {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as u64);
    let resource = [("service.name", "gpumem-exporter"), ("host.name", host)];
    let resource = resource.map(|(name, value)| attribute(name, value));
    let scope_metrics = ScopeMetrics {
        scope: Some(InstrumentationScope {
            name: "gpumem".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        }),
        metrics: families.all().iter().map(|of| metric(of, now)).collect(),
        ..ScopeMetrics::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: resource.into(),
                ..Resource::default()
            }),
            scope_metrics: vec![scope_metrics],
            ..ResourceMetrics::default()
        }],
    }
}

fn metric(family: &Family, now: u64) -> Metric {
    let samples = family.samples.iter();
    let data_points = samples
        .map(|(labels, value)| point(labels, *value, now))
        .collect();
    let is_monotonic = family.kind == Kind::Counter;
    let data = match is_monotonic || family.name.starts_with("hw_") {
        false => Data::Gauge(Gauge { data_points }),
        // The semantic conventions have UpDownCounters for sums that are not monotonic.
        true => Data::Sum(Sum {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic,
        }),
    };
    Metric {
        name: name(family.name),
        description: family.help.into(),
        unit: unit(family).into(),
        data: Some(data),
        ..Metric::default()
    }
}

/// Maps names: `hw_gpu_memory_usage_bytes` is `hw.gpu.memory.usage` in By, `gpumem_steps_total` is `gpumem.steps`.
fn name(prometheus: &str) -> String {
    let name = prometheus.trim_end_matches("_total");
    let name = name.trim_end_matches("_bytes").trim_end_matches("_seconds");
    match name.strip_prefix("hw_") {
        Some(name) => format!("hw.{}", name.replace('_', ".")),
        None => name.replacen('_', ".", 1),
    }
}

fn unit(family: &Family) -> &'static str {
    match family.unit() {
        Some("bytes") => "By",
        Some("seconds") => "s",
        _ => "1",
    }
}

fn point(labels: &Labels, value: Value, now: u64) -> NumberDataPoint {
    let value = match value {
        Value::Whole(value) => match i64::try_from(value) {
            Ok(value) => Number::AsInt(value),
            Err(_) => Number::AsDouble(value as f64),
        },
        Value::Real(value) => Number::AsDouble(value),
    };
    let labels = labels.iter();
    NumberDataPoint {
        attributes: labels
            .map(|(name, value)| attribute(conventional(name), value))
            .collect(),
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

/// A label's name in the semantic conventions, if they define it.
fn conventional(label: &str) -> &str {
    match label {
        "hw_id" => "hw.id",
        "hw_type" => "hw.type",
        "hw_name" => "hw.name",
        "hw_vendor" => "hw.vendor",
        "pid" => "process.pid",
        "command" => "process.command_line",
        "host" => "host.name",
        "pod" => "k8s.pod.name",
        "pod_uid" => "k8s.pod.uid",
        "namespace" => "k8s.namespace.name",
        "container" => "k8s.container.name",
        other => other,
    }
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = match (name, value.parse()) {
        // The conventions have a number there.
        ("process.pid", Ok(pid)) => Said::IntValue(pid),
        _ => Said::StringValue(value.into()),
    };
    KeyValue {
        key: name.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_conventions() {
        let mut families = Families::default();
        families.gauge(
            "hw_gpu_memory_usage_bytes",
            "A.",
            &[("hw_id", "GPU-1")],
            5_u64,
        );
        families.counter("gpumem_steps_total", "B.", &[("pod", "a")], 7);
        let request = request(&families, "h");
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!(metrics[0].name, "hw.gpu.memory.usage");
        assert_eq!(metrics[0].unit, "By");
        let Some(Data::Sum(usage)) = &metrics[0].data else {
            panic!("{:?}", metrics[0]);
        };
        assert!(!usage.is_monotonic);
        assert_eq!(metrics[1].name, "gpumem.steps");
        let Some(Data::Sum(steps)) = &metrics[1].data else {
            panic!("{:?}", metrics[1]);
        };
        let point = &steps.data_points[0];
        assert_eq!(point.value, Some(Number::AsInt(7)));
        assert_eq!(point.attributes[0].key, "k8s.pod.name");
        assert_eq!(
            attribute("process.pid", "7").value.unwrap().value,
            Some(Said::IntValue(7))
        );
    }
}
