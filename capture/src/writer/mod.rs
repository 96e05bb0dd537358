//! Records events and definitions into the shared ring.
//!
//! # Design constraints
//! - [`Writer::event`] and [`Writer::definition`] neither allocate, nor panic, nor take a lock that is
//!   held across anything that can block. They wait only while the ring is full, and then for a
//!   bounded time.
//! - Nothing is ever torn down: no unmapping, no destructor, no atfork handler.
//! - A forked child records nothing and disturbs nothing.

mod bounded;
mod clock;
mod cut;
mod drain;
mod file;
mod fork;
mod head;
mod loss;
mod options;
mod space;
mod sys;

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::areas::Areas;
use crate::header::StaticHeader;
use crate::ring::{Found, Ring};
use crate::{
    CounterValues, DefKind, DeviceOrdinal, Event, EventFlags, Level, Nanos, Seq, index, layout,
    slot,
};
pub use bounded::Keeper;
use clock::Clock;
use cut::Used;
pub use cut::{Cut, RowAtCut};
use file::CaptureFile;
use fork::Owner;
use head::{Change, Head, LockedRow};
use loss::Losses;
pub use options::{CreateError, Lost, Options, Origin};
use space::Space;

/// At a clean exit, how often it is looked for what threads are about to commit: some 50 µs, without sleep.
/// Who runs commits within one of them. Who does not run would be waited for in vain, or come out of its
/// call into a program that is no longer there.
const FINISH_LOOKS: u32 = 1_000;

/// An open capture. Lives as long as the process.
#[repr(C)]
pub struct Writer {
    // What each event looks at comes first, in as few cache lines as it can.
    ring: Ring<'static>,
    owner: Owner,
    head: &'static Head,
    /// Producers wake the drain when they cross a multiple of this many slots.
    quarter: u64,
    clock: Clock,
    file: CaptureFile,
    /// Of a bounded capture.
    areas: Option<Areas>,
    space: Space,
    losses: Losses,
    /// Rows in which something is counted.
    used: Used,
    stopping: AtomicBool,
    /// Held by the one thread that drains.
    draining: Mutex<()>,
}

impl Writer {
    /// Creates `path`, which must not exist, and opens a capture in it.
    ///
    /// The blocks of the head and the ring are reserved at once, so a disk that fills up later
    /// cannot kill the program. The drain is not started: see [`Writer::drain`].
    ///
    /// # Errors
    /// [`CreateError`] carries the path, what failed and the system's error; the file is then removed
    /// again.
    pub fn create(path: &Path, options: &Options) -> Result<&'static Writer, CreateError> {
        let ring_slots = Options::default().ring_slots(options.ring_slots).ring_slots;
        let areas = options
            .bounded
            .map(|bytes| bounded_areas(path, bytes, ring_slots))
            .transpose()?;
        let length = match areas {
            None => layout::pages_offset(ring_slots),
            Some(areas) => areas.end(ring_slots),
        };
        let (file, mapped) = CaptureFile::create(path, ring_slots, length)?;
        let fail = |action, source| {
            let path = file.path().to_owned();
            let _ = std::fs::remove_file(&path);
            CreateError {
                path,
                action,
                source,
            }
        };
        let Some(owner) = Owner::new() else {
            return Err(fail("guard against forks of", io::Error::last_os_error()));
        };
        let header = static_header(ring_slots, areas, options.origin);
        let head = mapped.head;
        let pages = match areas {
            None => layout::pages_offset(ring_slots),
            Some(areas) => areas.log_offset(ring_slots),
        };
        let seal = |value| index::seal(value, header.nonce);
        head.head.0.store(seal(0), Ordering::Relaxed);
        head.drained.0.tail.store(seal(0), Ordering::Relaxed);
        head.drained
            .0
            .pages_end
            .store(seal(pages), Ordering::Relaxed);
        let bytes = header.encode();
        for offset in layout::STATIC_COPIES {
            if let Err(error) = file.write_at(&bytes, offset) {
                return Err(fail("write to", error));
            }
        }
        let ring = Ring::new(
            &head.head.0,
            &head.drained.0.tail,
            mapped.slots,
            header.checks(),
        );
        Ok(Box::leak(Box::new(Writer {
            head,
            ring,
            file,
            owner,
            areas,
            clock: Clock::new(header.started_monotonic),
            quarter: u64::from(ring_slots) / 4,
            space: Space::new(options.stall),
            losses: Losses::new(),
            used: Used::new(),
            stopping: AtomicBool::new(false),
            draining: Mutex::new(()),
        })))
    }

    /// The time now, as events carry it: in steps of 256 ns, less than an event takes. What lies below is
    /// noise, and finer steps take more of the disk: docs/measured/analyzer.md.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.clock.now() & !255)
    }

    fn nonce(&self) -> u64 {
        self.ring.checks().nonce
    }

    /// Where the capture is, absolute.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether the capture was deleted under the program. False where that cannot be told now.
    pub fn is_deleted(&self) -> bool {
        self.file.is_deleted()
    }

    /// Whether this is the process that opened the capture, and not a forked child of it. One load.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.owner.is_this_process()
    }

    /// Records an event and applies it to the counters of its device and level
    /// ([`CounterValues::apply`]).
    ///
    /// Both happen under the counter row's lock, so the order of sequence numbers within a device and
    /// level is the order in which the counters changed: a replay in that order finds the same
    /// figures, the peak included. The counters change even if the event itself is lost.
    ///
    /// # Errors
    /// [`Lost::RingFull`] after a bounded wait (once in each stall; ≈ 0.1 s for a file that does not take
    /// what is written, 1 s for a drain that does not get its turn): the loss is counted.
    /// [`Lost::OtherProcess`] in a forked child, where nothing at all happens.
    pub fn event(&self, event: &Event) -> Result<Seq, Lost> {
        self.event_to(event, None)
    }

    /// The same of an event after which `live` bytes are live at its level of its device, as somebody else
    /// counts: [`EventFlags::MISMATCH`] where that is not so.
    ///
    /// # Errors
    /// As [`Writer::event`]'s.
    pub fn event_to(&self, event: &Event, live: Option<u64>) -> Result<Seq, Lost> {
        if !self.owner.is_this_process() {
            return Err(Lost::OtherProcess);
        }
        let counting = self.counting(event.device, event.level);
        match counting.and_then(|counting| counting.event(event, live)) {
            Some(seq) => Ok(seq),
            None => self.event_otherwise(event, live),
        }
    }

    /// The counters of a device and level, in which nobody else counts as long as the result lives: some twenty
    /// nanoseconds, with nothing in them that could wait or fail. None for a device or level that has none.
    ///
    /// It neither panics nor asks whose the capture is ([`Writer::is_own_process`]), and becomes part of the caller:
    /// for the one place where events are frequent.
    #[inline(always)]
    pub fn counting(&self, device: DeviceOrdinal, level: Level) -> Option<Counting<'_>> {
        let number = layout::row_number(device, level)?;
        let row = self.head.row(number)?.lock();
        // Whoever counts here waits for this lock before it wants the head of the ring.
        self.ring.expect_reservation();
        Some(Counting {
            writer: self,
            row,
            number,
        })
    }

    #[inline(always)]
    fn commit(&self, seq: u64, words: &[u64; 8]) {
        self.ring.commit(seq, words);
        self.wake_drain(seq, 1);
    }

    /// Records an event of any kind, and waits if there is no room.
    #[cold]
    #[inline(never)]
    fn event_otherwise(&self, event: &Event, live: Option<u64>) -> Result<Seq, Lost> {
        let mut words = slot::event_words(event);
        let number = layout::row_number(event.device, event.level);
        let row = number
            .and_then(|number| Some((self.head.row(number)?, layout::row_offset(number))))
            .filter(|_| CounterValues::counts(event));
        let mut may_wait = true;
        loop {
            // All waiting is done before the lock is taken.
            if may_wait && !self.ring.has_space(1) {
                may_wait = self.space.wait(&self.ring, 1, self.nudge());
            }
            let reserved = match row {
                None => self.ring.reserve(1),
                Some((row, place)) => {
                    let mut locked = row.lock();
                    if locked.is_unused() {
                        drop(locked);
                        self.used.note(layout::row_at(place));
                        locked = row.lock();
                    }
                    let reserved = self.ring.reserve(1);
                    if reserved.is_some() || !may_wait {
                        let mut new = locked.values();
                        new.apply(event);
                        if live.is_some_and(|live| live != new.live) {
                            slot::add_flags(&mut words, EventFlags::MISMATCH);
                        }
                        locked.take(&new, self.ring.checks(), place);
                    }
                    reserved
                }
            };
            match reserved {
                Some(seq) => {
                    self.commit(seq, &words);
                    return Ok(Seq(seq));
                }
                // Others took the space that was there a moment ago.
                None if may_wait => {}
                None => {
                    let stall = self.ring.tail();
                    self.losses
                        .event(self.head, self.ring.checks(), event.time, stall);
                    return Err(Lost::RingFull);
                }
            }
        }
    }

    /// Records a definition whose payload is the concatenation of `parts`.
    ///
    /// # Errors
    /// As [`Writer::event`]'s, and [`Lost::TooLarge`] if the payload is larger than an eighth of the
    /// ring or 1 MiB. The caller must not refer to what was not defined.
    pub fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<Seq, Lost> {
        if !self.owner.is_this_process() {
            return Err(Lost::OtherProcess);
        }
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let slots = slot::slots_for(bytes);
        let defining = self.head.defining.0.begin(slots, self.nonce());
        let seq = if bytes > layout::payload_limit(self.ring.capacity()) {
            Err(Lost::TooLarge)
        } else {
            self.reserve(slots).ok_or(Lost::RingFull)
        };
        let seq = match seq {
            Ok(seq) => seq,
            Err(lost) => {
                self.losses.definition(self.head, self.ring.checks());
                return Err(lost);
            }
        };
        let words = slot::definition_words(kind, bytes, slots as u32);
        self.ring.commit_with_payload(seq, &words, parts);
        drop(defining);
        self.wake_drain(seq, slots);
        Ok(Seq(seq))
    }

    fn reserve(&self, slots: u64) -> Option<u64> {
        loop {
            if let Some(seq) = self.ring.reserve(slots) {
                return Some(seq);
            }
            if !self.space.wait(&self.ring, slots, self.nudge()) {
                return self.ring.reserve(slots);
            }
        }
    }

    /// The figures of a device and level: consistent with one another, and zeros for a device or level
    /// that has no counters (ordinals above 62).
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        layout::row_number(device, level)
            .and_then(|number| self.head.row(number))
            .map(|row| row.lock().values())
            .unwrap_or_default()
    }

    /// Bytes live at a level of a device at this moment; 0 for one that has no counters.
    #[inline]
    pub fn live(&self, device: DeviceOrdinal, level: Level) -> u64 {
        layout::row_number(device, level)
            .and_then(|number| self.head.row(number))
            .map_or(0, head::Row::live)
    }

    /// Events lost so far.
    pub fn events_lost(&self) -> u64 {
        self.losses.events()
    }

    /// Marks a clean exit at this moment. Events may still follow, and nothing is torn down.
    ///
    /// Threads that are about to commit get a moment to do so, and it is told up to where all was committed: a
    /// record that they never finish would look like one that was lost.
    pub fn finish(&self) {
        self.finish_at(self.now());
    }

    /// The same at another moment: of records that this process did not make.
    pub fn finish_at(&self, time: Nanos) {
        if self.is_own_process() {
            let committed = self.await_committed();
            let facts = [1, time.0, committed];
            self.head
                .end
                .0
                .store(self.ring.checks(), layout::dynamic::END, facts);
        }
    }

    /// Waits, not for long, until what is reserved by now is committed; returns the first record that is
    /// not.
    fn await_committed(&self) -> u64 {
        let head = self.ring.head();
        let mut seq = self.ring.tail();
        for _ in 0..FINISH_LOOKS {
            loop {
                // The drain may take what we look at.
                seq = seq.max(self.ring.tail());
                if seq >= head {
                    return head;
                }
                match self.ring.find(seq) {
                    Found::Record(count, _) => seq += count,
                    Found::Pending | Found::Damaged => break,
                }
            }
            std::hint::spin_loop();
        }
        seq
    }

    fn nudge(&self) -> impl Fn() {
        || self.space.wake_drain()
    }

    /// Wakes the drain when the record crossed into another quarter of the ring.
    #[inline(always)]
    fn wake_drain(&self, seq: u64, slots: u64) {
        if seq & (self.quarter - 1) >= self.quarter.saturating_sub(slots) {
            self.space.wake_drain();
        }
    }
}

/// The counters of a device and level, held: see [`Writer::counting`].
pub struct Counting<'a> {
    writer: &'a Writer,
    row: LockedRow<'a>,
    number: u64,
}

impl Counting<'_> {
    /// Records an allocation or a release of this device and level for which there is room; None, and nothing
    /// happens, for any other event and for the first one, for [`Writer::event_to`] to record. `live` is as
    /// there.
    #[inline(always)]
    pub fn event(self, event: &Event, live: Option<u64>) -> Option<Seq> {
        let Self {
            writer,
            mut row,
            number,
        } = self;
        debug_assert_eq!(layout::row_number(event.device, event.level), Some(number));
        let change = Change::of(event)?;
        if row.is_unused() {
            return None;
        }
        let seq = writer.ring.reserve(1)?;
        let now = row.change(change, writer.ring.checks(), layout::row_offset(number));
        drop(row);
        let mut words = slot::event_words(event);
        if live.is_some_and(|live| live != now) {
            slot::add_flags(&mut words, EventFlags::MISMATCH);
        }
        writer.commit(seq, &words);
        Some(Seq(seq))
    }
}

/// The areas of a bounded capture of so many bytes.
fn bounded_areas(path: &Path, bytes: u64, ring_slots: u32) -> Result<Areas, CreateError> {
    Areas::within(bytes, ring_slots).ok_or_else(|| CreateError {
        path: path.to_owned(),
        action: "bound to so few bytes",
        source: io::Error::other(format!(
            "with a ring of {ring_slots} slots it needs at least {}",
            Areas::least_file(ring_slots)
        )),
    })
}

/// What is known at opening.
fn static_header(ring_slots: u32, areas: Option<Areas>, origin: Option<Origin>) -> StaticHeader {
    if let Some(Origin {
        started_wall_ns,
        nonce,
    }) = origin
    {
        return StaticHeader {
            nonce,
            started_wall: started_wall_ns,
            started_monotonic: 0,
            started_boottime: 0,
            pid: 0,
            parent_pid: 0,
            process_start_ticks: 0,
            boot_id: [0; 16],
            ring_slots,
            folded: false,
            areas,
        };
    }
    let start_ticks = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| crate::procfs::start_ticks(&stat))
        .unwrap_or(0);
    StaticHeader {
        nonce: sys::random(),
        started_wall: sys::clock(libc::CLOCK_REALTIME),
        started_monotonic: sys::clock(libc::CLOCK_MONOTONIC),
        started_boottime: sys::clock(libc::CLOCK_BOOTTIME),
        pid: std::process::id(),
        parent_pid: std::os::unix::process::parent_id(),
        process_start_ticks: start_ticks,
        boot_id: crate::procfs::boot_id(),
        folded: false,
        ring_slots,
        areas,
    }
}
