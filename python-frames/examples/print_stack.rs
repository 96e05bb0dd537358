//! `print_stack()` for a Python program that loads this library with ctypes, which releases the GIL for the call:
//!
//! ```text
//! cargo build --package gpumem-python-frames --example print_stack
//! python3 -c 'import ctypes; ctypes.CDLL("target/debug/examples/libprint_stack.so").print_stack()'
//! ```

use gpumem_python_frames::{Finding, Frame, finding};

/// Prints the caller's Python stack, the newest frame first; -1 if the interpreter cannot be read.
#[unsafe(no_mangle)]
pub extern "C" fn print_stack() -> i32 {
    let runtime = match finding() {
        Some(Finding::Readable(runtime)) => runtime,
        Some(Finding::Declined(why)) => {
            println!("{why}");
            return -1;
        }
        None => return -1,
    };
    let mut frames = [Frame::default(); 64];
    let walked = runtime.walk(&mut frames).unwrap_or_default();
    let mut names = Vec::new();
    for frame in &frames[..walked.len] {
        // SAFETY: the thread is in this call: no Python code has run on it since the walk.
        if let Some(code) = unsafe { runtime.code(frame, &mut names) } {
            let (file, name) = (
                String::from_utf8_lossy(code.file),
                String::from_utf8_lossy(code.name),
            );
            println!(
                "{name} {file} {} {}",
                code.first_line,
                frame.position.offset()
            );
        }
    }
    0
}
