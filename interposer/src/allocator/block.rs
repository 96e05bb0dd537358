//! The allocator's block of an allocation, while the allocation is reported.
//!
//! Just before the call, PyTorch loads two of the report's arguments from the block, whose address is in a register:
//!
//! ```text
//! 48 8b 70 SS    mov  rsi, [rax + SS]     the block's size
//! 48 8b 78 PP    mov  rdi, [rax + PP]     its address
//! 41 c1 e0 08    shl  r8d, 8              the device
//! 41 83 c8 01    or   r8d, 1
//! e8 …           call
//! ```
//! The order of the four differs between releases and does not matter. So at these return addresses, and only there,
//! rax is the block, and the instructions contain the offsets of its fields. The loader's lazy binding preserves rax.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_sys::loaded;
use gpumem_unwind::Registers;

use crate::account;

/// A block in the allocator's report.
#[derive(Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) from: Registers,
    /// The register that may hold the address of the allocator's block.
    pub(crate) rax: u64,
    pub(crate) ptr: u64,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceOrdinal,
}

/// The maximum number of remembered call sites that report allocations. A release has one or two.
const SITES: usize = 4;
/// The offset of the stream in a block, in all releases.
const STREAM: u64 = 8;

/// Call sites that report allocations.
#[derive(Default)]
pub(super) struct Sites {
    sites: [Site; SITES],
    /// Blocks did not have the expected contents: nothing is read any more.
    wrong: AtomicBool,
}

/// A call site: the address after the call, and the offsets of a block's fields.
#[derive(Default)]
struct Site {
    /// 0 if unused.
    at: AtomicU64,
    /// [`Layout`] in a word; 0 if the code is unknown.
    layout: AtomicU64,
}

/// Offsets of a block's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    size: u8,
    ptr: u8,
}

/// The fields of blocks that can be read.
#[derive(Clone, Copy, Default)]
pub(super) struct Sees {
    pub(super) stream: bool,
    pub(super) requested: bool,
}

/// The fields of a block.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) stream: u64,
    /// None if this release's blocks do not have it.
    pub(super) requested: Option<u64>,
}

impl Layout {
    /// Decodes the bytes of the code before a return address.
    fn decode(code: &[u8; 21]) -> Option<Self> {
        let ([a, b, c, d, [0xe8, ..]], _) = code.as_chunks::<4>() else {
            return None;
        };
        // Each once, because there are four of them.
        let find = |start: [u8; 3]| {
            let mut words = [a, b, c, d].into_iter();
            words.find_map(|[x, y, z, last]| ([*x, *y, *z] == start).then_some(*last))
        };
        let (size, ptr) = (find([0x48, 0x8b, 0x70])?, find([0x48, 0x8b, 0x78])?);
        let is_known = (find([0x41, 0xc1, 0xe0]), find([0x41, 0x83, 0xc8])) == (Some(8), Some(1));
        let layout = Self { size, ptr };
        // size, requested_size, pool, ptr; before 2.1 size, pool, ptr. A displacement of a byte is signed.
        let has_fields =
            matches!(layout.between(), 0x10 | 0x18) && (9..ptr).contains(&size) && ptr < 0x80;
        (is_known && has_fields).then_some(layout)
    }

    fn between(self) -> u8 {
        self.ptr.wrapping_sub(self.size)
    }

    fn has_requested(self) -> bool {
        self.between() == 0x18
    }

    fn word(self) -> u64 {
        u64::from(self.size) | u64::from(self.ptr) << 8
    }

    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self {
            size: word as u8,
            ptr: (word >> 8) as u8,
        }
    }
}

impl Sites {
    /// The block of an allocation that is being reported; None if unknown.
    #[inline(always)]
    pub(super) fn read(&self, of: &Reported) -> Option<Block> {
        let at = |site: &&Site| site.at.load(Ordering::Acquire) == of.from.pc;
        let layout = self.sites.iter().find(at)?.layout.load(Ordering::Relaxed);
        if layout == 0 {
            return None;
        }
        let layout = Layout::from_word(layout);
        let field = |offset: u64| {
            let address = of.rax.wrapping_add(offset) as *const u64;
            // SAFETY: the instructions before the return address have read this block by rax, with the allocator's
            // lock held; the fields that are read lie before its address, which is one of them.
            unsafe { address.read_unaligned() }
        };
        let is_it = field(layout.size.into()) == of.bytes && field(layout.ptr.into()) == of.ptr;
        if !is_it {
            self.give_up();
            return None;
        }
        Some(Block {
            stream: field(STREAM),
            requested: layout
                .has_requested()
                .then(|| field(u64::from(layout.size) + 8)),
        })
    }

    #[cold]
    fn give_up(&self) {
        self.wrong.store(true, Ordering::Relaxed);
        for site in &self.sites {
            site.layout.store(0, Ordering::Relaxed);
        }
        account::leave(String::from(
            "PyTorch's blocks have an unknown layout: requested bytes are not recorded",
        ));
    }

    /// Decodes the reporting code; returns whether that is new.
    pub(super) fn learn(&self, of: &Reported) -> bool {
        let at = of.from.pc;
        for site in &self.sites {
            let known = site.at.load(Ordering::Acquire);
            if known == at {
                return false;
            }
            if known == 0 {
                let wrong = self.wrong.load(Ordering::Relaxed);
                let layout = code_before(at).and_then(|code| Layout::decode(&code));
                let layout = layout.filter(|_| !wrong).map_or(0, Layout::word);
                site.layout.store(layout, Ordering::Relaxed);
                site.at.store(at, Ordering::Release);
                return true;
            }
        }
        false
    }

    /// The fields of blocks that can be read at all call sites so far.
    pub(super) fn sees(&self) -> Sees {
        let known = self
            .sites
            .iter()
            .filter(|site| site.at.load(Ordering::Acquire) != 0);
        let layouts = known.map(|site| site.layout.load(Ordering::Relaxed));
        let of = |layout: u64| Sees {
            stream: layout != 0,
            requested: layout != 0 && Layout::from_word(layout).has_requested(),
        };
        let all = layouts.map(of).reduce(|a, b| Sees {
            stream: a.stream && b.stream,
            requested: a.requested && b.requested,
        });
        all.unwrap_or_default()
    }
}

/// The bytes before an address in the allocator's library.
fn code_before(at: u64) -> Option<[u8; 21]> {
    let start = (at as usize).checked_sub(21)?;
    loaded::find(|library| {
        if !library.file_name().starts_with(b"libc10_cuda") || !library.has_code(start..at as usize)
        {
            return ControlFlow::Continue(());
        }
        let code = start as *const [u8; 21];
        // SAFETY: these are bytes of the library's code, which stays while it is looked at.
        ControlFlow::Break(unsafe { code.read() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the code that reports an allocation in 2.15.0+cu132.
    const NEW: [u8; 21] = [
        0x48, 0x8b, 0x70, 0x38, 0x48, 0x8b, 0x78, 0x50, 0x41, 0xc1, 0xe0, 0x08, 0x41, 0x83, 0xc8,
        0x01, 0xe8, 0x29, 0x97, 0xfe, 0xff,
    ];

    #[test]
    fn the_code_says_where_the_fields_are() {
        let new = Layout::decode(&NEW).unwrap();
        assert_eq!(
            (new, new.has_requested()),
            (
                Layout {
                    size: 0x38,
                    ptr: 0x50
                },
                true
            )
        );
        assert_eq!(Layout::from_word(new.word()), new);
        // 2.1.2+cu121
        const SHUFFLED: [u8; 21] = [
            0x41, 0xc1, 0xe0, 0x08, 0x48, 0x8b, 0x70, 0x30, 0x48, 0x8b, 0x78, 0x48, 0x41, 0x83,
            0xc8, 0x01, 0xe8, 0xb7, 0x63, 0xff, 0xff,
        ];
        let shuffled = Layout::decode(&SHUFFLED).unwrap();
        assert_eq!((shuffled.size, shuffled.ptr), (0x30, 0x48));
        // 1.12.1+cu102
        let mut old = NEW;
        (old[3], old[7]) = (0x30, 0x40);
        let old = Layout::decode(&old).unwrap();
        assert_eq!((old.size, old.has_requested()), (0x30, false));
    }

    #[test]
    fn other_code_says_nothing() {
        for n in (0..17).filter(|n| ![3, 7].contains(n)) {
            let mut other = NEW;
            other[n] ^= 0x10;
            assert_eq!(Layout::decode(&other), None, "byte {n}");
        }
        for (size, ptr) in [(0x38, 0x40), (0, 0x18), (0x70, 0x88), (0xf8, 0x08)] {
            let mut other = NEW;
            (other[3], other[7]) = (size, ptr);
            assert_eq!(Layout::decode(&other), None, "{size:x} {ptr:x}");
        }
    }

    /// A block of 2.15, without fields that are not read.
    #[repr(C)]
    struct InMemory {
        device: u64,
        stream: u64,
        uses: [u64; 5],
        size: u64,
        requested: u64,
        pool: u64,
        ptr: u64,
    }

    #[test]
    fn a_block_is_read_and_one_that_is_none_ends_it() {
        let sites = Sites::default();
        let block = InMemory {
            device: 0,
            stream: 77,
            uses: [0; 5],
            size: 1024,
            requested: 1000,
            pool: 0,
            ptr: 4096,
        };
        let mut of = Reported {
            from: Registers {
                pc: 5,
                sp: 0,
                bp: 0,
            },
            rax: (&raw const block) as u64,
            ptr: 4096,
            bytes: 1024,
            device: DeviceOrdinal(0),
        };
        assert!(sites.read(&of).is_none());
        sites.sites[0].at.store(5, Ordering::Relaxed);
        let layout = Layout::decode(&NEW).unwrap().word();
        sites.sites[0].layout.store(layout, Ordering::Relaxed);
        let read = sites.read(&of).unwrap();
        assert_eq!((read.stream, read.requested), (77, Some(1000)));
        assert!(sites.sees().requested);
        of.bytes = 2048;
        assert!(sites.read(&of).is_none());
        of.bytes = 1024;
        assert!(sites.read(&of).is_none() && !sites.sees().stream);
    }
}
