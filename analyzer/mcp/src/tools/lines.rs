//! `lines`: the owners of memory at a point in time.

use gpumem_analyzer::replay::{At, Query};
use gpumem_analyzer::views::{ByStack, Lines, Select, at, categories, level_or_default, modules};
use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{facts_of_rows, is_settled};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::Refusal;
use crate::selection::{LevelName, Moment};

/// What rows are of.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Lines of code
    #[default]
    Line,
    /// What tensors are for: parameter, gradient, optimizer state, activation …
    Category,
    /// Modules of PyTorch's (torch.nn.Module)
    Module,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Category => "category",
            Self::Module => "module",
        }
    }
}

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// When: peak (default), end, oom (the failure), `step 3` (at its end), `event 12345`, or a time such as 1.5s
    #[serde(default)]
    at: Moment,
    /// Which level; by default tensors, or the driver's if there are no tensors
    #[serde(default)]
    level: Option<LevelName>,
    /// What the rows are of: line (default), category or module
    #[serde(default)]
    by: By,
    /// Only what was allocated in this step of a training; the peak is then that of the step's memory
    #[serde(default)]
    #[schemars(range(min = 1))]
    step: Option<u64>,
    /// Only the GPU with this ordinal
    #[serde(default)]
    device: Option<u8>,
    /// Only lines of files whose path contains this
    #[serde(default)]
    file: Option<String>,
    /// Only lines in functions whose name contains this
    #[serde(default)]
    function: Option<String>,
}

/// The rows and their sum.
///
/// # Errors
/// The capture cannot be read, or does not have the requested point in time.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let query = Query {
        moment: args.at.0,
        step: args.step,
        ..Query::default()
    };
    let session = context.sessions.read(&capture, query)?;
    let replay = &session.replay;
    let level = level_or_default(args.level.map(Into::into), replay);
    let select = Select {
        device: args.device.map(DeviceOrdinal),
        file: args.file,
        function: args.function,
        ..Select::default()
    };
    let is_whole = select.file.is_none() && select.function.is_none();
    let held = ByStack::at(replay, level, session.query.moment, &select);
    let (rows, together, mismatches): (Vec<Value>, u64, _) = match args.by {
        By::Line => {
            let lines = Lines::of(replay, &held);
            let rows = lines.rows.iter().map(row).collect();
            (rows, lines.bytes(), lines.mismatches)
        }
        By::Category => {
            let found = categories(&held);
            let together = found.iter().map(|of| of.bytes).sum();
            (found.iter().map(row).collect(), together, Vec::new())
        }
        By::Module => {
            let modules = modules(replay, &held);
            let rows = modules.iter().map(row).collect();
            (rows, held.bytes(), held.mismatches())
        }
    };
    let when = match session.query.moment {
        At::Peak if args.step.is_some() => "at the peak of the step's memory".into(),
        moment => at(moment),
    };
    // The line that owns the most memory.
    let first = rows.first().filter(|_| matches!(args.by, By::Line));
    let line = first
        .filter(|row| row["line"].is_u64())
        .map(|row| json!({"capture": capture.name, "file": row["file"], "line": row["line"]}));
    let found = Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("level", level.to_string())
        .with("at", when)
        .with("by", args.by.word())
        .with_any("step", args.step)
        .with("filtered", !is_whole || args.device.is_some())
        .with_bytes("together_bytes", "together", together)
        .with("account", facts_of_rows(&session, &[(level, &mismatches)]))
        .with("total_rows", rows.len())
        .with_rows(rows);
    Ok(match line {
        Some(line) => found.ask("source", line),
        None => found,
    })
}
