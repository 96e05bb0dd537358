//! The storage of the capture: its ring, its file, and the two threads that move records from one to the other.
//!
//! ```text
//!  hooks ──► ring ──► gpumem-drain ──► queue ──► gpumem-file ──► report.bin
//!            └──── memory that no disk owns ────┘
//!
//!  hooks ──► ring in report.bin ──► gpumem-file ──► its pages      GPUMEM_RING=file; gpumem-lines prints
//! ```
//! Only gpumem-file uses the capture's descriptor. It has a separate descriptor table, so it cannot write to stderr:
//! another thread prints for it.

mod descriptors;
mod holder;
mod job;
mod lines;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use gpumem_capture::{CreateError, Ended, RingPlace, Trouble, Writer};
use gpumem_replay::BoundedReplay;
use gpumem_sys::wait;

use self::job::Job;
use self::lines::Lines;
use crate::options::{Options, Ring};
use crate::thread::{self, Started};
use crate::{fault, message, output};

/// The maximum number of names that are tried.
const NAMES: u32 = 10_000;
/// How long the first call waits for memory for the ring.
const FOR_MEMORY: Duration = Duration::from_secs(5);
/// How long it waits for the capture's file, which may be on a disk that does not respond.
const FOR_FILE: Duration = Duration::from_millis(40);
/// How long the program's end waits until the file has the whole capture.
const FOR_END: Duration = Duration::from_secs(1);
/// The same at the very end, if the file system has responded by then.
const AT_LAST: Duration = Duration::from_millis(500);
/// How long the very end waits for the removal of the rings of ended processes.
const FOR_SWEEP: Duration = Duration::from_millis(50);
/// How often the thread that only prints checks for lines.
const LINES_EVERY: Duration = Duration::from_millis(50);

/// The threads of a capture, and their progress.
#[derive(Default)]
pub(crate) struct Storage {
    /// The progress of the thread that writes the file: 0, or one of the following.
    step: AtomicU32,
    writer: OnceLock<&'static Writer>,
    lines: Lines,
    file_thread: OnceLock<Started>,
    /// The thread that empties the ring, or only prints.
    other_thread: OnceLock<Started>,
    /// The thread that removes the rings of ended processes.
    sweep: OnceLock<Started>,
    /// The file did not have all of the capture at the program's end.
    is_behind: AtomicBool,
    /// Whether a message about an unwritable file was printed.
    trouble_said: AtomicBool,
    /// Whether a message about a truncated file was printed.
    cut_said: AtomicBool,
    /// Whether a message about the end of recording was printed.
    end_said: AtomicBool,
    /// Whether a message about a ring without memory was printed.
    ring_said: AtomicBool,
}

/// There is a writer.
const WRITING: u32 = 1;
/// There is a file.
const CREATED: u32 = 2;
/// There is neither.
const FAILED: u32 = 3;
/// There was, and the thread has completed its work.
const OVER: u32 = 4;

/// Opens a capture that goes to the path `wanted` or the first free name after it, or, if it is a folder, to that name
/// in it, and starts its threads. Returns the reason if
/// that is not possible.
pub(crate) fn open(
    wanted: (PathBuf, PathBuf),
    options: &Options,
) -> Option<(&'static Storage, &'static Writer)> {
    let job = Job::new(wanted, options);
    let (is_bounded, ring_is_in_file) = (job.is_bounded, options.ring == Ring::File);
    let storage: &Storage = Box::leak(Box::default());
    match thread::start(c"gpumem-file", move || storage.run(&job)) {
        Ok(started) => {
            let _ = storage.file_thread.set(started);
        }
        Err(error) => {
            message::line(&format!(
                "cannot write a capture: its thread did not start: {error}. Recording is off."
            ));
            return None;
        }
    }
    let came = storage.await_step(WRITING, FOR_MEMORY);
    storage.lines.print();
    if came == FAILED {
        return None;
    }
    let Some(&writer) = storage.writer.get() else {
        message::line("cannot write a capture: its thread does not run. Recording is off.");
        return None;
    };
    let started = match ring_is_in_file {
        false => thread::start(c"gpumem-drain", move || {
            storage.drain(writer, is_bounded, &|| storage.tick(writer));
        }),
        true => thread::start(c"gpumem-lines", move || storage.print_until_over(writer)),
    };
    match started {
        Ok(started) => {
            let _ = storage.other_thread.set(started);
        }
        Err(error) => crate::account::note(
            writer,
            &format!("a thread that writes the capture did not start: {error}"),
        ),
    }
    if storage.await_step(CREATED, FOR_FILE) == FAILED {
        storage.lines.print();
        return None;
    }
    Some((storage, writer))
}

/// Makes a fault in the ring's memory end the recording instead of the program.
fn guard(writer: &'static Writer) {
    let Some((memory, length)) = writer.shared_memory() else {
        return;
    };
    fault::ends(writer.loss_words());
    if !fault::guard(memory, length) {
        crate::account::note(
            writer,
            "SIGBUS is not handled: the program ends if its ring is truncated",
        );
    }
}

impl Storage {
    fn step(&self, to: u32) {
        self.step.store(to, Ordering::Release);
        wait::wake(&self.step);
    }

    /// Waits until the thread has reached a step.
    fn await_step(&self, least: u32, limit: Duration) -> u32 {
        let mut waited = Duration::ZERO;
        loop {
            let now = self.step.load(Ordering::Acquire);
            match limit.checked_sub(waited) {
                Some(left) if now < least && !left.is_zero() => {
                    waited += wait::sleep(&self.step, now, left);
                }
                _ => return now,
            }
        }
    }

    /// The main function of the thread that writes the file.
    fn run(&self, job: &Job) {
        let has_own_table = descriptors::own_table();
        let first = match job.capture.ring {
            RingPlace::InCapture => self.create(job, |path| Writer::create(path, &job.capture)),
            _ => Writer::begin(&job.wanted, &job.capture)
                .inspect_err(|error| self.lines.leave(job.refused(error, error.errno())))
                .ok(),
        };
        let Some(writer) = first else {
            return self.step(FAILED);
        };
        guard(writer);
        let _own = fault::own();
        let _ = self.writer.set(writer);
        if job.capture.ring != RingPlace::InCapture {
            self.step(WRITING);
            if self.create(job, |path| writer.create_file(path)).is_none() {
                writer.abandon(Ended::NoFile);
                if let Some(ring) = writer.ring_path() {
                    let _ = std::fs::remove_file(ring);
                }
                return self.step(FAILED);
            }
        }
        let Some(path) = writer.path() else {
            return self.step(CREATED);
        };
        // Before the first call returns, because a kill may follow.
        self.announce(job, writer, path);
        self.step(CREATED);
        self.created(writer, has_own_table);
        match job.capture.ring {
            RingPlace::InCapture => self.drain(writer, job.is_bounded, &|| {}),
            _ => writer.run_store(&|trouble| self.told(path, &trouble)),
        }
        self.step(OVER);
    }

    /// Reports the capture to the process that started the program, and passes the ring on to be held open, if
    /// requested.
    fn announce(&self, job: &Job, writer: &'static Writer, path: &Path) {
        if let (Some(holder), Some(Ok(ring))) = (&job.holder, writer.ring_handle()) {
            // It may have ended: that matters only after a kill, and the account then reports it.
            let _ = holder::pass(holder, &ring, path);
        }
        if let Some(list) = &job.list
            && let Err(error) = output::add_to_list(list.as_ref(), path)
        {
            self.lines.leave(format!(
                "{}: {error}; the capture {} is missing from that list.",
                list.to_string_lossy(),
                path.display()
            ));
        }
    }

    /// Called once there is a file.
    fn created(&self, writer: &'static Writer, has_own_table: bool) {
        if let Some(why) = writer.ring_fell_back() {
            let instead = match writer.ring_path() {
                Some(ring) => ring.parent().unwrap_or(ring).display().to_string(),
                None => "unnamed memory: a kill loses up to 50 ms of events".into(),
            };
            self.lines
                .leave(format!("no ring in {why}. The ring is in {instead}."));
        }
        // In the program's table, a descriptor can become the program's file between two calls: a sweep would read,
        // write and close that. The rings of ended processes wait for the next recorder.
        let Some(ring) = writer.ring_path().filter(|_| has_own_table) else {
            return;
        };
        let (Some(folder), ring) = (ring.parent().map(Path::to_owned), ring.to_owned()) else {
            return;
        };
        // In a separate thread, because the captures that it reads may be on other disks.
        if let Ok(started) = thread::start(c"gpumem-sweep", move || {
            gpumem_capture::sweep(&folder, Some(&ring));
        }) {
            let _ = self.sweep.set(started);
        }
    }

    /// Creates the capture under the first free name. Returns the reason if that is not possible.
    fn create<R>(&self, job: &Job, create: impl Fn(&Path) -> Result<R, CreateError>) -> Option<R> {
        let wanted = match output::place(&job.wanted, &job.name) {
            Ok(wanted) => wanted,
            Err(why) => {
                self.lines.leave(job.refused(&why, 0));
                return None;
            }
        };
        for n in 1..=NAMES {
            match create(&output::numbered(&wanted, n)) {
                Ok(created) => return Some(created),
                Err(error) if error.errno() == libc::EEXIST => {}
                Err(error) => {
                    self.lines.leave(job.refused(&error, error.errno()));
                    return None;
                }
            }
        }
        self.lines.leave(format!(
            "cannot write a capture: {} and {NAMES} names after it are taken. Recording is off.",
            wanted.display()
        ));
        None
    }

    /// Prints a message about a problem: for the file only the first one, and once if events are lost.
    fn told(&self, path: &Path, trouble: &Trouble<'_>) {
        let is_of_file = matches!(trouble, Trouble::Write(_) | Trouble::Stuck);
        if is_of_file && self.trouble_said.swap(true, Ordering::Relaxed) {
            return;
        }
        let is_cut = matches!(trouble, Trouble::Cut(_));
        if is_cut && self.cut_said.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(line) = lines::of(path, trouble) {
            self.lines.leave(line);
        }
    }

    /// Empties the ring until the capture is closed. For a bounded capture it also keeps the state.
    fn drain(&self, writer: &'static Writer, is_bounded: bool, tick: &dyn Fn()) {
        let tell = |trouble: Trouble<'_>| {
            let path = writer.path().unwrap_or(Path::new("the capture"));
            self.told(path, &trouble);
        };
        match is_bounded {
            false => writer.run_drain(None, &tell, tick),
            true => writer.run_drain(Some(&mut BoundedReplay::default()), &tell, tick),
        }
    }

    /// The main function of the thread that only prints.
    fn print_until_over(&self, writer: &'static Writer) {
        loop {
            let now = self.step.load(Ordering::Acquire);
            self.tick(writer);
            if now == OVER {
                return;
            }
            wait::sleep(&self.step, now, LINES_EVERY);
        }
    }

    /// The periodic work, at least every 50 ms, of a thread with the program's stderr.
    fn tick(&self, writer: &'static Writer) {
        self.lines.print();
        if writer.is_partly_private() && !self.ring_said.swap(true, Ordering::Relaxed) {
            message::line(
                "no memory is left where the ring is. The rest of it is in unnamed memory: a kill loses up to 50 ms of events.",
            );
        }
        thread::last::check();
        fault::check();
        if fault::broken() || writer.ended() == Some(Ended::MemoryGone) {
            writer.abandon(Ended::MemoryGone);
            fault::tell(writer.path().unwrap_or(Path::new("the capture")));
            if let Some(ring) = writer.ring_path() {
                let _ = std::fs::remove_file(ring);
            }
        } else if let Some(ended) = writer.ended()
            && ended != Ended::NoFile
            && !self.end_said.swap(true, Ordering::Relaxed)
        {
            let path = writer.path().unwrap_or(Path::new("the capture"));
            message::line(&format!(
                "{}: recording ended: {ended}. The events written so far are readable; the program continues.",
                path.display()
            ));
        }
    }

    /// Prints once that recording has ended before the program.
    pub(crate) fn say_ended(&self, writer: &'static Writer) {
        self.tick(writer);
    }

    /// The program's end, before other libraries are shut down: everything is written to the file, and the threads
    /// wait. False if the file system was too slow.
    pub(crate) fn pause(&self, writer: &'static Writer) -> bool {
        let is_written = writer.pause(FOR_END);
        self.lines.print();
        self.is_behind.store(!is_written, Ordering::Relaxed);
        is_written
    }

    /// The very end: records after [`pause`] are written to the file, which is then closed, and the threads end.
    pub(crate) fn close(&self, writer: &'static Writer) {
        let limit = match self.is_behind.load(Ordering::Relaxed) {
            false => AT_LAST,
            true => Duration::ZERO,
        };
        writer.close(limit);
        for thread in [&self.other_thread, &self.file_thread]
            .into_iter()
            .flat_map(OnceLock::get)
        {
            thread.join_within(limit);
        }
        // What these threads found too late for `pause`.
        self.lines.print();
        self.await_sweep(FOR_SWEEP);
    }

    /// Waits until the rings of ended processes are removed, at most `limit`: programs that run shorter than that would
    /// never remove one.
    fn await_sweep(&self, limit: Duration) {
        if let Some(sweep) = self.sweep.get() {
            sweep.join_within(limit);
        }
    }

    /// The capture's path, after a short wait: none as long as its file system does not respond.
    pub(crate) fn path(&self, writer: &'static Writer) -> Option<&'static Path> {
        if writer.path().is_none() {
            self.await_step(CREATED, FOR_END);
        }
        writer.path()
    }
}

#[cfg(test)]
mod tests;
