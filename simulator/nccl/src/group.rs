//! Groups of calls, what a rank sends to itself within one, and all-gathers that are made of broadcasts.

use crate::result::{NcclResult, cuda, require, result};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::cell::RefCell;
use std::collections::VecDeque;

/// A buffer of the program's, to be sent or filled.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Where it is.
    pub address: Address,
    /// How long it is.
    pub bytes: usize,
}

/// What one communicator does within a group.
#[derive(Debug, Default)]
struct Own {
    /// Sends to itself that wait for a receive, and the other way round.
    sends: VecDeque<Buffer>,
    receives: VecDeque<(Buffer, Handle)>,
    /// What it broadcasts, and what others would.
    broadcast: Option<Buffer>,
    awaited: Vec<(Buffer, Handle)>,
}

impl Own {
    /// An all-gather made of broadcasts, as PyTorch makes it for a list: every rank is a root once.
    /// Others are taken to hold what this one holds.
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

/// A thread that is ending has no group any more.
fn with<T>(ask: impl FnOnce(&mut Group) -> T) -> Result<T, NcclResult> {
    GROUP
        .try_with(|group| ask(&mut group.borrow_mut()))
        .map_err(|_| NcclResult::INVALID_USAGE)
}

/// `ncclGroupStart`.
pub fn start() -> NcclResult {
    result(with(|group| group.depth += 1))
}

/// `ncclGroupEnd`: calls were done when they were made, but for broadcasts that wait for this rank's
/// own.
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

/// `ncclGroupSimulateEnd`: nothing takes any time.
pub fn simulate_end(info: Address) -> NcclResult {
    /// Where `estimatedTime` is.
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

/// A rank is a broadcast's root, or not. Outside of a group that is all there is to it.
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

/// A rank sends to itself.
pub fn send_to_itself(comm: Handle, buffer: Buffer) -> Result<(), NcclResult> {
    let waiting = with(|group| {
        // Outside of a group it would wait for ever.
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

/// A rank receives from itself.
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
