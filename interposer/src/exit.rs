//! The end of the process: all data goes to the capture, and a line reports its path.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use crate::resolve::{libraries, patched, unhooked};
use crate::session::{Session, session, session_of_process};
use crate::{definitions, facts, message, thread};

/// The exit of the process, if it runs exit handlers: prints the path of the capture. Events may follow.
extern "C" fn at_exit() {
    let _ = thread::guarded(|_| {
        let Some(session) = session() else {
            if let Some(ended) = session_of_process() {
                ended.storage.say_ended(ended.writer);
            }
            return;
        };
        session.failures.finish(session);
        let reading = session.readings.begin_last();
        unhooked::look(session.writer);
        patched::look(session.writer);
        definitions::write_calls(session.writer);
        definitions::write_call_times(session.writer);
        let trained_until = session.trained_until.load(Ordering::Relaxed);
        definitions::write_trained(session.writer, trained_until);
        // Before other libraries are shut down.
        session.readings.end(reading);
        definitions::write(session.writer);
        session.writer.finish();
        let is_written = session.storage.pause(session.writer);
        if !session.quiet {
            message::line(&what_was_written(session, is_written));
        }
    });
}

/// The line at the program's end.
fn what_was_written(session: &'static Session, is_written: bool) -> String {
    let writer = session.writer;
    let Some(path) = writer.path() else {
        return "no capture was written: its file system does not respond.".into();
    };
    let here = std::env::current_dir().ok();
    let shown = here
        .and_then(|dir| path.strip_prefix(dir).ok())
        .unwrap_or(path);
    let lost = writer.events_lost();
    let without = match (lost, writer.is_cut()) {
        (0, false) => String::new(),
        (0, true) => ", without what another program cut off".into(),
        (_, false) => format!(", without {lost} events that did not fit"),
        (_, true) => {
            format!(", without {lost} events that did not fit and what another program cut off")
        }
    };
    let read = format!("gpumem-analyze {}", facts::quoted(shown.as_os_str()));
    let shown = shown.display();
    match (writer.is_deleted(), is_written, writer.ring_path()) {
        (true, ..) => {
            format!("{shown} was deleted while the program ran, so there is no capture.")
        }
        (_, true, _) => format!("wrote {shown}{without}. Read it with: {read}"),
        (_, false, Some(ring)) => format!(
            "{shown} is incomplete{without}: its file system refuses writes. The rest is in {}; on this machine, {read} finds it.",
            ring.display()
        ),
        (_, false, None) => format!(
            "{shown} is incomplete{without}: its file system refuses writes. Read it with: {read}"
        ),
    }
}

/// Runs after all other libraries' destructors: their releases are in the capture too, which is then closed.
extern "C" fn at_last(_: *mut c_void) {
    let _ = thread::guarded(|_| {
        let Some(session) = session_of_process() else {
            return;
        };
        session.writer.finish();
        session.storage.close(session.writer);
    });
}

unsafe extern "C" {
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
}

/// Run by the loader when it loads the library: a handler that is registered before the program starts runs after the
/// loader has shut down all libraries.
extern "C" fn at_load() {
    // SAFETY: the function lives as long as the process; of no library, so that this one's end does not run it.
    unsafe { __cxa_atexit(at_last, core::ptr::null_mut(), core::ptr::null_mut()) };
    message::remember();
    libraries::count_first();
    thread::last::watch_main();
    thread::watch_forks();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Run by the loader when the process exits, after the program's own exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
