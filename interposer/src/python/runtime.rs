//! The interpreter in this process: found once, if its layout is known.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use super::code::{self, CodeText};
use super::known::{Looked, Memory, Places};
use super::layout::{Check, Layout, type_object};
use super::memory::load;
use super::offsets::{self, DEBUG_OFFSETS_WORDS, Unusable};
use super::thread::{self, Thread};
use super::version::Version;
use super::walk::{self, Frame, Walked};

/// An interpreter whose frames can be read.
#[derive(Debug)]
pub struct Runtime {
    version: Version,
    layout: Layout,
    code_type: usize,
    evaluation: (u64, u64),
    thread_state: ThreadState,
    is_finalizing: IsFinalizing,
    /// For [`Runtime::look`]; None where it is of no use.
    places: Option<Places>,
}

/// `PyGILState_GetThisThreadState`.
type ThreadState = unsafe extern "C" fn() -> *mut c_void;
/// `Py_IsFinalizing`, before 3.13 `_Py_IsFinalizing`.
type IsFinalizing = unsafe extern "C" fn() -> c_int;

/// What was found.
#[derive(Debug)]
pub enum Finding {
    /// An interpreter that can be read.
    Readable(Box<Runtime>),
    /// One that cannot, and why: a line for the account.
    Declined(String),
}

impl Runtime {
    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// First address of the evaluation function and first address behind it; zeros if unknown.
    pub fn evaluation(&self) -> (u64, u64) {
        self.evaluation
    }

    /// Writes the calling thread's frames to `out`, the newest first. None if the thread runs no
    /// Python, or if the interpreter is being torn down.
    #[inline]
    pub fn walk(&self, out: &mut [Frame]) -> Option<Walked> {
        self.with_thread(|thread| {
            // SAFETY: `with_thread` has just read the calling thread's own state. The layout is that of the
            // interpreter's version, and was checked.
            unsafe { walk::walk(&self.layout, self.code_type, thread, out) }
        })
    }

    /// The calling thread's stack, by what `memory` has of its last look: see [`Memory::look`]. None where
    /// [`Runtime::walk`] gives none.
    #[inline(always)]
    pub fn look(&self, memory: &mut Memory, most: usize, owner: usize) -> Option<Looked> {
        let Some(places) = &self.places else {
            return Some(Looked::Unknown);
        };
        self.with_thread(|thread| {
            // SAFETY: as in `walk`.
            unsafe { memory.look(places, thread, most, owner) }
        })
    }

    /// Gives `look` what the calling thread's state says. None if the thread has no state, or if the interpreter is
    /// being torn down.
    #[inline(always)]
    fn with_thread<R>(&self, look: impl FnOnce(Thread) -> R) -> Option<R> {
        // SAFETY: it reads a word of the interpreter's static state and a thread-specific value, needs no GIL and may
        // be called at any time: before the interpreter is initialised, and after it is gone.
        let state = unsafe { (self.thread_state)() };
        if state.is_null() || self.is_finalizing() {
            return None;
        }
        // SAFETY: the calling thread's own state, which only this thread frees as long as the interpreter is not
        // finalizing.
        let thread =
            unsafe { thread::read(&self.layout, state as usize, || self.is_finalizing()) }?;
        Some(look(thread))
    }

    /// Whether the interpreter is being torn down, or has been.
    #[inline(always)]
    fn is_finalizing(&self) -> bool {
        // SAFETY: it reads a word of the interpreter's static state, needs no GIL and may be called at any time.
        unsafe { (self.is_finalizing)() != 0 }
    }

    /// Address of the calling thread's newest frame; 0 if the thread runs no Python. While that frame
    /// waits for a call of native code to return, no other frame has this address.
    #[inline]
    pub(crate) fn newest(&self) -> usize {
        self.with_thread(|thread| thread.newest).unwrap_or(0)
    }

    /// How many of the calling thread's frames are newer than `base`, which [`Runtime::newest`] gave
    /// and which still waits; all of them if it is 0.
    #[inline]
    pub(crate) fn newer_than(&self, base: usize) -> usize {
        self.with_thread(|thread| {
            // SAFETY: as in `walk`.
            unsafe { walk::newer_than(&self.layout, self.code_type, thread, base) }
        })
        .unwrap_or(0)
    }

    /// Reads the code object of a frame that [`Runtime::walk`] has just given. None if the interpreter is being torn
    /// down.
    ///
    /// # Safety
    /// The frame is still on the calling thread's stack: no Python code has run since the walk.
    pub unsafe fn code<'a>(&self, frame: &Frame, scratch: &'a mut Vec<u8>) -> Option<CodeText<'a>> {
        // SAFETY: a code object lives as long as a frame that runs it; the walk checked its type.
        unsafe {
            code::read(&self.layout, frame.code as usize, scratch, || {
                self.is_finalizing()
            })
        }
    }
}

/// The interpreter in this process; None as long as there is none. Found once; while there is none it
/// is looked for again ever more rarely, for programs that load Python late.
#[inline]
pub fn finding() -> Option<&'static Finding> {
    match FOUND.get() {
        Some(found) => Some(found),
        None => look_again(),
    }
}

static FOUND: OnceLock<Finding> = OnceLock::new();

/// While there is no interpreter, every so many calls look for one.
const LOOK_EVERY: u32 = 1024;

#[cold]
fn look_again() -> Option<&'static Finding> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let asked = ASKED.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    if !asked.is_power_of_two() && !asked.is_multiple_of(LOOK_EVERY) {
        return None;
    }
    let library = Library::find()?;
    Some(FOUND.get_or_init(|| match examine(&library) {
        Ok(runtime) => Finding::Readable(Box::new(runtime)),
        Err(why) => {
            let mut text = String::from("no Python stacks are recorded: ");
            let _ = write!(text, "{why}");
            Finding::Declined(text)
        }
    }))
}

/// Why an interpreter is declined.
#[derive(Debug, PartialEq, Eq)]
enum Declined {
    /// `Py_GetVersion` says something unheard of.
    NoVersion,
    Version(Version),
    Unfinished(Version),
    FreeThreaded(Version),
    Layout(Version),
    Symbol(Version, &'static CStr),
}

impl core::fmt::Display for Declined {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoVersion => write!(f, "the interpreter does not tell its version"),
            Self::Version(version) => {
                let ((major, oldest), (_, newest)) = (offsets::OLDEST, offsets::NEWEST);
                write!(
                    f,
                    "CPython {version} is not among {major}.{oldest} to {major}.{newest}"
                )
            }
            Self::Unfinished(version) => write!(f, "CPython {version} is not a release"),
            Self::FreeThreaded(version) => {
                write!(f, "CPython {version} is a free-threaded build (no GIL)")
            }
            Self::Layout(version) => write!(
                f,
                "CPython {version} is built with structures of its own (a debug build?)"
            ),
            Self::Symbol(version, name) => write!(
                f,
                "CPython {version} does not export {}",
                name.to_str().unwrap_or_default()
            ),
        }
    }
}

/// Where the interpreter's symbols are.
struct Library {
    handle: *mut c_void,
}

impl Library {
    /// Python is in the program, in a library of the global scope, or in a libpython that some plugin
    /// has loaded for itself.
    fn find() -> Option<Self> {
        let global = Self {
            handle: libc::RTLD_DEFAULT,
        };
        if global.symbol(c"Py_GetVersion").is_some() {
            return Some(global);
        }
        let mut search = Search {
            path: [0; LONGEST_PATH],
            found: false,
        };
        // SAFETY: the callback takes what is passed here, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(is_libpython), (&raw mut search).cast()) };
        if !search.found {
            return None;
        }
        // SAFETY: the path is NUL-terminated; RTLD_NOLOAD runs no constructor. The handle keeps the
        // library loaded, as its structures are read from now on.
        let handle = unsafe {
            libc::dlopen(
                search.path.as_ptr().cast(),
                libc::RTLD_LAZY | libc::RTLD_NOLOAD,
            )
        };
        let local = Self { handle };
        (!handle.is_null() && local.symbol(c"Py_GetVersion").is_some()).then_some(local)
    }

    /// The address of a symbol. Goes through this library's own `dlsym`, which hands names that are
    /// not CUDA's on to the C library's.
    fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the handle is RTLD_DEFAULT or one that dlopen gave; the name is NUL-terminated.
        match unsafe { libc::dlsym(self.handle, name.as_ptr()) } as usize {
            0 => None,
            address => Some(address),
        }
    }
}

/// Longest path of a library that is taken.
const LONGEST_PATH: usize = 4096;

/// The path of a loaded libpython. It is opened once the loader's lock is free again.
struct Search {
    path: [u8; LONGEST_PATH],
    found: bool,
}

/// Takes the first `libpython3.<minor>` that is loaded.
unsafe extern "C" fn is_libpython(
    info: *mut libc::dl_phdr_info,
    _: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid structure, and `data` is what `find` gave it.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are NUL-terminated.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes_with_nul();
    let name = path.rsplit(|&byte| byte == b'/').next();
    let minor = name.and_then(|name| name.strip_prefix(b"libpython3."));
    if !minor.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)) {
        return 0;
    }
    if let Some(room) = search.path.get_mut(..path.len()) {
        room.copy_from_slice(path);
        search.found = true;
    }
    c_int::from(search.found)
}

fn examine(library: &Library) -> Result<Runtime, Declined> {
    let text = version_text(library).ok_or(Declined::NoVersion)?;
    let version = Version::parse(text.to_bytes()).ok_or(Declined::NoVersion)?;
    let minor = version.minor();
    let mut layout = offsets::row(minor).ok_or(Declined::Version(version))?;
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
    if offsets::have_debug_offsets(minor) {
        let runtime = need(c"_PyRuntime")?;
        // SAFETY: from 3.13 on `_PyRuntime` begins with `_Py_DebugOffsets`, which never change; it is
        // far larger than the words read here.
        let words: [u64; DEBUG_OFFSETS_WORDS] = unsafe { load(runtime, 0) };
        layout = match offsets::with_debug_offsets(&words, minor) {
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
        // SAFETY: as above.
        is_finalizing: unsafe { core::mem::transmute::<usize, IsFinalizing>(is_finalizing) },
        places: Places::of(&layout, code_type),
    })
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

/// Whether the sizes that the interpreter's types give are the layout's.
fn is_laid_out(check: &Check, [code, text, frame]: [usize; 3]) -> bool {
    // SAFETY: these are type objects, static and longer than this.
    let size = |kind| unsafe { load::<usize>(kind, type_object::BASIC_SIZE) };
    size(code) == check.code_size
        && size(text) == check.text_size
        && check
            .frame_size
            .is_none_or(|expected| size(frame) == expected)
}

/// First address of the function at `address`, and the first behind it, by its ELF symbol.
fn extent(address: usize) -> (u64, u64) {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut symbol: *const libc::Elf64_Sym = core::ptr::null();
    // SAFETY: both results are valid for writing; RTLD_DL_SYMENT asks for a pointer to the symbol.
    let found = unsafe {
        libc::dladdr1(
            address as *const c_void,
            info.as_mut_ptr(),
            (&raw mut symbol).cast::<*mut c_void>(),
            RTLD_DL_SYMENT,
        )
    };
    if found == 0 || symbol.is_null() {
        return (0, 0);
    }
    // SAFETY: the loader found the symbol, and keeps it while the library is loaded.
    match unsafe { (*symbol).st_size } {
        0 => (0, 0),
        size => (address as u64, address as u64 + size),
    }
}

/// Asks dladdr1 for the ELF symbol (<dlfcn.h>).
const RTLD_DL_SYMENT: c_int = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_python_there_is_nothing() {
        assert!((0..3000).all(|_| finding().is_none()));
    }

    #[test]
    fn a_functions_extent_is_its_symbols() {
        let (start, end) = extent(libc::malloc as *const () as usize);
        assert_eq!(start, libc::malloc as *const () as u64);
        assert!((16..100_000).contains(&(end - start)));
        assert_eq!(extent(0), (0, 0));
    }

    #[test]
    fn reasons_are_one_line_each() {
        let version = Version(0x030f_01f0);
        for (why, part) in [
            (Declined::NoVersion, "version"),
            (
                Declined::Version(version),
                "3.15.1 is not among 3.8 to 3.14",
            ),
            (Declined::FreeThreaded(version), "free-threaded"),
            (
                Declined::Symbol(version, c"PyCode_Type"),
                "does not export PyCode_Type",
            ),
        ] {
            let text = why.to_string();
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }
}
