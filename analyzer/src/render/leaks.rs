//! Leaks from step to step, as text.

use super::line_table::LineTable;
use super::{Source, Style, Terminal, bytes, count, signed};
use crate::account::many;
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
    if leaks.rows.is_empty() {
        return format!("No memory was live at the {level} level {when}.\n");
    }
    let title = format!("Live at the {level} level {when}");
    let mut table = LineTable::new(
        &title,
        ["bytes", "blocks", "survived", "in steps", "per step"],
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
            table.heading(&heading(class, leaks));
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
    out.push_str(&verdict(leaks, terminal));
    if let Some(holder) = &leaks.holder {
        out.push_str(&format!(
            "Probably kept by the tensor of {} ({}), the newest that remains of each step: its\ngraph keeps {} of the other lines. Use .item() or .detach() to keep only the value.\n",
            holder.owner.label(&replay.names),
            many(holder.blocks, "block", "blocks"),
            bytes(holder.held_bytes)
        ));
    }
    out
}

/// Whether memory grows.
fn verdict(leaks: &Leaks, terminal: Terminal) -> String {
    let needed = leaks
        .warm_up_steps
        .saturating_add(leaks.least_steps)
        .saturating_add(1);
    if leaks.steps == 0 {
        return "The capture has no steps, so growth is not known: see gpumem.step().\n".into();
    }
    if leaks.steps < needed {
        let ended = many(leaks.steps, "step has", "steps have");
        return format!("{ended} ended; growth is reported from {needed} steps on.\n");
    }
    let growing = leaks
        .rows
        .iter()
        .filter(|row| row.class == Some(Class::Growing));
    let slopes: Vec<i64> = growing.map(|row| row.bytes_per_step).collect();
    if slopes.is_empty() {
        let none = terminal.paint(Style::Good, "No line grows.");
        return format!("{none}\n");
    }
    let lines = many(slopes.len() as u64, "line grows", "lines grow");
    let said = format!("{lines} by {} per step.", signed(slopes.iter().sum()));
    format!("{}\n", terminal.paint(Style::Bad, &said))
}

fn word(class: Class) -> &'static str {
    match class {
        Class::Growing => "growing",
        Class::Cache => "caches",
        Class::WarmUp => "warm-up",
        Class::EndOnly => "younger",
    }
}

fn heading(class: Class, leaks: &Leaks) -> String {
    match class {
        Class::Growing => "Growing: more live bytes after each group of steps".into(),
        Class::Cache => "Caches: kept, without growth".into(),
        Class::WarmUp if leaks.warm_up_steps < 2 => {
            "Warm-up or optimizer state: kept since the first step".into()
        }
        Class::WarmUp => format!(
            "Warm-up: kept since the first {} steps",
            leaks.warm_up_steps
        ),
        Class::EndOnly => match leaks.least_steps {
            1 => "Younger: allocated after the last step ended".into(),
            least => format!("Younger than {least} steps"),
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
