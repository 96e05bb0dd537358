//! `gpumem-analyze exporter`.

use std::net::SocketAddr;
use std::time::Duration;

use gpumem_exporter::{Error, Exporter, Options, StartError};

use super::exit::Exit;

/// `exporter`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to answer. Port 0: a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9841")]
    pub listen: SocketAddr,
    /// Captures, folders of them or patterns of such; may be given again
    #[arg(long, value_name = "PATTERN", required = true)]
    pub captures: Vec<String>,
    /// Listen on an address that other machines can reach
    #[arg(long)]
    pub allow_remote: bool,
    /// A name by which others may ask for this host; may be given again
    #[arg(long, value_name = "NAME")]
    pub host_name: Vec<String>,
    /// Follow so many captures at most; how many more there are is a metric
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u16).range(1..))]
    pub max_captures: u16,
    /// Show an ended program for so many seconds more
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub keep: u32,
    /// Look for captures, and read what is new of them, every so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,
    /// Lines of each capture, the largest first
    #[arg(long, value_name = "N", default_value = "10")]
    pub lines: u16,
    /// Also push the metrics to an OpenTelemetry collector: OTLP over HTTP, at this base URL
    #[arg(long, value_name = "http://HOST:4318")]
    pub otlp: Option<String>,
    /// Push so often
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    pub otlp_every: u32,
}

/// Runs it, until it is killed.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let options = Options {
        listen: args.listen,
        allow_remote: args.allow_remote,
        host_names: args.host_name.clone(),
        captures: args.captures.clone(),
        max_captures: args.max_captures.into(),
        keep: Duration::from_secs(args.keep.into()),
        every: Duration::from_secs(args.every.into()),
        lines: args.lines.into(),
        otlp: args.otlp.clone(),
        otlp_every: Duration::from_secs(args.otlp_every.into()),
    };
    let exporter = Exporter::start(&options).map_err(|error| match error {
        Error::Start(remote @ StartError::Remote(_)) => {
            anyhow::anyhow!("{remote}: add --allow-remote if that is meant")
        }
        other => other.into(),
    })?;
    eprintln!("gpumem-analyze: metrics at {}", exporter.url());
    exporter.run(|line| eprintln!("gpumem-analyze: {line}"))
}
