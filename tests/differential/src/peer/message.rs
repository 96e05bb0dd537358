//! What goes between the program and its peer.

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
    /// All of them, by their numbers.
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
    /// What is wanted, as [`Wanted`]'s number.
    pub wanted: u32,
    /// The device.
    pub device: i32,
    /// What the peer has, by its number.
    pub item: u64,
    /// How much.
    pub bytes: u64,
    /// What goes with it.
    pub data: [u8; 64],
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
    /// 0.
    pub reserved: u32,
    /// The number by which the peer knows what it has now.
    pub item: u64,
    /// What was asked to be shared.
    pub data: [u8; 64],
}
