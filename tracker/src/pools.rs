//! Memory pools and the memory behind graphs: only the driver reports their sizes, and the recorder queries them with
//! no lock held.

use gpumem_capture::DeviceOrdinal;

use crate::state::origin::Origin;
use crate::state::pending::{Pending, Undo};
use crate::state::pool::{Asked, Place, Pool, Questions};
use crate::state::reservations::{Kind, Reservation};
use crate::tracker::Tracker;

impl Tracker {
    /// Records that memory came from a pool of a device.
    pub fn pool_used(&mut self, pool: u64, device: DeviceOrdinal) {
        if pool != 0 {
            let is_destroyed = false;
            let new = Pool {
                device,
                is_destroyed,
            };
            self.pools.all.entry(pool).or_insert(new).device = device;
        }
    }

    /// Records a new pool. Returns whether its handle was that of a destroyed pool of a device: then the driver's
    /// answers are about the new pool from now on, and remaining evidence of the old pool does not belong to the new
    /// one. If the new pool is not a device's, that handle is not queried any more.
    pub fn pool_made(&mut self, pool: u64, place: Place, origin: Origin) -> bool {
        let again = self.pools.mark(pool, false);
        if again {
            self.forget_evidence(|one| one.owner == Kind::Pool.of(pool));
        }
        if !matches!(place, Place::Device(_))
            && let Some(old) = self.pools.all.get(&pool).copied()
        {
            self.pools.forget(pool);
            self.reserved(old.device, Kind::Pool.of(pool), 0, origin);
        }
        self.pools.put(pool, place);
        again
    }

    /// Records the place of an existing pool that is not a device's. Its size is not queried: it takes nothing from a
    /// card, or only the driver knows what.
    pub fn pool_elsewhere(&mut self, pool: u64, place: Place) {
        self.pools.put(pool, place);
    }

    /// The place of an existing pool, if it is known.
    pub fn pool_place(&self, pool: u64) -> Option<Place> {
        self.pools.place(pool)
    }

    /// The place that a pool had before it was destroyed, if it was not a device's: another thread may still have to
    /// record memory of it.
    pub fn last_place(&self, pool: u64) -> Option<Place> {
        self.pools.last_place(pool)
    }

    /// Whether memory has come from a pool.
    pub fn knows_pool(&self, pool: u64) -> bool {
        self.pools.all.contains_key(&pool)
    }

    /// Records that a pool is about to be destroyed; later queries of it may fail. An alias of the same handle ends,
    /// too. `device`: the pool's device, if no memory is known to have come from it.
    pub fn pool_ending(
        &mut self,
        pool: u64,
        device: Option<DeviceOrdinal>,
        origin: Origin,
    ) -> Pending {
        if let Some(device) = device {
            self.pool_used(pool, device);
        }
        let mut pending = Pending::default();
        if self.pools.mark(pool, true) || self.pools.mark_elsewhere(pool, true) {
            pending.push(Undo::Pool(pool));
        }
        self.close_alias(pool, origin, &mut pending);
        pending
    }

    pub(crate) fn spare_pool(&mut self, pool: u64) {
        self.pools.mark(pool, false);
        self.pools.mark_elsewhere(pool, false);
    }

    /// The device of a destroyed pool that still holds memory, or may.
    pub fn outlives_its_end(&self, pool: u64) -> Option<DeviceOrdinal> {
        let known = self.pools.all.get(&pool)?;
        known.is_destroyed.then_some(known.device)
    }

    /// The queries for the driver, if any. Pass the answers to [`Tracker::answered`].
    pub fn questions(&self) -> Option<Questions> {
        let pools = self.pools.all.iter();
        let pools = pools.map(|(handle, pool)| (Kind::Pool.of(*handle), pool.device, None));
        let graphs = self.graphs.devices();
        let graphs = graphs.map(|device| (Kind::Graphs.of(1 + u64::from(device.0)), device, None));
        let of: Vec<_> = pools.chain(graphs).collect();
        if of.is_empty() {
            return None;
        }
        Some(self.pools.asked.of(of))
    }

    /// The counter of queries.
    pub fn asked(&self) -> Asked {
        self.pools.asked.clone()
    }

    /// The pool and its device, if it is the only thing to query.
    pub fn only_pool(&self) -> Option<(u64, DeviceOrdinal)> {
        let mut all = self.pools.all.iter();
        let (pool, known) = all.next()?;
        let is_only = all.next().is_none() && !self.graphs.are_used();
        is_only.then_some((*pool, known.device))
    }

    /// Applies the driver's answers. Answers to queries other than the last ones are ignored, because the last ones
    /// include the effects of all earlier calls. Decreases are recorded first, because they made room for increases.
    /// `allocating`: whether an allocation from a pool is in progress, so that the driver may have allocated a block
    /// that is not live here yet.
    pub fn answered(&mut self, questions: &Questions, allocating: bool, origin: Origin) {
        if !self.pools.asked.is_last(questions) {
            return;
        }
        let is_held = |(reservation, _, answer): &(Reservation, _, Option<u64>)| {
            answer.is_some_and(|bytes| bytes != 0 && bytes == self.bytes(*reservation))
        };
        if questions.of.iter().all(is_held) {
            return;
        }
        let mut sizes = Vec::with_capacity(questions.of.len());
        for (reservation, device, answer) in &questions.of {
            if let Some(bytes) = answer.or_else(|| self.unanswered(*reservation, allocating)) {
                sizes.push((*reservation, *device, bytes));
            }
        }
        for is_growth in [false, true] {
            for (reservation, device, bytes) in &sizes {
                if (*bytes > self.bytes(*reservation)) == is_growth {
                    self.reserved(*device, *reservation, *bytes, origin);
                }
            }
        }
    }

    /// The bytes of a reservation that the driver does not report: 0 for a pool that no longer exists, which is
    /// forgotten. `None`: the reservation keeps its bytes, and its evidence, because only a reading can show how a
    /// destroyed pool has grown. For existing pools, the driver stops reporting once it has shut down, before the
    /// process ends.
    fn unanswered(&mut self, reservation: Reservation, allocating: bool) -> Option<u64> {
        let handle = reservation.handle;
        let is_gone = reservation.kind == Kind::Pool
            // Another pool may have its handle by now.
            && self.outlives_its_end(handle).is_some()
            && !self.blocks.any_of_pool(handle)
            && !allocating;
        if !is_gone {
            return None;
        }
        self.pools.forget(handle);
        self.ended_by_estimate(reservation);
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::{EventFlags, Level};

    use super::*;
    use crate::readings::Reading;
    use crate::state::block::{Block, Key};

    #[test]
    fn a_new_pool_with_the_handle_of_a_destroyed_one_is_not_forgotten() {
        let (handle, device, origin) = (16, DeviceOrdinal(0), Origin::default());
        let mut tracker = Tracker::new();
        let gone = |tracker: &mut Tracker| {
            let questions = tracker.questions();
            questions.inspect(|questions| tracker.answered(questions, false, origin));
            !tracker.knows_pool(handle)
        };
        tracker.pool_used(handle, device);
        assert!(!tracker.pool_made(handle, Place::Device(device), origin));
        let pending = tracker.pool_ending(handle, None, origin);
        assert_eq!(tracker.outlives_its_end(handle), Some(device));
        tracker.settle(pending, true, origin);
        assert!(tracker.pool_made(handle, Place::Device(device), origin));
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
    fn a_host_pool_with_the_handle_of_a_destroyed_one_takes_nothing_from_a_card() {
        let (handle, device, origin) = (16, DeviceOrdinal(0), Origin::default());
        let mut tracker = Tracker::new();
        tracker.pool_used(handle, device);
        let mut questions = tracker.questions().expect("there is a pool");
        questions.of[0].2 = Some(32 << 20);
        tracker.answered(&questions, false, origin);
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, true, origin);
        assert!(tracker.pool_made(handle, Place::Host, origin));
        assert_eq!(tracker.bytes(Kind::Pool.of(handle)), 0);
        assert!(tracker.questions().is_none());
        assert_eq!(tracker.pool_place(handle), Some(Place::Host));
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, false, origin);
        assert_eq!(tracker.pool_place(handle), Some(Place::Host));
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, true, origin);
        assert_eq!(tracker.pool_place(handle), None);
        assert_eq!(tracker.last_place(handle), Some(Place::Host));
        assert!(!tracker.pool_made(handle, Place::Device(device), origin));
        assert_eq!(tracker.last_place(handle), None);
    }

    #[test]
    fn memory_of_a_host_pool_is_released_like_a_devices() {
        let origin = Origin::default();
        let mut tracker = Tracker::new();
        let (is_handle, ptr) = (false, 0x1000);
        let key = |level| Key {
            level,
            is_handle,
            ptr,
        };
        for (flags, is_found) in [
            (EventFlags::STREAM_ORDERED, true),
            (EventFlags::NONE, false),
        ] {
            let block = Block {
                bytes: 8,
                flags,
                ..Block::default()
            };
            tracker.allocated(key(Level::HOST), block, 0, origin);
            let pending = tracker.releasing(key(Level::DRIVER), EventFlags::NONE, origin);
            assert_eq!(tracker.blocks().count() == 0, is_found);
            tracker.settle(pending, false, origin);
            assert_eq!(
                tracker.blocks().next().map(|(key, _)| key.level),
                Some(Level::HOST)
            );
        }
    }

    #[test]
    fn a_pool_keeps_what_it_holds_when_the_driver_tells_nothing_any_more() {
        let (handle, device, origin) = (16, DeviceOrdinal(0), Origin::default());
        let mut tracker = Tracker::new();
        tracker.pool_used(handle, device);
        for (answer, held) in [(Some(32 << 20), 32 << 20), (None, 32 << 20), (Some(0), 0)] {
            let mut questions = tracker.questions().expect("there is a pool");
            questions.of[0].2 = answer;
            tracker.answered(&questions, false, origin);
            assert_eq!(tracker.bytes(Kind::Pool.of(handle)), held);
        }
    }

    #[test]
    fn a_destroyed_pool_waits_for_allocations_in_progress() {
        let (handle, origin) = (16, Origin::default());
        let mut tracker = Tracker::new();
        tracker.pool_used(handle, DeviceOrdinal(0));
        let pending = tracker.pool_ending(handle, None, origin);
        tracker.settle(pending, true, origin);
        let questions = tracker.questions();
        questions.inspect(|questions| tracker.answered(questions, true, origin));
        assert!(tracker.knows_pool(handle));
        let questions = tracker.questions();
        questions.inspect(|questions| tracker.answered(questions, false, origin));
        assert!(!tracker.knows_pool(handle));
    }

    #[test]
    fn what_a_destroyed_pool_took_unasked_is_charged_to_it_by_the_next_reading() {
        let (handle, device, origin) = (16, DeviceOrdinal(0), Origin::default());
        let pool = Kind::Pool.of(handle);
        let mut tracker = Tracker::new();
        let pending = tracker.pool_ending(handle, Some(device), origin);
        tracker.settle(pending, true, origin);
        tracker.pool_unasked(device, pool, origin);
        // The thread that allocated from it has not recorded its block yet.
        let questions = tracker.questions().expect("there is a pool");
        tracker.answered(&questions, true, origin);
        let ticket = tracker.begin_reading();
        tracker.read(&Reading {
            device,
            mine: Some(32 << 20),
            others: Some(0),
            used: 32 << 20,
            explained: 0,
            managed: 0,
            ticket,
            is_still: true,
        });
        assert_eq!(tracker.bytes(pool), 32 << 20);
        // Its last block is gone, and with it the pool.
        let questions = tracker.questions().expect("there is a pool");
        tracker.answered(&questions, false, origin);
        assert_eq!(tracker.bytes(pool), 0);
    }
}
