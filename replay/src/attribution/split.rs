//! Where the memory of one line splits: by the code below it, by its callers, by module.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::StackId;

use super::{Line, coded, line};
use crate::backward::{Origin, chain};
use crate::names::{Names, is_outside_torch};
use crate::{Figure, StackKey};

/// The share from which a line is worth a closer look, in percent of the level.
const MOST: u128 = 60;
/// The most callers that are looked at.
const DEPTH: usize = 64;

/// How the memory of a line splits. Each list begins with the largest part. It is empty if there is only one part, or
/// the stacks do not show any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// By the newest line outside PyTorch: in a package that the line calls, or else a caller.
    pub lines: Vec<(Line, Figure)>,
    /// Whether these are callers of the line: the nearest that differ.
    pub are_callers: bool,
    /// By the PyTorch module that ran. Empty, too, if the capture has no qualified names of modules.
    pub modules: Vec<(String, Figure)>,
}

impl Split {
    /// Whether a line's memory is so much of the whole that it is worth splitting.
    pub fn is_due(bytes: u64, whole: u64) -> bool {
        u128::from(bytes) * 100 > u128::from(whole) * MOST
    }

    /// Splits the memory of a line. `figures` are of its stacks, including those of backwards.
    pub fn of(names: &Names, of: &Line, figures: &[(StackKey, Figure)]) -> Self {
        let ways: Vec<(Vec<Line>, usize, Figure)> = figures
            .iter()
            .filter_map(|(stacks, figure)| {
                let way = way(names, stacks.py);
                let place = way.iter().position(|line| line == of)?;
                Some((way, place, *figure))
            })
            .collect();
        let by = |key: &dyn Fn(&[Line], usize) -> Option<Line>| {
            let keys = ways
                .iter()
                .filter_map(|(way, place, figure)| Some((key(way, *place)?, *figure)));
            sums(keys)
        };
        let newest = by(&|way, _| way.first().cloned());
        let is_below = newest.iter().any(|(line, _)| line != of);
        let mut callers = (1..DEPTH).map(|up| by(&|way, place| way.get(place + up).cloned()));
        let lines = match is_below {
            true => newest,
            false => callers.find(|all| all.len() > 1).unwrap_or_default(),
        };
        let modules = figures.iter().filter_map(|(stacks, figure)| {
            let module = names.module_of(stacks.py)?;
            Some((names.module_name(module), *figure))
        });
        let has_names = figures.iter().any(|(stacks, _)| {
            let module = names.module_of(stacks.py);
            module.is_some_and(|module| names.has_qualified_name(module))
        });
        let modules = sums(modules);
        Self {
            lines,
            are_callers: !is_below,
            modules: match has_names && modules.len() > 1 {
                true => modules,
                false => Vec::new(),
            },
        }
    }

    /// Whether it shows nothing.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.modules.is_empty()
    }
}

fn sums<K: Ord + Clone>(all: impl Iterator<Item = (K, Figure)>) -> Vec<(K, Figure)> {
    let mut by: BTreeMap<K, Figure> = BTreeMap::new();
    for (key, figure) in all {
        *by.entry(key).or_default() += figure;
    }
    let mut by: Vec<_> = by.into_iter().collect();
    by.sort_by_key(|(_, figure)| Reverse((figure.bytes, figure.blocks)));
    by
}

/// The lines outside PyTorch on a Python stack, the newest first; for a backward, those of the node and of its forward.
fn way(names: &Names, stack: StackId) -> Vec<Line> {
    let frames_of = |stack| {
        names
            .py_stacks
            .get(&stack)
            .map_or(&[][..], |(frames, _)| frames)
    };
    let (newer, stack) = match names.backwards.get(&stack) {
        None => (&[][..], stack),
        Some(ran) => match chain(names, ran).1 {
            Origin::Forward(forward) => (ran.newer_frames(names), forward),
            Origin::NoPython | Origin::Lost => (ran.newer_frames(names), StackId::NONE),
        },
    };
    [newer, frames_of(stack)]
        .into_iter()
        .flat_map(|frames| coded(names, frames))
        .filter(|(_, code)| is_outside_torch(&code.file))
        .filter_map(|found| line(names, found))
        .collect()
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{CodeId, Definition, PyFrame};

    use super::*;

    /// Names with functions 1 to 4: two of the program, one of a package, one of PyTorch. The line of each is its
    /// function's first.
    fn names(stacks: &[(u32, &[u32])]) -> Names {
        let mut names = Names::default();
        let files = [
            "train.py",
            "net.py",
            "/e/site-packages/timm/net.py",
            "/e/site-packages/torch/nn/a.py",
        ];
        for (id, file) in (1..).zip(files) {
            names.define(&Definition::Code {
                id: CodeId(id),
                first_line: id * 10,
                file: file.into(),
                name: format!("f{id}"),
                line_table: Vec::new(),
            });
        }
        for (id, frames) in stacks {
            let frames = frames.iter().map(|code| PyFrame {
                code: CodeId(*code),
                offset: -1,
                entered_from_c: false,
            });
            names.define(&Definition::PyStack {
                id: StackId(*id),
                truncated: false,
                frames: frames.collect(),
                modules: Vec::new(),
            });
        }
        names
    }

    fn figures(names: &Names, sizes: &[(u32, u64)], of: u32) -> (Vec<(u32, u64)>, bool) {
        let stacks: Vec<_> = sizes
            .iter()
            .map(|(id, bytes)| {
                let stacks = StackKey {
                    py: StackId(*id),
                    ..StackKey::default()
                };
                (
                    stacks,
                    Figure {
                        bytes: *bytes,
                        blocks: 1,
                    },
                )
            })
            .collect();
        let frame = PyFrame {
            code: CodeId(of),
            offset: -1,
            entered_from_c: false,
        };
        let line = line(names, (&frame, &names.codes[&CodeId(of)])).expect("a line");
        let split = Split::of(names, &line, &stacks);
        let lines = split
            .lines
            .iter()
            .map(|(line, figure)| (line.line, figure.bytes));
        (lines.collect(), split.are_callers)
    }

    #[test]
    fn a_line_splits_by_the_package_below_it_or_else_by_its_callers() {
        // The newest frame first.
        let names = names(&[
            (1, &[4, 3, 4, 1]),
            (2, &[4, 1]),
            (3, &[4, 2, 1]),
            (4, &[2, 2, 1]),
            (5, &[2]),
        ]);
        assert_eq!(
            figures(&names, &[(1, 70), (2, 30)], 1),
            (vec![(30, 70), (10, 30)], false)
        );
        assert_eq!(
            figures(&names, &[(3, 50), (4, 60)], 2),
            (vec![(20, 60), (10, 50)], true)
        );
        assert_eq!(
            figures(&names, &[(3, 50), (5, 60)], 2).0,
            [],
            "one of two has a caller"
        );
    }

    #[test]
    fn more_than_sixty_percent_is_worth_a_look() {
        assert!(Split::is_due(61, 100) && !Split::is_due(60, 100) && !Split::is_due(0, 0));
        assert!(Split::is_due(u64::MAX, u64::MAX));
    }
}
