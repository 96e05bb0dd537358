//! `gpumem-analyze check --symbolize`: embeds the names of native functions in a copy of a capture.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, bail};
use gpumem_analyzer::account::many;
use gpumem_analyzer::render::{bytes, count};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::symbols::{Nameless, Spots};
use gpumem_capture::RingState;
use gpumem_capture::embedded::{EmbedError, embed};
use gpumem_files::write::{By, NewFile};

use super::progress::Bar;
use super::read::{Opened, symbols};
use crate::args::SymbolArgs;

/// The most modules without names that are listed; the rest is summed.
const MODULES_LISTED: usize = 12;

/// Where names are looked for, and where the copy is written.
#[derive(clap::Args, Debug)]
pub struct CopyArgs {
    /// Write a copy with the names of native functions embedded, to read it on machines without the libraries. If it is
    /// the capture itself, the capture is replaced atomically
    #[arg(long, value_name = "OUT.bin")]
    pub symbolize: Option<PathBuf>,
    /// With --symbolize: search for all names again. An embedded name is kept if no new one is found
    #[arg(long, requires = "symbolize")]
    pub anew: bool,
    /// Where names are looked for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}

/// Writes the copy of a capture that was read as `session`, and returns text about it.
pub fn run(
    capture: &mut Opened,
    session: &Session,
    args: &CopyArgs,
    target: &Path,
) -> anyhow::Result<String> {
    let input = &capture.path().to_owned();
    if session.header.is_running() {
        bail!(
            "{}: its process, {}, is still running and writes to it: symbolize it after the process ends",
            input.display(),
            session.header.pid
        );
    }
    if session.integrity.ring == RingState::Read {
        bail!(
            "{}: the events that its process left in memory could not be written to it: copy the capture to a folder that you can write to, and try again",
            input.display()
        );
    }
    let names = &session.replay.names;
    let spots = Spots::of(names);
    let (symbols, bar) = symbols(input, session, &args.symbols);
    let mut symbols = symbols.anew(args.anew);
    let mut nameless = Vec::new();
    check_target(target)?;
    let reader = capture.reader();
    let written = (|| -> Result<_, EmbedError> {
        let file = NewFile::create(target, By::User)?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let copied = Arc::new(AtomicU64::new(0));
        let (watched, all) = (Arc::clone(&copied), reader.own_bytes());
        let copying = Bar::counting("copying", move || (watched.load(Ordering::Relaxed), all));
        let mut copying = Some(copying);
        let written = embed(
            reader,
            spots.symbols(names, &mut symbols, &mut nameless),
            &mut file,
            &mut |bytes| {
                copied.store(bytes, Ordering::Relaxed);
                if bytes >= all {
                    copying = None;
                }
            },
        )?;
        let file = file.into_inner().map_err(|error| error.into_error())?;
        Ok((written, file.finish_synchronized()?))
    })();
    drop(bar);
    let (written, length) =
        written.with_context(|| format!("cannot write {}", target.display()))?;
    let path = target.display();
    let added = bytes(length.saturating_sub(reader.own_bytes()));
    let mut text = match spots.count() {
        0 => format!("{path}: the capture has no native stacks, so no names are needed\n"),
        all => format!(
            "{path}: {} of {} in {} have names ({added})\n",
            count(written),
            many(all, "place", "places"),
            many(spots.modules(), "module", "modules"),
        ),
    };
    text.extend(lines(nameless));
    Ok(text)
}

/// Whether a file can be written. Devices, pipes and folders are rejected, because they would be replaced.
fn check_target(path: &Path) -> anyhow::Result<()> {
    let is_other = path.metadata().is_ok_and(|facts| !facts.is_file());
    // /dev/stdout may be a regular file, and has other text.
    let is_special = ["/dev", "/proc"].iter().any(|of| path.starts_with(of));
    if is_other || is_special || path == Path::new("-") {
        bail!("cannot write {}: name a regular file", path.display());
    }
    Ok(())
}

/// The addresses without names, by module, the most addresses first.
fn lines(mut nameless: Vec<Nameless>) -> Vec<String> {
    nameless.sort_by(|a, b| (b.places, &a.module).cmp(&(a.places, &b.module)));
    let places = |places| many(places, "place", "places");
    let rest: u64 = nameless
        .iter()
        .skip(MODULES_LISTED)
        .map(|of| of.places)
        .sum();
    let mut lines: Vec<String> = nameless
        .iter()
        .take(MODULES_LISTED)
        .map(|of| {
            let module = of.module.as_deref().unwrap_or("code outside of modules");
            format!(
                "  {module}: {} without names: {}\n",
                places(of.places),
                of.why
            )
        })
        .collect();
    if rest > 0 {
        lines.push(format!("  other modules: {} without names\n", places(rest)));
    }
    lines
}
