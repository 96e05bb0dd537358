//! Bytes by a property of their owner or of their allocation: function, caller, file, library or phase.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::Level;
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, Owners};
use super::json::ordinal;
use crate::account::{Phase, phase_of};
use crate::attribution::{Line, Owner, caller, library};
use crate::replay::{Figure, Replay, StackKey};

/// What the rows stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// The function of the line that owns the memory.
    Function,
    /// The line of your code that called this function.
    Caller,
    /// The file of the line that owns the memory.
    File,
    /// The library that requested the memory.
    Library,
    /// The phase of the training in which the memory was allocated.
    Phase,
}

/// Memory of one function, caller, file, library or phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupRow {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Name of the function, file, library or phase, or the caller's place, such as `train.py:41`. `None`: no Python
    /// line owns the memory, it has no caller or no library, or its phase is not known.
    pub name: Option<String>,
    /// Absolute path of the source file. Absent for libraries and phases, and without a `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Qualified name of the function that contains the caller's line; absent for other rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Bytes of its blocks; an estimate if stacks are sampled.
    pub bytes: u64,
    /// Number of its blocks; an estimate if stacks are sampled.
    pub blocks: u64,
    /// Standard error of `bytes`, in bytes; absent if stacks are not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
}

/// Name, file and function of a row.
type Key = (Option<String>, Option<String>, Option<String>);

/// The rows of the stacks, the largest first.
pub fn groups(replay: &Replay, stacks: &ByStack, by: GroupBy) -> Vec<GroupRow> {
    let sampling = replay.sampling.filter(|_| stacks.level == Level::TENSOR);
    let mut owners = Owners::new(replay, stacks.level);
    let mut rows = Vec::new();
    for on in &stacks.devices {
        let mut all: BTreeMap<Key, Figure> = BTreeMap::new();
        for (key, figure) in &on.figures {
            *all.entry(key_of(replay, *key, &mut owners, stacks.level, by))
                .or_default() += *figure;
        }
        rows.extend(
            all.into_iter()
                .map(|((name, file, function), figure)| GroupRow {
                    device: ordinal(on.device),
                    name,
                    file,
                    function,
                    bytes: figure.bytes,
                    blocks: figure.blocks,
                    error_bytes: sampling.map(|sampling| sampling.standard_error(figure)),
                }),
        );
    }
    rows.sort_by(|a, b| {
        let order = |row: &GroupRow| (Reverse((row.bytes, row.blocks)), row.device);
        let by_size = order(a).cmp(&order(b));
        by_size.then_with(|| (&a.name, &a.file).cmp(&(&b.name, &b.file)))
    });
    rows
}

fn key_of(
    replay: &Replay,
    stacks: StackKey,
    owners: &mut Owners<'_>,
    level: Level,
    by: GroupBy,
) -> Key {
    let names = &replay.names;
    let of_line = |name: fn(&Line) -> &str, owner: &Owner| {
        let line = owner.line();
        (
            line.map(|line| name(line).to_owned()),
            line.map(|line| line.file.clone()),
            None,
        )
    };
    match by {
        GroupBy::Function => of_line(|line| &line.function, &owners.of(stacks)),
        GroupBy::File => {
            let (_, file, _) = of_line(|line| &line.file, &owners.of(stacks));
            (
                file.as_ref().map(|file| names.short_path(file).into()),
                file,
                None,
            )
        }
        GroupBy::Caller => match caller(names, stacks) {
            Some(line) => {
                let place = format!("{}:{}", names.short_path(&line.file), line.line);
                (Some(place), Some(line.file), Some(line.function))
            }
            None => Key::default(),
        },
        GroupBy::Library => (library(names, stacks, level), None, None),
        GroupBy::Phase => (
            phase_of(replay, stacks).map(Phase::key).map(str::to_owned),
            None,
            None,
        ),
    }
}
