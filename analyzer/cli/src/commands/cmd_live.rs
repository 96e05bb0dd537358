//! `gpumem-analyze live`.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpumem_analyzer::render::Terminal;
use gpumem_capture::{DeviceOrdinal, Reader};
use gpumem_live::view::{App, Look, run as show};
use gpumem_live::{Ask, Watch};
use gpumem_live_serve::{LiveServer, ServeError, StartError};

use super::exit::{Exit, explained};
use crate::selection::LevelArg;

/// How often the screen changes.
const EVERY: Duration = Duration::from_millis(100);

/// `live`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which memory the rows are of. Default: tensors, or CUDA's memory where there are none
    #[arg(long, value_enum)]
    pub level: Option<LevelArg>,
    /// Only this GPU, by its number in the program
    #[arg(long, value_name = "N")]
    pub device: Option<u8>,
    /// Draw with characters of ASCII alone. So it is done, too, where the locale is not of UTF-8
    #[arg(long)]
    pub ascii: bool,
    /// Show it in a browser: the address to listen on, as 127.0.0.1:0. The URL to open is printed. Only this machine's
    /// own addresses; from another machine use `ssh -L`
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "ascii")]
    pub serve: Option<SocketAddr>,
    /// The number of the running program, or its capture
    #[arg(value_name = "PID|FILE")]
    pub of: PathBuf,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let path = match args.of.to_str().and_then(|of| of.parse().ok()) {
        Some(pid) if !args.of.exists() => of_process(pid)?,
        _ => args.of.clone(),
    };
    if path.is_dir() {
        anyhow::bail!(
            "{}: is a folder: name the capture of one process in it",
            path.display()
        );
    }
    let ask = Ask {
        level: args.level.map(Into::into),
        device: args.device.map(DeviceOrdinal),
        ..Ask::default()
    };
    if let Some(address) = args.serve {
        return serve(&path, ask, address);
    }
    if !std::io::stdout().is_terminal() {
        anyhow::bail!("live needs a terminal: gpumem-analyze summary tells the same once");
    }
    let watch = Watch::start(&path, ask, EVERY).map_err(|error| explained(&path, &error.into()))?;
    let look = Look {
        has_colour: Terminal::of_stdout().colour,
        has_unicode: !args.ascii && is_utf_8(),
    };
    show(&watch, &mut App::new(ask), look, EVERY)?;
    Ok(Exit::Complete)
}

/// Serves the page until a signal ends the process. Nothing is left to be put right then.
fn serve(path: &Path, ask: Ask, address: SocketAddr) -> anyhow::Result<Exit> {
    let server = LiveServer::start(path, ask, address).map_err(|error| match error {
        ServeError::Open(error) => explained(path, &error.into()),
        ServeError::Start(StartError::Remote(of)) => anyhow::anyhow!(
            "{of}: can be reached from other machines: use 127.0.0.1:{}, and ssh -L from there",
            of.port()
        ),
        error => error.into(),
    })?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}

/// Whether the locale's characters are UTF-8.
fn is_utf_8() -> bool {
    let of = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = of("LC_ALL")
        .or_else(|| of("LC_CTYPE"))
        .or_else(|| of("LANG"));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// The capture that a process of this machine writes: a file that it has open or mapped, and whose head names it.
fn of_process(pid: u32) -> anyhow::Result<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        anyhow::bail!("{pid}: there is no such process: name its capture");
    }
    let refused = |error: std::io::Error| {
        anyhow::anyhow!("{pid}: what files it has open is not told ({error}): name its capture")
    };
    let open = std::fs::read_dir(process.join("fd")).map_err(refused)?;
    let open = open
        .flatten()
        .filter_map(|entry| entry.path().read_link().ok());
    let maps = std::fs::read_to_string(process.join("maps")).map_err(refused)?;
    let mapped = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| line[at..].into()));
    let mut all: Vec<PathBuf> = open.chain(mapped).collect();
    all.sort();
    all.dedup();
    let found = all.into_iter().find(|path| is_capture_of(path, &process));
    found.ok_or_else(|| {
        anyhow::anyhow!("{pid}: writes no capture: was it started with LD_PRELOAD=libgpumem.so?")
    })
}

fn is_capture_of(path: &Path, process: &Path) -> bool {
    let is_file = path
        .metadata()
        .is_ok_and(|file| file.is_file() && file.size() > 0);
    let reader = is_file.then(|| Reader::open(path).ok()).flatten();
    let pid = process
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    reader.is_some_and(|reader| Some(reader.header().pid) == pid)
}
