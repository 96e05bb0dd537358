//! The peer: another process on the same cards, which shares memory with the program under test. It
//! acts only on request, and answers before the program continues. It is not recorded.
//!
//! Messages are datagrams over a pair of Unix sockets; each may carry a descriptor.

mod channel;
pub mod message;
pub mod serve;

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use channel::{exchange, pair};
use message::{Answer, Request, Wanted};

/// The option that starts this program as a peer.
pub const OPTION: &str = "--peer";

/// The variable that names the simulator's shared cards.
pub const CARD: &str = "GPUMEM_SIM_CARD";

/// A running peer.
struct Peer {
    child: Child,
    socket: OwnedFd,
}

static PEER: OnceLock<Mutex<Peer>> = OnceLock::new();

/// Starts the peer of this process.
///
/// # Errors
/// The reason why it cannot start.
pub fn start() -> Result<(), String> {
    if std::env::var_os(CARD).is_none_or(|card| card.is_empty()) {
        return Err(format!(
            "the family peer needs cards that two processes share: {CARD} names none"
        ));
    }
    let (ours, theirs) = pair().map_err(|e| format!("no sockets for the peer: {e}"))?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command
        .arg(OPTION)
        .stdin(Stdio::from(theirs))
        // The driver alone: no recorder, no runtime.
        .env_remove("LD_PRELOAD");
    let parent = std::process::id();
    // SAFETY: between fork and exec only two system calls are made. The peer ends with its parent.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as u32 == parent {
                Ok(())
            } else {
                Err(std::io::ErrorKind::Other.into())
            }
        });
    }
    let child = command.spawn();
    drop(command);
    let peer = Peer {
        child: child.map_err(|e| format!("the peer cannot be started: {e}"))?,
        socket: ours,
    };
    let _ = PEER.set(Mutex::new(peer));
    match ask(Request::on(Wanted::Reset, 0, 0), None) {
        Some((Answer { code: 0, .. }, None)) => Ok(()),
        _ => Err("the peer does not answer".into()),
    }
}

/// Sends a request to the peer; `None` without a peer.
pub fn ask(request: Request, file: Option<&OwnedFd>) -> Option<(Answer, Option<OwnedFd>)> {
    let peer = PEER.get()?;
    let peer = peer.lock().unwrap_or_else(PoisonError::into_inner);
    exchange(&peer.socket, &request, file.map(AsRawFd::as_raw_fd))
}

/// Ends the peer.
pub fn stop() {
    if let Some(peer) = PEER.get() {
        let mut peer = peer.lock().unwrap_or_else(PoisonError::into_inner);
        // It waits for a request, and has nothing to clean up.
        let _ = peer.child.kill();
        let _ = peer.child.wait();
    }
}
