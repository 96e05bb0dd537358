//! Returns the stacks that libgpumem.so would record to the Python program that loads this library
//! with ctypes: for tests/test_python_frames.py.

use core::ffi::c_int;
use std::sync::Mutex;

// For its hooks: a test preloads this library.
use gpumem as _;
use gpumem_capture::{DefKind, Lost};
use gpumem_python_frames::{Finding, Frame, finding};
use gpumem_stacks::{DefinitionSink, Interner, Stacks};

/// Keeps definitions as bytes: u8 kind, u32 length, payload.
struct Collector(Mutex<Vec<u8>>);

impl DefinitionSink for Collector {
    fn is_open(&self) -> bool {
        true
    }

    fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<(), Lost> {
        let mut kept = self.0.lock().unwrap();
        let length: usize = parts.iter().map(|part| part.len()).sum();
        kept.push(kind.0);
        kept.extend((length as u32).to_le_bytes());
        for part in parts {
            kept.extend_from_slice(part);
        }
        Ok(())
    }
}

static COLLECTOR: Collector = Collector(Mutex::new(Vec::new()));
static INTERNER: Interner = Interner::new();

fn wanted(want: u32) -> Stacks {
    match want {
        0 => Stacks::Mixed,
        1 => Stacks::Python,
        2 => Stacks::Native,
        _ => Stacks::Off,
    }
}

/// Captures the calling thread's stacks: the Python stack's id in the lower half of the result, the
/// native stack's in the upper. `want`: 0 both, 1 Python, 2 native.
#[unsafe(no_mangle)]
pub extern "C" fn probe_take(want: u32) -> u64 {
    let (python, native) = INTERNER.take(&COLLECTOR, wanted(want), None);
    u64::from(python.0) | u64::from(native.0) << 32
}

/// Copies the definitions since the last call to `buffer` and forgets them; if they are longer than
/// `size` they stay. Returns their length.
///
/// # Safety
/// `buffer` is valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_definitions(buffer: *mut u8, size: usize) -> usize {
    let mut kept = COLLECTOR.0.lock().unwrap();
    let length = kept.len();
    if length <= size {
        // SAFETY: the caller promises `size` bytes; the two do not overlap.
        unsafe { buffer.copy_from_nonoverlapping(kept.as_ptr(), length) };
        kept.clear();
    }
    length
}

/// Prints whether the interpreter is finalizing.
#[unsafe(no_mangle)]
pub extern "C" fn probe_print_finalizing() {
    let Some(Finding::Readable(runtime)) = finding() else {
        return;
    };
    println!("finalizing {}", c_int::from(runtime.is_finalizing()));
}

/// Nanoseconds that this thread has had a processor.
fn processor_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock writes to the structure alone.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of one [`probe_take`], on average over `times`.
#[unsafe(no_mangle)]
pub extern "C" fn probe_take_cost(want: u32, times: u32) -> f64 {
    let want = wanted(want);
    let start = processor_time();
    for _ in 0..times {
        std::hint::black_box(INTERNER.take(&COLLECTOR, want, None));
    }
    (processor_time() - start) as f64 / f64::from(times)
}

/// Nanoseconds of one walk of the Python stack, on average over `times`; −1 without a readable
/// Python.
#[unsafe(no_mangle)]
pub extern "C" fn probe_walk_cost(times: u32) -> f64 {
    let Some(Finding::Readable(runtime)) = finding() else {
        return -1.0;
    };
    let mut frames = [Frame::default(); 256];
    let start = processor_time();
    for _ in 0..times {
        std::hint::black_box(runtime.walk(&mut frames));
    }
    (processor_time() - start) as f64 / f64::from(times)
}
