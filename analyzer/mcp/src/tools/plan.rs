//! `plan`: whether a program fits a GPU that this machine does not have. It runs the program on a
//! simulated card.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::{Refusal, refused};

/// The default time limit of a run in seconds.
const SECONDS: u64 = 300;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The GPU: a name such as h100, or a size such as 24GiB
    card: String,
    /// The program's file below the folders of the server, and its arguments
    program: Vec<String>,
    /// End a run that takes longer than so many seconds (default 300)
    #[serde(default)]
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<u64>,
}

/// A row for each case.
///
/// # Errors
/// The program is outside the folders, or the package fails.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let Some(gpumem) = context.gpumem.as_ref().filter(|of| of.runs_programs) else {
        return Err(refused!(
            "plan: the server was started without --allow-plan"
        ));
    };
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(refused!("plan: name the program's file first"));
    };
    let file = context.roots.file(Path::new(program))?;
    let file =
        file.ok_or_else(|| refused!("{program}: no such file below {}", context.roots.said()))?;
    let seconds = args.timeout.unwrap_or(SECONDS).max(1);
    let mut words: Vec<OsString> = ["plan", "--format=json", "--jobs=2", "--no-changes"]
        .map(OsString::from)
        .into();
    words.push(format!("--card={}", args.card).into());
    words.push(format!("--timeout={seconds}").into());
    words.push("--".into());
    words.push(file.clone().into());
    words.extend(arguments.iter().map(OsString::from));
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    let folder = file.parent().unwrap_or(&file);
    // The program has its own limit, which the package enforces and reports.
    let limit = Duration::from_secs(seconds.saturating_add(30));
    let planned = gpumem.json(&words, folder, Some(limit), &context.cancel)?;
    let cases = planned["data"]["cases"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    Ok(Found::default()
        .with("program", args.program)
        .with("schema", planned["schema"].clone())
        .with("total_rows", cases.len())
        .with_rows(cases.iter().map(case)))
}

/// A case with its figures first, because the lines at its peak are long.
fn case(of: &Value) -> Value {
    let mut row = row(of);
    if let Some(at) = row.get_mut("at").and_then(Value::as_object_mut) {
        for key in ["categories", "modules"] {
            at.remove(key);
        }
    }
    row
}
