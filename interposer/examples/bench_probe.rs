//! Measures the parts of an event inside the program that loads this library with ctypes: for
//! scripts/bench. The parts are those of libgpumem.so; the whole event is that of the preloaded
//! libgpumem.so.

use core::ffi::{CStr, c_char, c_void};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Options, Writer};
use gpumem_python_frames::{Finding, Frame, StackMemo, finding};
use gpumem_stacks::{Interner, Stacks};
use gpumem_unwind::Unwinder;

static WRITER: OnceLock<&'static Writer> = OnceLock::new();
static INTERNER: Interner = Interner::new();

/// PyTorch's report of one block, in the form of PyTorch 2: hooked by libgpumem.so.
type Report = extern "C" fn(*mut c_void, i64, u64, u64, u16);

/// Opens a separate capture for the probe. 0, or 1 if that failed.
///
/// # Safety
/// `path` is a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_open(path: *const c_char) -> i32 {
    // SAFETY: promised by the caller.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let Ok(writer) = Writer::create(Path::new(path.as_ref()), &Options::default()) else {
        return 1;
    };
    std::thread::spawn(|| writer.drain());
    i32::from(WRITER.set(writer).is_err())
}

/// Nanoseconds of one call of `part`, on average over `times`; −1 without [`probe_open`].
fn cost(times: u32, mut part: impl FnMut(&'static Writer, u32)) -> f64 {
    let Some(writer) = WRITER.get() else {
        return -1.0;
    };
    let start = Instant::now();
    for number in 0..times {
        part(writer, number);
    }
    start.elapsed().as_nanos() as f64 / f64::from(times)
}

/// Reading the clock.
#[unsafe(no_mangle)]
pub extern "C" fn probe_clock(times: u32) -> f64 {
    cost(times, |writer, _| {
        black_box(writer.now());
    })
}

/// The look at the Python frames.
#[unsafe(no_mangle)]
pub extern "C" fn probe_walk(times: u32) -> f64 {
    let Some(Finding::Readable(runtime)) = finding() else {
        return -1.0;
    };
    let mut memo = Box::new(StackMemo::new());
    runtime.look(&mut memo, 256, 1);
    memo.note(1);
    cost(times, |_, _| {
        black_box(runtime.look(&mut memo, 256, 1));
    })
}

/// An empty native unwinder.
fn unwinder() -> Box<Unwinder> {
    let layout = Layout::new::<Unwinder>();
    // SAFETY: the layout is not of size 0; an unwinder's zeros are one that has seen nothing.
    let mut unwinder = unsafe {
        let zeros = alloc_zeroed(layout).cast::<Unwinder>();
        if zeros.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(zeros)
    };
    unwinder.change_thread();
    unwinder
}

/// The native unwinding.
#[unsafe(no_mangle)]
pub extern "C" fn probe_unwind(times: u32) -> f64 {
    let mut unwinder = unwinder();
    unwinder.take(None, None);
    cost(times, |_, _| {
        black_box(unwinder.take(None, None));
    })
}

/// Stacks with their ids. `want`: 0 both, 1 Python, 2 native.
#[unsafe(no_mangle)]
pub extern "C" fn probe_take(want: u32, times: u32) -> f64 {
    let want = match want {
        0 => Stacks::Mixed,
        1 => Stacks::Python,
        _ => Stacks::Native,
    };
    cost(times, |writer, _| {
        black_box(INTERNER.take(writer, want, None));
    })
}

/// Ring and counters: an allocation and its release in turn, both prepared.
#[unsafe(no_mangle)]
pub extern "C" fn probe_write(times: u32) -> f64 {
    let Some(writer) = WRITER.get() else {
        return -1.0;
    };
    let mut event = Event {
        time: writer.now(),
        level: Level::TENSOR,
        ptr: 0x7000_0000_0000,
        bytes: 1024,
        device: DeviceOrdinal(0),
        ..Event::default()
    };
    cost(times, |writer, number| {
        event.kind = match number % 2 {
            0 => EventKind::ALLOC,
            _ => EventKind::FREE,
        };
        let _ = black_box(writer.event(black_box(&event)));
    })
}

/// The frames here: Python's in the lower half of the result, native ones in the upper.
#[unsafe(no_mangle)]
pub extern "C" fn probe_depth() -> u64 {
    let python = match finding() {
        Some(Finding::Readable(runtime)) => runtime
            .walk(&mut [Frame::default(); 256])
            .map_or(0, |walked| walked.len),
        _ => 0,
    };
    python as u64 | (unwinder().take(None, None).len as u64) << 32
}

/// Reports a block of 1 KiB at `ptr` of a device and its release, `times` times; returns the nanoseconds of
/// such a pair. `live` are the other live bytes according to PyTorch.
#[unsafe(no_mangle)]
pub extern "C" fn probe_report(
    report: Report,
    ptr: *mut c_void,
    live: u64,
    device: u8,
    times: u32,
) -> f64 {
    const CUDA: u8 = 1;
    let (bytes, device) = (1024, u16::from_le_bytes([CUDA, device]));
    let start = Instant::now();
    for _ in 0..times {
        report(ptr, bytes, live + bytes as u64, live + bytes as u64, device);
        report(ptr, -bytes, live, live + bytes as u64, device);
    }
    start.elapsed().as_nanos() as f64 / f64::from(times)
}

/// `cuMemAlloc` and `cuMemFree`.
type Alloc = extern "C" fn(*mut u64, usize) -> i32;
type Free = extern "C" fn(u64) -> i32;
/// `cuMemAllocAsync` and `cuMemFreeAsync`.
type AllocAsync = extern "C" fn(*mut u64, usize, *mut c_void) -> i32;
type FreeAsync = extern "C" fn(u64, *mut c_void) -> i32;

/// Allocates a block of 4 KiB and frees it, `times` times. Returns the number of failed calls.
#[unsafe(no_mangle)]
pub extern "C" fn probe_pairs(alloc: Alloc, free: Free, times: u32) -> u32 {
    let mut at = 0;
    let calls = (0..times).flat_map(|_| [alloc(&raw mut at, 4096), free(at)]);
    calls.filter(|result| *result != 0).count() as u32
}

/// The same with the current pool of the default stream.
#[unsafe(no_mangle)]
pub extern "C" fn probe_pairs_async(alloc: AllocAsync, free: FreeAsync, times: u32) -> u32 {
    let (mut at, stream) = (0, std::ptr::null_mut());
    let calls = (0..times).flat_map(|_| [alloc(&raw mut at, 4096, stream), free(at, stream)]);
    calls.filter(|result| *result != 0).count() as u32
}

/// One of the functions that [`down`] chooses from.
type Next = fn(u32, u32, &dyn Fn()) -> u32;

/// Runs `report_it` under a different native stack for each `path`: each three bits select one of eight
/// functions that call the next one.
fn down(path: u32, depth: u32, report_it: &dyn Fn()) -> u32 {
    const PLACES: [Next; 8] = [
        through::<0>,
        through::<1>,
        through::<2>,
        through::<3>,
        through::<4>,
        through::<5>,
        through::<6>,
        through::<7>,
    ];
    match (depth, PLACES.get(path as usize % PLACES.len())) {
        (1.., Some(next)) => next(path >> 3, depth - 1, report_it),
        _ => {
            report_it();
            path
        }
    }
}

/// One of the eight functions. Its last operation keeps it on the stack, and makes it differ from the
/// others.
#[inline(never)]
fn through<const PLACE: u32>(path: u32, depth: u32, report_it: &dyn Fn()) -> u32 {
    black_box(down(path, depth, report_it)) ^ black_box(PLACE)
}

/// Reports a block and its release once, under the native stack of that number.
#[unsafe(no_mangle)]
pub extern "C" fn probe_report_from(path: u32, report: Report, ptr: *mut c_void, live: u64) -> u32 {
    down(path, 7, &|| {
        probe_report(report, ptr, live, 0, 1);
    })
}
