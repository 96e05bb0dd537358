//! Evidence from calls after which the driver may have allocated or freed memory implicitly.

use super::origin::Origin;
use super::reservations::Reservation;

/// How a context became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A call created it.
    Made,
    /// A call created a green context: the memory it takes is not the cost of a whole context.
    Part,
    /// It was found in use: it was activated at some earlier time.
    Found,
}

/// The kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A context was created or found.
    Context(Seen),
    /// A module or library was loaded.
    Load,
    /// A function was looked up: its code may be loaded as late as its first launch.
    Function,
    /// A limit of a context was set, which may take effect as late as a later launch.
    Limit,
    /// A stream was created.
    Stream,
    /// Something ended; the driver may keep a part of its memory.
    End,
}

impl What {
    /// Whether its memory may be allocated after the next reading.
    fn shows_later(self) -> bool {
        matches!(self, Self::Function | Self::Limit)
    }
}

/// The number of bytes that a piece of evidence stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Unknown,
    /// The bytes that the last context of the device took.
    Remembered(u64),
    /// The decrease in the card's free memory.
    Measured(u64),
}

/// One owner's evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) owner: Reservation,
    pub(crate) context: u64,
    pub(crate) what: What,
    pub(crate) weight: Weight,
    /// It is newer than the last reading.
    pub(crate) is_fresh: bool,
    /// Its memory may be allocated before a later reading.
    is_armed: bool,
    /// It is newer than the last query of free memory.
    is_unasked: bool,
    pub(crate) origin: Origin,
}

impl Evidence {
    /// Its bytes, if it consists of streams with known bytes.
    fn stream_bytes(&self) -> Option<u64> {
        match (self.what, self.weight) {
            (What::Stream, Weight::Measured(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// The evidence of a device, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Trail(Vec<Evidence>);

impl Trail {
    /// Adds a stream that decreased free memory by `bytes`; `None` if that is unknown. Streams of one origin with known
    /// bytes are one piece of evidence, and so are all streams of a context with unknown bytes.
    pub(crate) fn add_stream(
        &mut self,
        owner: Reservation,
        context: u64,
        bytes: Option<u64>,
        origin: Origin,
    ) {
        let known = self.0.iter_mut().filter(|one| one.owner == owner);
        for one in known {
            match (&mut one.weight, bytes) {
                (Weight::Measured(before), Some(bytes)) if one.origin == origin => {
                    *before += bytes;
                    return;
                }
                (Weight::Unknown, None) => {
                    one.origin = origin;
                    return;
                }
                _ => {}
            }
        }
        self.0.push(Evidence {
            owner,
            context,
            what: What::Stream,
            weight: bytes.map_or(Weight::Unknown, Weight::Measured),
            is_fresh: true,
            is_armed: false,
            // Free memory was queried right after it.
            is_unasked: false,
            origin,
        });
    }

    /// Bytes of the streams with known bytes.
    pub(crate) fn stream_bytes(&self) -> u64 {
        self.0.iter().filter_map(Evidence::stream_bytes).sum()
    }

    /// Removes bytes from those streams, the oldest first; returns how many from each.
    pub(crate) fn charge_streams(&mut self, bytes: u64) -> Vec<(Evidence, u64)> {
        let (mut left, mut charged) = (bytes, Vec::new());
        for one in &mut self.0 {
            if let Some(known) = one.stream_bytes() {
                let share = known.min(left);
                left -= share;
                charged.push((*one, share));
                one.weight = Weight::Measured(known - share);
            }
        }
        self.0.retain(|one| one.stream_bytes() != Some(0));
        charged
    }

    pub(crate) fn add(
        &mut self,
        owner: Reservation,
        context: u64,
        what: What,
        weight: Weight,
        origin: Origin,
    ) {
        let shows_later = what.shows_later();
        let before = self.0.iter().position(|one| one.owner == owner);
        let before = before.map(|place| self.0.remove(place));
        let (what, weight) = match before {
            // Its measured weight does not include later memory.
            Some(before) if matches!(before.what, What::Context(_)) => (before.what, before.weight),
            Some(_) => (what, Weight::Unknown),
            None => (what, weight),
        };
        self.0.push(Evidence {
            owner,
            context,
            what,
            weight,
            is_fresh: true,
            is_armed: shows_later || before.is_some_and(|before| before.is_armed),
            is_unasked: true,
            origin,
        });
    }

    /// Applies a decrease in free memory since the last query: it is the weight of the evidence since then, if there is
    /// only one piece.
    pub(crate) fn measured(&mut self, fell: Option<u64>) {
        let mut newest = self.0.iter_mut().filter(|one| one.is_unasked);
        if let (Some(only), None, Some(fell)) = (newest.next(), newest.next(), fell)
            && only.weight == Weight::Unknown
        {
            only.weight = Weight::Measured(fell);
        }
        self.0.iter_mut().for_each(|one| one.is_unasked = false);
    }

    /// The possible owners of bytes that a reading shows beyond streams with known bytes: owners of evidence since the
    /// last reading, and of limits that were set. If there is no evidence except of streams, also owners of functions
    /// whose code may not be loaded yet.
    pub(crate) fn owners(&self) -> Vec<Evidence> {
        let others = self.0.iter().filter(|one| one.stream_bytes().is_none());
        let all: Vec<_> = others.copied().collect();
        let is_first = |one: &Evidence| one.is_fresh || one.what == What::Limit;
        let is_other = |one: &Evidence| is_first(one) && one.what != What::Stream;
        match all.iter().any(is_other) {
            true => all.into_iter().filter(is_first).collect(),
            false => all,
        }
    }

    pub(crate) fn has_fresh(&self) -> bool {
        self.0.iter().any(|one| one.is_fresh)
    }

    /// Ends an interval after a reading: evidence is dropped, except where memory may be allocated later.
    pub(crate) fn read(&mut self) {
        self.0.retain(|one| one.is_armed);
        self.0.iter_mut().for_each(|one| one.is_fresh = false);
    }

    pub(crate) fn forget(&mut self, wanted: impl Fn(&Evidence) -> bool) -> Vec<Evidence> {
        let gone = self.0.iter().copied().filter(|one| wanted(one)).collect();
        self.0.retain(|one| !wanted(one));
        gone
    }

    pub(crate) fn restore(&mut self, all: Vec<Evidence>) {
        self.0.extend(all);
    }
}
