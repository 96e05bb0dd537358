//! Messages between the program and its peer.

/// The kinds of requests.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Device memory: `bytes` on `device`.
    Allocate,
    /// Exports such memory; the handle is in the answer's data.
    ShareMemory,
    /// Physical memory.
    Create,
    /// Exports physical memory as a descriptor.
    ShareHandle,
    /// A pool that can be shared.
    MakePool,
    /// Exports a pool as a descriptor.
    SharePool,
    /// Memory of the pool `item`.
    AllocateFromPool,
    /// Exports memory of a pool; the answer's data describe it.
    SharePointer,
    /// Opens the program's memory by the handle in the data.
    OpenMemory,
    /// Imports the program's physical memory and maps it.
    OpenHandle,
    /// Imports the program's pool.
    OpenPool,
    /// Imports memory of the pool `item`, described by the data.
    OpenPointer,
    /// Releases `item`, of any kind.
    Release,
    /// Releases all items and contexts.
    Reset,
}

impl Wanted {
    /// All kinds, by their numbers.
    pub const ALL: [Self; 14] = [
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
    /// The kind, as [`Wanted`]'s number.
    pub wanted: u32,
    /// The device.
    pub device: i32,
    /// The number of an item of the peer.
    pub item: u64,
    /// The size.
    pub bytes: u64,
    /// Data for the request.
    pub data: [u8; 64],
}

impl Request {
    /// A request for something on a device.
    pub fn on(wanted: Wanted, device: i32, bytes: usize) -> Self {
        Self {
            wanted: wanted as u32,
            device,
            item: 0,
            bytes: bytes as u64,
            data: [0; 64],
        }
    }

    /// A request about an item of the peer.
    pub fn about(wanted: Wanted, item: u64) -> Self {
        Self {
            item,
            ..Self::on(wanted, 0, 0)
        }
    }

    /// The same request for another item of the peer.
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
    /// The driver's result code.
    pub code: u32,
    /// 0.
    pub reserved: u32,
    /// The number of the peer's new item.
    pub item: u64,
    /// The requested data.
    pub data: [u8; 64],
}
