//! `gpumem-analyze exporter`.

use std::net::SocketAddr;
use std::time::Duration;

use gpumem_exporter::{Error, Exporter, Options, StartError};

use super::exit::Exit;
use super::output::{Notes, Output};

/// `exporter`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The address to listen on. Port 0: any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9841")]
    pub listen: SocketAddr,
    /// Captures, folders of captures, or patterns of their names. Can be repeated
    #[arg(long, value_name = "PATTERN", required = true)]
    pub captures: Vec<String>,
    /// Allow an address that other machines can reach
    #[arg(long)]
    pub allow_remote: bool,
    /// Another name of this host that requests can use. Can be repeated
    #[arg(long, value_name = "NAME")]
    pub host_name: Vec<String>,
    /// Follow at most this many captures; a metric counts the others
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u16).range(1..))]
    pub max_captures: u16,
    /// Keep a program's metrics for this many seconds after its end
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub keep: u32,
    /// Interval in seconds at which captures are searched for and read
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,
    /// Number of lines of code for each capture, largest first
    #[arg(long, value_name = "N", default_value = "10")]
    pub lines: u16,
    /// Also push the metrics to the OpenTelemetry collector at this base URL (OTLP over HTTP)
    #[arg(long, value_name = "http://HOST:4318")]
    pub otlp: Option<String>,
    /// Interval of pushes in seconds
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    pub otlp_every: u32,
}

/// Runs it, until it is killed.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
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
            anyhow::anyhow!("{remote}: add --allow-remote to allow that")
        }
        other => other.into(),
    })?;
    output
        .notes
        .say(format_args!("metrics at {}", exporter.url()));
    // Also from a thread of the exporter.
    exporter.run(|line| Notes(&mut std::io::stderr()).say(line))
}
