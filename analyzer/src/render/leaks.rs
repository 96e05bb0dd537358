//! Leaks from round to round, as text.

use super::line_table::LineTable;
use super::{Source, Style, Terminal, bytes, count, signed};
use crate::account::many;
use crate::names::Names;
use crate::replay::Replay;
use crate::views::{Class, LeakRow, Leaks};

/// The lines by class, and their totals. `when` is the point in time of the figures, such as `at the end of step 20`.
pub fn leaks_text(
    replay: &Replay,
    leaks: &Leaks,
    when: &str,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let level = leaks.level;
    let round = Round::of(leaks, &replay.names);
    if leaks.rows.is_empty() {
        return format!("No memory was live at the {level} level {when}.\n");
    }
    let title = format!("Live at the {level} level {when}");
    let mut table = LineTable::new(
        &title,
        [
            "bytes",
            "blocks",
            "survived",
            round.in_rounds,
            round.per_round,
        ],
        leaks.rows.iter().map(|row| row.device),
        &replay.names,
        source,
    );
    let classes = Class::ALL.map(Some).into_iter().chain([None]);
    let mut sums = Vec::new();
    for class in classes {
        let rows: Vec<&LeakRow> = leaks.rows.iter().filter(|row| row.class == class).collect();
        if rows.is_empty() {
            continue;
        }
        if let Some(class) = class {
            table.heading(&heading(class, leaks, &round));
            let sum = rows.iter().map(|row| row.bytes).sum();
            sums.push(format!("{} {}", word(class), bytes(sum)));
        }
        for row in rows {
            row_of(&mut table, row);
        }
    }
    let mut out = table.render(terminal);
    out.push_str(&format!("Together {}", bytes(leaks.bytes)));
    if !sums.is_empty() {
        out.push_str(&format!(": {}", sums.join(", ")));
    }
    out.push_str(".\n");
    out.push_str(&verdict(leaks, &round, terminal));
    if let Some(holder) = &leaks.holder {
        out.push_str(&format!(
            "Probably kept by the tensor of {} ({}), the newest that remains of each {}: its\ngraph keeps {} of the other lines. Use .item() or .detach() to keep only the value.\n",
            holder.owner.label(&replay.names),
            many(holder.blocks, "block", "blocks"),
            round.one,
            bytes(holder.held_bytes)
        ));
    }
    out
}

/// The words for a step, or for a round of a loop.
struct Round {
    one: &'static str,
    more: &'static str,
    in_rounds: &'static str,
    per_round: &'static str,
    /// The loop.
    of: String,
}

impl Round {
    fn of(leaks: &Leaks, names: &Names) -> Self {
        match &leaks.begins {
            None => Self {
                one: "step",
                more: "steps",
                in_rounds: "in steps",
                per_round: "per step",
                of: String::new(),
            },
            Some(begins) => Self {
                one: "round",
                more: "rounds",
                in_rounds: "in rounds",
                per_round: "per round",
                of: format!(" (rounds begin at {})", begins.label(names)),
            },
        }
    }
}

/// Whether memory grows.
fn verdict(leaks: &Leaks, round: &Round, terminal: Terminal) -> String {
    let (needed, of) = (leaks.needed(), &round.of);
    if leaks.steps == 0 {
        return "The capture has no steps, and no loop of the program keeps memory from round to round, so growth is\nnot known: see gpumem.step().\n".into();
    }
    if leaks.steps < needed {
        let more = [format!("{} has", round.one), format!("{} have", round.more)];
        let ended = many(leaks.steps, &more[0], &more[1]);
        let more = round.more;
        return format!("{ended} ended{of}; growth is reported from {needed} {more} on.\n");
    }
    match leaks.growth() {
        None => {
            let none = match of.is_empty() {
                true => "No line grows.".to_owned(),
                false => format!("No line grows over the rounds{of}."),
            };
            format!("{}\n", terminal.paint(Style::Good, &none))
        }
        Some((lines, growth)) => {
            let lines = many(lines, "line grows", "lines grow");
            let text = format!("{lines} by {} {}{of}.", growth.text(), round.per_round);
            format!("{}\n", terminal.paint(Style::Bad, &text))
        }
    }
}

fn word(class: Class) -> &'static str {
    match class {
        Class::Growing => "growing",
        Class::Cache => "caches",
        Class::WarmUp => "warm-up",
        Class::EndOnly => "younger",
    }
}

fn heading(class: Class, leaks: &Leaks, round: &Round) -> String {
    let (one, more) = (round.one, round.more);
    match class {
        Class::Growing => format!("Growing: more live bytes after each group of {more}"),
        Class::Cache => "Caches: kept, without growth".into(),
        Class::WarmUp if leaks.begins.is_some() && leaks.warm_up_steps < 2 => {
            "Warm-up: kept since the first round".into()
        }
        Class::WarmUp if leaks.warm_up_steps < 2 => {
            "Warm-up or optimizer state: kept since the first step".into()
        }
        Class::WarmUp => format!(
            "Warm-up: kept since the first {} {more}",
            leaks.warm_up_steps
        ),
        Class::EndOnly => match leaks.least_steps {
            1 => format!("Younger: allocated after the last {one} ended"),
            least => format!("Younger than {least} {more}"),
        },
    }
}

fn row_of(table: &mut LineTable<'_>, row: &LeakRow) {
    let has_steps = row.class.is_some();
    let steps = match (row.oldest_step, row.newest_step) {
        _ if !has_steps => String::new(),
        (Some(oldest), Some(newest)) if oldest == newest => count(oldest),
        (Some(oldest), Some(newest)) => format!("{}–{}", count(oldest), count(newest)),
        (None, Some(newest)) => format!("…–{}", count(newest)),
        _ => "…".into(),
    };
    let per_step = match row.class {
        Some(Class::Growing) => format!("+{}", signed(row.bytes_per_step)),
        _ => String::new(),
    };
    let survived = match has_steps {
        true => bytes(row.survived_bytes),
        false => String::new(),
    };
    let (held, blocks) = (bytes(row.bytes), count(row.blocks));
    let figures = [&*held, &blocks, &survived, &steps, &per_step];
    table.row(&row.owner, figures, row.device);
}
