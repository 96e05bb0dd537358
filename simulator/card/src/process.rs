//! The identity of a process. A process id alone is ambiguous, because ids are reused.

use std::fs;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

/// Distinguishes a process from every other with the same id, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// When it started, in clock ticks since boot (field 22); 0 if not known.
    pub(crate) started: u64,
    /// Where its stack starts (field 28): differs after `exec`, which gives up all of a process's
    /// device memory but not its id. 0 if not known.
    pub(crate) stack: u64,
    /// It has ended and its parent has not waited for it yet, or it is about to end.
    ended: bool,
}

impl Identity {
    /// This process. It is read once: a file that is open for a moment on another thread would take
    /// a descriptor number that the program expects to be free.
    pub(crate) fn own() -> Self {
        static OWN: Mutex<Option<(u32, Identity)>> = Mutex::new(None);
        let unknown = Self {
            started: 0,
            stack: 0,
            ended: false,
        };
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        match *own {
            Some((pid, known)) if pid == std::process::id() => known,
            _ => {
                let read = read("self").unwrap_or(unknown);
                *own = Some((std::process::id(), read));
                read
            }
        }
    }

    /// Whether the process `pid` is still the one with this identity.
    pub(crate) fn is_still(self, pid: u32) -> bool {
        let now = if pid == std::process::id() {
            Some(Self::own())
        } else {
            read(&pid.to_string())
        };
        match now {
            Some(now) => {
                let same = |a: u64, b: u64| a == b || a == 0 || b == 0;
                !now.ended && same(now.started, self.started) && same(now.stack, self.stack)
            }
            None => exists(pid),
        }
    }

    /// An identity that was read from the table.
    pub(crate) fn written(started: u64, stack: u64) -> Self {
        Self {
            started,
            stack,
            ended: false,
        }
    }
}

/// Whether the process exists. Used where `/proc` does not show it (it may be hidden).
fn exists(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    // SAFETY: signal 0 is never sent; the call only checks.
    let found = unsafe { libc::kill(pid, 0) } == 0;
    found || std::io::Error::last_os_error().kind() == ErrorKind::PermissionDenied
}

fn read(pid: &str) -> Option<Identity> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&text))
}

/// The second field is the command's name in parentheses and may contain any character.
fn parse(text: &str) -> Option<Identity> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let state = *fields.first()?;
    // A process without memory (field 23) is ending. A leader that ended before its threads has
    // none either, but has more than one thread.
    let gone = matches!(state, "Z" | "X") || number(23) == Some(0);
    let ended = gone && number(20).unwrap_or(0) <= 1;
    Some(Identity {
        started: number(22)?,
        stack: number(28).unwrap_or(0),
        ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "8824 (a (b) c) R 8806 8806 1941 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 \
                        1215560 3133440 384 18446744073709551615 94143838404608 94143838424489 \
                        140731592466992 0 0 0";

    #[test]
    fn reads_what_tells_processes_apart() {
        let found = parse(STAT);
        assert_eq!(
            found,
            Some(Identity::written(1_215_560, 140_731_592_466_992))
        );
        let zombie = parse(&STAT.replace(") R ", ") Z ")).expect("a line");
        assert!(zombie.ended);
        let ending = parse(&STAT.replace(" 3133440 ", " 0 ")).expect("a line");
        assert!(ending.ended);
        let leader = parse(
            &STAT
                .replace(") R ", ") Z ")
                .replace(" 20 0 1 0 ", " 20 0 4 0 "),
        );
        assert!(!leader.expect("a line").ended, "its threads live on");
        assert_eq!(parse("8824 (cut"), None);
    }

    #[test]
    fn a_process_is_itself_until_it_has_ended() {
        let own = Identity::own();
        assert!(own.started > 0);
        assert!(own.is_still(std::process::id()));
        let other = Identity::written(own.started + 1, own.stack);
        assert!(!other.is_still(std::process::id()));
        let after_exec = Identity::written(own.started, own.stack + 16);
        assert!(!after_exec.is_still(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id();
        child.wait().expect("it ends");
        assert!(!Identity::written(0, 0).is_still(pid));
    }
}
