//! Records events and definitions into the shared ring.
//!
//! # Design constraints
//! - [`Writer::event`] and [`Writer::definition`] neither allocate, nor panic, nor take a lock that is
//!   held across anything that can block. They wait only while the ring is full, and then for a
//!   bounded time.
//! - What decides a loop or a wait is this process's own memory. In memory that others can reach are copies, which
//!   are only written.
//! - Unless the ring lies in the capture, only [`Writer::create_file`] and [`Writer::run_store`] touch a disk.
//! - Nothing is ever unmapped, and there is no atfork handler.
//! - A forked child records nothing and disturbs nothing.

mod bounded;
mod clock;
mod cut;
mod drain;
mod file;
mod fork;
mod head;
mod loss;
mod memory;
mod options;
mod queue;
mod record;
mod room;
mod rows;
mod space;
mod store;
pub(crate) mod sys;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::areas::Areas;
use crate::header::{RingAt, StaticHeader};
use crate::ring::{Found, Ring};
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, layout};
pub use bounded::Keeper;
use clock::Clock;
use cut::Used;
pub use cut::{Cut, RowAtCut};
use drain::Drain;
pub use drain::Trouble;
use file::CaptureFile;
use fork::Owner;
use head::{Head, Line};
use loss::Losses;
use memory::Memory;
pub use memory::RingPlace;
pub use options::{CreateError, Ended, Lost, Options, Origin};
use queue::Queue;
pub use record::Counting;
pub use room::{Attempt, LockHeld, Refused, assert_may_wait};
use rows::Rows;
use space::Space;
use store::Stored;

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
    rows: Rows,
    /// Copies for whoever reads the capture.
    head: &'static Head,
    /// Producers wake the drain when they cross a multiple of this many slots.
    quarter: u64,
    clock: Clock,
    space: Space,
    losses: Losses,
    /// Rows in which something is counted.
    used: Used,
    /// Why recording ended, if it did before the process: [`Ended`]; 0.
    ended: AtomicU8,
    header: StaticHeader,
    memory: Memory,
    /// Whether the drain writes to the file itself: the ring lies in it.
    is_direct: bool,
    file: OnceLock<CaptureFile>,
    /// What the drain has made for the file.
    queue: Queue,
    /// Every record before this is committed.
    known: AtomicU64,
    /// What the threads are to do: [`Phase`].
    phase: AtomicU32,
    /// Up to which phase the drain has moved all that there was: one more than its number.
    flushed: AtomicU32,
    /// Held by the one thread that drains.
    draining: Mutex<Drain>,
    /// Held by the one thread that writes the file.
    storing: Mutex<Option<store::State>>,
    stored: Stored,
    /// Held while the counters are put into the head, and while it is copied: the place they are of.
    publishing: Mutex<u64>,
}

/// What the drain and the thread that writes the file are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Go on.
    Run,
    /// Write all there is, then stay where they are.
    Pause,
    /// Write all there is and return.
    Stop,
    /// The same, and leave nothing of the ring.
    Close,
}

impl Writer {
    /// Opens a capture in `path`, which must not exist.
    ///
    /// The drain is not started: see [`Writer::drain`].
    ///
    /// # Errors
    /// [`CreateError`] carries the path, what failed and the system's error; the file is then removed
    /// again.
    pub fn create(path: &Path, options: &Options) -> Result<&'static Writer, CreateError> {
        if options.ring != RingPlace::InCapture {
            let writer = Self::begin(path, options)?;
            writer.create_file(path)?;
            return Ok(writer);
        }
        let fail = |action| {
            move |source| CreateError {
                path: path.to_owned(),
                action,
                source,
            }
        };
        let slots = Options::default().ring_slots(options.ring_slots).ring_slots;
        let areas = bounded_areas(path, options, slots)?;
        let start = layout::ring_end(slots);
        // The blocks of the ring are reserved: a store to it needs none unless the file system copies on writing.
        let file = CaptureFile::create(path, areas.map_or(start, |areas| areas.end(start)))?;
        let opened = Memory::in_capture(&file, slots)
            .map_err(fail("map"))
            .and_then(|memory| Self::over(memory, slots, areas, options).map_err(fail("open")));
        let written = opened.and_then(|writer| {
            let bytes = writer.header.encode();
            for offset in layout::STATIC_COPIES {
                file.write_at(&bytes, offset).map_err(fail("write to"))?;
            }
            Ok(writer)
        });
        match written {
            Ok(writer) => {
                let _ = writer.file.set(file);
                Ok(writer)
            }
            Err(error) => {
                let _ = std::fs::remove_file(file.path());
                Err(error)
            }
        }
    }

    /// Opens a capture that has no file yet: records are taken from now on. [`Writer::create_file`] gives it one.
    /// Nothing here waits for a disk. `path` is where it is going to be, for errors.
    ///
    /// # Errors
    /// [`CreateError`]: there is no memory, or a bounded capture is to be too small.
    pub fn begin(path: &Path, options: &Options) -> Result<&'static Writer, CreateError> {
        let slots = Options::default().ring_slots(options.ring_slots).ring_slots;
        let areas = bounded_areas(path, options, slots)?;
        let fail = |source| CreateError {
            path: path.to_owned(),
            action: "take memory for",
            source,
        };
        let memory = Memory::create(&options.ring, slots, options.queue_bytes).map_err(fail)?;
        Self::over(memory, slots, areas, options).map_err(fail)
    }

    fn over(
        memory: Memory,
        slots: u32,
        areas: Option<Areas>,
        options: &Options,
    ) -> io::Result<&'static Writer> {
        let owner = Owner::new().ok_or_else(io::Error::last_os_error)?;
        let header = static_header(slots, areas, options.origin, memory.at);
        let (head, slots_of_ring) = memory.parts(slots);
        let indexes = Box::leak(Box::new([0; 2].map(|index| Line(AtomicU64::new(index)))));
        let [at_head, at_tail] = indexes;
        let ring = Ring::new(&at_head.0, &at_tail.0, slots_of_ring, header.checks());
        let writer = Box::leak(Box::new(Writer {
            head,
            ring,
            owner,
            rows: Rows::new(),
            clock: Clock::new(header.started_monotonic),
            quarter: u64::from(slots) / 4,
            space: Space::new(options.stall, header.has_ring()),
            losses: Losses::new(),
            used: Used::new(),
            ended: AtomicU8::new(0),
            is_direct: header.has_ring(),
            header,
            memory,
            file: OnceLock::new(),
            queue: Queue::new(),
            known: AtomicU64::new(0),
            phase: AtomicU32::new(Phase::Run as u32),
            flushed: AtomicU32::new(0),
            draining: Mutex::new(Drain::default()),
            storing: Mutex::new(None),
            stored: Stored::default(),
            publishing: Mutex::new(0),
        }));
        head.known.0.store(0, header.nonce);
        head.drained.0.tail.store(0, header.nonce);
        head.drained
            .0
            .pages_end
            .store(writer.first_page(), header.nonce);
        head.queue
            .0
            .store(writer.ring.checks(), layout::dynamic::QUEUE, [0; 3]);
        head.introduce(&writer.header, Path::new(""), &writer.memory);
        Ok(writer)
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

    /// What stands for now where the head says when something was: the same in every run for records that another
    /// process made.
    fn stamp(&self) -> u64 {
        match self.header.pid {
            0 => 0,
            _ => self.now().0,
        }
    }

    /// Where the capture is, absolute; None: it has no file yet.
    pub fn path(&self) -> Option<&Path> {
        self.file.get().map(CaptureFile::path)
    }

    /// Where the ring is, if it is in a file of its own.
    pub fn ring_path(&self) -> Option<&Path> {
        self.header.ring_path()
    }

    /// The ring's memory as a file, for another process to hold open: what is in it then outlives this one wherever it
    /// lies. None if the ring has no file of its own. To be called by the thread that began the capture.
    ///
    /// # Errors
    /// What the system answers.
    pub fn ring_handle(&self) -> Option<io::Result<File>> {
        self.memory.handle()
    }

    /// Why the ring is not in the place that was wanted first, if so.
    pub fn ring_fell_back(&self) -> Option<&str> {
        self.memory.fell_back.as_deref()
    }

    /// The mapped memory that others can reach, and how many bytes it has; none if it is this process's own.
    pub fn shared_memory(&self) -> Option<(*mut u8, usize)> {
        let memory = &self.memory;
        let bytes = memory.ring_bytes + memory.queue_bytes;
        memory.is_shared.then_some((memory.base, bytes))
    }

    /// 0 once nothing is recorded any more. A signal handler that puts other memory in the place of
    /// [`Writer::shared_memory`] stores 0 here first. It lies in this process's own memory.
    pub fn recording_word(&self) -> &'static AtomicU32 {
        self.owner.word()
    }

    /// Whether all that this thread has read of the shared memory so far was read from that memory, and not from what a
    /// signal handler has put in its place.
    fn was_read_from_memory(&self) -> bool {
        core::sync::atomic::fence(Ordering::Acquire);
        // Recording also ends where the capture is closed.
        let is_closing = self.phase() == Phase::Close;
        let has_ended = matches!(self.ended(), Some(Ended::HeldTooLong | Ended::NoFile));
        self.owner.records() || is_closing || has_ended
    }

    fn file(&self) -> io::Result<&CaptureFile> {
        let none = || io::Error::from_raw_os_error(libc::EBADF);
        self.file.get().ok_or_else(none)
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Run,
            1 => Phase::Pause,
            2 => Phase::Stop,
            _ => Phase::Close,
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
        self.space.wake_drain();
        self.stored.wake();
    }

    /// The drain has moved all that there was when this phase began.
    fn flushed(&self, phase: Phase) {
        let flushed = phase as u32 + 1;
        if self.flushed.swap(flushed, Ordering::AcqRel) != flushed {
            self.stored.wake();
        }
    }

    fn is_flushed(&self, phase: Phase) -> bool {
        self.flushed.load(Ordering::Acquire) > phase as u32
    }

    /// Has the threads write all there is, and then stay where they are until [`Writer::close`]; waits for that, no
    /// longer than `limit`. False: it was not done by then.
    pub fn pause(&self, limit: Duration) -> bool {
        self.enter(Phase::Pause);
        self.await_stored(Phase::Pause, limit)
    }

    /// Has the threads write all there is, leave nothing of the ring, and return; waits for that, no longer than
    /// `limit`. False: it was not done by then. Records that come later are lost.
    pub fn close(&self, limit: Duration) -> bool {
        self.owner.end();
        self.enter(Phase::Close);
        self.await_stored(Phase::Close, limit)
    }

    /// Makes [`Writer::drain`] return once it has moved what is committed. For tests, and for
    /// programs that record themselves.
    pub fn stop_drain(&self) {
        self.enter(Phase::Stop);
    }

    /// The same, and leaves nothing of the ring.
    pub fn close_drain(&self) {
        self.enter(Phase::Close);
    }

    /// Whether this process opened the capture and records: not a forked child of it, and not after recording has
    /// ended. One load.
    #[inline]
    pub fn is_own_process(&self) -> bool {
        self.owner.records()
    }

    /// Whether this process opened the capture, and is not a forked child of it, whether or not it still records.
    pub fn is_of_this_process(&self) -> bool {
        self.owner.is_this_process()
    }

    /// Why recording ended before the process did.
    pub fn ended(&self) -> Option<Ended> {
        let reasons = [Ended::HeldTooLong, Ended::MemoryGone, Ended::NoFile];
        let ended = self.ended.load(Ordering::Acquire);
        reasons.into_iter().find(|reason| *reason as u8 == ended)
    }

    /// Ends recording for good: the first reason counts.
    #[cold]
    pub fn abandon(&self, reason: Ended) -> Lost {
        let swap =
            self.ended
                .compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Relaxed);
        if swap.is_ok() {
            self.owner.end();
            self.space.give_up();
        }
        Lost::Ended
    }

    /// The figures of a device and level: consistent with one another, and zeros for a device or level
    /// that has no counters (ordinals above 62).
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        layout::row_number(device, level)
            .and_then(|number| self.rows.get(number)?.lock())
            .map(|row| row.values())
            .unwrap_or_default()
    }

    /// Bytes live at a level of a device at this moment; 0 for one that has no counters.
    #[inline]
    pub fn live(&self, device: DeviceOrdinal, level: Level) -> u64 {
        layout::row_number(device, level)
            .and_then(|number| self.rows.get(number))
            .map_or(0, rows::Row::live)
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
        if self.is_of_this_process() {
            let committed = self.await_committed();
            if let Ok((seq, rows)) = self.counters_now() {
                let publishing = self.publishing.lock();
                let mut newest = publishing.unwrap_or_else(|poisoned| poisoned.into_inner());
                self.publish_counters(&mut newest, seq, &rows);
                self.head.known.0.store(committed, self.nonce());
            }
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

/// The areas of a bounded capture.
fn bounded_areas(
    path: &Path,
    options: &Options,
    ring_slots: u32,
) -> Result<Option<Areas>, CreateError> {
    let Some(bytes) = options.bounded else {
        return Ok(None);
    };
    let areas = Areas::within(bytes, ring_slots).ok_or_else(|| CreateError {
        path: path.to_owned(),
        action: "bound to so few bytes",
        source: io::Error::other(format!(
            "with a ring of {ring_slots} slots it needs at least {}",
            Areas::least_file(ring_slots)
        )),
    })?;
    Ok(Some(areas))
}

/// What is known at opening.
fn static_header(
    ring_slots: u32,
    areas: Option<Areas>,
    origin: Option<Origin>,
    ring_at: RingAt,
) -> StaticHeader {
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
            areas,
            ring_at,
        };
    }
    let start_ticks = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| crate::procfs::start_ticks(&stat))
        .unwrap_or(0);
    StaticHeader {
        nonce: sys::random(),
        started_wall: gpumem_sys::clock::read(libc::CLOCK_REALTIME),
        started_monotonic: gpumem_sys::clock::read(libc::CLOCK_MONOTONIC),
        started_boottime: gpumem_sys::clock::read(libc::CLOCK_BOOTTIME),
        pid: std::process::id(),
        parent_pid: std::os::unix::process::parent_id(),
        process_start_ticks: start_ticks,
        boot_id: crate::procfs::boot_id(),
        ring_slots,
        areas,
        ring_at,
    }
}
