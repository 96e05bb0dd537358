//! Opens a capture.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Mutex, OnceLock};

use super::backpressure::Backpressure;
use super::clock::Clock;
use super::drain_state::Drain;
use super::error::CreateError;
use super::file::CaptureFile;
use super::fork::Owner;
use super::loss::Losses;
use super::memory::Memory;
use super::options::{Options, Origin, RingPlace};
use super::queue::Queue;
use super::rows::{Rows, Used};
use super::shared::{Phase, Writer};
use super::store_state::Stored;
use super::sys;
use crate::bounded_layout::BoundedLayout;
use crate::header::{RingAt, StaticHeader};
use crate::index;
use crate::layout::{self, dynamic};
use crate::lock::Lock;
use crate::ring::{Indexes, Ring};

impl Writer {
    /// Opens a capture in `path`, which must not exist.
    ///
    /// The drain is not started: see [`Writer::drain`].
    ///
    /// # Errors
    /// [`CreateError`] has the path, the failed operation and the system's error; the file is then removed again.
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
        let bounded = bounded_layout(path, options, slots)?;
        let start = layout::ring_end(slots);
        // The blocks of the ring are reserved: a store to it allocates none unless the file system copies on
        // write.
        let file = CaptureFile::create(path, bounded.map_or(start, |bounded| bounded.end(start)))?;
        let opened = Memory::in_capture(&file, slots)
            .map_err(fail("map"))
            .and_then(|memory| Self::over(memory, slots, bounded, options).map_err(fail("open")));
        let written = opened.and_then(|writer| {
            file.write_start(writer.header.encode())
                .map_err(fail("write to"))?;
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

    /// Opens a capture without a file: records are accepted from now on. [`Writer::create_file`] adds the file.
    /// This never waits for a disk. `path` is the future path, for errors.
    ///
    /// # Errors
    /// [`CreateError`]: there is no memory, or the size of a bounded capture is too small.
    pub fn begin(path: &Path, options: &Options) -> Result<&'static Writer, CreateError> {
        let slots = Options::default().ring_slots(options.ring_slots).ring_slots;
        let bounded = bounded_layout(path, options, slots)?;
        let fail = |source| CreateError {
            path: path.to_owned(),
            action: "take memory for",
            source,
        };
        let memory = Memory::create(&options.ring, slots, options.queue_bytes).map_err(fail)?;
        Self::over(memory, slots, bounded, options).map_err(fail)
    }

    fn over(
        memory: Memory,
        slots: u32,
        bounded: Option<BoundedLayout>,
        options: &Options,
    ) -> io::Result<&'static Writer> {
        let owner = Owner::new().ok_or_else(io::Error::last_os_error)?;
        let header = static_header(slots, bounded, options.origin, memory.at);
        let (head, slots_of_ring) = memory.parts(slots);
        let indexes = Box::leak(Box::new(Indexes::new(
            u64::from(slots),
            memory.backed_slots(),
        )));
        let ring = Ring::new(indexes, slots_of_ring, header.checks());
        let writer = Box::leak(Box::new(Writer {
            head,
            ring,
            owner,
            rows: Rows::new(),
            clock: Clock::new(header.started_monotonic),
            quarter: u64::from(slots) / 4,
            backpressure: Backpressure::new(options.stall, header.has_ring()),
            losses: Losses::new(),
            used: Used::new(),
            ended: AtomicU8::new(0),
            is_direct: header.has_ring(),
            header,
            memory,
            file: OnceLock::new(),
            queue: Queue::new(),
            known: AtomicU64::new(0),
            backing: Lock::default(),
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
            .store(writer.ring.checks(), dynamic::QUEUE, [0; 3]);
        head.introduce(&writer.header, Path::new(""), writer.memory.queue_bytes);
        Ok(writer)
    }

    /// Creates the capture's file, unless there is one: `path` must not exist.
    ///
    /// # Errors
    /// [`CreateError`] has the path, the failed operation and the system's error; the file is then removed again.
    pub fn create_file(&self, path: &std::path::Path) -> Result<(), CreateError> {
        let start = self.header.pages_offset();
        let length = self
            .header
            .bounded
            .map_or(start, |bounded| bounded.end(start));
        let file = CaptureFile::create(path, length)?;
        self.write_start(&file).map_err(|source| {
            let path = file.path().to_owned();
            let _ = std::fs::remove_file(&path);
            CreateError {
                path,
                action: "write to",
                source,
            }
        })?;
        self.head
            .introduce(&self.header, file.path(), self.memory.queue_bytes);
        self.memory.mark_if_partial();
        let _ = self.file.set(file);
        Ok(())
    }

    /// Writes the header of a file without records. The static header comes last: with it, the file is a capture.
    fn write_start(&self, file: &CaptureFile) -> io::Result<()> {
        let sealed = [
            (dynamic::KNOWN, 0),
            (dynamic::TAIL, 0),
            (dynamic::PAGES_END, self.first_page()),
        ];
        for (offset, value) in sealed {
            file.write_at(&index::seal(value, self.nonce()).to_le_bytes(), offset)?;
        }
        file.write_start(self.header.encode())
    }
}

/// The areas of a bounded capture.
fn bounded_layout(
    path: &Path,
    options: &Options,
    ring_slots: u32,
) -> Result<Option<BoundedLayout>, CreateError> {
    let Some(bytes) = options.bounded else {
        return Ok(None);
    };
    let bounded = BoundedLayout::within(bytes, ring_slots).ok_or_else(|| CreateError {
        path: path.to_owned(),
        action: "bound to so few bytes",
        source: io::Error::other(format!(
            "with a ring of {ring_slots} slots it needs at least {}",
            BoundedLayout::least_file(ring_slots)
        )),
    })?;
    Ok(Some(bounded))
}

/// The facts known at opening.
fn static_header(
    ring_slots: u32,
    bounded: Option<BoundedLayout>,
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
            bounded,
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
        bounded,
        ring_at,
    }
}
