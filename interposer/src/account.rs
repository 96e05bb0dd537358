//! What the account must say of the recording itself: hooks armed, and everything that went unseen.
//!
//! Facts arrive at any time, also before a capture is open; they wait here and are written once one
//! is.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gpumem_capture::{DefKind, Writer};

use crate::symbols::elf;
use crate::symbols::table::{self, Need, Way};

/// A hook armed: hook and way (0 while unused), an address in the library that asked for it and that
/// library's own (0: not known).
struct Armed {
    what: AtomicU64,
    caller: AtomicU64,
    library: AtomicU64,
}

/// Room for each hook in each way by each library that has one.
static ARMED: [Armed; 1024] = [const {
    Armed {
        what: AtomicU64::new(0),
        caller: AtomicU64::new(0),
        library: AtomicU64::new(0),
    }
}; 1024];
static ARMED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of [`ARMED`] are written to the capture.
static ARMED_WRITTEN: AtomicUsize = AtomicUsize::new(0);

macro_rules! tallies {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        /// Everything that can go unseen, each with its count and what the account says of it.
        static TALLIES: &[Tally] = &[$(Tally {
            text: $text, count: &counts::$name, written: &written::$name,
        }),*];
        #[allow(non_upper_case_globals)]
        mod counts {
            use core::sync::atomic::AtomicU64;
            $(pub(super) static $name: AtomicU64 = AtomicU64::new(0);)*
        }
        #[allow(non_upper_case_globals)]
        mod written {
            use core::sync::atomic::AtomicU64;
            $(pub(super) static $name: AtomicU64 = AtomicU64::new(0);)*
        }
        $($(#[$doc])* pub(crate) fn $name() {
            counts::$name.fetch_add(1, Ordering::Relaxed);
            UNWRITTEN.store(true, Ordering::Release);
        })*
    };
}

struct Tally {
    text: &'static str,
    count: &'static AtomicU64,
    written: &'static AtomicU64,
}

tallies! {
    /// A hook was met while our own code ran (a signal handler over it).
    reentered: "calls met while the recorder itself ran (from signal handlers) were not recorded";
    /// Our code panicked; the call went on.
    panicked: "calls were not recorded after an internal error";
    /// A thread waited in vain for another one to open the capture.
    opening_timed_out: "calls came while the capture was being opened and were not recorded";
    /// An address was handed out that we held for live: its release went unseen.
    missed_release: "releases went unseen (their addresses were handed out again)";
    /// The driver handed out a form of a hooked function that we do not know.
    unknown_form: "requests for a hooked function were answered with a form that is not hooked";
    /// An array has a format that we do not know.
    unknown_array: "arrays of a format that is not known were counted with no bytes";
    /// An array has no memory of its own.
    sparse_array: "sparse arrays were counted with no bytes: memory that is mapped to them is not recorded";
    /// Memory was mapped to a sparse array, or unmapped.
    array_mapping: "calls of cuMemMapArrayAsync were not recorded";
    /// A call of the runtime that allocates, opens or launches met no hook of the driver.
    unreached: "calls of the runtime reached the driver by a way that is not hooked";
}

/// Whether a tally has changed since it was last written.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Whether there is something to write: one load, with each event.
#[inline]
pub(crate) fn is_new() -> bool {
    UNWRITTEN.load(Ordering::Relaxed)
}

/// Writes what has come up, if anything has.
#[inline]
pub(crate) fn write_if_new(writer: &'static Writer) {
    if is_new() {
        write(writer);
    }
}

/// There is something to write.
pub(crate) fn something_new() {
    UNWRITTEN.store(true, Ordering::Release);
}

/// The driver answered a request for hook `_id` with an export that is not hooked.
pub(crate) fn unhooked(_id: u16) {
    unknown_form();
}

/// A hook was armed; noted once for each way and library.
pub(crate) fn armed(id: u16, way: Way, caller: usize) {
    armed_in(id, way, caller, library_at(caller).dli_fbase as usize);
}

/// The same, where it is known to where the library is mapped that holds `caller`: asking the loader takes
/// it as long as the library has symbols.
pub(crate) fn armed_in(id: u16, way: Way, caller: usize, library: usize) {
    let what = (u64::from(id) << 8) | (way as u64 + 1);
    let library = library as u64;
    let known = ARMED_COUNT.load(Ordering::Acquire).min(ARMED.len());
    let same = |entry: &Armed| {
        entry.what.load(Ordering::Acquire) == what
            && entry.library.load(Ordering::Relaxed) == library
    };
    if ARMED.iter().take(known).any(same) {
        return;
    }
    let place = ARMED_COUNT.fetch_add(1, Ordering::AcqRel);
    let Some(entry) = ARMED.get(place) else {
        return;
    };
    entry.caller.store(caller as u64, Ordering::Relaxed);
    entry.library.store(library, Ordering::Relaxed);
    entry.what.store(what, Ordering::Release);
    UNWRITTEN.store(true, Ordering::Release);
}

/// What the loader knows of the library that holds an address; zeros if nothing.
fn library_at(address: usize) -> libc::Dl_info {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure or leaves it zeroed, which is a valid value of it.
    unsafe {
        if address != 0 {
            libc::dladdr(address as *const c_void, info.as_mut_ptr());
        }
        info.assume_init()
    }
}

/// A look for the library that holds an address.
struct Search {
    address: usize,
    found: Found,
}

enum Found {
    Nothing,
    /// The program itself, for which the loader has no name here.
    Program,
    /// The name of its file.
    Library(Vec<u8>),
}

/// The file name of the library that holds an address; empty if there is none. It is copied under the loader's lock,
/// since another thread may unload the library meanwhile.
fn library_of(address: u64) -> Vec<u8> {
    let mut search = Search {
        address: address as usize,
        found: Found::Nothing,
    };
    // SAFETY: the callback has the type asked for, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let path = match search.found {
        Found::Nothing => return Vec::new(),
        Found::Library(name) => return name,
        Found::Program => library_at(search.address).dli_fname,
    };
    if path.is_null() {
        return Vec::new();
    }
    // SAFETY: the name of the program, which is never unloaded, is NUL-terminated and stays.
    base_name(unsafe { CStr::from_ptr(path) })
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer that `library_of` gave it.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    // SAFETY: the structure describes a library that stays loaded while it is visited.
    if !unsafe { elf::holds(info, search.address) } {
        return 0;
    }
    search.found = match info.dlpi_name {
        name if name.is_null() => Found::Program,
        // SAFETY: the loader's names are NUL-terminated and outlive the iteration.
        name => match unsafe { CStr::from_ptr(name) } {
            name if name.is_empty() => Found::Program,
            name => Found::Library(base_name(name)),
        },
    };
    1
}

fn base_name(path: &CStr) -> Vec<u8> {
    let path = path.to_bytes();
    path.rsplit(|&b| b == b'/').next().unwrap_or(path).to_vec()
}

/// A `str` field of a definition.
fn text(bytes: &[u8]) -> [u8; 4] {
    (bytes.len() as u32).to_le_bytes()
}

/// Writes what has come up since the last call. Called with the first event after
/// a hook was armed or something went unseen, and at exit.
pub(crate) fn write(writer: &'static Writer) {
    // First, so that what comes up meanwhile is written the next time.
    UNWRITTEN.store(false, Ordering::Release);
    let count = ARMED_COUNT.load(Ordering::Acquire).min(ARMED.len());
    // A library that arms one hook arms many in a row.
    let (mut newest, mut library) = (0, Vec::new());
    loop {
        let next = ARMED_WRITTEN.load(Ordering::Acquire);
        let Some(entry) = ARMED.get(next).filter(|_| next < count) else {
            break;
        };
        let what = entry.what.load(Ordering::Acquire);
        if what == 0
            || ARMED_WRITTEN
                .compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
        {
            break; // being written, or another thread writes it
        }
        let way = [Way::Symbol, Way::Dlsym, Way::ProcAddress]
            .into_iter()
            .find(|&way| way as u64 + 1 == what & 0xff);
        if let (Some(hook), Some(way)) = (table::by_id((what >> 8) as u16), way) {
            let (name, way) = (hook.name.to_bytes(), way.name().as_bytes());
            let base = entry.library.load(Ordering::Relaxed);
            if base == 0 || base != newest {
                let caller = entry.caller.load(Ordering::Relaxed);
                newest = base;
                library = library_of(caller);
            }
            let _ = writer.definition(
                DefKind::HOOK,
                &[
                    &text(name),
                    name,
                    &text(way),
                    way,
                    &text(&library),
                    &library,
                ],
            );
        }
    }
    crate::symbols::dlopen::write(writer);
    for tally in TALLIES {
        let count = tally.count.load(Ordering::Relaxed);
        if tally.written.swap(count, Ordering::AcqRel) != count {
            note(writer, &format!("inexact: {count} {}", tally.text));
        }
    }
}

/// Says which hooked functions this driver does not have: nothing can come by them.
pub(crate) fn note_missing(writer: &'static Writer) {
    crate::symbols::proc_address::resolve_exports();
    if !table::ALL
        .iter()
        .any(|hook| hook.is_driver() && hook.has_real())
    {
        return; // there is no driver at all, or not yet
    }
    let driver = table::ALL.iter().filter(|hook| hook.is_driver());
    let missing = driver.filter(|hook| hook.need == Need::Required && !hook.has_real());
    let names: Vec<_> = missing.map(|hook| hook.name.to_string_lossy()).collect();
    if !names.is_empty() {
        note(writer, &format!("this driver has no {}", names.join(", ")));
    }
}

/// Writes a line for the account. One that begins with "inexact: " takes the word "exact" from it; of
/// lines that differ only in their number the last one counts.
pub(crate) fn note(writer: &'static Writer, line: &str) {
    let _ = writer.definition(DefKind::NOTE, &[&text(line.as_bytes()), line.as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_by_its_file() {
        let malloc = libc::malloc as *const () as u64;
        assert!(library_of(malloc).starts_with(b"libc.so"));
        let program = std::env::current_exe().unwrap();
        let here = a_library_is_named_by_its_file as *const () as u64;
        assert_eq!(
            library_of(here),
            program.file_name().unwrap().as_encoded_bytes()
        );
        assert_eq!(library_of(0), b"");
    }
}
