//! One frame of a Python stack.

/// One frame of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Address of the code object.
    pub code: u64,
    /// Distinguishes the code objects that have lived at this address.
    pub identity: u64,
    /// The position in the code.
    pub position: Position,
    /// The `torch.nn.Module` that it calls, if it is such a call.
    pub module: ModuleObject,
}

/// A module object: its address and the address of its type. Both objects may already be freed, and their addresses
/// reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModuleObject {
    /// Address of the object; 0: none.
    pub address: u64,
    /// Address of its type.
    pub kind: u64,
}

impl ModuleObject {
    /// No module.
    pub const NONE: Self = Self {
        address: 0,
        kind: 0,
    };
}

/// Where a frame is in its code, and whether C code entered it, in 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(u32);

/// Added to the offset, because the offset of a frame that was just entered may be negative.
const BIAS: i32 = 16;
/// C code entered the frame.
const ENTERED_FROM_C: u32 = 1 << 31;

impl Position {
    /// At `offset` bytes from the start of the code.
    #[inline]
    pub fn new(offset: i32, entered_from_c: bool) -> Self {
        let offset = offset.saturating_add(BIAS).max(0) as u32;
        Self(offset | u32::from(entered_from_c) << 31)
    }

    /// Offset of the instruction from the start of the code, in bytes.
    pub fn offset(self) -> i32 {
        (self.0 & !ENTERED_FROM_C) as i32 - BIAS
    }

    /// Whether C code entered the interpreter to run this frame.
    pub fn entered_from_c(self) -> bool {
        self.0 & ENTERED_FROM_C != 0
    }

    /// The highest bit is set if C code entered the frame; the others are the offset plus 16.
    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// C code entered the frame.
    #[inline]
    pub(crate) fn enter_from_c(&mut self) {
        self.0 |= ENTERED_FROM_C;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_keeps_what_it_is_made_of() {
        for (offset, kept) in [(-100, -16), (-16, -16), (-2, -2), (0, 0), (40_000, 40_000)] {
            for entered_from_c in [false, true] {
                let position = Position::new(offset, entered_from_c);
                assert_eq!(position.offset(), kept);
                assert_eq!(position.entered_from_c(), entered_from_c);
            }
        }
        let mut position = Position::new(40, false);
        assert_eq!(position.bits(), 56);
        position.enter_from_c();
        assert_eq!(position, Position::new(40, true));
    }
}
