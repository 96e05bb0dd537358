//! Memory by the code that owns or requested it: function, caller, file, library; and by phase.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};

use super::table::{Answer, Cell, Column, Label, Row, Unit};
use crate::account::{Phase, phase_of};
use crate::attribution::{caller, library};
use crate::replay::{Figure, Replay, StackKey};
use crate::views::{ByStack, Owners, ordinal};

const COLUMNS: [Column; 7] = [
    Column::new("device", Unit::Device, "Ordinal of the GPU; `null`: memory of no GPU."),
    Column::new("name", Unit::Text, "Name of the function, file, library or phase, or the caller's place, such as `train.py:41`. `null`: no Python line owns the memory, it has no caller or no library, or its phase is not known.").or_null(),
    Column::new("file", Unit::Text, "Absolute path of the source file. Absent for libraries and phases, and without a `name`.").or_absent(),
    Column::new("function", Unit::Text, "Qualified name of the function that contains the caller's line; absent for other rows.").or_absent(),
    Column::new("bytes", Unit::Bytes, "Bytes of its blocks; an estimate if stacks are sampled."),
    Column::new("blocks", Unit::Count, "Number of its blocks; an estimate if stacks are sampled."),
    Column::new("error_bytes", Unit::Bytes, "Standard error of `bytes`, in bytes; absent if stacks are not sampled.").or_absent(),
];

/// Name, file and function of a row.
type Key = (Option<String>, Option<String>, Option<String>);

/// The rows of stacks by their keys, the largest first. `label`: the name and what is beside it.
fn rows(
    replay: &Replay,
    stacks: &ByStack,
    mut key_of: impl FnMut(StackKey) -> Key,
    label: impl Fn(&Key) -> (&str, &str),
) -> Vec<Row> {
    let sampling = replay.sampling.filter(|_| stacks.level == Level::TENSOR);
    let mut rows = Vec::new();
    for on in &stacks.devices {
        let mut all: BTreeMap<Key, Figure> = BTreeMap::new();
        for (key, figure) in &on.figures {
            *all.entry(key_of(*key)).or_default() += *figure;
        }
        rows.extend(
            all.into_iter()
                .map(|(key, figure)| (on.device, key, figure)),
        );
    }
    rows.sort_by(|(a_device, a, a_figure), (b_device, b, b_figure)| {
        let size = |figure: &Figure| Reverse((figure.bytes, figure.blocks));
        let by_size =
            (size(a_figure), ordinal(*a_device)).cmp(&(size(b_figure), ordinal(*b_device)));
        by_size.then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1)))
    });
    let row = |(device, key, figure): (DeviceOrdinal, Key, Figure)| {
        let (name, more) = label(&key);
        let label = Some(Label::new(name, more));
        let (name, file, function) = key;
        Row {
            cells: vec![
                ordinal(device).map(u64::from).into(),
                name.into(),
                file.into(),
                function.into(),
                Cell::Number(figure.bytes),
                Cell::Number(figure.blocks),
                sampling
                    .map(|sampling| sampling.standard_error(figure))
                    .into(),
            ],
            label,
        }
    };
    rows.into_iter().map(row).collect()
}

const NO_PYTHON: &str = "(no Python)";

/// Functions of the lines that own the memory.
pub(super) const FUNCTION: Answer = Answer {
    name: "function",
    about: "Function of that line",
    form: "groups",
    title: "Functions of",
    columns: &COLUMNS,
    rows: |replay, stacks| {
        let mut owners = Owners::new(replay, stacks.level);
        let key = |key| {
            let owner = owners.of(key);
            let line = owner.line();
            let function = line.map(|line| line.function.clone());
            (function, line.map(|line| line.file.clone()), None)
        };
        rows(replay, stacks, key, |(name, file, _)| {
            let file = file.as_deref().and_then(|file| file.rsplit('/').next());
            (
                name.as_deref().unwrap_or(NO_PYTHON),
                file.unwrap_or_default(),
            )
        })
    },
};

/// Their files.
pub(super) const FILE: Answer = Answer {
    name: "file",
    about: "File of that line",
    title: "Files of",
    rows: |replay, stacks| {
        let mut owners = Owners::new(replay, stacks.level);
        let key = |key| {
            let file = owners.of(key).line().map(|line| line.file.clone());
            let short = file
                .as_ref()
                .map(|file| replay.names.short_path(file).into());
            (short, file, None)
        };
        rows(replay, stacks, key, |(name, ..)| {
            (name.as_deref().unwrap_or(NO_PYTHON), "")
        })
    },
    ..FUNCTION
};

/// The lines of your code that called these functions.
pub(super) const CALLER: Answer = Answer {
    name: "caller",
    about: "Line that called this function",
    title: "Lines that called the owners of",
    rows: |replay, stacks| {
        let names = &replay.names;
        let key = |key| match caller(names, key) {
            Some(line) => {
                let place = format!("{}:{}", names.short_path(&line.file), line.line);
                (Some(place), Some(line.file), Some(line.function))
            }
            None => Key::default(),
        };
        rows(replay, stacks, key, |(name, _, function)| {
            (
                name.as_deref().unwrap_or("(no caller)"),
                function.as_deref().unwrap_or_default(),
            )
        })
    },
    ..FUNCTION
};

/// The libraries that requested the memory.
pub(super) const LIBRARY: Answer = Answer {
    name: "library",
    about: "Library that requested the memory",
    title: "Libraries of",
    rows: |replay, stacks| {
        let key = |key| (library(&replay.names, key, stacks.level), None, None);
        rows(replay, stacks, key, |(name, ..)| {
            (name.as_deref().unwrap_or("(no library)"), "")
        })
    },
    ..FUNCTION
};

/// The phases of the training in which the memory was allocated.
pub(super) const PHASE: Answer = Answer {
    name: "phase",
    about: "Phase of the training",
    title: "Phases of",
    rows: |replay, stacks| {
        let key = |key| {
            let phase = phase_of(replay, key).map(Phase::key);
            (phase.map(str::to_owned), None, None)
        };
        rows(replay, stacks, key, |(name, ..)| {
            let phase = Phase::ALL
                .into_iter()
                .find(|of| Some(of.key()) == name.as_deref());
            (phase.map_or("(no phase)", Phase::word), "")
        })
    },
    ..FUNCTION
};
