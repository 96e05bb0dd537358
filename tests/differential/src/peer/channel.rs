//! Datagrams between the two processes, each with at most one descriptor.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::message::{Answer, Request};

/// Room for a control message with one descriptor, with the kernel's alignment.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// A value whose bytes are sent over a socket unchanged.
pub trait Plain: Copy {}
impl Plain for Request {}
impl Plain for Answer {}

/// Two sockets that are connected.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut both = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new, and only this process owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(both[0]), OwnedFd::from_raw_fd(both[1])) })
}

/// The header of a message of one part and with room for a descriptor.
fn header(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all-zero is a valid header.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    header
}

/// Sends a message.
pub fn send<T: Plain>(socket: &OwnedFd, message: &T, file: Option<RawFd>) -> bool {
    let mut part = libc::iovec {
        iov_base: std::ptr::from_ref(message).cast_mut().cast(),
        iov_len: size_of::<T>(),
    };
    let mut control = Control([0; 32]);
    let mut header = header(&mut part, &mut control);
    if let Some(file) = file {
        let bytes = size_of::<RawFd>() as u32;
        // SAFETY: the room is enough for one descriptor, so the first header is there.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(file);
        }
    } else {
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = 0;
    }
    // SAFETY: the header's parts live for the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
    sent == size_of::<T>() as isize
}

/// Receives a message; `None` if the other side has closed its end.
pub fn receive<T: Plain>(socket: &OwnedFd) -> Option<(T, Option<OwnedFd>)> {
    // SAFETY: the messages are plain numbers, for which zeros are valid.
    let mut message: T = unsafe { zeroed() };
    let mut part = libc::iovec {
        iov_base: std::ptr::from_mut(&mut message).cast(),
        iov_len: size_of::<T>(),
    };
    let mut control = Control([0; 32]);
    let mut header = header(&mut part, &mut control);
    // SAFETY: the header's parts live for the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
    if got != size_of::<T>() as isize {
        return None;
    }
    // SAFETY: the kernel has filled the header; a first control message, if there is one, is complete.
    let file = unsafe {
        let first = libc::CMSG_FIRSTHDR(&header);
        let rights = !first.is_null() && (*first).cmsg_type == libc::SCM_RIGHTS;
        rights.then(|| {
            let number = libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned();
            OwnedFd::from_raw_fd(number)
        })
    };
    Some((message, file))
}

/// Sends a request and waits for its answer.
pub fn exchange(
    socket: &OwnedFd,
    request: &Request,
    file: Option<RawFd>,
) -> Option<(Answer, Option<OwnedFd>)> {
    if !send(socket, request, file) {
        return None;
    }
    receive(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::message::Wanted;

    #[test]
    fn a_message_arrives_with_its_descriptor() {
        let (ours, theirs) = pair().expect("two sockets");
        let request = Request::about(Wanted::Release, 7).with([3; 64]);
        assert!(send(&ours, &request, Some(ours.as_raw_fd())));
        let (got, file): (Request, _) = receive(&theirs).expect("a message");
        assert_eq!((got.item, got.data), (7, [3; 64]));
        assert!(file.is_some_and(|file| file.as_raw_fd() != ours.as_raw_fd()));
        assert!(send(&ours, &request, None));
        let (_, file): (Request, _) = receive(&theirs).expect("a message");
        assert!(file.is_none());
        drop(ours);
        assert!(receive::<Request>(&theirs).is_none());
    }
}
