//! Ends of modules and contexts: their bytes are freed before the call, and restored if the call fails.

use gpumem_capture::DeviceOrdinal;

use crate::state::code::Loaded;
use crate::state::ended::{Ended, EndedReservation};
use crate::state::evidence::{Evidence, What};
use crate::state::origin::Origin;
use crate::state::pending::{Pending, Then, Undo};
use crate::state::reservations::{Kind, Reservation};
use crate::tracker::Tracker;

impl Tracker {
    /// Records that a module or library is about to be unloaded from every context.
    pub fn unloading(&mut self, library: u64, origin: Origin) -> Pending {
        let gone = self.code.reservations(|loaded| loaded.library == library);
        let contexts: Vec<u64> = gone.iter().map(|(_, loaded)| loaded.context).collect();
        let gone = gone
            .into_iter()
            .map(|(owner, loaded)| (owner, Some(loaded)));
        let ended = self.end(gone.collect(), origin);
        // Without a known context, the unexplained bytes belong to one that was activated without being noticed;
        // they are not left over.
        let devices: Vec<u8> = self.devices.keys().copied().collect();
        for device in devices.into_iter().map(DeviceOrdinal) {
            self.residual(device).has_ended |= self.has_context(device);
        }
        for context in contexts {
            let owner = Kind::Context.of(context);
            // The memory that the driver keeps of the code belongs to the context.
            if let Some(device) = self.reservations.device(owner) {
                self.leave(device, owner, context, What::End, origin);
            }
        }
        let mut pending = Pending::default();
        pending.push(Undo::Reserved(ended));
        pending.then = Some(Then::Unload(library));
        pending
    }

    /// Records that the contexts of a device that `wanted` selects are about to end, or have ended, with their
    /// code and streams.
    pub(crate) fn contexts_ending(
        &mut self,
        device: DeviceOrdinal,
        wanted: impl Fn(u64) -> bool,
        origin: Origin,
    ) -> Ended {
        let code = self.code.reservations(|loaded| wanted(loaded.context));
        let mut gone: Vec<_> = code
            .into_iter()
            .filter(|(owner, _)| self.is_on(*owner, device))
            .map(|(owner, loaded)| (owner, Some(loaded)))
            .collect();
        let contexts = self.reservations.of_device(device);
        let contexts = contexts.filter(|(one, _)| match one.kind {
            Kind::Context => wanted(one.handle),
            Kind::Streams => wanted(one.handle & !1),
            _ => false,
        });
        gone.extend(contexts.map(|(owner, _)| (owner, None)));
        let mut ended = self.end(gone, origin);
        if let Some(residual) = self.devices.get_mut(&device.0) {
            let of_context = |one: &Evidence| one.context != 0 && wanted(one.context);
            let evidence = residual.evidence.forget(of_context);
            ended.evidence.push((device.0, evidence));
            residual.code.retain(|(_, context)| !wanted(*context));
            residual.has_ended = true;
        }
        ended
    }

    /// Whether a reservation is on a device, or empty.
    fn is_on(&self, owner: Reservation, device: DeviceOrdinal) -> bool {
        self.reservations
            .device(owner)
            .is_none_or(|of| of == device)
    }

    fn end(&mut self, gone: Vec<(Reservation, Option<Loaded>)>, origin: Origin) -> Ended {
        let owners: Vec<_> = gone.iter().map(|(owner, _)| *owner).collect();
        let evidence = self.forget_evidence(|one| owners.contains(&one.owner));
        let mut all = Vec::with_capacity(gone.len());
        for (reservation, loaded) in gone {
            self.forget_code(reservation);
            if loaded.is_some() {
                self.code.forget(reservation);
            }
            let bytes = self.bytes(reservation);
            let device = self.reservations.device(reservation);
            self.ended_by_estimate(reservation);
            if let Some(device) = device {
                self.resize(device, reservation, 0, false, origin);
            }
            all.push(EndedReservation {
                device: device.unwrap_or(DeviceOrdinal::NONE),
                reservation,
                bytes,
                loaded,
            });
        }
        self.changes += 1;
        Ended { all, evidence }
    }

    /// Records an end whose charged bytes are an estimate: they may belong to another owner.
    pub(crate) fn ended_by_estimate(&mut self, reservation: Reservation) {
        if let Some(device) = self.reservations.device(reservation)
            && self.reservations.is_estimated(reservation)
        {
            self.residual(device).ended_estimates += self.bytes(reservation);
        }
    }

    /// Restores everything after a failed end.
    pub(crate) fn restore(&mut self, ended: Ended, origin: Origin) {
        self.changes += 1;
        for one in ended.all {
            if let Some(loaded) = one.loaded {
                self.code.restore(one.reservation, loaded);
            }
            if one.bytes != 0 {
                self.resize(one.device, one.reservation, one.bytes, false, origin);
            }
        }
        for (device, evidence) in ended.evidence {
            self.residual(DeviceOrdinal(device))
                .evidence
                .restore(evidence);
        }
    }
}
