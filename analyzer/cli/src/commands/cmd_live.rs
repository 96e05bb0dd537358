//! `gpumem-analyze live`.

mod metrics;

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gpumem_analyzer::ask;
use gpumem_analyzer::render::bytes;
use gpumem_analyzer::source;
use gpumem_capture::{DeviceOrdinal, Seq};
use gpumem_files::write::{By, NewFile};
use gpumem_live::StartError;
use gpumem_live::frames::{Ask, Folder, Watch};
use gpumem_live::serve::{LiveServer, ServeError};
use gpumem_live::terminal::{App, Export, Look, run as show, run_folder};

use super::exit::{Exit, explained};
use super::output::{Output, beside};
use super::pivot::conflict;
use crate::locale::is_utf_8;
use crate::selection::LevelArg;
use metrics::MetricsArgs;

/// The interval of screen updates.
const EVERY: Duration = Duration::from_millis(100);

/// `live`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The level of the rows. Default: tensor, or driver if there are no tensors
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Only the GPU with this ordinal
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// Draw with ASCII characters only. Default if the locale is not UTF-8
    #[arg(long)]
    pub ascii: bool,
    /// Show the view in a browser: listen on this address of this machine, such as 127.0.0.1:0, and print the URL to
    /// open. From another machine, use `ssh -L`
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "ascii")]
    pub serve: Option<SocketAddr>,
    /// The process id of a running program, a capture, or a folder with the captures of a job's ranks. With --metrics
    /// several of these, or patterns of their names
    #[arg(value_name = "PID|FILE|FOLDER", required = true)]
    pub of: Vec<PathBuf>,
    /// Metrics.
    #[command(flatten, next_help_heading = "Metrics")]
    pub metrics: MetricsArgs,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let mut of = args.of.clone();
    let metrics = args.metrics.address(&mut of)?;
    let is_view = args.serve.is_some() || args.ascii || args.level.is_some();
    // By clap's own conflicts, options that require --metrics would be ignored without it.
    if metrics.is_some() && (is_view || args.device.is_some()) {
        let wrong = "--metrics is no view: omit --serve, --ascii, --level and --device";
        return Err(conflict(wrong));
    }
    for path in &mut of {
        if let Some(pid) = path.to_str().and_then(|of| of.parse().ok())
            && !path.exists()
        {
            *path = of_process(pid)?;
        }
    }
    match metrics {
        Some(address) if !args.metrics.is_once() && !of.is_empty() => {
            return args.metrics.serve(address, &of, output);
        }
        _ => {}
    }
    let [path] = &of[..] else {
        let message = match of.is_empty() {
            true => "name a capture, a folder, or a pattern of their names",
            false => "name one capture: only live --metrics without --once takes several",
        };
        return Err(conflict(message));
    };
    if metrics.is_some() {
        return args.metrics.once(path, output);
    }
    let ask = Ask {
        level: args.level.map(Into::into),
        device: args.device.map(DeviceOrdinal),
        ..Ask::default()
    };
    if let Some(address) = args.serve {
        return serve(path, ask, address, output);
    }
    if !output.is_terminal {
        anyhow::bail!("live needs a terminal: use gpumem-analyze report to print the figures once");
    }
    let look = Look {
        has_colour: output.terminal.colour,
        has_unicode: !args.ascii && is_utf_8(),
    };
    if path.is_dir() {
        let folder = &mut Folder::new(path);
        run_folder(folder, ask, look, (EVERY, &export_of))?;
        return Ok(Exit::Complete);
    }
    let watch = Watch::start(path, ask, EVERY).map_err(|error| explained(path, &error.into()))?;
    show(&watch, &mut App::new(ask), look, (EVERY, &export_of(path)))?;
    Ok(Exit::Complete)
}

/// Writes HTML pages of this capture.
fn export_of(path: &Path) -> Arc<Export> {
    let path = path.to_owned();
    Arc::new(move |seq| write_page(&path, seq))
}

/// The most names that are tried for a page.
const NAMES: u32 = 1000;

/// Writes the page of `html` for an event, next to the capture; no existing file is replaced.
fn write_page(capture: &Path, seq: Seq) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("no page was written: {error}");
    let program = std::env::current_exe().map_err(cannot)?;
    let permission = source::permission();
    let mut line = Command::new(program);
    line.arg("html");
    line.args(["--at", &seq.0.to_string(), "--output", "-"]);
    if permission.none {
        line.arg("--no-source");
    } else if let Some(root) = &permission.root {
        line.arg("--source-root").arg(root);
    }
    let made = line
        .arg("--")
        .arg(capture)
        .stdin(Stdio::null())
        .output()
        .map_err(cannot)?;
    if made.stdout.is_empty() {
        let said = String::from_utf8_lossy(&made.stderr);
        let last = said
            .lines()
            .last()
            .unwrap_or("gpumem-analyze html printed no message");
        return Err(format!("no page was written: {last}"));
    }
    let name = |number| match number {
        1 => beside(capture, &format!("event-{}.html", seq.0)),
        more => beside(capture, &format!("event-{}.{more}.html", seq.0)),
    };
    let mut page = NewFile::create(&name(1), By::Command).map_err(cannot)?;
    page.write_all(&made.stdout).map_err(cannot)?;
    match page
        .finish_as_first((1..=NAMES).map(name))
        .map_err(cannot)?
    {
        Some(path) => {
            let size = bytes(made.stdout.len() as u64);
            Ok(format!("{}: {size}; open it in a browser", path.display()))
        }
        None => Err("no page was written: the folder has too many pages of this event".into()),
    }
}

/// Serves the page until a signal ends the process. No cleanup is needed then.
fn serve(
    path: &Path,
    ask: Ask,
    address: SocketAddr,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let server = LiveServer::start(path, ask, address).map_err(|error| match error {
        ServeError::Open(error) => explained(path, &error.into()),
        ServeError::Start(StartError::Remote(of)) => anyhow::anyhow!(
            "{of} can be reached from other machines: listen on 127.0.0.1:{} and use ssh -L",
            of.port()
        ),
        error => error.into(),
    })?;
    writeln!(output.out, "{}", server.url())?;
    output.out.flush()?;
    loop {
        std::thread::park();
    }
}

/// The capture that a process of this machine writes: a file that it has open or mapped, whose header names the
/// process.
fn of_process(pid: u32) -> anyhow::Result<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        anyhow::bail!("{pid}: no such process: name its capture");
    }
    let refused = |error: std::io::Error| {
        anyhow::anyhow!("{pid}: cannot read the list of its open files ({error}): name its capture")
    };
    let open = std::fs::read_dir(process.join("fd")).map_err(refused)?;
    let open = open
        .flatten()
        .filter_map(|entry| entry.path().read_link().ok());
    let maps = gpumem_files::read::text(&process.join("maps")).map_err(refused)?;
    let mapped = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| line[at..].into()));
    let mut all: Vec<PathBuf> = open.chain(mapped).collect();
    all.sort();
    all.dedup();
    let found = all.into_iter().find(|path| is_capture_of(path, &process));
    found.ok_or_else(|| {
        anyhow::anyhow!("{pid}: the process writes no capture: start it with gpumem run")
    })
}

fn is_capture_of(path: &Path, process: &Path) -> bool {
    let is_file = path
        .metadata()
        .is_ok_and(|file| file.is_file() && file.size() > 0);
    let header = is_file.then(|| ask::header(path).ok()).flatten();
    let pid = process
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    header.is_some_and(|header| Some(header.pid) == pid)
}
