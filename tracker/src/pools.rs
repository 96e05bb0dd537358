//! Memory pools and what stands behind graphs: what they hold is known by the driver's own word, for which the recorder
//! asks with no lock held.

use gpumem_capture::DeviceOrdinal;

use crate::state::origin::Origin;
use crate::state::pool::{Pool, Questions};
use crate::state::reservations::{Kind, Reservation};
use crate::state::work::{Pending, Undo};
use crate::tracker::Tracker;

impl Tracker {
    /// An allocation from a pool begins: before the driver is asked.
    pub fn pool_allocation_begins(&mut self) {
        self.pools.allocating += 1;
    }

    /// It has ended; its block is live here, or there is none. Whether a destroyed pool may have waited for that.
    pub fn pool_allocation_ended(&mut self) -> bool {
        self.pools.allocating = self.pools.allocating.saturating_sub(1);
        core::mem::take(&mut self.pools.kept)
    }

    /// Memory came from a pool of a device.
    fn pool_used(&mut self, pool: u64, device: DeviceOrdinal) {
        if pool != 0 {
            let is_destroyed = false;
            let new = Pool {
                device,
                is_destroyed,
            };
            self.pools.all.entry(pool).or_insert(new).device = device;
        }
    }

    /// A pool was made. Whether its handle was that of one that was destroyed: the driver's answers are about the new one
    /// from now on, and what is left of the old one's evidence is not the new one's.
    pub fn pool_made(&mut self, pool: u64) -> bool {
        let known = self.pools.all.get_mut(&pool);
        let again = known.is_some_and(|pool| core::mem::take(&mut pool.is_destroyed));
        if again {
            self.forget_evidence(|one| one.owner == Kind::Pool.of(pool));
        }
        again
    }

    /// Whether memory has come from a pool.
    pub fn knows_pool(&self, pool: u64) -> bool {
        self.pools.all.contains_key(&pool)
    }

    /// A pool is about to be destroyed: from then on a question about it may fail. So is an alias of that handle. `device`:
    /// where it is, if no memory is known to have come from it.
    pub fn pool_ending(
        &mut self,
        pool: u64,
        device: Option<DeviceOrdinal>,
        origin: Origin,
    ) -> Pending {
        if let Some(device) = device {
            self.pool_used(pool, device);
        }
        let mut work = self.begin();
        if let Some(known) = self.pools.all.get_mut(&pool)
            && !core::mem::replace(&mut known.is_destroyed, true)
        {
            work.undo.push(Undo::Pool(pool));
        }
        self.close_alias(pool, origin, &mut work);
        self.keep(work)
    }

    pub(crate) fn spare_pool(&mut self, pool: u64) {
        if let Some(pool) = self.pools.all.get_mut(&pool) {
            pool.is_destroyed = false;
        }
    }

    /// The device of a destroyed pool that still holds something, or may.
    pub fn outlives_its_end(&self, pool: u64) -> Option<DeviceOrdinal> {
        let known = self.pools.all.get(&pool)?;
        known.is_destroyed.then_some(known.device)
    }

    /// What the driver is to be asked; `None` if there is nothing to ask. Answers are for [`Tracker::answered`]. `used`: a
    /// pool that memory has just come from, and its device.
    pub fn questions(&mut self, used: Option<(u64, DeviceOrdinal)>) -> Option<Questions> {
        if let Some((pool, device)) = used {
            self.pool_used(pool, device);
        }
        let pools = self.pools.all.iter();
        let pools = pools.map(|(handle, pool)| (Kind::Pool.of(*handle), pool.device, None));
        let graphs = self.graphs.devices();
        let graphs = graphs.map(|device| (Kind::Graphs.of(1 + u64::from(device.0)), device, None));
        let of: Vec<_> = pools.chain(graphs).collect();
        if of.is_empty() {
            return None;
        }
        self.pools.asked += 1;
        let number = self.pools.asked;
        Some(Questions { number, of })
    }

    /// The driver's answers. Those to questions that were not the last ones are passed by: the last ones' have in them
    /// whatever the calls before did. What shrank is noted first, for it made room for what grew.
    pub fn answered(&mut self, questions: &Questions, origin: Origin) {
        if questions.number != self.pools.asked {
            return;
        }
        let mut sizes = Vec::with_capacity(questions.of.len());
        for (reservation, device, answer) in &questions.of {
            let bytes = answer.unwrap_or_else(|| self.unanswered(*reservation));
            sizes.push((*reservation, *device, bytes));
        }
        for is_growth in [false, true] {
            for (reservation, device, bytes) in &sizes {
                if (*bytes > self.bytes(*reservation)) == is_growth {
                    self.reserved(*device, *reservation, *bytes, origin);
                }
            }
        }
    }

    /// What a reservation holds of which the driver does not tell. A pool that is gone is forgotten.
    fn unanswered(&mut self, reservation: Reservation) -> u64 {
        let held = self.bytes(reservation);
        if reservation.kind != Kind::Pool {
            return held;
        }
        let handle = reservation.handle;
        // Another one may have its handle by now.
        let is_destroyed = self.outlives_its_end(handle).is_some();
        let is_used = is_destroyed && self.blocks.any_of_pool(handle);
        let may_be = is_destroyed && self.pools.allocating != 0;
        self.pools.kept |= may_be && !is_used;
        if is_used || may_be {
            return held;
        }
        if is_destroyed {
            self.pools.all.remove(&handle);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pool_with_the_handle_of_a_destroyed_one_is_not_forgotten() {
        let (handle, device, origin) = (16, DeviceOrdinal(0), Origin::default());
        let mut tracker = Tracker::new();
        let gone = |tracker: &mut Tracker| {
            let questions = tracker.questions(None);
            questions.inspect(|questions| tracker.answered(questions, origin));
            !tracker.knows_pool(handle)
        };
        let _ = tracker.questions(Some((handle, device)));
        assert!(!tracker.pool_made(handle));
        let pending = tracker.pool_ending(handle, None, origin);
        assert_eq!(tracker.outlives_its_end(handle), Some(device));
        tracker.settle(pending, true, origin);
        assert!(tracker.pool_made(handle));
        assert_eq!(tracker.outlives_its_end(handle), None);
        assert!(!gone(&mut tracker));
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, false, origin);
        assert!(!gone(&mut tracker));
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, true, origin);
        assert!(gone(&mut tracker));
    }

    #[test]
    fn a_destroyed_pool_waits_for_allocations_in_progress() {
        let (handle, origin) = (16, Origin::default());
        let mut tracker = Tracker::new();
        let _ = tracker.questions(Some((handle, DeviceOrdinal(0))));
        tracker.pool_allocation_begins();
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, true, origin);
        let questions = tracker.questions(None);
        questions.inspect(|questions| tracker.answered(questions, origin));
        assert!(tracker.knows_pool(handle));
        assert!(tracker.pool_allocation_ended());
        let questions = tracker.questions(None);
        questions.inspect(|questions| tracker.answered(questions, origin));
        assert!(!tracker.knows_pool(handle));
    }
}
