//! `gpumem-analyze changes`.

use std::path::PathBuf;

use gpumem_analyzer::envelope::opening;
use gpumem_analyzer::render::{caveats, change_text};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{BlockEvents, Change, Changes, Select};

use super::exit::Exit;
use super::output::Output;
use super::read::Opened;
use super::view::Of;
use crate::args::Format;
use crate::selection::Part;

/// `changes`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to include. With --size or --library, totals count only matching blocks. --file and --function match the
    /// script's lines.
    #[command(flatten)]
    pub part: Part,
    /// Rejected: changes cover the whole run.
    #[arg(long, hide = true, value_parser = no_moment)]
    pub at: Option<String>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Rejects `--at`: changes cover the whole run.
fn no_moment(_: &str) -> Result<String, String> {
    Err("changes covers the whole run: use lines --at for one point in time, diff --at A --to B for two"
    .into())
}

/// Runs it. The capture is read twice, because missing records must be reported before the first line.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let part = &args.part;
    let file = &part.capture(&args.file);
    let mut capture = Opened::open(file)?;
    let first = capture.read(At::End)?;
    let level = part.level(&first)?;
    let blocks = Select {
        file: None,
        function: None,
        ..part.select_of_events()?
    };
    let has = |(device, of): &&(_, _)| *of == level && blocks.takes_device(*device);
    let devices = first.replay.levels.keys().filter(has).count() > 1;
    output.notes.bounded(&first, "changes");
    let names = &first.replay.names;
    let terminal = output.terminal;
    let json = args.format == Format::Json;
    if json {
        output.notes.caveats(&first);
        let of = Of {
            file,
            session: &first,
        };
        output.raw(&opening::<Vec<Change>>(&of.captures())?)?;
        output.raw("[")?;
    } else {
        output.text(&caveats(&first.account, terminal))?;
    }
    let mut failed = None;
    let mut count = 0_u64;
    let mut print = |change: Change| {
        if failed.is_some() || !is_wanted(&change, part) {
            return;
        }
        let done = if json {
            let separator = if count == 0 { "\n" } else { ",\n" };
            serde_json::to_string(&change)
                .map_err(anyhow::Error::from)
                .and_then(|text| output.raw(&format!("{separator}{text}")))
        } else {
            output.text(&change_text(&change, devices, names, terminal))
        };
        failed = done.err();
        count += 1;
    };
    let mut changes = Changes::new(level, first.header.pid, &mut print);
    let sizes = part.size.unwrap_or_default();
    if blocks != Select::default() || !sizes.are_all() {
        changes = changes.only(BlockEvents::new(&first.replay, level, blocks, sizes));
    }
    capture.read_with(At::End, &mut |replay, record, effect| {
        changes.observe(replay, record, effect);
    })?;
    changes.finish();
    drop(changes);
    if let Some(error) = failed {
        return Err(error);
    }
    if json {
        output.raw(if count == 0 { "]\n}\n" } else { "\n]\n}\n" })?;
    } else if count == 0 {
        let said = part.said();
        output.text(&format!("No memory changed at the {level} level{said}.\n"))?;
    }
    Ok(Exit::of(&first))
}

/// Whether the script was at a requested line.
fn is_wanted(change: &Change, part: &Part) -> bool {
    let has = |text: &Option<std::sync::Arc<str>>, part: &Option<String>| match (text, part) {
        (_, None) => true,
        (text, Some(part)) => text.as_ref().is_some_and(|text| text.contains(part)),
    };
    has(&change.file, &part.in_file) && has(&change.function, &part.function)
}
