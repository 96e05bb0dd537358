//! `live --metrics`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpumem_analyzer::account::many;
use gpumem_analyzer::replay::At;
use gpumem_live::StartError;
use gpumem_live::frames::Last;
use gpumem_live::metrics::{Error, Exporter, Options, once};

use crate::commands::exit::Exit;
use crate::commands::output::{Notes, Output, To};
use crate::commands::pivot::conflict;
use crate::commands::read::Opened;

/// The options of `--metrics`.
#[derive(clap::Args, Debug)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus on this address, 127.0.0.1:9841 by default; port 0: any free port
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true)]
    metrics: Option<Option<SocketAddr>>,
    /// Print the metrics of one capture, and end
    #[arg(long, requires = "metrics")]
    #[arg(conflicts_with_all = ["allow_remote", "host_name", "max_captures", "keep", "every", "otlp"])]
    once: bool,
    /// Write them to this file, for node_exporter's textfile collector
    #[arg(short, long, value_name = "OUT", requires = "once")]
    output: Option<PathBuf>,
    /// Allow an address that other machines can reach
    #[arg(long, requires = "metrics")]
    allow_remote: bool,
    /// Another name of this host that requests can use. Can be repeated
    #[arg(long, value_name = "NAME", requires = "metrics")]
    host_name: Vec<String>,
    /// Follow at most this many captures; a metric counts the others
    #[arg(long, value_name = "N", default_value = "64", requires = "metrics", value_parser = clap::value_parser!(u16).range(1..))]
    max_captures: u16,
    /// Keep a program's metrics for this many seconds after its end
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "300",
        requires = "metrics"
    )]
    keep: u32,
    /// Interval in seconds at which captures are searched for and read, and metrics are pushed
    #[arg(long, value_name = "SECONDS", default_value = "5", overrides_with = "every", requires = "metrics", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Number of lines of code for each capture, largest first
    #[arg(long, value_name = "N", default_value = "10", requires = "metrics")]
    top: u16,
    /// Also push the metrics to the OpenTelemetry collector at this base URL (OTLP over HTTP)
    #[arg(long, value_name = "http://HOST:4318", requires = "metrics")]
    otlp: Option<String>,
}

impl MetricsArgs {
    /// The address to listen on; `None`: another form of the command is meant. The address may stand apart, as the first
    /// word that is one and no file. A word with a port that is no address is an error.
    pub fn address(&self, of: &mut Vec<PathBuf>) -> anyhow::Result<Option<SocketAddr>> {
        let Some(given) = self.metrics else {
            return Ok(None);
        };
        let address = |of: &PathBuf| of.to_str()?.parse().ok();
        let apart = |of: &PathBuf| address(of).is_some() && !of.exists();
        let given = given.or_else(|| {
            let at = of.iter().position(apart)?;
            address(&of.remove(at))
        });
        let is_meant = |of: &&PathBuf| {
            let port = of.to_str().and_then(|of| of.rsplit_once(':'));
            let is_number = |port: &str| port.parse::<u64>().is_ok();
            port.is_some_and(|(_, port)| is_number(port)) && !of.exists()
        };
        if let Some(word) = of.iter().find(is_meant) {
            let message = format!(
                "{}: neither a file nor an address: use an IP address and a port, such as 127.0.0.1:9841",
                word.display()
            );
            return Err(conflict(message));
        }
        Ok(Some(given.unwrap_or(([127, 0, 0, 1], 9841).into())))
    }

    /// Whether the metrics are printed once.
    pub fn is_once(&self) -> bool {
        self.once
    }

    /// Prints the metrics of a capture, or writes them.
    pub fn once(&self, file: &Path, output: &mut Output<'_>) -> anyhow::Result<Exit> {
        let mut last = Last::default();
        let session = Opened::open(file)?.read_with(At::End, &mut |replay, record, _| {
            last.observe(replay, &record);
        })?;
        output.notes.caveats(&session);
        let frame = last.frame(file, &session);
        let said = many(frame.devices.len() as u64, "GPU", "GPUs");
        let to = To::named(self.output.as_deref().unwrap_or(Path::new("-")));
        let text = once(file, frame, self.top.into());
        output.deliver(&to, text.as_bytes(), &said)?;
        Ok(Exit::of(&session))
    }

    /// Serves metrics until the process is killed.
    pub fn serve(
        &self,
        listen: SocketAddr,
        of: &[PathBuf],
        output: &mut Output<'_>,
    ) -> anyhow::Result<Exit> {
        let options = Options {
            listen,
            allow_remote: self.allow_remote,
            host_names: self.host_name.clone(),
            captures: of
                .iter()
                .map(|of| of.to_string_lossy().into_owned())
                .collect(),
            max_captures: self.max_captures.into(),
            keep: Duration::from_secs(self.keep.into()),
            every: Duration::from_secs(self.every.into()),
            lines: self.top.into(),
            otlp: self.otlp.clone(),
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
}
