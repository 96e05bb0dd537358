//! Fills (`cuMemset*`).

use super::on_stream::{on_stream, submit, synchronously};
use crate::ffi::{Answer, CuError, require};
use crate::host::{self, Access};
use crate::model::graph::Work;
use crate::model::memory::Backing;
use crate::model::state::state;
use crate::model::stream::On;
use gpumem_cuda_abi::{CuDevicePtr, CuMemsetNodeParams};

/// Checks a fill, for any target.
pub fn check(fill: &CuMemsetNodeParams) -> Answer {
    require(matches!(fill.element_bytes, 1 | 2 | 4))?;
    let element = fill.element_bytes as usize;
    let row_bytes = fill.columns.checked_mul(element);
    let row_bytes = row_bytes.ok_or(CuError::INVALID_VALUE)?;
    require(fill.to.0.is_multiple_of(element as u64))?;
    require(fill.rows <= 1 || (fill.pitch >= row_bytes && fill.pitch.is_multiple_of(element)))
}

/// Fills.
pub fn fill(fill: &CuMemsetNodeParams) -> Answer {
    check(fill)?;
    let element = fill.element_bytes as usize;
    let CuMemsetNodeParams {
        to,
        pitch,
        value,
        columns,
        rows,
        ..
    } = *fill;
    if pitch == columns * element {
        return fill_row(to.0, element, value, columns * rows);
    }
    for row in 0..rows {
        fill_row(to.0 + (row * pitch) as u64, element, value, columns)?;
    }
    Ok(())
}

fn fill_row(to: u64, width: usize, value: u32, columns: usize) -> Answer {
    let bytes = (columns * width) as u64;
    let ours = {
        let mut state = state()?;
        state.bound()?;
        require(state.memory.covers(to, bytes, Access::ReadWrite))?;
        state.touch(to);
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

/// The size of a fill, in elements and rows, and the width of an element.
struct Size {
    element_bytes: u32,
    columns: usize,
    rows: usize,
}

fn of(to: CuDevicePtr, pitch: usize, value: u32, size: Size) -> CuMemsetNodeParams {
    CuMemsetNodeParams {
        to,
        pitch,
        value,
        element_bytes: size.element_bytes,
        columns: size.columns,
        rows: size.rows,
        context: 0,
    }
}

fn now(parameters: CuMemsetNodeParams) -> Answer {
    synchronously(|| fill(&parameters))
}

fn later(on: On, parameters: CuMemsetNodeParams) -> Answer {
    check(&parameters)?;
    submit(on, Work::Fill(parameters), || fill(&parameters))
}

macro_rules! fills {
    ($($module:ident, $value:ty, $width:literal, $names:literal;)*) => {$(
        #[doc = $names]
        pub mod $module {
            use super::*;

            fn flat_of(to: CuDevicePtr, value: $value, columns: usize) -> CuMemsetNodeParams {
                of(to, 0, value.into(), Size { element_bytes: $width, columns, rows: 1 })
            }

            fn pitched_of(
                to: CuDevicePtr,
                pitch: usize,
                value: $value,
                columns: usize,
                rows: usize,
            ) -> CuMemsetNodeParams {
                of(to, pitch, value.into(), Size { element_bytes: $width, columns, rows })
            }

            fn flat_on(on: On, to: CuDevicePtr, value: $value, columns: usize) -> Answer {
                later(on, flat_of(to, value, columns))
            }

            fn pitched_on(
                on: On,
                to: CuDevicePtr,
                pitch: usize,
                value: $value,
                columns: usize,
                rows: usize,
            ) -> Answer {
                later(on, pitched_of(to, pitch, value, columns, rows))
            }

            #[doc = $names]
            pub extern "C" fn flat(to: CuDevicePtr, value: $value, columns: usize) -> Answer {
                now(flat_of(to, value, columns))
            }

            #[doc = concat!($names, ", pitched (`2D`).")]
            pub extern "C" fn pitched(
                to: CuDevicePtr,
                pitch: usize,
                value: $value,
                columns: usize,
                rows: usize,
            ) -> Answer {
                now(pitched_of(to, pitch, value, columns, rows))
            }

            on_stream! {
                "The same on a stream." flat_async flat_own
                    [to: CuDevicePtr, value: $value, columns: usize] [] = flat_on;
                "Pitched, on a stream." pitched_async pitched_own
                    [to: CuDevicePtr, pitch: usize, value: $value, columns: usize, rows: usize]
                    [] = pitched_on;
            }
        }
    )*};
}

fills! {
    bytes, u8, 1, "`cuMemsetD8`";
    halves, u16, 2, "`cuMemsetD16`";
    words, u32, 4, "`cuMemsetD32`";
}
