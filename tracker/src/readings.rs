//! Readings: NVML's figure for this process beyond what is explained, and the owners of these bytes.

use gpumem_capture::DeviceOrdinal;

use crate::state::code::Loaded;
use crate::state::evidence::{Evidence, Seen, Weight, What};
use crate::state::origin::Origin;
use crate::state::reservations::{Kind, Reservation};
use crate::state::residual::signed;
use crate::tracker::Tracker;

/// The state of the tracker at the start of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// One answer of NVML, with the physical level's figure at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The device.
    pub device: DeviceOrdinal,
    /// Bytes that NVML reports for this process; `None` if it does not report them.
    pub mine: Option<u64>,
    /// Bytes that it reports for all other processes; `None` if it does not report them.
    pub others: Option<u64>,
    /// Bytes in use on the whole card.
    pub used: u64,
    /// The physical level's live bytes.
    pub explained: u64,
    /// The maximum number of bytes of managed memory on the card.
    pub managed: u64,
    /// The ticket from before NVML was queried.
    pub ticket: Ticket,
    /// Whether no call of this process changed memory meanwhile.
    pub is_still: bool,
}

/// The result of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Memory changed meanwhile: the reading is ignored.
    Disturbed,
    /// The reading is accepted: this many bytes of NVML's figure stay unexplained (negative: too many are explained).
    Taken {
        /// The physical level's live bytes, including charged bytes.
        explained: u64,
        /// NVML's figure minus that.
        unexplained: i64,
    },
}

/// The part of the unexplained bytes beyond `base` that certainly is not managed memory.
fn beyond(residual: i64, base: i64, managed: u64) -> i64 {
    let grown = residual.saturating_sub(base);
    match signed(managed) {
        0 => grown,
        managed if grown > managed => grown - managed,
        _ => grown.min(0),
    }
}

/// The bytes to charge, by index of the evidence; and whether the shares are an estimate.
fn shares(evidence: &[Evidence], bytes: u64, others_moved: bool) -> (Vec<(usize, u64)>, bool) {
    if let [_] = evidence {
        return (vec![(0, bytes)], false);
    }
    let (mut left, mut all, mut is_estimate) = (bytes, Vec::new(), false);
    let mut open = Vec::new();
    for (place, one) in evidence.iter().enumerate() {
        let (known, is_sure) = match one.weight {
            Weight::Unknown => {
                open.push(place);
                continue;
            }
            Weight::Remembered(bytes) => (bytes, false),
            Weight::Measured(bytes) => (bytes, !others_moved),
        };
        let share = known.min(left);
        left -= share;
        is_estimate |= !is_sure || share < known;
        if share != 0 {
            all.push((place, share));
        }
    }
    is_estimate |= open.len() > 1;
    let fresh = open
        .iter()
        .rev()
        .find(|place| evidence.get(**place).is_some_and(|one| one.is_fresh));
    let rest = fresh.or(open.last()).copied();
    match (rest, left) {
        (_, 0) => {}
        (Some(place), left) => all.push((place, left)),
        // More bytes than the sum of all weights.
        (None, left) => {
            is_estimate = true;
            match all.last_mut() {
                Some((_, share)) => *share += left,
                None => all.extend(evidence.len().checked_sub(1).map(|last| (last, left))),
            }
        }
    }
    (all, is_estimate)
}

impl Tracker {
    /// Whether there is evidence since the last reading.
    pub fn has_fresh_evidence(&self, device: DeviceOrdinal) -> bool {
        let residual = self.devices.get(&device.0);
        residual.is_some_and(|residual| residual.evidence.has_fresh())
    }

    /// Records the card's used bytes before this process has a context on it.
    pub fn before_first_context(&mut self, device: DeviceOrdinal, used: u64, explained: u64) {
        let base = signed(used) - signed(explained);
        self.residual(device).base_of_card.get_or_insert(base);
    }

    /// Starts a reading; call it before NVML is queried.
    pub fn begin_reading(&self) -> Ticket {
        Ticket(self.changes)
    }

    /// Applies a reading: bytes that are unexplained beyond those of the last reading are charged.
    pub fn read(&mut self, reading: &Reading) -> Verdict {
        if !reading.is_still || reading.ticket != self.begin_reading() {
            return Verdict::Disturbed;
        }
        let device = reading.device;
        let explained = signed(reading.explained);
        let is_hidden = reading.mine.is_none();
        let figure = signed(reading.mine.unwrap_or(reading.used));
        let unexplained = figure.saturating_sub(explained);
        let has_context = self.has_context(device);
        let residual = self.residual(device);
        let others_moved = residual.others != reading.others || reading.others.is_none();
        residual.others = reading.others;
        let base = match is_hidden {
            true => *residual.base_of_card.get_or_insert(unexplained),
            false => residual.base,
        };
        let is_estimate = is_hidden || reading.managed != 0 || self.handed_out;
        let mut grown = beyond(unexplained, base, reading.managed);
        let hidden = self.hidden_by_base(device, grown, base);
        let is_estimate = is_estimate || hidden != 0;
        grown += hidden;
        let charged = if grown > 0 {
            let keeps = reading.managed != 0;
            signed(self.charge(
                device,
                grown.unsigned_abs(),
                is_estimate,
                others_moved,
                keeps,
            ))
        } else {
            let too_many = unexplained.min(0).unsigned_abs();
            -signed(self.take_off(device, grown.unsigned_abs(), too_many, is_estimate))
        };
        let residual = self.residual(device);
        let unexplained = unexplained - charged;
        if charged != 0 {
            // Newly explained bytes are not part of later changes in free memory.
            residual.asked = None;
        }
        if reading.managed == 0 {
            residual.evidence.read();
            residual.ended_estimates = 0;
            let has_ended = core::mem::take(&mut residual.has_ended);
            // Without a context, growth belongs to a context that was activated without being noticed; it is charged
            // once that context is seen. Bytes that remain after the last context has ended have no owner.
            let left = match has_context || has_ended {
                true => unexplained,
                false => unexplained.min(base.max(0)),
            };
            match is_hidden {
                true => residual.base_of_card = Some(left),
                false => residual.base = left,
            }
        }
        Verdict::Taken {
            explained: reading.explained.saturating_add_signed(charged),
            unexplained,
        }
    }

    /// The bytes within `base`, until now without an owner, that belong to a context: a context that was found in use
    /// was activated earlier, perhaps before the last reading. Bytes that another process has released since hide the
    /// same number of bytes of any context.
    fn hidden_by_base(&self, device: DeviceOrdinal, grown: i64, base: i64) -> i64 {
        let Some(residual) = self.devices.get(&device.0) else {
            return 0;
        };
        let owners = residual.evidence.owners();
        let cost = owners.iter().find_map(|one| match (one.what, one.weight) {
            (What::Context(how), Weight::Remembered(cost))
                if how == Seen::Found || self.handed_out =>
            {
                Some(signed(cost))
            }
            _ => None,
        });
        cost.filter(|cost| grown < *cost)
            .map_or(0, |cost| cost.min(base.max(0)))
    }

    /// Charges bytes to the owners of evidence; returns how many were charged. Evidence is kept where managed memory
    /// may hide more.
    fn charge(
        &mut self,
        device: DeviceOrdinal,
        bytes: u64,
        is_estimate: bool,
        others_moved: bool,
        keeps_evidence: bool,
    ) -> u64 {
        let (of_streams, is_sure) = self.charge_streams(device, bytes, is_estimate, others_moved);
        if of_streams == bytes {
            return bytes;
        }
        let (bytes, is_estimate) = (bytes - of_streams, is_estimate || !is_sure);
        let residual = self.residual(device);
        let evidence = residual.evidence.owners();
        if evidence.is_empty() {
            return of_streams + self.charge_code(device, bytes);
        }
        let (shares, is_split) = shares(&evidence, bytes, others_moved);
        // Any code with functions may run for the first time.
        let is_late = evidence
            .iter()
            .all(|one| one.what == What::Function && !one.is_fresh);
        let is_split = is_split || (is_late && residual.code.len() > 1);
        for (place, share) in shares {
            let Some(one) = evidence.get(place) else {
                continue;
            };
            // A context that was charged its known cost takes no more.
            if !keeps_evidence || matches!(one.weight, Weight::Remembered(cost) if share >= cost) {
                let evidence = &mut self.residual(device).evidence;
                evidence.forget(|other| other.owner == one.owner);
            }
            let is_whole = matches!(one.what, What::Context(Seen::Made | Seen::Found));
            if is_whole && !is_split && !is_estimate {
                self.residual(device).context_cost = Some(share);
            }
            // A pool that has ended may have grown before; no API reports by how much.
            let is_split = is_split || one.owner.kind == Kind::Pool;
            let to = self.bytes(one.owner).saturating_add(share);
            self.resize(device, one.owner, to, is_estimate || is_split, one.origin);
        }
        of_streams + bytes
    }

    /// Charges streams with known bytes these bytes, as far as available; returns how many, and whether that is exact.
    fn charge_streams(
        &mut self,
        device: DeviceOrdinal,
        bytes: u64,
        is_estimate: bool,
        others_moved: bool,
    ) -> (u64, bool) {
        let evidence = &mut self.residual(device).evidence;
        let known = evidence.stream_bytes();
        let is_sure = known == bytes || (known < bytes && !others_moved) || known == 0;
        for (one, share) in evidence.charge_streams(bytes) {
            let to = self.bytes(one.owner).saturating_add(share);
            self.resize(device, one.owner, to, is_estimate || !is_sure, one.origin);
        }
        (known.min(bytes), is_sure)
    }

    /// Charges bytes without evidence: a function that was looked up earlier may have been launched for the first time.
    fn charge_code(&mut self, device: DeviceOrdinal, bytes: u64) -> u64 {
        let newest = self.residual(device).code.last().map(|(owner, _)| *owner);
        let code = newest.or_else(|| self.code_of_any_context(device));
        // Bytes that were charged to an owner that has ended may belong to a context that still exists.
        let bytes = match code {
            Some(_) => bytes,
            None => bytes.min(self.residual(device).ended_estimates),
        };
        let context = || {
            self.context_on(device)
                .map(|context| Kind::Context.of(context))
        };
        let Some(owner) = code.or_else(context).filter(|_| bytes != 0) else {
            return 0;
        };
        let to = self.bytes(owner).saturating_add(bytes);
        self.resize(device, owner, to, true, Origin::default());
        bytes
    }

    /// Code with functions in a context of a device where no function was looked up, because kernels belong to every
    /// context.
    fn code_of_any_context(&mut self, device: DeviceOrdinal) -> Option<Reservation> {
        let library = self.code.newest_with_functions()?;
        let context = self.context_on(device)?;
        Some(self.code.reservation(Loaded { library, context }))
    }

    /// Removes bytes from lowered limits, then from the newest evidence, then from estimates; returns how many. If
    /// there is evidence, or something has ended, and `too_many` bytes are explained, at least those are removed, from
    /// any owner.
    fn take_off(
        &mut self,
        device: DeviceOrdinal,
        bytes: u64,
        too_many: u64,
        is_estimate: bool,
    ) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let residual = self.residual(device);
        let (evidence, has_ended) = (residual.evidence.owners(), residual.has_ended);
        let is_split = is_estimate || evidence.len() > 1;
        let is_limit = |one: &&Evidence| one.what == What::Limit;
        let limits = evidence.iter().filter(is_limit);
        let others = evidence.iter().rev();
        // Streams free nothing.
        let others = others.filter(|one| !is_limit(one) && one.what != What::Stream);
        let by_evidence = limits
            .chain(others)
            .map(|one| (one.owner, one.origin, is_split));
        let estimated = self.reservations.estimated(device).into_iter();
        let estimated = estimated.map(|owner| (owner, Origin::default(), true));
        let mut from: Vec<_> = by_evidence.chain(estimated).collect();
        let sure = from.len();
        if !evidence.is_empty() || has_ended {
            let all = self.reservations.of_device(device);
            let measured = |kind| matches!(kind, Kind::Context | Kind::Module | Kind::Streams);
            let any = all.filter(|(owner, _)| measured(owner.kind));
            from.extend(any.map(|(owner, _)| (owner, Origin::default(), true)));
        }
        let mut left = bytes;
        for (place, (owner, origin, is_estimate)) in from.into_iter().enumerate() {
            let before = self.bytes(owner);
            let most = match place < sure {
                true => left,
                false => left.min(too_many.saturating_sub(bytes - left)),
            };
            let less = before.min(most);
            if less != 0 {
                self.resize(device, owner, before - less, is_estimate, origin);
                self.residual(device)
                    .evidence
                    .forget(|one| one.owner == owner);
                left -= less;
            }
        }
        bytes - left
    }

    pub(crate) fn forget_code(&mut self, owner: Reservation) {
        for residual in self.devices.values_mut() {
            residual.code.retain(|(known, _)| *known != owner);
        }
    }

    pub(crate) fn forget_evidence(
        &mut self,
        wanted: impl Fn(&Evidence) -> bool,
    ) -> Vec<(u8, Vec<Evidence>)> {
        let devices = self.devices.iter_mut();
        devices
            .map(|(device, residual)| (*device, residual.evidence.forget(&wanted)))
            .collect()
    }
}
