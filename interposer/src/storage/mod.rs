//! Where the capture goes: its ring, its file, and the two threads that bring one into the other.
//!
//! ```text
//!  hooks ──► ring ──► gpumem-drain ──► queue ──► gpumem-file ──► report.bin
//!            └──── memory that no disk owns ────┘
//!
//!  hooks ──► ring in report.bin ──► gpumem-file ──► its pages      GPUMEM_RING=file; gpumem-lines prints
//! ```
//! Only gpumem-file uses the capture's descriptor. It has a table of descriptors of its own, so stderr is not its to
//! write to: another thread prints for it.

mod descriptors;
mod holder;
pub(crate) mod lines;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use gpumem_capture::{CreateError, Ended, Options as CaptureOptions, RingPlace, Trouble, Writer};
use gpumem_replay::BoundedReplay;
use gpumem_sys::wait;

use crate::options::{Options, Ring};
use crate::thread::{self, Started};
use crate::{fault, message, output};

/// Names that are tried before giving up.
const NAMES: u32 = 10_000;
/// How long the first call waits for memory for the ring.
const FOR_MEMORY: Duration = Duration::from_secs(5);
/// How long it waits for the capture's file, which may be on a disk that does not answer.
const FOR_FILE: Duration = Duration::from_millis(40);
/// How long the program's end waits for the file to have all of the capture.
const FOR_END: Duration = Duration::from_secs(1);
/// The same at the very end, if the file system has answered by then.
const AT_LAST: Duration = Duration::from_millis(500);
/// How long a call may wait for room in the ring: for the drain's turn on a processor.
const FOR_ROOM: Duration = Duration::from_millis(50);
/// How often the thread that only prints looks whether there is a line to print.
const LINES_EVERY: Duration = Duration::from_millis(50);

/// What the thread that writes the file is to do.
#[derive(Clone)]
struct Job {
    /// The capture's path, unless it is taken.
    wanted: PathBuf,
    /// Where its path is added to.
    list: Option<OsString>,
    /// Who is to hold the ring open.
    holder: Option<OsString>,
    capture: CaptureOptions,
    is_bounded: bool,
}

/// What the thread has come to: 0 nothing, or one of the following.
static STEP: AtomicU32 = AtomicU32::new(0);
static WRITER: AtomicPtr<Writer> = AtomicPtr::new(core::ptr::null_mut());
/// Whether the file had all of the capture at the program's end.
static ANSWERS: AtomicBool = AtomicBool::new(true);
static FILE_THREAD: OnceLock<Started> = OnceLock::new();
/// The thread that empties the ring, or only prints.
static OTHER_THREAD: OnceLock<Started> = OnceLock::new();

/// There is a writer.
const WRITING: u32 = 1;
/// There is a file.
const CREATED: u32 = 2;
/// There is none of either.
const FAILED: u32 = 3;
/// There was, and the thread has done all that it had to do.
const OVER: u32 = 4;

fn step(to: u32) {
    STEP.store(to, Ordering::Release);
    wait::wake(&STEP);
}

/// Waits until the thread has come to a step.
fn await_step(least: u32, limit: Duration) -> u32 {
    let mut waited = Duration::ZERO;
    loop {
        let now = STEP.load(Ordering::Acquire);
        match limit.checked_sub(waited) {
            Some(left) if now < least && !left.is_zero() => {
                waited += wait::sleep(&STEP, now, left);
            }
            _ => return now,
        }
    }
}

/// Opens a capture that goes to `wanted` or the first free name after it, and starts its threads. Says why if that is
/// not possible.
pub(crate) fn open(wanted: PathBuf, options: &Options) -> Option<&'static Writer> {
    let capture = CaptureOptions::default()
        .ring_slots(options.ring_slots)
        .bounded(options.bounded);
    let capture = match &options.ring {
        Ring::File => capture,
        Ring::Memory => capture.ring(RingPlace::Folders(folders())).stall(FOR_ROOM),
        Ring::Folder(folder) => {
            let folders = vec![PathBuf::from(folder)];
            capture.ring(RingPlace::Folders(folders)).stall(FOR_ROOM)
        }
        Ring::Memfd => capture.ring(RingPlace::Memfd).stall(FOR_ROOM),
    };
    let job = Job {
        wanted,
        list: options.list.clone(),
        holder: options.holder.clone(),
        is_bounded: options.bounded.is_some(),
        capture,
    };
    let (is_bounded, ring_is_in_file) = (job.is_bounded, options.ring == Ring::File);
    match thread::start(c"gpumem-file", move || run(&job)) {
        Ok(started) => {
            let _ = FILE_THREAD.set(started);
        }
        Err(error) => {
            message::line(&format!(
                "cannot write a capture: its thread did not start: {error}. Recording is off."
            ));
            return None;
        }
    }
    let came = await_step(WRITING, FOR_MEMORY);
    lines::print();
    if came == FAILED {
        return None;
    }
    // SAFETY: null, or the leaked writer that the thread has stored before it came to this step.
    let Some(writer) = (unsafe { WRITER.load(Ordering::Acquire).as_ref() }) else {
        message::line("cannot write a capture: its thread gets no turn. Recording is off.");
        return None;
    };
    let started = match ring_is_in_file {
        false => thread::start(c"gpumem-drain", move || {
            drain(writer, is_bounded, &|| tick(writer));
        }),
        true => thread::start(c"gpumem-lines", move || print_until_over(writer)),
    };
    match started {
        Ok(started) => {
            let _ = OTHER_THREAD.set(started);
        }
        Err(error) => crate::account::note(
            writer,
            &format!("a thread that writes the capture did not start: {error}"),
        ),
    }
    if await_step(CREATED, FOR_FILE) == FAILED {
        lines::print();
        return None;
    }
    Some(writer)
}

/// Folders that lie in memory on most machines.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folders = [Some(OsString::from("/dev/shm")), runtime];
    folders.into_iter().flatten().map(PathBuf::from).collect()
}

/// The life of the thread that writes the file.
fn run(job: &Job) {
    descriptors::own_table();
    let first = match job.capture.ring {
        RingPlace::InCapture => create(job, |path| Writer::create(path, &job.capture)),
        _ => Writer::begin(&job.wanted, &job.capture)
            .inspect_err(|error| lines::leave(refused(error, job)))
            .ok(),
    };
    let Some(writer) = first else {
        return step(FAILED);
    };
    guard(writer);
    let _own = fault::own();
    WRITER.store(core::ptr::from_ref(writer).cast_mut(), Ordering::Release);
    if job.capture.ring != RingPlace::InCapture {
        step(WRITING);
        if create(job, |path| writer.create_file(path)).is_none() {
            writer.abandon(Ended::NoFile);
            if let Some(ring) = writer.ring_path() {
                let _ = std::fs::remove_file(ring);
            }
            return step(FAILED);
        }
    }
    let Some(path) = writer.path() else {
        return step(CREATED);
    };
    // Before the first call returns: a kill may follow.
    announce(job, writer, path);
    step(CREATED);
    created(writer);
    match job.capture.ring {
        RingPlace::InCapture => drain(writer, job.is_bounded, &|| {}),
        _ => writer.run_store(&|trouble| told(path, &trouble)),
    }
    step(OVER);
}

/// Has a fault in the ring's memory end recording, and not the program.
fn guard(writer: &'static Writer) {
    let Some((memory, length)) = writer.shared_memory() else {
        return;
    };
    fault::ends(writer.recording_word());
    if !fault::guard(memory, length) {
        crate::account::note(
            writer,
            "SIGBUS is not handled: the program ends if its ring is truncated",
        );
    }
}

/// Tells whoever started the program of the capture, and passes the ring on to be held open, if that is wanted.
fn announce(job: &Job, writer: &'static Writer, path: &Path) {
    if let (Some(holder), Some(Ok(ring))) = (&job.holder, writer.ring_handle()) {
        // It may have ended: that costs something only after a kill, and the account then says so.
        let _ = holder::pass(holder, &ring, path);
    }
    if let Some(list) = &job.list
        && let Err(error) = output::add_to_list(list.as_ref(), path)
    {
        lines::leave(format!(
            "{}: {error}; the capture {} is not in that list.",
            list.to_string_lossy(),
            path.display()
        ));
    }
}

/// What is to be done once there is a file.
fn created(writer: &'static Writer) {
    if let Some(why) = writer.ring_fell_back() {
        let instead = match writer.ring_path() {
            Some(ring) => ring.parent().unwrap_or(ring).display().to_string(),
            None => "memory without a name: a kill loses up to 50 ms of events".into(),
        };
        lines::leave(format!("no ring in {why}. It is in {instead}."));
    }
    let Some(ring) = writer.ring_path() else {
        return;
    };
    let (Some(folder), ring) = (ring.parent().map(Path::to_owned), ring.to_owned()) else {
        return;
    };
    // In a thread of its own: the captures that it looks at may be on other disks.
    let _ = thread::start(c"gpumem-sweep", move || {
        gpumem_capture::sweep(&folder, Some(&ring));
    });
}

/// Creates the capture under the first free name. Says why if that is not possible.
fn create<R>(job: &Job, create: impl Fn(&Path) -> Result<R, CreateError>) -> Option<R> {
    for n in 1..=NAMES {
        match create(&output::numbered(&job.wanted, n)) {
            Ok(created) => return Some(created),
            Err(error) if error.errno() == libc::EEXIST => {}
            Err(error) => {
                lines::leave(refused(&error, job));
                return None;
            }
        }
    }
    lines::leave(format!(
        "cannot write a capture: {} and {NAMES} names after it are taken. Recording is off.",
        job.wanted.display()
    ));
    None
}

fn refused(error: &CreateError, job: &Job) -> String {
    format!(
        "cannot write a capture: {error}. Recording is off; the program goes on. Set GPUMEM_OUTPUT to a path that can \
         be written{}.",
        if job.is_bounded {
            ", and GPUMEM_BOUNDED to as much as the disk has and the ring needs"
        } else {
            ""
        }
    )
}

/// Says what is wrong: of the file the first thing alone, and once if events are lost.
fn told(path: &Path, trouble: &Trouble<'_>) {
    static OF_FILE: AtomicBool = AtomicBool::new(false);
    let is_of_file = matches!(trouble, Trouble::Write(_) | Trouble::Stuck);
    if is_of_file && OF_FILE.swap(true, Ordering::Relaxed) {
        return;
    }
    let path = path.display();
    lines::leave(match trouble {
        Trouble::Write(error) => format!(
            "cannot write to {path}: {error}. Events wait in memory; those that find no more room are counted as lost. \
             The program goes on."
        ),
        Trouble::Stuck => format!(
            "{path}: the disk does not answer. Events wait in memory, up to 64 MiB compressed. The program goes on."
        ),
        Trouble::Full(error) => format!(
            "{path}: what waits to be written finds no more room ({error}). Events are counted as lost. The program \
             goes on."
        ),
        _ => return,
    });
}

/// Empties the ring until the capture is closed. Of a bounded capture it also keeps what the records come to.
fn drain(writer: &'static Writer, is_bounded: bool, tick: &dyn Fn()) {
    let tell = |trouble: Trouble<'_>| {
        let path = writer.path().unwrap_or(Path::new("the capture"));
        told(path, &trouble);
    };
    match is_bounded {
        false => writer.run_drain(None, &tell, tick),
        true => writer.run_drain(Some(&mut BoundedReplay::default()), &tell, tick),
    }
}

/// The life of the thread that only prints.
fn print_until_over(writer: &'static Writer) {
    loop {
        let now = STEP.load(Ordering::Acquire);
        tick(writer);
        if now == OVER {
            return;
        }
        wait::sleep(&STEP, now, LINES_EVERY);
    }
}

/// What a thread with the program's stderr does at least every 50 ms.
fn tick(writer: &'static Writer) {
    lines::print();
    fault::check();
    static SAID: AtomicU32 = AtomicU32::new(0);
    if fault::broken() {
        writer.abandon(Ended::MemoryGone);
        fault::tell(writer.path().unwrap_or(Path::new("the capture")));
        if let Some(ring) = writer.ring_path() {
            let _ = std::fs::remove_file(ring);
        }
    } else if let Some(ended) = writer.ended()
        && ended != Ended::NoFile
        && SAID.swap(1, Ordering::Relaxed) == 0
    {
        let path = writer.path().unwrap_or(Path::new("the capture"));
        message::line(&format!(
            "{}: recording has ended: {ended}. What was written by then can be read; the program goes on.",
            path.display()
        ));
    }
}

/// Says that recording has ended before the program, unless that was said.
pub(crate) fn say_ended(writer: &'static Writer) {
    tick(writer);
}

/// The program's end, before other libraries are taken down: all that there is goes to the file, and the threads stand
/// still. False: the file system did not take it in time.
pub(crate) fn pause(writer: &'static Writer) -> bool {
    let is_written = writer.pause(FOR_END);
    lines::print();
    ANSWERS.store(is_written, Ordering::Relaxed);
    is_written
}

/// The very end: what came after [`pause`] goes to the file, which is then closed, and the threads end.
pub(crate) fn close(writer: &'static Writer) {
    let limit = match ANSWERS.load(Ordering::Relaxed) {
        true => AT_LAST,
        false => Duration::ZERO,
    };
    writer.close(limit);
    for thread in [&OTHER_THREAD, &FILE_THREAD]
        .into_iter()
        .flat_map(OnceLock::get)
    {
        thread.join_within(limit);
    }
}

/// The capture's path, for which a moment is waited: none as long as its file system does not answer.
pub(crate) fn path(writer: &'static Writer) -> Option<&'static Path> {
    if writer.path().is_none() {
        await_step(CREATED, FOR_END);
    }
    writer.path()
}
