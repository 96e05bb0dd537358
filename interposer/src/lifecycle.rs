//! From "a program that may never use CUDA" to "a capture is open", or to stepping aside.
//!
//! ```text
//!             first event                 opened
//!  DORMANT ───────────────► OPENING ───────────────► RECORDING ──(fork)──► nothing, in the child
//!     │                        │
//!     │                        └── cannot be opened: one line ──► OFF
//!     └──(fork)──► DORMANT in the child, which opens a capture of its own if it uses CUDA
//! ```
//! Nothing leads back. In RECORDING nothing is ever torn down: events are taken until the process is
//! gone, or until the ring's memory is lost ([`crate::fault`]). A forked child finds RECORDING, but the writer knows by a page that fork wipes that it is not
//! its process, and records nothing.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::ffi::OsString;
use std::time::Duration;

use gpumem_capture::{DefKind, DeviceOrdinal, Writer};
use gpumem_cuda_abi::CuDevice;

use crate::driver;
use crate::live::{self, Tensors};
use crate::options::{Options, Stacks};
use crate::{
    account, definitions, facts, limit, message, nvml, output, process, scopes, storage, thread,
};

/// See the diagram.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Dormant,
    Opening,
    Recording,
    Off,
}

static STATE: AtomicU8 = AtomicU8::new(State::Dormant as u8);
static SESSION: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());
/// The process that is opening: a child forked meanwhile must not wait for it.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// How often, and how long at a time, a thread waits for another one to open the capture: 5 s in all. It is
/// counted, for a clock may be put forward meanwhile.
const LOOKS: u32 = 5_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// An open capture and what the hooks need with it.
pub(crate) struct Session {
    pub(crate) writer: &'static Writer,
    /// The tensors that are live.
    pub(crate) tensors: &'static Tensors,
    pub(crate) stacks: Stacks,
    /// Whether PyTorch's backward is charged to forward lines: needs Python stacks.
    pub(crate) backward: bool,
    /// Whether releases carry a Python stack too.
    pub(crate) free_stacks: bool,
    /// How often NVML is read; `None`: only when something happens.
    pub(crate) sample_every: Option<Duration>,
    quiet: bool,
    /// Whether allocations that fail are told of at once.
    pub(crate) postmortem: bool,
    known_devices: [AtomicBool; 64],
}

/// The session, if one is open and this is its process.
#[inline]
pub(crate) fn session() -> Option<&'static Session> {
    // SAFETY: the pointer is null or that of a leaked session, published with Release.
    let session = unsafe { SESSION.load(Ordering::Acquire).as_ref() }?;
    session.writer.is_own_process().then_some(session)
}

/// The session of this process, also after recording has ended.
fn session_of_process() -> Option<&'static Session> {
    // SAFETY: the pointer is null or that of a leaked session, published with Release.
    let session = unsafe { SESSION.load(Ordering::Acquire).as_ref() }?;
    session.writer.is_of_this_process().then_some(session)
}

/// The session, opened now if there is none yet.
pub(crate) fn open_session() -> Option<&'static Session> {
    if SESSION.load(Ordering::Acquire).is_null() && !open_or_wait() {
        return None;
    }
    session()
}

/// Whether there is a session after all.
#[cold]
fn open_or_wait() -> bool {
    let swap = STATE.compare_exchange(
        State::Dormant as u8,
        State::Opening as u8,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match swap {
        Ok(_) => {
            OPENER.store(std::process::id(), Ordering::Release);
            let is_open = open_by(&STATE, open);
            if !is_open {
                process::turn_off();
            }
            is_open
        }
        Err(state) if state == State::Opening as u8 => wait(),
        Err(state) => state == State::Recording as u8,
    }
}

/// Opens the capture by `open`, which says whether it could. A panic there turns recording off: it must not leave
/// other threads waiting.
fn open_by(state: &AtomicU8, open: impl FnOnce() -> bool) -> bool {
    let opened = thread::caught(open);
    let is_open = opened == Some(true);
    let to = if is_open {
        State::Recording
    } else {
        State::Off
    };
    state.store(to as u8, Ordering::Release);
    if opened.is_none() {
        message::line(
            "cannot write a capture: internal error. Recording is off; the program goes on.",
        );
    }
    is_open
}

/// Waits while another thread opens.
fn wait() -> bool {
    let mut looks = 0;
    while STATE.load(Ordering::Acquire) == State::Opening as u8 {
        let opener = OPENER.load(Ordering::Acquire);
        if (opener != 0 && opener != std::process::id()) || looks == LOOKS {
            account::opening_timed_out();
            return false;
        }
        looks += 1;
        std::thread::sleep(BETWEEN_LOOKS);
    }
    STATE.load(Ordering::Acquire) == State::Recording as u8
}

/// Opens the capture: the first thread's work, once in a process.
fn open() -> bool {
    message::remember();
    let get = |name: &str| -> Option<OsString> { std::env::var_os(name) };
    let options = Options::read(get);
    let rank = output::rank(get);
    let wanted = output::path(
        options.output.as_deref(),
        rank.as_ref(),
        std::process::id(),
        &facts::host(),
    );
    let Some(writer) = storage::open(wanted, &options) else {
        return false;
    };
    definitions::write_hooks(writer);
    facts::write(writer, &options, rank.as_ref());
    limit::tell(writer);
    let session = Box::leak(Box::new(Session {
        writer,
        tensors: live::open_tensors(writer),
        stacks: options.stacks,
        backward: options.backward && options.stacks.python(),
        free_stacks: options.free_stacks && options.stacks.python(),
        sample_every: options.sample_every,
        quiet: options.quiet,
        postmortem: options.postmortem.unwrap_or(!options.quiet),
        known_devices: [const { AtomicBool::new(false) }; 64],
    }));
    definitions::note_missing(writer);
    definitions::write(writer);
    scopes::opened(writer);
    SESSION.store(session, Ordering::Release);
    process::records_to(writer);
    true
}

impl Session {
    /// Makes sure that a device is defined before an event names it.
    #[inline]
    pub(crate) fn know_device(&'static self, device: DeviceOrdinal) {
        if let Some(known) = self.known_devices.get(usize::from(device.0))
            && !known.load(Ordering::Acquire)
        {
            self.define_device(device, known);
        }
    }

    /// Whether nothing is left to be defined of the device.
    #[inline(always)]
    pub(crate) fn knows_device(&self, device: DeviceOrdinal) -> bool {
        self.known_devices
            .get(usize::from(device.0))
            .is_none_or(|known| known.load(Ordering::Acquire))
    }

    #[cold]
    #[inline(never)]
    fn define_device(&'static self, device: DeviceOrdinal, known: &AtomicBool) {
        // Set last: threads that meet here each write the same definition, and none goes on to an
        // event before there is one.
        let asked = driver::device_facts(CuDevice(i32::from(device.0)));
        let (name, pci) = (asked.name.bytes(), asked.pci.bytes());
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        let written = self.writer.definition(
            DefKind::DEVICE,
            &[
                &[device.0],
                &asked.total_bytes.to_le_bytes(),
                &length(&asked.uuid),
                &asked.uuid,
                &length(name),
                name,
                &length(pci),
                pci,
            ],
        );
        known.store(written.is_ok(), Ordering::Release);
        nvml::know(self, device, &asked);
    }
}

/// The end of the process, as far as it comes by here: says where the capture is. Events may follow.
extern "C" fn at_exit() {
    let _ = thread::quietly(|_| {
        let Some(session) = session() else {
            if let Some(ended) = session_of_process() {
                storage::say_ended(ended.writer);
            }
            return;
        };
        let reading = nvml::begin_last();
        crate::resolve::unhooked::look(session.writer);
        definitions::write_calls(session.writer);
        // Before other libraries are taken down.
        nvml::end(reading);
        definitions::write(session.writer);
        session.writer.finish();
        let is_written = storage::pause(session.writer);
        if !session.quiet {
            message::line(&what_was_written(session, is_written));
        }
    });
}

/// The line at the program's end.
fn what_was_written(session: &'static Session, is_written: bool) -> String {
    let writer = session.writer;
    let Some(path) = writer.path() else {
        return "there is no capture: its file system does not answer.".into();
    };
    let here = std::env::current_dir().ok();
    let shown = here
        .and_then(|dir| path.strip_prefix(dir).ok())
        .unwrap_or(path);
    let lost = writer.events_lost();
    let without = match lost {
        0 => String::new(),
        _ => format!(", without {lost} events that found no room"),
    };
    let read = format!("gpumem-analyze {}", facts::quoted(shown.as_os_str()));
    let shown = shown.display();
    match (writer.is_deleted(), is_written, writer.ring_path()) {
        (true, ..) => {
            format!("{shown} was deleted while the program ran: there is no capture of it.")
        }
        (_, true, _) => format!("wrote {shown}{without}. Read it with: {read}"),
        (_, false, Some(ring)) => format!(
            "{shown} is not whole{without}: its file system does not take what is written. The rest is in {}; on this \
             machine {read} finds it.",
            ring.display()
        ),
        (_, false, None) => format!(
            "{shown} is not whole{without}: its file system does not take what is written. Read it with: {read}"
        ),
    }
}

/// Runs after all other libraries' destructors: what they released is in the capture too, which is then closed.
extern "C" fn at_last(_: *mut c_void) {
    let _ = thread::quietly(|_| {
        let Some(session) = session_of_process() else {
            return;
        };
        session.writer.finish();
        storage::close(session.writer);
    });
}

unsafe extern "C" {
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
}

/// Run by the loader when it loads the library: what is registered before the program starts runs after the loader has
/// taken all libraries down.
extern "C" fn at_load() {
    // SAFETY: the function lives as long as the process; of no library, so that this one's end does not run it.
    unsafe { __cxa_atexit(at_last, core::ptr::null_mut(), core::ptr::null_mut()) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Run by the loader when the process exits, after the program's own exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

#[cfg(test)]
mod tests {
    use super::*;

    /// What opening by `open` comes to: its result, and the state after it.
    fn after(open: impl FnOnce(&AtomicU8) -> bool) -> (bool, u8) {
        let state = AtomicU8::new(State::Opening as u8);
        let opened = open_by(&state, || open(&state));
        (opened, state.load(Ordering::Acquire))
    }

    #[test]
    fn the_state_says_whether_a_capture_was_opened() {
        let is_opening = |state: &AtomicU8| state.load(Ordering::Acquire) == State::Opening as u8;
        assert_eq!(after(is_opening), (true, State::Recording as u8));
        assert_eq!(after(|_| false), (false, State::Off as u8));
    }

    #[test]
    fn a_panic_while_a_capture_opens_turns_recording_off() {
        let panic = |_: &AtomicU8| std::panic::resume_unwind(Box::new("planted"));
        assert_eq!(after(panic), (false, State::Off as u8));
    }
}
