//! Finds the interpreter in this process, once, and checks that its layout is known.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use super::debug_offsets::{self, DEBUG_OFFSETS_WORDS, Unusable};
use super::declined::Declined;
use super::finalizing::{Finalizing, IsFinalizing};
use super::last_stack::Places;
use super::layout::{Check, Layout, type_object};
use super::library::{Library, extent, same_file};
use super::memory::load;
use super::nn_module::ModuleCalls;
use super::rows;
use super::runtime::{Runtime, ThreadState};
use super::version::Version;

/// The result of the search.
#[derive(Debug)]
pub enum Finding {
    /// An interpreter that can be read.
    Readable(Box<Runtime>),
    /// An interpreter that cannot be read, and why.
    Declined(Declined),
}

/// The interpreter in this process; None as long as there is no interpreter. Found once. Until then the search is
/// repeated, less and less often, for programs that load Python late.
#[inline]
pub fn finding() -> Option<&'static Finding> {
    match SEARCH.found.get() {
        Some(found) => Some(found),
        None => look_again(),
    }
}

/// The search for the interpreter, of which a process has one.
struct Search {
    found: OnceLock<Finding>,
    /// The number of calls while there was no interpreter.
    asked: AtomicU32,
}

static SEARCH: Search = Search {
    found: OnceLock::new(),
    asked: AtomicU32::new(0),
};

/// While there is no interpreter, every so many calls look for one.
const LOOK_EVERY: u32 = 1024;

#[cold]
fn look_again() -> Option<&'static Finding> {
    let asked = SEARCH.asked.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    if !asked.is_power_of_two() && !asked.is_multiple_of(LOOK_EVERY) {
        return None;
    }
    let library = Library::find()?;
    Some(SEARCH.found.get_or_init(|| match examine(&library) {
        Ok(runtime) => Finding::Readable(Box::new(runtime)),
        Err(why) => Finding::Declined(why),
    }))
}

fn examine(library: &Library) -> Result<Runtime, Declined> {
    let text = version_text(library).ok_or(Declined::NoVersion)?;
    let version = Version::parse(text.to_bytes()).ok_or(Declined::NoVersion)?;
    let minor = version.minor();
    let mut layout = rows::row(minor).ok_or(Declined::Version(version))?;
    if version.is_unfinished() {
        return Err(Declined::Unfinished(version));
    }
    if text
        .to_bytes()
        .windows(14)
        .any(|part| part == b"free-threading")
    {
        return Err(Declined::FreeThreaded(version));
    }
    let need = |name: &'static CStr| library.symbol(name).ok_or(Declined::Symbol(version, name));
    if debug_offsets::have_debug_offsets(minor) {
        let runtime = need(c"_PyRuntime")?;
        // SAFETY: from 3.13 on `_PyRuntime` begins with `_Py_DebugOffsets`, which never change; it is
        // far larger than the words read here.
        let words: [u64; DEBUG_OFFSETS_WORDS] = unsafe { load(runtime, 0) };
        layout = match debug_offsets::with_debug_offsets(&words, minor) {
            Ok(layout) => layout,
            Err(Unusable::FreeThreaded) => return Err(Declined::FreeThreaded(version)),
            Err(Unusable::Unknown) => return Err(Declined::Layout(version)),
        };
    }
    let code_type = need(c"PyCode_Type")?;
    let types = [code_type, need(c"PyUnicode_Type")?, need(c"PyFrame_Type")?];
    if !is_laid_out(&layout.check, types) {
        return Err(Declined::Layout(version));
    }
    let is_finalizing = match minor {
        (3, ..=12) => need(c"_Py_IsFinalizing")?,
        _ => need(c"Py_IsFinalizing")?,
    };
    let thread_state = need(c"PyGILState_GetThisThreadState")?;
    Ok(Runtime {
        version,
        layout,
        code_type,
        evaluation: library
            .symbol(c"_PyEval_EvalFrameDefault")
            .map_or((0, 0), extent),
        // SAFETY: the functions have had these types in every version of the table.
        thread_state: unsafe { core::mem::transmute::<usize, ThreadState>(thread_state) },
        finalizing: finalizing(library, &layout, is_finalizing),
        places: Places::of(&layout, code_type),
        module_calls: ModuleCalls::default(),
    })
}

/// Uses the word that the function reads, if it is where the layout has it; otherwise the function.
fn finalizing(library: &Library, layout: &Layout, function: usize) -> Finalizing {
    let runtime = library.symbol(c"_PyRuntime");
    // A function of the program's own may read any word.
    let runtime = runtime.filter(|&runtime| same_file(runtime, function));
    let word = runtime.map(|runtime| runtime + layout.finalizing);
    // SAFETY: the function has had this type in every version of the table, reads a word of static state and needs no
    // GIL. The offset is the layout's.
    unsafe { Finalizing::new(core::mem::transmute::<usize, IsFinalizing>(function), word) }
}

fn version_text(library: &Library) -> Option<&'static CStr> {
    let function = library.symbol(c"Py_GetVersion")?;
    // SAFETY: its type in every version; it returns a static string, needs no GIL and may be called
    // before the interpreter is initialised.
    let text = unsafe {
        core::mem::transmute::<usize, unsafe extern "C" fn() -> *const c_char>(function)()
    };
    // SAFETY: checked for null, and NUL-terminated.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Whether the sizes in the interpreter's types match the layout.
fn is_laid_out(check: &Check, [code, text, frame]: [usize; 3]) -> bool {
    // SAFETY: these are type objects, static and longer than this.
    let size = |kind| unsafe { load::<usize>(kind, type_object::BASIC_SIZE) };
    size(code) == check.code_size
        && size(text) == check.text_size
        && check
            .frame_size
            .is_none_or(|expected| size(frame) == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_python_there_is_nothing() {
        assert!((0..3000).all(|_| finding().is_none()));
    }
}
