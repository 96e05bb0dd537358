//! What held memory at a point in time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use gpumem_capture::{DeviceOrdinal, Level, NnModuleId};
use gpumem_dataset::{Held, Key, Rank};

use super::book::Book;
use super::cells::int;
use crate::account::place;
use crate::attribution::{Owner, PYTORCH_ALLOCATOR, library};
use crate::replay::{At, Category, Figure, Replay, StackKey};
use crate::views::{ByStack, Owners, Select};

/// How many holders are kept for each point in time and level: those with most bytes. The others are merged.
const MOST: usize = 2_000;
/// The label of the others.
const OTHERS: &str = "(others)";
/// Bytes that the card allocated beyond the requested ones.
const OVERHEAD: &str = "(contexts, kernels and whole pages)";

/// The rows of `held`.
pub(super) struct HeldRows {
    capture: Key,
    pub rows: Vec<Held>,
    /// Where rows do not sum to the level's bytes.
    mismatches: Vec<String>,
}

/// The bytes of one holder.
#[derive(Default)]
struct Share {
    figure: Figure,
    /// The stack with most bytes; of equal ones, the first.
    most: Option<(u64, Reverse<StackKey>)>,
}

impl Share {
    fn add(&mut self, stacks: StackKey, figure: Figure) {
        self.figure += figure;
        self.most = self.most.max(Some((figure.bytes, Reverse(stacks))));
    }
}

type Holder = (Category, Owner, Option<NnModuleId>);
/// The key of a row: category, line and module.
type Of = (Option<&'static str>, Key, Option<Arc<str>>);

/// The point in time, device and level of rows.
#[derive(Clone, Copy)]
struct Place {
    device: DeviceOrdinal,
    moment: &'static str,
    level: &'static str,
}

impl HeldRows {
    pub fn new(capture: Key) -> Self {
        Self {
            capture,
            rows: Vec::new(),
            mismatches: Vec::new(),
        }
    }

    /// Adds the rows of a point in time, of all devices and levels.
    pub fn add(&mut self, replay: &Replay, moment: &'static str, at: At, book: &mut Book<'_>) {
        for level in [Level::TENSOR, Level::DRIVER] {
            let held = ByStack::at(replay, level, at, &Select::default());
            let mut owners = Owners::new(replay, level);
            for on in held.devices {
                if on.device == DeviceOrdinal::NONE {
                    continue;
                }
                let sum: u64 = on.figures.iter().map(|(_, figure)| figure.bytes).sum();
                if let Some(total) = on.total.filter(|total| *total != sum) {
                    let device = place(on.device);
                    self.mismatches.push(format!(
                        "{device}, {moment}: holders sum to {sum} bytes, the {level} level has {total}"
                    ));
                }
                let mut parts: BTreeMap<&'static str, BTreeMap<Holder, Share>> = BTreeMap::new();
                for (stacks, figure) in on.figures {
                    let (part, category, module) = match level {
                        Level::TENSOR => (
                            "tensor",
                            stacks.purpose.category(),
                            replay.names.module_of(stacks.py),
                        ),
                        _ => match library(&replay.names, stacks, level).as_deref() {
                            Some(PYTORCH_ALLOCATOR) => ("pool", Category::None, None),
                            _ => ("driver", Category::None, None),
                        },
                    };
                    let holder = (category, owners.of(stacks), module);
                    let part = parts.entry(part).or_default();
                    part.entry(holder).or_default().add(stacks, figure);
                }
                for (level, holders) in parts {
                    let place = Place {
                        device: on.device,
                        moment,
                        level,
                    };
                    self.level(replay, place, holders, book);
                }
            }
        }
        self.overhead(replay, moment, at, book);
    }

    fn level(
        &mut self,
        replay: &Replay,
        of: Place,
        holders: BTreeMap<Holder, Share>,
        book: &mut Book<'_>,
    ) {
        let mut all: Vec<(Holder, Share)> = holders.into_iter().collect();
        all.sort_by(|(a, x), (b, y)| {
            let by_size = (y.figure.bytes, y.figure.blocks).cmp(&(x.figure.bytes, x.figure.blocks));
            by_size.then_with(|| a.cmp(b))
        });
        let others = all.split_off(MOST.min(all.len()));
        let mut rows: BTreeMap<Of, Share> = BTreeMap::new();
        for ((category, owner, module), share) in all {
            let line = book.line(&replay.names, &owner);
            let module = module.map(|id| book.words.name(&replay.names.module_name(id)));
            let row = rows.entry((named(category), line, module)).or_default();
            row.figure += share.figure;
            row.most = row.most.max(share.most);
        }
        for ((category, _, _), share) in others {
            let line = book.no_line(OTHERS);
            rows.entry((named(category), line, None))
                .or_default()
                .figure += share.figure;
        }
        for ((category, line, module), share) in rows {
            let stack = share.most;
            let stack = stack.map(|(_, Reverse(stacks))| book.stack(&replay.names, stacks));
            self.push(of, share.figure, line, book, |row| {
                row.category = category.map(Into::into);
                row.module = module;
                row.stack_key = stack;
            });
        }
    }

    fn overhead(&mut self, replay: &Replay, moment: &'static str, at: At, book: &mut Book<'_>) {
        let devices = replay.devices.keys();
        for device in devices.filter(|device| **device != DeviceOrdinal::NONE) {
            let total = |level| replay.total(*device, level, at);
            // Both of one moment: the levels' own peaks are at different ones.
            let (physical, driver) = match (at, replay.devices.get(device)) {
                (At::Peak, Some(on)) => (on.at_peak.physical, on.at_peak.driver),
                _ => (total(Level::PHYSICAL), total(Level::DRIVER)),
            };
            let bytes = physical.saturating_sub(driver);
            if bytes > 0 {
                let of = Place {
                    device: *device,
                    moment,
                    level: "overhead",
                };
                let line = book.no_line(OVERHEAD);
                self.push(of, Figure { bytes, blocks: 0 }, line, book, |_| {});
            }
        }
    }

    fn push(
        &mut self,
        of: Place,
        figure: Figure,
        line_key: Key,
        book: &mut Book<'_>,
        rest: impl FnOnce(&mut Held),
    ) {
        let mut row = Held {
            capture: self.capture,
            device: of.device.0.into(),
            moment: book.words.plain(of.moment),
            level: book.words.plain(of.level),
            category: None,
            line_key,
            module: None,
            stack_key: None,
            bytes: int(figure.bytes),
            blocks: int(figure.blocks),
        };
        rest(&mut row);
        self.rows.push(row);
    }

    /// Marks the row of `ranks` if rows do not sum to the level's bytes.
    pub fn say_mismatches(&self, rank: &mut Rank) {
        if self.mismatches.is_empty() {
            return;
        }
        let before = rank.missing.iter().map(|missing| missing.to_string());
        let all: Vec<String> = before.chain(self.mismatches.iter().cloned()).collect();
        rank.missing = Some(all.join("; ").into());
        rank.exact = false;
    }
}

fn named(category: Category) -> Option<&'static str> {
    (category != Category::None).then(|| category.name())
}
