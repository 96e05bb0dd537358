//! What calls have left behind after which the card may have given or taken back what nobody asked for.

use super::origin::Origin;
use super::reservations::Reservation;

/// How it is known that a context is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A call made it.
    Made,
    /// A call made a part of one: what it takes tells nothing of a whole one's cost.
    Part,
    /// It was found in use: it came to life at some moment before.
    Found,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A context is there.
    Context(Seen),
    /// A module or library was loaded.
    Load,
    /// A function was got: its code may be loaded at its first launch only.
    Function,
    /// A limit of a context was set, which may take effect at a later launch only.
    Limit,
    /// A stream was made.
    Stream,
    /// Something ended, of which the driver may keep a part.
    End,
}

impl What {
    /// Whether it may show later than at the next reading.
    fn shows_later(self) -> bool {
        matches!(self, Self::Function | Self::Limit)
    }
}

/// How many bytes a piece of evidence stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Unknown,
    /// As much as the last context of the device took.
    Remembered(u64),
    /// As much as the card's free memory fell by.
    Measured(u64),
}

/// One owner's evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) owner: Reservation,
    pub(crate) context: u64,
    pub(crate) what: What,
    pub(crate) weight: Weight,
    /// It came since the last reading.
    pub(crate) is_fresh: bool,
    /// It may show at a later reading.
    is_armed: bool,
    /// It came since free memory was last asked for.
    is_unasked: bool,
    pub(crate) origin: Origin,
}

impl Evidence {
    /// Its bytes, if it is of streams whose bytes are known.
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
    /// A stream was made, by which free memory fell by so many bytes; `None`: that is not known. Streams of one origin
    /// whose bytes are known are one piece of evidence, and so are those of a context whose bytes are not.
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
            // Free memory was asked for right after it.
            is_unasked: false,
            origin,
        });
    }

    /// Bytes of the streams whose bytes are known.
    pub(crate) fn stream_bytes(&self) -> u64 {
        self.0.iter().filter_map(Evidence::stream_bytes).sum()
    }

    /// Takes so many bytes off those streams, the oldest first: off which how many.
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
            // What was measured of it says nothing of what came since.
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

    /// Free memory fell by so many bytes since it was last asked for: the weight of what came since, if that is one.
    pub(crate) fn measured(&mut self, fell: Option<u64>) {
        let mut newest = self.0.iter_mut().filter(|one| one.is_unasked);
        if let (Some(only), None, Some(fell)) = (newest.next(), newest.next(), fell)
            && only.weight == Weight::Unknown
        {
            only.weight = Weight::Measured(fell);
        }
        self.0.iter_mut().for_each(|one| one.is_unasked = false);
    }

    /// Who may have caused what a reading shows beyond streams whose bytes are known: who left evidence since the last one
    /// or has set a limit; if nobody has but streams, also those whose functions have not shown yet.
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

    /// A reading was taken: what has not shown by now will not, but for what may show later.
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
