//! Who kept the blocks at a failure: what the recorder's walk through the program's objects wrote.

mod holder;

pub(crate) use holder::is_in_forward;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, ProcessKey, Seq};
use gpumem_replay::Figure;
use gpumem_replay::names::Names;
use rustc_hash::FxHashMap;

use crate::facts::Large;

kinds! {
    /// What kind of object keeps blocks.
    HolderKind {
        /// An object with a name.
        Object = "object",
        /// The parameters and buffers of a module.
        Parameters = "parameters",
        /// Gradients of parameters or other tensors.
        Gradients = "gradients",
        /// A graph for a backward, which hangs on a tensor with a name.
        Graph = "graph",
        /// A frame that has ended, which an exception keeps.
        Traceback = "traceback",
        /// Native code, or what a running call works with.
        Native = "native",
        /// A reference cycle that nothing refers to.
        Cycle = "cycle",
    }
}

/// Who keeps blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its kind.
    pub kind: HolderKind,
    /// As Python would write it: `metric.preds[0…213]`.
    pub text: String,
    /// Where that is: `local of main (train.py:31)`.
    pub place: String,
    /// Whether that is in the program's own code, not in an installed package.
    pub is_own: bool,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Number of the blocks.
    pub blocks: u64,
    /// Bytes that become free if the container is emptied or the reference is deleted; `None` if that is not known.
    pub frees: Option<u64>,
    /// The bytes that its tensors are, if they are views of larger tensors, which no other object keeps.
    pub covers: Option<u64>,
    /// The bytes of elements of type float64.
    pub double: u64,
    /// Whether the functions at its place, which have the only reference, never read the variable again.
    pub unused: bool,
    /// Another container that has most of the same tensors, and where it is.
    pub also: Option<String>,
}

/// The result of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Whether it was at an earlier failure, whose memory is still live.
    pub is_earlier: bool,
    /// The bound that ended it too early: `time`, `size` or `memory`.
    pub cut: Option<String>,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// Live bytes of the device's tensors then.
    pub live: u64,
    /// The holders with the most bytes, the largest first.
    pub all: Vec<Holder>,
    /// By the address of a block, one of the largest: its holder in `all`.
    pub(crate) blocks: FxHashMap<u64, usize>,
}

impl Holders {
    /// Those at a failure; `None` if there was no walk. Lines that do not fit the form are left out.
    pub fn at(names: &Names, failure: Seq) -> Option<Self> {
        let text = names.fact(&format!("{}{}", ProcessKey::HOLDERS, failure.0))?;
        Some(Self::read(text))
    }

    /// Those at a failure, or at the last one before it that had a walk, if most of the largest blocks are still live.
    pub(crate) fn at_or_before(names: &Names, failure: Seq, largest: &[Large]) -> Option<Self> {
        if let Some(exact) = Self::at(names, failure) {
            return Some(exact);
        }
        let facts = names.process.range(ProcessKey::HOLDERS.to_owned()..);
        let walks = facts.map_while(|(key, _)| key.strip_prefix(ProcessKey::HOLDERS)?.parse().ok());
        let seq = walks.filter(|seq: &u64| *seq < failure.0).max()?;
        let mut read = Self::at(names, Seq(seq))?;
        read.is_earlier = true;
        let older: Vec<&Large> = largest.iter().filter(|of| of.seq.0 < seq).collect();
        read.blocks
            .retain(|address, _| older.iter().any(|of| of.address == *address));
        let known = older
            .iter()
            .filter(|of| read.blocks.contains_key(&of.address));
        let known: u64 = known.map(|of| of.bytes).sum();
        let all: u64 = largest.iter().map(|of| of.bytes).sum();
        (known >= all - all / 5).then_some(read)
    }

    /// Those of a device near its newest peak, with the event at which it was reached; `None` if nobody wanted to know.
    pub fn at_peak(names: &Names, device: DeviceOrdinal) -> Option<(Seq, Self)> {
        let text = names.fact(&format!("{}{}", ProcessKey::PEAK_HOLDERS, device.0))?;
        let (first, rest) = text.split_once('\n')?;
        let seq = first.strip_prefix("at ")?.parse().ok()?;
        Some((Seq(seq), Self::read(rest)))
    }

    fn read(text: &str) -> Self {
        /// More than a recorder writes.
        const MOST: usize = 64;
        let mut read = Self::default();
        let mut last: Option<Holder> = None;
        for line in text.lines() {
            if read.all.len() == MOST {
                last = None;
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let fields: Vec<&str> = rest.split(' ').collect();
            match (word, &fields[..]) {
                ("walk", [cut, micros, _, _, live, _]) => {
                    read.cut = Some((*cut).to_owned()).filter(|cut| cut != "whole");
                    read.micros = micros.parse().unwrap_or(0);
                    read.live = live.parse().unwrap_or(0);
                }
                ("holder", [kind, whose, bytes, blocks, frees]) => {
                    read.all.extend(last.take());
                    let kind = HolderKind::ALL.iter().find(|of| of.name() == *kind);
                    last = kind.map(|kind| Holder {
                        kind: *kind,
                        is_own: *whose == "own",
                        text: String::new(),
                        place: String::new(),
                        bytes: bytes.parse().unwrap_or(0),
                        blocks: blocks.parse().unwrap_or(0),
                        frees: frees.parse().ok(),
                        covers: None,
                        double: 0,
                        unused: false,
                        also: None,
                    });
                }
                ("text" | "also" | "place", _) => {
                    let text = rest.to_owned();
                    match (&mut last, word) {
                        (Some(holder), "text") => holder.text = text,
                        (Some(holder), "place") => holder.place = text,
                        (Some(holder), _) => holder.also = Some(text),
                        (None, _) => {}
                    }
                }
                ("covers" | "double", [bytes]) => {
                    let bytes = bytes.parse().ok();
                    match (&mut last, word) {
                        (Some(holder), "covers") => holder.covers = bytes,
                        (Some(holder), _) => holder.double = bytes.unwrap_or(0),
                        (None, _) => {}
                    }
                }
                ("unused", _) => {
                    if let Some(holder) = &mut last {
                        holder.unused = true;
                    }
                }
                ("block", [address, holder]) => {
                    let address = u64::from_str_radix(address, 16);
                    if let (Ok(address), Ok(holder)) = (address, holder.parse()) {
                        read.blocks.insert(address, holder);
                    }
                }
                _ => {}
            }
        }
        read.all.extend(last);
        read
    }

    /// The holders of these blocks, the one with the most bytes first: at most four that keep nine tenths of the bytes
    /// whose holder is known, if those are at least half of all, or the named ones have as much as all. A list keeps its
    /// tensors, and also the graphs that hang on them: the one that keeps more is named.
    pub(crate) fn of(&self, blocks: &[(u64, u64)]) -> Vec<usize> {
        const MOST: usize = 4;
        let all: u64 = blocks.iter().map(|(_, bytes)| bytes).sum();
        let mut by_holder: BTreeMap<usize, u64> = BTreeMap::new();
        for (address, bytes) in blocks {
            if let Some(holder) = self.blocks.get(address)
                && *holder < self.all.len()
            {
                *by_holder.entry(*holder).or_default() += bytes;
            }
        }
        let known: u64 = by_holder.values().sum();
        let mut largest: Vec<(usize, u64)> = by_holder.into_iter().collect();
        largest.sort_by_key(|(at, bytes)| (Reverse(*bytes), *at));
        let name = |at: usize| self.all.get(at).map(|of| (of.name(), &of.place));
        let (mut named, mut sum) = (Vec::new(), 0);
        for (at, bytes) in largest {
            let is_enough = sum >= known - known / 10;
            if !named.iter().any(|of| name(*of) == name(at)) {
                if is_enough || named.len() == MOST {
                    break;
                }
                named.push(at);
            }
            sum += bytes;
        }
        // The holders of small blocks are not written one by one.
        let whole = |of: &Holder| [of.variable().unwrap_or(of.name()), &of.place].concat();
        let named_as: Vec<String> = named.iter().map(|at| whole(&self.all[*at])).collect();
        let is_named = |of: &&Holder| named_as.contains(&whole(of));
        let has = || self.all.iter().filter(is_named).map(|of| of.bytes);
        let is_sample = || has().sum::<u64>() >= all - all / 10;
        let is_known = known > 0 && (known >= all / 2 || is_sample());
        match is_known && sum >= known - known / 10 {
            true => named,
            false => Vec::new(),
        }
    }

    /// Live bytes that the walk reached from no object; 0 if it was cut.
    pub(crate) fn without_object(&self) -> u64 {
        let sum: u64 = self.all.iter().map(|of| of.bytes).sum();
        match self.cut {
            None => self.live.saturating_sub(sum),
            Some(_) => 0,
        }
    }

    /// Bytes and blocks of all holders of a kind, and the largest of them.
    pub(crate) fn of_kind(&self, kind: HolderKind) -> Option<(Figure, usize)> {
        let all = self.all.iter().enumerate();
        let mut all = all.filter(|(_, of)| of.kind == kind).peekable();
        let first = all.peek()?.0;
        Some((all.map(|(_, of)| of.figure()).sum(), first))
    }
}

#[cfg(test)]
mod tests;
