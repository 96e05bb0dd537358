//! The peer: another process on the same cards, which shares memory with the program under test. It
//! acts only when asked, and answers before the program goes on; nobody records it.
//!
//! Messages go over a pair of Unix sockets, one datagram each, of which a descriptor may be part.

mod channel;
pub mod serve;

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use channel::{exchange, pair};

/// The option that starts a peer.
pub const OPTION: &str = "--peer";

/// Where the simulator finds the cards that processes share.
pub const CARD: &str = "GPUMEM_SIM_CARD";

/// What the peer is asked for.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Device memory: `bytes` on `device`.
    Allocate,
    /// The handle of such memory, in the answer's data.
    ShareMemory,
    /// Physical memory.
    Create,
    /// Its descriptor.
    ShareHandle,
    /// A pool that can be shared.
    MakePool,
    /// Its descriptor.
    SharePool,
    /// Memory of the pool `item`.
    AllocateFromPool,
    /// What such memory is exported by, in the answer's data.
    SharePointer,
    /// Opens the program's memory by the handle in the data.
    OpenMemory,
    /// Takes the program's physical memory in, and maps it.
    OpenHandle,
    /// Takes the program's pool in.
    OpenPool,
    /// Takes memory of the pool `item` in, by the data.
    OpenPointer,
    /// Gives `item` up, whatever it is.
    Release,
    /// Gives everything up, contexts too.
    Reset,
}

impl Wanted {
    const ALL: [Self; 14] = [
        Self::Allocate,
        Self::ShareMemory,
        Self::Create,
        Self::ShareHandle,
        Self::MakePool,
        Self::SharePool,
        Self::AllocateFromPool,
        Self::SharePointer,
        Self::OpenMemory,
        Self::OpenHandle,
        Self::OpenPool,
        Self::OpenPointer,
        Self::Release,
        Self::Reset,
    ];
}

/// A request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    wanted: u32,
    device: i32,
    item: u64,
    bytes: u64,
    data: [u8; 64],
}

impl Request {
    /// For something of a device.
    pub fn on(wanted: Wanted, device: i32, bytes: usize) -> Self {
        Self {
            wanted: wanted as u32,
            device,
            item: 0,
            bytes: bytes as u64,
            data: [0; 64],
        }
    }

    /// About something that the peer has.
    pub fn about(wanted: Wanted, item: u64) -> Self {
        Self {
            item,
            ..Self::on(wanted, 0, 0)
        }
    }

    /// The same, about something that the peer has.
    pub fn of(self, item: u64) -> Self {
        Self { item, ..self }
    }

    /// The same with data.
    pub fn with(self, data: [u8; 64]) -> Self {
        Self { data, ..self }
    }
}

/// An answer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The driver's.
    pub code: u32,
    reserved: u32,
    /// The number by which the peer knows what it has now.
    pub item: u64,
    /// What was asked to be shared.
    pub data: [u8; 64],
}

/// A peer that runs.
struct Peer {
    child: Child,
    socket: OwnedFd,
}

static PEER: OnceLock<Mutex<Peer>> = OnceLock::new();

/// Starts the peer of this process.
///
/// # Errors
/// Why there is none.
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
    // SAFETY: between fork and exec only two system calls are made. With its parent the peer ends.
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

/// Asks the peer; `None` if there is none.
pub fn ask(request: Request, file: Option<&OwnedFd>) -> Option<(Answer, Option<OwnedFd>)> {
    let peer = PEER.get()?;
    let peer = peer.lock().unwrap_or_else(PoisonError::into_inner);
    exchange(&peer.socket, &request, file.map(AsRawFd::as_raw_fd))
}

/// Ends the peer.
pub fn stop() {
    if let Some(peer) = PEER.get() {
        let mut peer = peer.lock().unwrap_or_else(PoisonError::into_inner);
        // It waits for a request, and has nothing to put in order.
        let _ = peer.child.kill();
        let _ = peer.child.wait();
    }
}
