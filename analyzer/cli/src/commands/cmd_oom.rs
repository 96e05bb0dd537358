//! `gpumem-analyze oom`.

use std::path::PathBuf;

use gpumem_analyzer::attribution::owner;
use gpumem_analyzer::envelope::{Body, Form, Heads, View};
use gpumem_analyzer::render::{
    ShownLines, Source, answered, cause_text, caveats, count, failure_line, holders_text,
    ledger_text, lines_table, split_text,
};
use gpumem_analyzer::replay::{At, OutOfMemory, Replay};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{
    Asked, By, ByStack, Cause, CauseWatch, Ledger, LedgerAt, LedgerWatch, LineRow, Lines, Select,
};
use gpumem_analyzer::watch::Both;
use gpumem_capture::{Level, ProcessKey};
use schemars::JsonSchema;
use serde::Serialize;

use super::exit::Exit;
use super::output::Output;
use super::read::{Opened, replays_of};
use super::view::{Of, print};
use crate::args::Format;

/// An allocation that failed because memory ran out.
#[derive(Serialize, JsonSchema)]
struct Failure<'a> {
    /// Number of the failure in the capture, from 1.
    number: u64,
    /// Number of the failure's event.
    event: u64,
    /// Time of the failure: nanoseconds since the capture was opened.
    time_ns: u64,
    /// Ordinal of the GPU.
    device: u8,
    /// Level of the failed allocation: `tensor`, `driver` or `host`.
    level: String,
    /// Requested bytes.
    requested_bytes: u64,
    /// The function of CUDA that failed, or of the allocator.
    function: Option<&'a str>,
    /// Line that requested the memory, as tables show it.
    line: String,
    /// Whether a framework raised an exception. Else a function of CUDA failed.
    exception: bool,
    /// Number of requests for it that the driver refused before the exception.
    refusals: u64,
    /// Whether the GPU had enough free memory, but `GPUMEM_LIMIT` forbade it.
    by_limit: bool,
    /// Newest limit of the device in bytes; `None`: no limit was set.
    limit_bytes: Option<u64>,
    /// Text that the recorder printed at the failure; `None`: it printed none.
    postmortem: Option<&'a str>,
}

/// Failed allocations, and the memory at one of them.
#[derive(Serialize, JsonSchema)]
pub struct Report<'a> {
    /// Failures in the capture. If there are many, only the first and the newest ones.
    failures: Vec<Failure<'a>>,
    /// Number of all failures.
    count: u64,
    /// Refusals of the driver after which PyTorch's allocator could allocate. They are not failures.
    answered: u64,
    /// Number of the failure that the fields below describe; `None`: no
    /// allocation failed.
    number: Option<u64>,
    /// Cause of the failure; `None`: no allocation failed.
    cause: Option<&'a Cause>,
    /// Memory of the GPU by owner at the failure.
    ledger: Option<&'a Ledger>,
    /// Lines that owned tensors at the failure, the largest first.
    tensor: &'a [LineRow],
    /// Lines that owned driver memory at the failure, the largest first.
    driver: &'a [LineRow],
    /// Lines that owned host memory at the failure, the largest first.
    host: &'a [LineRow],
}

impl View for Report<'_> {
    const FORM: Form = Form {
        name: "oom",
        body: Body::Data,
        heads: Heads::One,
    };
}

/// `oom`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The failure, counted from 1. Default: the last out-of-memory exception, else the last failed allocation
    #[arg(long, value_name = "N")]
    pub failure: Option<u64>,
    /// Replays of this capture under other settings of the allocator, as `gpumem whatif --format json` prints them
    #[arg(long, value_name = "FILE")]
    pub whatif: Option<PathBuf>,
    /// Text or JSON
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The capture
    pub file: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let replays = args.whatif.as_deref().map(replays_of).transpose()?;
    let mut capture = Opened::open(&args.file)?;
    let first = capture.read(At::End)?;
    let failures = first.replay.failures.all();
    let Some((main, _)) = first.replay.main_failure() else {
        if let Some(number) = args.failure {
            anyhow::bail!(
                "{}: failure {number} is not in the capture: no allocation failed because memory ran out",
                args.file.display()
            );
        }
        return none(args, &first, output);
    };
    let count = first.replay.failures.count();
    let number = args.failure.unwrap_or(main);
    let Some((_, failure)) = failures.iter().find(|(at, _)| *at == number) else {
        anyhow::bail!(
            "{}: failure {number} is not in the capture: {}",
            args.file.display(),
            kept(&failures, count)
        );
    };
    let answered = first.replay.failures.answered();
    let asked = Asked {
        at: LedgerAt::At(failure.seq),
        by: By::default(),
        device: Some(failure.event.device),
    };
    let mut ledgers = LedgerWatch::new(&first.replay, asked);
    let mut cause = CauseWatch::new(&first.replay, *failure);
    let mut both = Both(&mut ledgers, &mut cause);
    let session = capture.read_watched(At::Event(failure.seq), &mut both)?;
    let cause = cause.finish(&session.replay, number, replays.as_ref());
    let ledgers = ledgers.finish(Some(&session.replay));
    drop(first);
    let select = Select::default();
    let [tensor, driver, host] = [Level::TENSOR, Level::DRIVER, Level::HOST].map(|level| {
        let held = ByStack::at(&session.replay, level, At::Event(failure.seq), &select);
        let mut lines = Lines::of(&session.replay, &held);
        let device = failure.event.device.0;
        lines.retain_rows(|row| level == Level::HOST || row.device == Some(device));
        lines
    });
    match args.format {
        Format::Json => {
            output.notes.caveats(&session);
            let of = Of {
                file: &args.file,
                session: &session,
            };
            output.json(
                &of.captures(),
                &Report {
                    failures: failures
                        .iter()
                        .map(|(number, failure)| described(&session.replay, *number, failure))
                        .collect(),
                    count,
                    answered,
                    number: Some(number),
                    cause: Some(&cause),
                    ledger: ledgers.first(),
                    tensor: &tensor.rows,
                    driver: &driver.rows,
                    host: &host.rows,
                },
            )?;
        }
        Format::Text => {
            let mut text = caveats(&session.account, output.terminal);
            text.push_str(&head(&session, (&cause, count), failure, output));
            text.push_str(&holders_text(cause.holders.as_ref(), output.terminal));
            let names = &session.replay.names;
            let mut source = Source::new(names, &session.header);
            for ledger in &ledgers {
                text.push('\n');
                let told = ledger_text(&session.replay, ledger, &mut source, output.terminal);
                text.push_str(&told);
            }
            if let Some(split) = &cause.split {
                text.push('\n');
                text.push_str(&split_text(split, output.terminal));
            }
            for lines in [&tensor, &driver, &host] {
                if lines.rows.is_empty() {
                    continue;
                }
                let title = format!("Lines that owned the {} level at the failure", lines.level);
                text.push('\n');
                text.push_str(&lines_table(
                    &lines.rows,
                    ShownLines::ALL,
                    &title,
                    names,
                    &mut source,
                    output.terminal,
                ));
            }
            output.text(&text)?;
        }
    }
    Ok(Exit::of(&session))
}

/// The numbers of the failures that are kept.
fn kept(failures: &[(u64, OutOfMemory)], count: u64) -> String {
    let last_in_a_row = (1..)
        .zip(failures)
        .take_while(|(at, (number, _))| at == number);
    match (last_in_a_row.count() as u64, count) {
        (_, 1) => "use --failure 1, the only one".to_owned(),
        (all, count) if all == count => format!("use --failure 1 to {count}"),
        (some, count) => {
            format!("of {count} failures, only the first {some} and the last one are kept")
        }
    }
}

/// Output if no allocation failed.
fn none(args: &Args, session: &Session, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let replay = &session.replay;
    let nothing = Report {
        failures: Vec::new(),
        count: 0,
        answered: replay.failures.answered(),
        number: None,
        cause: None,
        ledger: None,
        tensor: &[],
        driver: &[],
        host: &[],
    };
    let file = &args.file;
    print(
        output,
        Of { file, session },
        args.format,
        &nothing,
        |_, _| {
            format!(
                "No allocation failed because memory ran out.\n{}",
                answered(replay)
            )
        },
    )?;
    Ok(Exit::of(session))
}

/// The text that was printed when it happened.
fn postmortem<'a>(replay: &'a Replay, failure: &OutOfMemory) -> Option<&'a str> {
    replay
        .names
        .fact(&format!("{}{}", ProcessKey::POSTMORTEM, failure.seq.0))
}

fn described<'a>(replay: &'a Replay, number: u64, failure: &OutOfMemory) -> Failure<'a> {
    let event = &failure.event;
    Failure {
        number,
        event: failure.seq.0,
        time_ns: event.time.0,
        device: event.device.0,
        level: event.level.to_string(),
        requested_bytes: event.bytes,
        function: replay.names.apis.get(&event.api).map(String::as_str),
        line: owner(&replay.names, failure.span_context.stacks, event.level).label(&replay.names),
        exception: failure.is_exception(),
        refusals: failure.refusals,
        by_limit: failure.is_by_limit(),
        limit_bytes: replay.limit_of(event.device),
        postmortem: postmortem(replay, failure),
    }
}

/// The failure and its cause.
fn head(
    session: &Session,
    (cause, known): (&Cause, u64),
    failure: &OutOfMemory,
    output: &Output<'_>,
) -> String {
    let replay = &session.replay;
    let number = cause.number;
    let mut text = failure_line(replay, failure, cause.survived, output.terminal);
    text.push_str(&cause_text(cause, output.terminal));
    if known > 1 {
        let of = count(known);
        text.push_str(&format!(
            "Failure {number} of {of}; another one: --failure N\n"
        ));
    }
    text.push_str(&answered(replay));
    text
}
