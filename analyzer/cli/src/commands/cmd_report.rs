//! `gpumem-analyze report.bin`: the report, and the flamegraph of the peak next to the capture; or everything as JSON,
//! without a picture.

use std::path::{Path, PathBuf};

use gpumem_analyzer::ask::SecondPass;
use gpumem_analyzer::render::{
    FlameLook, ReportChanges, Source, flamegraph, last_line, report_text, summary_text,
};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{
    Asked, ByStack, Changes, Folded, Folding, Greatest, HintWatch, Hints, Report, Select, Summary,
    at, level_or_default,
};
use gpumem_capture::Level;
use gpumem_files::write::{self, By};

use super::exit::Exit;
use super::hints;
use super::output::{Output, beside, file_name, quoted};
use super::read::{Opened, symbols};
use super::view::Of;
use crate::args::{Format, SymbolArgs};

/// Changes shown in the report.
const CHANGES: usize = 8;

/// `report`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where names are searched for.
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Show what ran, and all counters of each GPU and level, instead of the report
    #[arg(long, conflicts_with_all = ["debug_dir", "symbols", "sysroot"])]
    pub all: bool,
    /// Show only advice to reduce memory, with the evidence for each hint
    #[arg(long, conflicts_with_all = ["all", "debug_dir", "symbols", "sysroot"])]
    pub hints: bool,
    /// With --hints: replays of this capture under other settings of the allocator, as `gpumem whatif --format json` prints
    /// them
    #[arg(long, value_name = "FILE", requires = "hints")]
    pub whatif: Option<PathBuf>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

impl Args {
    /// Runs it.
    pub fn run(&self, output: &mut Output<'_>) -> anyhow::Result<Exit> {
        match (self.hints, self.all) {
            (true, _) => hints::run(&self.file, self.whatif.as_deref(), self.format, output),
            (_, true) => counters(&self.file, self.format, output),
            _ => run(&self.file, &self.symbols, self.format, output),
        }
    }
}

/// What ran, and all counters.
fn counters(file: &Path, format: Format, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let session = Opened::open(file)?.read(At::End)?;
    let summary = Summary::of(&session);
    match format {
        Format::Json => {
            output.notes.caveats(&session);
            let of = Of {
                file,
                session: &session,
            };
            output.json(&of.captures(), &summary)?;
        }
        Format::Text => {
            let (name, terminal) = (file_name(file), output.terminal);
            output.text(&summary_text(&name, &summary, &session.account, terminal))?;
        }
    }
    Ok(Exit::of(&session))
}

/// Runs it.
pub fn run(
    file: &Path,
    asked: &SymbolArgs,
    format: Format,
    output: &mut Output<'_>,
) -> anyhow::Result<Exit> {
    let mut capture = Opened::open(file)?;
    let pid = capture.pid();
    let (mut tensor, mut driver) = (Greatest::default(), Greatest::default());
    let mut watch = HintWatch::default();
    let mut tensor_changes = Changes::new(Level::TENSOR, pid, |change| tensor.add(change));
    let mut driver_changes = Changes::new(Level::DRIVER, pid, |change| driver.add(change));
    let session = capture.read_with(Query::keeping_peaks(), &mut |replay, record, effect| {
        tensor_changes.observe(replay, record, effect);
        driver_changes.observe(replay, record, effect);
        watch.observe(replay, record, effect);
    })?;
    tensor_changes.finish();
    driver_changes.finish();
    drop((tensor_changes, driver_changes));
    let level = level_or_default(None, &session.replay);
    let greatest = if level == Level::TENSOR {
        tensor
    } else {
        driver
    };
    let changes = ReportChanges {
        seen: greatest.seen,
        shown: greatest.take(CHANGES),
    };
    watch.finish();
    let second = SecondPass::after(&session)
        .ledgers(Asked::default())
        .cause(session.replay.main_failure());
    let later = capture.read_later(second, None)?;
    let (ledgers, cause) = (later.ledgers.concat(), later.cause);
    let hints = Hints::of(&session, cause.as_ref(), &ledgers, &watch, None).beside_cause();
    if format == Format::Json {
        output.notes.caveats(&session);
        let of = Of {
            file,
            session: &session,
        };
        let seen = (&changes.shown[..], changes.seen);
        let report = Report::of(&session, cause.as_ref(), &ledgers, seen, &hints);
        output.json(&of.captures(), &report)?;
        return Ok(Exit::of(&session));
    }
    output.text(&report_text(
        &file_name(file),
        &session,
        cause.as_ref(),
        &ledgers,
        &changes,
        &hints,
        output.terminal,
    ))?;
    let (mut symbols, bar) = symbols(file, &session, asked);
    let held = ByStack::at(&session.replay, level, At::Peak, &Select::default());
    let mut source = Source::new(&session.replay.names, &session.header);
    let mut text = |file: &str, line: u32| source.whole_line(file, line).to_owned();
    let folding = Folding::default();
    let folded = Folded::of(&session.replay, &mut symbols, &held, folding, &mut text);
    drop(bar);
    output.about_source(&source)?;
    let subtitle = session.subtitle();
    let title = folded.title(level, &at(At::Peak));
    let look = FlameLook {
        title: &title,
        subtitle: &subtitle,
        ..FlameLook::default()
    };
    if let Some(svg) = flamegraph(&folded, &look) {
        let path = beside(file, "svg");
        match write::whole(&path, By::Command, &svg) {
            Ok(()) => output.text(&format!(
                "\nFlamegraph of the peak: {}.   More: gpumem-analyze --help\n",
                path.display()
            ))?,
            Err(error) => {
                output.text("\nMore: gpumem-analyze --help\n")?;
                output.notes.say(format_args!(
                    "no flamegraph: cannot write {}: {error}; \
                     choose another path with gpumem-analyze flamegraph -o OUT.svg {}",
                    path.display(),
                    quoted(file)
                ));
            }
        }
    }
    if let Some(cause) = cause.filter(|cause| !cause.survived) {
        output.text(&format!("\n{}", last_line(&cause, output.terminal)))?;
    }
    Ok(Exit::of(&session))
}
