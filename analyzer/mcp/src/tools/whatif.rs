//! `whatif`: the same run with other settings of PyTorch's allocator, replayed by the Python package.

use std::ffi::{OsStr, OsString};

use gpumem_analyzer::replay::At;
use gpumem_capture::reader::RingState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::account::facts;
use crate::context::Context;
use crate::found::{Found, row};
use crate::refusal::{Refusal, refused};

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The capture, as captures names it
    capture: String,
    /// Settings as PYTORCH_CUDA_ALLOC_CONF has them, one for each replay: `expandable_segments:True`. Without them those
    /// that often help are tried
    #[serde(default)]
    settings: Vec<String>,
    /// On a card of this size, such as 24GiB; without it on the recorded one
    #[serde(default)]
    card: Option<String>,
    /// Find for all settings the least memory with which nothing fails; takes longer
    #[serde(default)]
    smallest_card: bool,
    /// Only the GPU with this ordinal
    #[serde(default)]
    device: Option<u8>,
}

/// A row for each replay.
///
/// # Errors
/// Those of the package.
pub fn answer(context: &mut Context, args: Args) -> Result<Found, Refusal> {
    let capture = context.capture(&args.capture)?;
    let session = context.sessions.read(&capture, At::End.into())?;
    if session.integrity.ring == RingState::Read {
        return Err(refused!(
            "{}: a replay would change it, because its process left events in memory: run gpumem-analyze check on it first",
            capture.name
        ));
    }
    let Some(gpumem) = &context.gpumem else {
        return Err(refused!("whatif: the server was started without --python"));
    };
    // The Python for the replay never comes from the capture.
    let mut words: Vec<OsString> = ["whatif", "--format=json", "--jobs=2", "--python"]
        .map(OsString::from)
        .into();
    words.push(gpumem.python.clone().into());
    words.extend(
        args.settings
            .iter()
            .map(|conf| format!("--conf={conf}").into()),
    );
    words.extend(args.card.iter().map(|card| format!("--card={card}").into()));
    words.extend(
        args.device
            .iter()
            .map(|device| format!("--device={device}").into()),
    );
    words.extend(args.smallest_card.then(|| "--smallest-card".into()));
    words.push(capture.path.clone().into());
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    let folder = capture.path.parent().unwrap_or(&capture.path);
    let replayed = &gpumem.json(&words, folder, None, &context.cancel)?["data"];
    let mut found = Found::settled(true)
        .with("capture", capture.name)
        .with("account", facts(&session));
    for key in ["exact", "doubts", "pytorch"] {
        found = found.with(key, replayed[key].clone());
    }
    let devices = replayed["devices"].as_array().into_iter().flatten();
    let rows = devices.flat_map(rows).collect::<Vec<_>>();
    Ok(found.with("total_rows", rows.len()).with_rows(rows))
}

/// The recorded figures, then each replay.
fn rows(device: &Value) -> Vec<Value> {
    let mut recorded = row(device);
    if let Some(object) = recorded.as_object_mut() {
        object.remove("replays");
        object.remove("capture");
        object.insert("what".into(), "recorded".into());
    }
    let replays = device["replays"].as_array().into_iter().flatten();
    let replays = replays.map(|replay| {
        let mut row = row(replay);
        row["what"] = "replay".into();
        row["device"] = device["device"].clone();
        row
    });
    [recorded].into_iter().chain(replays).collect()
}
