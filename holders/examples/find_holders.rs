//! Finds who keeps the objects of a Python class: for tests/test_holders.py, which loads this library with ctypes. The
//! class stands for tensors; the program says which memory each object has.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use gpumem_holders::{Cut, Graph, Holders, Limits, Memory, Saved, Tensors, lock, reads, walk};
use gpumem_python_frames::{Finding, finding};

/// An object and its memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Planted {
    object: u64,
    block: u64,
    bytes: u64,
    sharers: u64,
}

struct Class<'a> {
    name: &'a str,
    planted: HashMap<usize, Planted>,
}

impl Tensors for Class<'_> {
    fn is_tensor(&self, class: &str) -> bool {
        class == self.name
    }

    fn memories(&mut self, objects: &[usize], each: &mut dyn FnMut(usize, Memory)) {
        for (at, object) in objects.iter().enumerate() {
            if let Some(planted) = self.planted.get(object) {
                let memory = Memory {
                    block: planted.block,
                    bytes: planted.bytes,
                    covers: planted.bytes,
                    is_double: false,
                    references: 1,
                    sharers: planted.sharers as u32,
                };
                each(at, memory);
            }
        }
    }

    fn gradient(&mut self, _: usize) -> Option<Memory> {
        None
    }

    fn graph(&mut self, _: usize) -> Option<Graph> {
        None
    }

    fn graph_of_gradient(&mut self, _: usize) -> Option<Graph> {
        None
    }

    fn saved(&mut self, _: &[Graph]) -> Vec<Saved> {
        Vec::new()
    }
}

/// The text of the last walk.
static TEXT: Mutex<String> = Mutex::new(String::new());

/// Walks, and returns the length of the result's text for [`find_holders_text`]; −1 without a result. `bounds`:
/// milliseconds, objects, references; 0: the usual bound.
///
/// # Safety
/// `class` ends with a zero; `planted` has `count` entries; `bounds` has three.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn find_holders(
    class: *const c_char,
    planted: *const Planted,
    count: usize,
    bounds: *const u64,
) -> isize {
    // SAFETY: promised by the caller.
    let (name, planted, bounds) = unsafe {
        (
            CStr::from_ptr(class).to_str().unwrap_or_default(),
            core::slice::from_raw_parts(planted, count),
            &*bounds.cast::<[u64; 3]>(),
        )
    };
    let mut class = Class {
        name,
        planted: planted
            .iter()
            .map(|one| (one.object as usize, *one))
            .collect(),
    };
    let [time, objects, references] = *bounds;
    let mut limits = Limits::new(Duration::from_millis(if time == 0 {
        600_000
    } else {
        time
    }));
    if objects != 0 {
        limits.objects = objects as usize;
    }
    if references != 0 {
        limits.references = references as usize;
    }
    let Some(holders) = lock().and_then(|lock| walk(&lock, &mut class, &limits)) else {
        return -1;
    };
    let mut kept = TEXT.lock().unwrap();
    *kept = text(&holders);
    kept.len() as isize
}

fn text(holders: &Holders) -> String {
    let cut = match holders.cut {
        None => "whole",
        Some(Cut::Time) => "time",
        Some(Cut::Size) => "size",
        Some(Cut::Memory) => "memory",
    };
    let (us, objects, references) = (
        holders.time.as_micros(),
        holders.objects,
        holders.references,
    );
    let bytes = holders.bytes;
    let mut out = format!("walk\t{cut}\t{us}\t{objects}\t{references}\t{bytes}\n");
    for holder in &holders.holders {
        let kind = holder.kind.word();
        let frees = holder.frees.map_or(-1, |bytes| bytes as i64);
        let (bytes, blocks) = (holder.bytes, holder.blocks);
        let (text, place) = (&holder.text, &holder.place);
        let also = holder.also.as_deref().unwrap_or_default();
        let _ = writeln!(
            out,
            "holder\t{kind}\t{bytes}\t{blocks}\t{frees}\t{text}\t{place}\t{also}\t{}",
            holder.unused
        );
    }
    for (block, holder) in &holders.blocks {
        let _ = writeln!(out, "block\t{block}\t{holder}");
    }
    out
}

/// Copies the text of the last walk.
///
/// # Safety
/// `out` is valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn find_holders_text(out: *mut u8, size: usize) {
    let kept = TEXT.lock().unwrap();
    let length = kept.len().min(size);
    // SAFETY: promised by the caller.
    unsafe { out.copy_from_nonoverlapping(kept.as_ptr(), length) };
}

/// A place in a function, by the address of its code object, and one of its variables.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place {
    code: u64,
    offset: i64,
    variable: u64,
}

/// Writes for each place whether the function reads the variable again: 1, 0; −1: not known.
///
/// # Safety
/// `places` has `count` entries with live code objects, and `out` is valid for writes of as many.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn find_holders_reads(
    places: *const Place,
    count: usize,
    out: *mut i8,
) {
    let Some(lock) = lock() else {
        return;
    };
    // SAFETY: promised by the caller.
    let (places, out) = unsafe {
        (
            core::slice::from_raw_parts(places, count),
            core::slice::from_raw_parts_mut(out, count),
        )
    };
    for (of, out) in places.iter().zip(out) {
        let reads = reads(
            &lock,
            of.code as usize,
            of.offset as i32,
            of.variable as usize,
        );
        *out = reads.map_or(-1, i8::from);
    }
}

fn walk_nothing() -> c_int {
    let mut class = Class {
        name: "",
        planted: HashMap::new(),
    };
    let limits = Limits::new(Duration::from_secs(600));
    c_int::from(
        lock()
            .and_then(|lock| walk(&lock, &mut class, &limits))
            .is_some(),
    )
}

/// Whether a walk has a result.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn find_holders_walks() -> c_int {
    walk_nothing()
}

/// The same in a thread that Python does not know.
#[unsafe(no_mangle)]
pub extern "C" fn find_holders_walks_in_own_thread() -> c_int {
    std::thread::spawn(walk_nothing).join().unwrap_or(-1)
}

static WAITS: AtomicBool = AtomicBool::new(false);
static GO: AtomicBool = AtomicBool::new(false);
static WALKED: AtomicI32 = AtomicI32::new(-1);

static WALKS: AtomicBool = AtomicBool::new(false);

/// Lets [`find_holders_walks_after`] go on, if one waits, and returns when it has begun to walk.
#[unsafe(no_mangle)]
pub extern "C" fn find_holders_go() {
    if WAITS.load(Ordering::Acquire) {
        GO.store(true, Ordering::Release);
        while !WALKS.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        // It looks for functions before it takes the lock.
        (0..20_000).for_each(|_| std::thread::yield_now());
    }
}

/// Waits for [`find_holders_go`], or with 1 for the interpreter's end, and walks.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn find_holders_walks_after(end: c_int) -> c_int {
    let ends = || match finding() {
        Some(Finding::Readable(runtime)) => runtime.is_finalizing(),
        _ => true,
    };
    WAITS.store(end == 0, Ordering::Release);
    while !if end == 1 {
        ends()
    } else {
        GO.load(Ordering::Acquire)
    } {
        std::thread::yield_now();
    }
    WALKS.store(true, Ordering::Release);
    let walked = walk_nothing();
    WALKED.store(walked, Ordering::Release);
    walked
}

/// Whether [`find_holders_walks_after`] waits.
#[unsafe(no_mangle)]
pub extern "C" fn find_holders_waits() -> c_int {
    c_int::from(WAITS.load(Ordering::Acquire))
}

/// Waits for the result of [`find_holders_walks_after`] and prints it; then the result of a walk of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn find_holders_print() {
    let mut other = WALKED.load(Ordering::Acquire);
    while other == -1 {
        std::thread::yield_now();
        other = WALKED.load(Ordering::Acquire);
    }
    println!("other {other} own {}", walk_nothing());
}
