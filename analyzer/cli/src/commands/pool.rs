//! `gpumem-analyze ledger --pool`: the map of PyTorch's pool, the sizes of its free blocks, and both over time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpumem_analyzer::ask::{SecondPass, has_device};
use gpumem_analyzer::envelope::{Body, Capture, Captures, Form, Heads, View};
use gpumem_analyzer::render::{Style, Terminal, caveats, over_time_text, pool_map_text};
use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{Asked, FragmentedAt, Ledger, LedgerAt, ReservedOverTime, at};
use gpumem_capture::{DeviceOrdinal, Seq};
use schemars::JsonSchema;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Notes, Output, file_name};
use super::read::Opened;
use super::view::{Of, print};
use crate::args::Format;

/// The part of the command line that it uses.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// The point in time.
    pub at: At,
    /// The request whose free memory is shown.
    pub request: Option<u64>,
    /// Only this GPU.
    pub device: Option<u8>,
    /// Text or JSON.
    pub format: Format,
    /// The captures: at least one.
    pub files: &'a [PathBuf],
}

/// PyTorch requests at least this much from the driver for a tensor that is too large for its shared segments.
const DEFAULT_REQUEST: u64 = 20 << 20;

/// PyTorch's pool on one GPU.
#[derive(Serialize, JsonSchema)]
struct Row {
    /// The capture's file, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<PathBuf>,
    /// Ordinal of the GPU.
    device: u8,
    /// Number of the event at the point in time; `None`: there is no event.
    seq: Option<u64>,
    /// Time of the event: nanoseconds since the capture was opened.
    time_ns: Option<u64>,
    #[serde(flatten)]
    now: FragmentedAt,
    /// The same figures at the peak of the pool's reserved bytes.
    at_reserved_peak: Option<FragmentedAt>,
    #[serde(flatten)]
    over_time: ReservedOverTime,
}

/// The GPUs' pools.
#[derive(Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Pools(Vec<Row>);

impl View for Pools {
    const FORM: Form = Form {
        name: "fragmentation",
        body: Body::Rows,
        heads: Heads::OneOrSeveral,
    };
}

/// Runs it.
pub fn run(args: Pool<'_>, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    if let [file] = args.files {
        let (session, rows) = read_pools(args, file, &mut output.notes)?;
        let of = Of {
            file,
            session: &session,
        };
        print(output, of, args.format, &rows, |_, terminal| {
            text(args, &session, &rows.0, terminal)
        })?;
        return Ok(Exit::of(&session));
    }
    let (mut all, mut captures) = (Pools::default(), Vec::new());
    let mut exit = Exit::Complete;
    for (number, file) in args.files.iter().enumerate() {
        let (session, mut rows) = read_pools(args, file, &mut output.notes)?;
        if let Exit::Partial = Exit::of(&session) {
            exit = Exit::Partial;
        }
        match args.format {
            Format::Json => {
                output.notes.caveats(&session);
                captures.push(Capture::of(file, &session));
                rows.0
                    .iter_mut()
                    .for_each(|row| row.capture = Some(file.clone()));
                all.0.append(&mut rows.0);
            }
            Format::Text => {
                let terminal = output.terminal;
                let name = terminal.paint(Style::Strong, &file_name(file));
                let head = format!("{name}   {}\n", session.title());
                let gap = if number > 0 { "\n" } else { "" };
                let caveats = caveats(&session.account, terminal);
                let pools = text(args, &session, &rows.0, terminal);
                output.text(&format!("{gap}{head}{caveats}{pools}"))?;
            }
        }
    }
    if let Format::Json = args.format {
        output.json(&Captures::Several(captures), &all)?;
    }
    Ok(exit)
}

/// The pools of a capture.
fn read_pools(
    args: Pool<'_>,
    file: &Path,
    notes: &mut Notes<'_>,
) -> anyhow::Result<(Session, Pools)> {
    let query = Query {
        moment: args.at,
        peaks: args.at == At::Peak,
        ..Query::default()
    };
    let mut over_time = BTreeMap::new();
    let mut capture = Opened::open(file)?;
    let session = capture.read_with(query, &mut |replay, record, _| {
        ReservedOverTime::observe(&mut over_time, replay, record);
    })?;
    if let Some(device) = args.device {
        has_device(&session, device)?;
    }
    notes.bounded(&session, "the pool");
    let device = args.device.map(DeviceOrdinal);
    let asked = |at| Asked {
        at,
        device,
        ..Asked::default()
    };
    let when = match (session.replay.until(), args.at) {
        (Some(seq), _) => LedgerAt::At(seq),
        (None, At::Peak) => LedgerAt::Peak,
        (None, _) => LedgerAt::End,
    };
    // The pool of each GPU also at the peak of its reserved bytes, as far as its records are kept.
    let peaks: Vec<(DeviceOrdinal, Seq)> = over_time
        .iter()
        .map(|(ordinal, over_time)| (*ordinal, Seq(over_time.reserved_peak.seq)))
        .filter(|(_, seq)| session.replay.can_answer(At::Event(*seq).into()))
        .collect();
    let mut second = SecondPass::after(&session).ledgers(asked(when));
    for (ordinal, seq) in &peaks {
        second = second.ledgers(Asked {
            device: Some(*ordinal),
            ..asked(LedgerAt::At(*seq))
        });
    }
    let mut ledgers = capture.read_later(second, None)?.ledgers.into_iter();
    let now = ledgers.next().unwrap_or_default();
    let mut then: BTreeMap<DeviceOrdinal, Vec<Ledger>> = peaks
        .iter()
        .map(|(ordinal, _)| *ordinal)
        .zip(ledgers)
        .collect();
    let mut rows = Vec::new();
    for ledger in &now {
        let ordinal = DeviceOrdinal(ledger.device);
        let (Some(pool), Some(over_time)) = (&ledger.pool, over_time.remove(&ordinal)) else {
            continue;
        };
        let failed = over_time.failures.first();
        let request = args.request.or(failed.map(|failed| failed.requested_bytes));
        let request = request.unwrap_or(DEFAULT_REQUEST);
        let then = then.remove(&ordinal).unwrap_or_default();
        let pool_then = then.into_iter().find_map(|ledger| ledger.pool);
        rows.push(Row {
            capture: None,
            device: ledger.device,
            seq: ledger.seq,
            time_ns: ledger.time_ns,
            now: FragmentedAt::of(pool, request),
            at_reserved_peak: pool_then.map(|pool| FragmentedAt::of(&pool, request)),
            over_time,
        });
    }
    Ok((session, Pools(rows)))
}

fn text(args: Pool<'_>, session: &Session, rows: &[Row], terminal: Terminal) -> String {
    let mut text = String::new();
    if rows.is_empty() {
        text.push_str("PyTorch reserved no memory.\n");
    }
    for (index, row) in rows.iter().enumerate() {
        text.push_str(if index > 0 { "\n" } else { "" });
        text.push_str(&pool_map_text(
            &session.replay,
            row.device,
            &row.now,
            &at(args.at),
            terminal,
        ));
        text.push_str(&over_time_text(
            &row.over_time,
            row.at_reserved_peak.as_ref(),
            terminal,
        ));
    }
    text
}
