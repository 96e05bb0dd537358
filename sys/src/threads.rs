//! The kernel's threads of this process.

use core::time::Duration;

use crate::raw;

/// Ticks in a second of /proc: the same on all machines that Linux offers to programs (USER_HZ).
const TICKS: u64 = 100;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, wants to, waits for a disk, or was stopped; with its processor time so far, in steps of 10 ms.
    Active(Duration),
    /// It waits for something.
    Sleeping,
    /// There is no such thread.
    Ended,
    /// /proc is not available.
    Unknown,
}

/// The id of the calling thread: one system call.
pub fn own() -> u32 {
    // SAFETY: gettid takes nothing and cannot fail.
    (unsafe { raw::call(libc::SYS_gettid, [0; 6]) }) as u32
}

/// The state of the thread with this id.
pub fn state(id: u32) -> State {
    let mut path = [0; 40];
    let mut text = [0; 512];
    if !exists(id) {
        return State::Ended;
    }
    path_of(id, &mut path);
    match read(&path, &mut text) {
        Some(length) => text
            .get(..length)
            .and_then(parsed)
            .unwrap_or(State::Unknown),
        // It may have ended just now.
        None if !exists(id) => State::Ended,
        None => State::Unknown,
    }
}

/// Whether this process has the thread.
fn exists(id: u32) -> bool {
    // SAFETY: getpid takes nothing; signal 0 is not sent.
    let failed = unsafe {
        let process = raw::call(libc::SYS_getpid, [0; 6]);
        raw::call(
            libc::SYS_tgkill,
            [process as usize, id as usize, 0, 0, 0, 0],
        )
    };
    failed != -(libc::ESRCH as isize)
}

/// Writes the path of its `stat`, with a NUL.
fn path_of(id: u32, path: &mut [u8; 40]) {
    let mut digits = [0; 10];
    let (mut left, mut first) = (id, digits.len());
    while left != 0 || first == digits.len() {
        first -= 1;
        if let Some(digit) = digits.get_mut(first) {
            *digit = b'0' + (left % 10) as u8;
        }
        left /= 10;
    }
    let parts: [&[u8]; 4] = [
        b"/proc/self/task/",
        digits.get(first..).unwrap_or(&[]),
        b"/stat",
        b"\0",
    ];
    for (to, from) in path.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
}

/// Reads the start of a file; returns how much.
fn read(path: &[u8; 40], text: &mut [u8; 512]) -> Option<usize> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: the path ends with a NUL, the buffer is as long as stated, and the descriptor is used here alone.
    unsafe {
        let directory = libc::AT_FDCWD as usize;
        let file = raw::call(
            libc::SYS_openat,
            [directory, path.as_ptr() as usize, flags, 0, 0, 0],
        );
        let file = usize::try_from(file).ok()?;
        let length = raw::call(
            libc::SYS_read,
            [file, text.as_mut_ptr() as usize, text.len(), 0, 0, 0],
        );
        raw::call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
        usize::try_from(length).ok()
    }
}

/// The state in the text of a `stat`.
fn parsed(text: &[u8]) -> Option<State> {
    // The name may have brackets and spaces itself.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text.get(end + 2..)?.split(|byte| *byte == b' ');
    let state = fields.next()?;
    let mut ticks = fields.skip(10).map(|field| {
        field.iter().fold(0_u64, |sum, digit| {
            sum.wrapping_mul(10)
                .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        })
    });
    let ticks = ticks.next()?.wrapping_add(ticks.next()?);
    Some(match state {
        b"S" | b"I" => State::Sleeping,
        b"X" | b"Z" | b"x" => State::Ended,
        _ => State::Active(Duration::from_millis(ticks.saturating_mul(1000 / TICKS))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let text = b"7 (a) R b) D 1 2 3 4 5 6 7 8 9 10 150 25 13 14";
        assert_eq!(
            parsed(text),
            Some(State::Active(Duration::from_millis(1750)))
        );
        assert_eq!(
            parsed(b"7 (a) S 1 2 3 4 5 6 7 8 9 10 1 2 3"),
            Some(State::Sleeping)
        );
        assert_eq!(
            parsed(b"7 (a) Z 1 2 3 4 5 6 7 8 9 10 1 2 3"),
            Some(State::Ended)
        );
        assert_eq!(parsed(b"7 (a) R 1 2"), None);
        assert_eq!(parsed(b""), None);
    }

    #[test]
    fn a_path_is_a_number_with_its_words() {
        for (id, expected) in [
            (7, "/proc/self/task/7/stat"),
            (u32::MAX, "/proc/self/task/4294967295/stat"),
        ] {
            let mut path = [0; 40];
            path_of(id, &mut path);
            assert_eq!(
                path.split(|byte| *byte == 0).next(),
                Some(expected.as_bytes())
            );
        }
    }

    #[test]
    fn threads_run_sleep_and_end() {
        assert!(matches!(state(own()), State::Active(_)));
        let (tell, told) = std::sync::mpsc::channel();
        let (end, until) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(own()).expect("the test listens");
            let _ = until.recv();
        });
        let id = told.recv().expect("the thread tells");
        while state(id) != State::Sleeping {
            std::thread::yield_now();
        }
        drop(end);
        thread.join().expect("no panic");
        while state(id) != State::Ended {
            std::thread::yield_now();
        }
    }
}
