//! Descriptions of shared memory that processes pass to each other, and memory that only other
//! processes still hold.

use crate::ffi::{Answer, CuError};
use crate::files;
use std::os::fd::OwnedFd;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`: the only supported kind of handle for shared memory.
pub const FILE_DESCRIPTOR: u32 = 1;

/// Checks the handle types for shared memory. Win32 and fabric handles are not supported.
pub fn check_handle_types(types: u32) -> Answer {
    if types & !FILE_DESCRIPTOR == 0 {
        Ok(())
    } else {
        Err(CuError::NOT_SUPPORTED)
    }
}

/// The kind of a memory file, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Memory of `cuMemCreate`.
    Physical(Made),
    /// A pool's memory.
    Pool(Made),
    /// A multicast object.
    Multicast,
}

/// The properties of such memory. The device is its index on the machine, because ordinals differ
/// between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// `CUmemAllocationType`.
    pub kind: u32,
    /// `CUmemLocationType`.
    pub location: u32,
    /// The id of the location.
    pub id: i64,
    /// Usage flags.
    pub usage: u16,
}

impl Label {
    /// As a file's name.
    pub fn to_name(self) -> String {
        let text = |family: &str, made: Made| {
            let Made {
                kind,
                location,
                id,
                usage,
            } = made;
            format!("{family}:{kind}:{location}:{id}:{usage}")
        };
        match self {
            Self::Physical(made) => text("vmm", made),
            Self::Pool(made) => text("pool", made),
            Self::Multicast => "multicast".to_owned(),
        }
    }

    /// From a file's name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.split(':');
        let family = parts.next()?;
        if family == "multicast" {
            return Some(Self::Multicast);
        }
        let made = Made {
            kind: parts.next()?.parse().ok()?,
            location: parts.next()?.parse().ok()?,
            id: parts.next()?.parse().ok()?,
            usage: parts.next()?.parse().ok()?,
        };
        match family {
            "vmm" => Some(Self::Physical(made)),
            "pool" => Some(Self::Pool(made)),
            _ => None,
        }
    }

    /// From a descriptor of another process.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it is not from a simulated driver.
    pub fn of_file(file: i32) -> Answer<Self> {
        let name = files::name(file).ok_or(CuError::INVALID_VALUE)?;
        Self::from_name(&name).ok_or(CuError::INVALID_VALUE)
    }
}

/// Memory that this process has released and another process still holds.
#[derive(Debug)]
pub struct Lingering {
    pub(crate) file: OwnedFd,
    pub(crate) device: usize,
    pub(crate) bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_their_names() {
        let made = Made {
            kind: 1,
            location: 1,
            id: 3,
            usage: 1,
        };
        for label in [Label::Physical(made), Label::Pool(made), Label::Multicast] {
            assert_eq!(Label::from_name(&label.to_name()), Some(label));
        }
        assert_eq!(Label::from_name("vmm:1:2"), None);
        assert_eq!(Label::from_name("other:1:1:1:1"), None);
    }
}
