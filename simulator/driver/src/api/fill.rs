//! Fills (`cuMemset*`).

use crate::ffi::{Answer, answer, require};
use crate::host::{self, Access};
use crate::model::memory::Backing;
use crate::model::state::state;
use gpumem_cuda_abi::{CuDevicePtr, CuResult};

fn fill(to: CuDevicePtr, pitch: usize, width: usize, value: u32, size: Size) -> CuResult {
    answer(|| {
        let Size { columns, rows } = size;
        let row_bytes = columns.checked_mul(width).ok_or(CuResult::INVALID_VALUE)?;
        require(to.0.is_multiple_of(width as u64))?;
        require(rows <= 1 || (pitch >= row_bytes && pitch.is_multiple_of(width)))?;
        if pitch == row_bytes {
            return fill_row(to.0, width, value, columns * rows);
        }
        for row in 0..rows {
            fill_row(to.0 + (row * pitch) as u64, width, value, columns)?;
        }
        Ok(())
    })
}

fn fill_row(to: u64, width: usize, value: u32, columns: usize) -> Answer {
    let bytes = (columns * width) as u64;
    let ours = {
        let state = state()?;
        state.bound()?;
        require(state.memory.covers(to, bytes, Access::ReadWrite))?;
        let found = state.memory.holding(to);
        found.is_some_and(|allocation| allocation.backing != Backing::Foreign)
    };
    if ours && value == 0 {
        host::zero(to, bytes);
        return Ok(());
    }
    host::fill(to, width, value, columns as u64);
    Ok(())
}

/// How much to fill, in elements and rows.
struct Size {
    columns: usize,
    rows: usize,
}

macro_rules! fills {
    ($($flat:ident, $pitched:ident, $value:ty, $width:literal, $names:literal;)*) => {$(
        #[doc = $names]
        pub extern "C" fn $flat(to: CuDevicePtr, value: $value, columns: usize) -> CuResult {
            fill(to, 0, $width, value.into(), Size { columns, rows: 1 })
        }

        #[doc = concat!($names, ", pitched (`2D`).")]
        pub extern "C" fn $pitched(
            to: CuDevicePtr,
            pitch: usize,
            value: $value,
            columns: usize,
            rows: usize,
        ) -> CuResult {
            fill(to, pitch, $width, value.into(), Size { columns, rows })
        }
    )*};
}

fills! {
    bytes, bytes_2d, u8, 1, "`cuMemsetD8`";
    halves, halves_2d, u16, 2, "`cuMemsetD16`";
    words, words_2d, u32, 4, "`cuMemsetD32`";
}
