//! `gpumem-analyze lines`.

use gpumem_analyzer::render::{Source, bytes, lines_table, partial};
use gpumem_analyzer::replay::{Moment, Wanted};
use gpumem_analyzer::views::Lines;
use gpumem_capture::DeviceOrdinal;

use super::{Exit, Output, level_or_default, read, say_missing};
use crate::cli::{Format, LinesArgs, PhaseArg};

/// Runs it.
pub fn run(args: &LinesArgs, output: &mut Output<'_>) -> anyhow::Result<Exit> {
    let wanted = Wanted {
        moment: args.which.at,
        step: args.step,
        peaks: false,
    };
    let session = read(&args.file, wanted)?;
    let ended = session.replay.course.steps;
    if let Some(step) = args.step.filter(|step| *step > ended.saturating_add(1)) {
        anyhow::bail!(
            "{}: there is no step {step}, for {ended} ended: name one of those or the one after",
            args.file.display()
        );
    }
    let level = level_or_default(args.which.level.map(Into::into), &session.replay);
    let mut lines = Lines::at(&session.replay, level, args.which.at);
    for (device, sum, figure) in &lines.mismatches {
        let device = if *device == DeviceOrdinal::NONE {
            "no device".into()
        } else {
            format!("GPU {}", device.0)
        };
        eprintln!(
            "gpumem-analyze: partial: {device}: the lines sum to {sum} bytes, the {level} level has {figure}"
        );
    }
    if let Some(phase) = args.phase {
        lines.retain(|of| phase.takes(of));
    }
    match args.format {
        Format::Json => {
            say_missing(&session);
            output.json(&lines.rows)?;
        }
        Format::Text => {
            let names = &session.replay.names;
            let mut source = Source::new(names, session.header.started_wall_ns);
            let mut devices: Vec<_> = lines.rows.iter().map(|row| row.device).collect();
            devices.dedup();
            let of = match (args.phase.map(PhaseArg::said), args.step) {
                (None, None) => None,
                (Some(phase), None) => Some(phase.to_owned()),
                (None, Some(step)) => Some(format!("step {step}")),
                (Some(phase), Some(step)) => Some(format!("{phase} of step {step}")),
            };
            let when = match args.which.at {
                Moment::Peak if args.step.is_some() => "at its peak".into(),
                Moment::Peak => "at the peak".into(),
                Moment::End => "at the end".into(),
                Moment::At(seq) => format!("after event {}", seq.0),
            };
            let mut text = partial(&session.account, output.terminal);
            if lines.rows.is_empty() {
                let none = match of {
                    None => "No line".into(),
                    Some(of) => format!("No line of {of}"),
                };
                text.push_str(&format!(
                    "{none} owns memory of the {level} level {when}.\n"
                ));
            } else {
                let title = match of {
                    None => format!("Lines that own the {level} level {when}"),
                    Some(of) => format!("Lines of {of} ({level} level, {when})"),
                };
                let all = lines.rows.len();
                let many = devices.len() > 1;
                let terminal = output.terminal;
                text.push_str(&lines_table(
                    &lines.rows,
                    all,
                    &title,
                    many,
                    names,
                    &mut source,
                    terminal,
                ));
                text.push_str(&format!("Together {}.\n", bytes(lines.bytes())));
            }
            output.text(&text)?;
        }
    }
    Ok(if lines.mismatches.is_empty() {
        Exit::of(&session)
    } else {
        Exit::Partial
    })
}
