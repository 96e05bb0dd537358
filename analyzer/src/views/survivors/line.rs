//! What the stacks of a line keep together.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::DeviceOrdinal;
use gpumem_judge::KeptEach;

use crate::attribution::Owner;
use crate::replay::{Block, Figure, KeyId};
use crate::views::json::ordinal;
use crate::views::leaks::{Class, LeakHolder, LeakRow};

/// A step before the first known one.
pub const BEFORE: u64 = 0;

/// The memory of one stack on one device.
#[derive(Debug, Default)]
pub struct Life {
    /// Live bytes by the step of their allocation.
    pub births: BTreeMap<u64, Figure>,
    pub live: Figure,
    /// The step of its last change, and its figure at the start of that step.
    pub changed: (u64, Figure),
}

impl Life {
    /// The sum.
    pub fn all(&self) -> Figure {
        self.births.values().fold(Figure::default(), plus)
    }

    /// Its figure at the end of the newest step.
    pub fn at_the_end_of(&self, step: u64) -> Figure {
        match self.changed {
            (changed, had) if changed > step => had,
            _ => self.live,
        }
    }

    /// Adds a block that was allocated in a step.
    pub fn add(&mut self, born: u64, block: Block) {
        let figure = Figure::block(block.bytes);
        *self.births.entry(born).or_default() += figure;
        self.live += figure;
    }
}

/// All lines.
pub type Lines = BTreeMap<(DeviceOrdinal, Owner), Line>;

/// All stacks of a line on a device.
#[derive(Default)]
pub struct Line {
    /// Live memory by the step of its allocation.
    pub births: BTreeMap<u64, Figure>,
    /// At the ends of recorded steps.
    pub ends: BTreeMap<u64, Figure>,
    /// The newest of its stacks that keep blocks of several steps.
    pub newest: KeyId,
    /// Whether it has memory other than an optimizer's state.
    pub others: bool,
    /// Whether autograd may keep it for a backward.
    pub is_graph: bool,
}

impl Line {
    /// Adds a stack. `scale` is linear except for rounding.
    pub fn add(
        &mut self,
        (key, life): (KeyId, &Life),
        ends: &[(u64, Figure)],
        steps: u64,
        scale: &dyn Fn(Figure) -> Figure,
    ) {
        // What is live for the moment keeps nothing.
        if life.births.len() > 2 {
            self.newest = self.newest.max(key);
        }
        let (mut passed, mut before) = (Figure::default(), Figure::default());
        for (born, figure) in &life.births {
            passed += *figure;
            // The rounding error is added to the next part, so that the parts sum to the whole.
            let mut part = scale(passed);
            part -= before;
            before += part;
            *self.births.entry(*born).or_default() += part;
        }
        for (step, figure) in ends {
            *self.ends.entry(*step).or_default() += scale(*figure);
        }
        if ends.last().is_none_or(|(step, _)| *step != steps) {
            *self.ends.entry(steps).or_default() += scale(life.at_the_end_of(steps));
        }
    }
}

/// The line whose tensor probably keeps growing graphs, for the first device with one.
pub fn holder(rows: &[LeakRow], lines: &Lines) -> Option<LeakHolder> {
    let growing = |device: DeviceOrdinal| {
        let is_growing = move |row: &&LeakRow| {
            row.class == Some(Class::Growing) && row.device == ordinal(device)
        };
        rows.iter().filter(is_growing)
    };
    let devices: BTreeSet<_> = lines.keys().map(|(device, _)| *device).collect();
    devices.into_iter().find_map(|device| {
        let line = |row: &LeakRow| lines.get(&(device, row.owner.clone()));
        if !growing(device).any(|row| line(row).is_some_and(|line| line.is_graph)) {
            return None;
        }
        let each = |row: &LeakRow| {
            line(row).map_or(KeptEach::default(), |line| KeptEach {
                bytes: row.bytes,
                rounds: line.births.len() as u64,
                place: u64::from(line.newest.0),
            })
        };
        let all: Vec<KeptEach> = growing(device).map(each).collect();
        let row = growing(device).nth(KeptEach::holder(&all)?)?;
        let others = growing(device).filter(|other| other.owner != row.owner);
        Some(LeakHolder {
            device: row.device,
            place: row.place.clone(),
            blocks: row.blocks,
            held_bytes: others.map(|row| row.bytes).sum(),
            owner: row.owner.clone(),
        })
    })
}

/// A sum.
pub fn plus(mut sum: Figure, figure: &Figure) -> Figure {
    sum += *figure;
    sum
}
