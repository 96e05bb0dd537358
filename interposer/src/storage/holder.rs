//! Passes the ring to a process that outlives this one and holds it open (`gpumem run`).

use core::mem::{MaybeUninit, size_of};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Room for one descriptor with a message, aligned like its header.
#[repr(C)]
struct Beside {
    header: libc::cmsghdr,
    descriptor: libc::c_int,
    padding: libc::c_int,
}

/// Sends the ring's descriptor and the capture's path to the socket `to`. Does not wait.
///
/// # Errors
/// The system's error: there is no listener, or it is too slow.
pub(super) fn pass(to: &OsStr, ring: &File, capture: &Path) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(to)?;
    let path = capture.as_os_str().as_bytes();
    let mut text = libc::iovec {
        iov_base: path.as_ptr().cast_mut().cast(),
        iov_len: path.len(),
    };
    let mut beside = Beside {
        header: libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<libc::c_int>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        },
        descriptor: ring.as_raw_fd(),
        padding: 0,
    };
    // SAFETY: an all-zero message is a valid one without parts.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut text;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut beside).cast();
    message.msg_controllen = size_of::<Beside>();
    // SAFETY: the message's parts live until the call returns; the descriptors are open.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_arrives_with_the_path() {
        let name = format!("gpumem-holder-{}", std::process::id());
        let at = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&at);
        let holder = UnixDatagram::bind(&at).unwrap();
        let ring = File::open("/dev/null").unwrap();
        pass(at.as_os_str(), &ring, Path::new("/some/report.bin")).unwrap();
        drop(ring);
        std::fs::remove_file(&at).unwrap();
        let mut text = [0_u8; 64];
        let mut part = libc::iovec {
            iov_base: text.as_mut_ptr().cast(),
            iov_len: text.len(),
        };
        // SAFETY: zeros are valid for both; the parts live until the call returns.
        let (length, beside) = unsafe {
            let mut beside: Beside = core::mem::zeroed();
            let mut message: libc::msghdr = core::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut beside).cast();
            message.msg_controllen = size_of::<Beside>();
            (
                libc::recvmsg(holder.as_raw_fd(), &raw mut message, 0),
                beside,
            )
        };
        assert_eq!(&text[..length as usize], b"/some/report.bin");
        // SAFETY: the call touches no memory of ours.
        assert!(unsafe { libc::fcntl(beside.descriptor, libc::F_GETFD) } >= 0);
    }

    #[test]
    fn a_socket_that_is_not_there_is_an_error() {
        let ring = File::open("/dev/null").unwrap();
        let nowhere = OsStr::new("/nonexistent/socket");
        assert!(pass(nowhere, &ring, Path::new("report.bin")).is_err());
    }
}
