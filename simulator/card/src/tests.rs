//! Tests of several processes on one card. Each test forks the processes that it needs.

use crate::file::map;
use crate::{Cards, Holder};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A child process that runs a function and then waits to be killed.
struct Child {
    pid: libc::pid_t,
    says: PipeReader,
}

impl Child {
    fn start(run: impl FnOnce(&mut PipeWriter)) -> Self {
        let (says, mut tells) = std::io::pipe().expect("a pipe");
        // SAFETY: the child only runs the function below and never returns from it.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            run(&mut tells);
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        }
        Self { pid, says }
    }

    /// Waits for the next byte that the child writes.
    fn next(&mut self) -> u8 {
        let mut byte = [0];
        self.says.read_exact(&mut byte).expect("the child speaks");
        byte[0]
    }

    fn kill(&self) {
        // SAFETY: a child of this process, not yet waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        // SAFETY: likewise.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn table() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cards");
    (folder, path)
}

fn open(path: &Path) -> Cards {
    Cards::open(path).expect("a table")
}

/// A child that takes `bytes` of unit 3 and reports whether it got them.
fn taker(path: &Path, bytes: u64) -> Child {
    Child::start(|tells| {
        let got = open(path).take(3, bytes, 100);
        let _ = tells.write_all(&[u8::from(got)]);
    })
}

#[test]
fn each_process_counts_and_a_killed_one_no_more() {
    let (_folder, path) = table();
    let cards = open(&path);
    assert!(cards.take(3, 20, 100));
    let mut child = taker(&path, 30);
    assert_eq!(child.next(), 1);
    assert_eq!((cards.others(3), cards.others(4)), (30, 0));
    let own = Holder {
        pid: std::process::id(),
        bytes: 20,
    };
    let other = Holder {
        pid: child.pid as u32,
        bytes: 30,
    };
    assert_eq!(cards.holders(3), [own, other]);
    assert!(!cards.take(3, 51, 100), "one more than is free");
    assert_eq!(cards.holders(3)[0].bytes, 20, "and nothing changed");
    assert_eq!(taker(&path, 51).next(), 0);
    assert_eq!(cards.take_up_to(3, 90, 8, 100), 48);
    cards.give(3, 48);
    drop(child);
    assert_eq!(cards.others(3), 0);
    assert!(cards.take(3, 80, 100));
    assert!(!cards.take(3, 1, 100));
    cards.give(3, 100);
    assert_eq!(cards.holders(3), []);
}

#[test]
fn a_zombie_has_nothing() {
    let (_folder, path) = table();
    let cards = open(&path);
    let mut child = taker(&path, 30);
    assert_eq!(child.next(), 1);
    child.kill();
    let mut state = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
    let id = child.pid as libc::id_t;
    // SAFETY: room for the result; the call waits for the end and leaves the zombie for later.
    let waited = unsafe {
        libc::waitid(
            libc::P_PID,
            id,
            state.as_mut_ptr(),
            libc::WEXITED | libc::WNOWAIT,
        )
    };
    assert_eq!(waited, 0);
    assert_eq!(cards.others(3), 0);
    assert!(cards.take(3, 100, 100));
}

#[test]
fn the_death_of_the_locks_holder_stops_nobody() {
    let (_folder, path) = table();
    let cards = open(&path);
    let mut child = Child::start(|tells| {
        let layout = map(&path).expect("a table");
        let held = layout.lock().hold();
        let _ = tells.write_all(&[u8::from(held.is_ok())]);
        std::mem::forget(held);
    });
    assert_eq!(child.next(), 1);
    drop(child);
    assert!(cards.take(0, 1, 1));
    assert!(!cards.take(0, 1, 1));
}

#[test]
fn exec_gives_up_what_the_process_had() {
    let (_folder, path) = table();
    let cards = open(&path);
    let (mut asked, go) = std::io::pipe().expect("a pipe");
    let mut child = Child::start(|tells| {
        assert!(open(&path).take(3, 30, 100));
        let _ = tells.write_all(b"t");
        let _ = asked.read_exact(&mut [0]);
        let output = tells.try_clone().expect("a descriptor");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "echo; read never"]);
        command.stdin(asked).stdout(output);
        let _ = std::os::unix::process::CommandExt::exec(&mut command);
    });
    assert_eq!((child.next(), cards.others(3)), (b't', 30));
    (&go).write_all(b"g").expect("the child listens");
    assert_eq!(child.next(), b'\n');
    assert_eq!(cards.others(3), 0);
}

/// Numbers that forked processes share: arrivals, and winners.
fn shared_numbers() -> &'static [AtomicU32; 2] {
    // SAFETY: a fresh mapping of a page, zeroed and never unmapped.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: as above.
    unsafe { &*page.cast() }
}

#[test]
fn of_two_at_the_same_moment_one_gets_it() {
    two_at_the_same_moment(200);
}

#[test]
#[ignore = "slow: more rounds"]
fn of_two_at_the_same_moment_one_always_gets_it() {
    two_at_the_same_moment(5_000);
}

fn two_at_the_same_moment(rounds: u32) {
    let (_folder, path) = table();
    let [arrivals, winners] = shared_numbers();
    let mut children: Vec<Child> = (0..2)
        .map(|_| {
            Child::start(|tells| {
                let cards = open(&path);
                let mut awaited = 0;
                let mut meet = || {
                    awaited += 2;
                    arrivals.fetch_add(1, Ordering::AcqRel);
                    while arrivals.load(Ordering::Acquire) < awaited {
                        std::thread::yield_now();
                    }
                };
                for _ in 0..rounds {
                    meet();
                    let won = cards.take(0, 1, 1);
                    winners.fetch_add(u32::from(won), Ordering::AcqRel);
                    meet();
                    if won {
                        cards.give(0, 1);
                    }
                }
                let _ = tells.write_all(b".");
            })
        })
        .collect();
    for child in &mut children {
        child.next();
    }
    assert_eq!(winners.load(Ordering::Acquire), rounds);
}

#[test]
fn no_race_takes_more_than_there_is() {
    const LIMIT: u64 = 1000;
    let (_folder, path) = table();
    let mut children: Vec<Child> = (0..6)
        .map(|_| {
            Child::start(|tells| {
                let cards = open(&path);
                // First increments and decrements, so that rows change while others sum them; then
                // increments only.
                for _ in 0..300 {
                    if cards.take(0, 3, LIMIT) {
                        cards.give(0, 3);
                    }
                }
                while cards.take(0, 1, LIMIT) {}
                let _ = tells.write_all(b".");
            })
        })
        .collect();
    for child in &mut children {
        child.next();
    }
    let cards = open(&path);
    let all: u64 = cards.holders(0).iter().map(|holder| holder.bytes).sum();
    assert_eq!(all, LIMIT);
    assert_eq!(cards.others(0), LIMIT);
}
