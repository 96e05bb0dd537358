//! The page with the ledgers of each device and the state of the training.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_analyzer::account::{Phase, many, phase_of};
use gpumem_analyzer::render::{Source, Terminal, bytes, duration, ledger_text};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::{ByStack, Ledger, Select};
use gpumem_capture::{DeviceOrdinal, Level};

use super::super::pace::Pace;
use super::text::{Kind, Page};

/// The ledgers at a point in time, the speed of the newest steps, and the memory that each phase of the training has
/// left.
pub(crate) fn account(
    session: &Session,
    ledgers: &[Ledger],
    (level, moment, device): (Level, At, Option<DeviceOrdinal>),
    (steps, pace): (u64, Option<Pace>),
    (title, columns): (&str, u16),
) -> Page {
    let replay = &session.replay;
    let mut page = Page::of(title.to_owned());
    let terminal = Terminal {
        width: Some(usize::from(columns)),
        colour: false,
    };
    let mut source = Source::new(&replay.names, &session.header);
    for ledger in ledgers {
        page.blank();
        let text = ledger_text(replay, ledger, &mut source, terminal);
        page.headed(&terminal.wrap(&text));
    }
    if ledgers.is_empty() {
        page.add(Kind::Plain, "No GPU memory was allocated.");
    }
    page.blank();
    page.add(Kind::Strong, "Steps");
    let text = match (steps, pace.map(|pace| (pace, pace.per_second()))) {
        (0, _) => "  no step ended yet".to_owned(),
        (_, Some((pace, Some(rate)))) => format!(
            "  {} ended; {rate:.2} per second over the last {} ({})",
            many(steps, "step", "steps"),
            pace.steps,
            duration(pace.took.0)
        ),
        _ => format!("  {} ended", many(steps, "step", "steps")),
    };
    page.add(Kind::Plain, text);
    let select = Select {
        device,
        ..Select::default()
    };
    let held = ByStack::at(replay, level, moment, &select);
    let mut by_phase: BTreeMap<Option<Phase>, u64> = BTreeMap::new();
    for (stacks, figure) in held.devices.iter().flat_map(|on| &on.figures) {
        *by_phase.entry(phase_of(replay, *stacks)).or_default() += figure.bytes;
    }
    if by_phase.keys().any(Option::is_some) {
        page.blank();
        let text = format!("The {level} level by the phase that allocated it");
        page.add(Kind::Strong, text);
        let mut all: Vec<_> = by_phase.into_iter().collect();
        all.sort_by_key(|(phase, held)| (Reverse(*held), *phase));
        for (phase, held) in all {
            let phase = phase.map_or("no phase", Phase::word);
            page.add(Kind::Plain, format!("{:>10}  {phase}", bytes(held)));
        }
    }
    page
}
