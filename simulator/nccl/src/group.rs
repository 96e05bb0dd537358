//! Groups of calls: messages that a rank sends to itself, and all-gathers that consist of
//! broadcasts.

use crate::result::{NcclResult, cuda, require, result};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::cell::RefCell;
use std::collections::VecDeque;

/// A buffer of the program, to be sent or filled.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Where it is.
    pub address: Address,
    /// Its size.
    pub bytes: usize,
}

/// The calls of one communicator within a group.
#[derive(Debug, Default)]
struct Own {
    /// Sends to itself that wait for a receive, and receives that wait for a send.
    sends: VecDeque<Buffer>,
    receives: VecDeque<(Buffer, Handle)>,
    /// Its own broadcast, and those of other roots that wait for it.
    broadcast: Option<Buffer>,
    awaited: Vec<(Buffer, Handle)>,
}

impl Own {
    /// An all-gather that consists of broadcasts, as PyTorch makes it for a list: every rank is a
    /// root once. The other ranks' data is taken to be the same as this rank's.
    fn deliver(&self) -> Result<(), NcclResult> {
        let Some(own) = self.broadcast else {
            return Ok(());
        };
        let same = self.awaited.iter().filter(|(to, _)| to.bytes == own.bytes);
        for (to, stream) in same {
            copy(to.address, own.address, own.bytes, *stream)?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Group {
    depth: u32,
    own: Vec<(Handle, Own)>,
}

thread_local! {
    static GROUP: RefCell<Group> = const {
        RefCell::new(Group {
            depth: 0,
            own: Vec::new(),
        })
    };
}

/// Calls a function with the thread's group. A thread that is ending has no group any more.
fn with<T>(ask: impl FnOnce(&mut Group) -> T) -> Result<T, NcclResult> {
    GROUP
        .try_with(|group| ask(&mut group.borrow_mut()))
        .map_err(|_| NcclResult::INVALID_USAGE)
}

/// `ncclGroupStart`.
pub fn start() -> NcclResult {
    result(with(|group| group.depth += 1))
}

/// `ncclGroupEnd`: calls are done when they are made, except for broadcasts that wait for this
/// rank's own.
pub fn end() -> NcclResult {
    let ended = with(|group| {
        require(group.depth > 0).map_err(|_| NcclResult::INVALID_USAGE)?;
        group.depth -= 1;
        Ok(match group.depth {
            0 => std::mem::take(&mut group.own),
            _ => Vec::new(),
        })
    });
    result(ended.and_then(|ended| {
        let all = ended?;
        all.iter().try_for_each(|(_, own)| own.deliver())
    }))
}

/// `ncclGroupSimulateEnd`: calls take no time.
pub fn simulate_end(info: Address) -> NcclResult {
    /// The offset of `estimatedTime`.
    const ESTIMATED_TIME: usize = 16;
    if info != 0 {
        Out::<f32>::at(info + ESTIMATED_TIME).put_if_asked(0.0);
    }
    end()
}

/// A copy on a stream.
pub fn copy(to: Address, from: Address, bytes: usize, stream: Handle) -> Result<(), NcclResult> {
    if bytes == 0 || to == from {
        return Ok(());
    }
    cuda(cu::cuMemcpyAsync(to, from, bytes, stream))
}

fn own(group: &mut Group, comm: Handle) -> &mut Own {
    let place = match group.own.iter().position(|(of, _)| *of == comm) {
        Some(place) => place,
        None => {
            group.own.push((comm, Own::default()));
            group.own.len() - 1
        }
    };
    &mut group.own[place].1
}

/// A broadcast, as the root or not. Outside of a group it is complete at once.
pub fn broadcast(
    comm: Handle,
    buffer: Buffer,
    stream: Handle,
    is_root: bool,
) -> Result<(), NcclResult> {
    with(|group| {
        if group.depth > 0 {
            let own = own(group, comm);
            match is_root {
                true => own.broadcast = Some(buffer),
                false => own.awaited.push((buffer, stream)),
            }
        }
    })
}

/// Sends from a rank to itself.
pub fn send_to_itself(comm: Handle, buffer: Buffer) -> Result<(), NcclResult> {
    let waiting = with(|group| {
        // Outside of a group it would block permanently.
        require(group.depth > 0).map_err(|_| NcclResult::INVALID_USAGE)?;
        let own = own(group, comm);
        let receiver = own.receives.pop_front();
        if receiver.is_none() {
            own.sends.push_back(buffer);
        }
        Ok(receiver)
    })??;
    match waiting {
        Some((into, stream)) => copy(
            into.address,
            buffer.address,
            into.bytes.min(buffer.bytes),
            stream,
        ),
        None => Ok(()),
    }
}

/// Receives from the same rank.
pub fn receive_from_itself(comm: Handle, buffer: Buffer, stream: Handle) -> Result<(), NcclResult> {
    let waiting = with(|group| {
        require(group.depth > 0).map_err(|_| NcclResult::INVALID_USAGE)?;
        let own = own(group, comm);
        let sender = own.sends.pop_front();
        if sender.is_none() {
            own.receives.push_back((buffer, stream));
        }
        Ok(sender)
    })??;
    match waiting {
        Some(from) => copy(
            buffer.address,
            from.address,
            from.bytes.min(buffer.bytes),
            stream,
        ),
        None => Ok(()),
    }
}
