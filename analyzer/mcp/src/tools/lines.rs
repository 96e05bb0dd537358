//! `lines`: the owners of memory at a point in time.

use std::borrow::Cow;

use gpumem_analyzer::answers::{self, Answer, Row, Table, Unit};
use gpumem_analyzer::ask::{Pivot, Wanted};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{Lines, Select};
use gpumem_capture::DeviceOrdinal;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::account::{facts_of_rows, is_settled, lacking};
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::Refusal;
use crate::selection::{LevelName, Moment, OfName};

/// What the rows are: lines of code, or groups.
#[derive(Clone, Copy, Debug, Default)]
struct By(Option<&'static Answer>);

impl By {
    fn word(self) -> &'static str {
        self.0.map_or(LINE, |answer| answer.name)
    }
}

/// The name of lines.
const LINE: &str = "line";

impl<'de> Deserialize<'de> for By {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match answers::named(&name) {
            None if name != LINE => {
                let names: Vec<&str> = answers::ALL.iter().map(|answer| answer.name).collect();
                Err(D::Error::custom(format!(
                    "by {name:?}: expected {LINE}, {}",
                    names.join(", ")
                )))
            }
            answer => Ok(Self(answer)),
        }
    }
}

impl JsonSchema for By {
    fn schema_name() -> Cow<'static, str> {
        "By".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let answers = answers::ALL.iter();
        let all = answers.map(|answer| (answer.name, answer.about));
        let all = [(LINE, "Line of code")].into_iter().chain(all);
        let all = all.map(|(name, about)| json!({"const": name, "description": about}));
        json_schema!({"type": "string", "oneOf": all.collect::<Vec<_>>()})
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
    /// What the rows are; line by default
    #[serde(default)]
    by: By,
    /// Which bytes: live (default), allocated, temporary, kept or growing
    #[serde(default)]
    of: OfName,
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
    /// Only what threads with this id or name allocated
    #[serde(default)]
    thread: Option<String>,
}

/// A row of an answer. One without a name has what text shows in its place, such as `(no caller)`.
fn shown(table: &Table, of: &Row) -> Value {
    let mut row = row(&table.json(of));
    let mut columns = table.answer.columns.iter();
    let name = columns.find(|column| column.unit == Unit::Text);
    if let Some((column, label)) = name.zip(of.label.as_ref())
        && row.get(column.name).is_none()
    {
        row[column.name] = label.name.as_str().into();
    }
    row
}

/// The rows and their sum.
///
/// # Errors
/// The capture cannot be read, or does not have the requested point in time.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let select = Select {
        device: args.device.map(DeviceOrdinal),
        file: args.file,
        function: args.function,
        ..Select::default()
    };
    let is_whole = select.is_whole() && select.device.is_none() && args.thread.is_none();
    let question = Pivot {
        of: args.of.into(),
        at: args.at.0,
        step: args.step,
        thread: args.thread,
        wanted: Wanted {
            level: args.level.map(Into::into),
            select,
            ..Wanted::default()
        },
    };
    if let Some(answer) = args.by.0 {
        answer.check(&question)?;
    }
    let (session, stacks) = context.sessions.stacks(&capture, &question)?;
    let held = &stacks.by_stack;
    let (rows, together): (Vec<Value>, u64) = match args.by.0 {
        None => {
            let lines = Lines::of(&session.replay, held);
            (lines.rows.iter().map(row).collect(), lines.bytes())
        }
        Some(answer) => {
            let table = answer.of(&session.replay, held);
            (
                table.rows.iter().map(|of| shown(&table, of)).collect(),
                table.bytes(),
            )
        }
    };
    let (level, mismatches) = (held.level, held.mismatches());
    let when = match session.query.moment {
        At::Peak if args.step.is_some() => "at the peak of the step's memory".into(),
        _ => stacks.when,
    };
    // The line that owns the most memory.
    let first = rows.first().filter(|_| args.by.0.is_none());
    let line = first
        .filter(|row| row["line"].is_u64())
        .map(|row| json!({"capture": capture.name, "file": row["file"], "line": row["line"]}));
    let found = Found::settled(is_settled(&session))
        .with("capture", capture.name)
        .with("level", level.to_string())
        .with("at", when)
        .with("by", args.by.word())
        .with_any("step", args.step)
        .with("filtered", !is_whole)
        .with_any("lacking", lacking(&session, &question))
        .with_bytes("together_bytes", "together", together)
        .with("account", facts_of_rows(&session, &[(level, &mismatches)]))
        .with("total_rows", rows.len())
        .with_rows(rows);
    Ok(match line {
        Some(line) => found.ask("source", line),
        None => found,
    })
}
