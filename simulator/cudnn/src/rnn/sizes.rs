//! Buffers that an RNN requests in addition to its weights, by a model of NVIDIA's cuDNN 7.6.5
//! (docs/cudnn.md).
//!
//! The *reserve* is kept from forward to backward: the gates and the state of each step, sequence,
//! direction and layer, and the outputs between layers. The *workspace* is needed within a call:
//! another copy of the weights, the gates of all steps, and buffers of each layer.

use super::data::{self, Data};
use super::descriptor::{Cell, Rnn, get};
use crate::handle;
use crate::status::{Done, Status, pointer, require, status};
use crate::workspace::Setting;
use gpumem_sim_client::ffi::{Handle, Out};

/// `CUDNN_FWD_MODE_TRAINING`.
const TRAINING: u32 = 1;

/// Vectors of the hidden size that the reserve has for each cell of a layer, including its output.
fn kept(cell: Cell) -> u128 {
    match cell {
        Cell::Plain => 2,
        Cell::Lstm => 6,
        Cell::Gru => 7,
    }
}

/// Vectors of the hidden size in the workspace: for each step, and for each layer.
fn scratch(cell: Cell, directions: u64) -> (u128, u128) {
    match (cell, directions) {
        (Cell::Plain, 1) => (2, 4),
        (Cell::Plain, _) => (4, 6),
        (Cell::Lstm, 1) => (4, 18),
        (Cell::Lstm, _) => (6, 20),
        (Cell::Gru, 1) => (3, 12),
        (Cell::Gru, _) => (5, 14),
    }
}

/// Bytes of the reserve for training.
pub fn reserve(rnn: &Rnn, data: &Data) -> u64 {
    let [hidden, output, layers, cells, directions] = [
        rnn.hidden,
        rnn.output,
        rnn.layers,
        data.cells,
        rnn.directions,
    ]
    .map(u128::from);
    // The last layer's output is in the caller's buffer.
    let mut elements = hidden.saturating_mul(kept(rnn.cell) * layers - 1);
    if rnn.projects() {
        elements = elements.saturating_add(layers.saturating_mul(hidden + output));
    }
    let cells = cells.saturating_mul(directions);
    let mut bytes = rnn.bytes(elements.saturating_mul(cells));
    if rnn.drops {
        // One bit for each input of the next layer's cells.
        let bits = (layers - 1)
            .saturating_mul(cells)
            .saturating_mul(hidden * directions);
        bytes = bytes.saturating_add(u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX));
    }
    bytes
}

/// Bytes of the workspace.
pub fn workspace(rnn: &Rnn, data: &Data) -> u64 {
    let (of_steps, of_layers) = scratch(rnn.cell, rnn.directions);
    let more = rnn.projects() || rnn.drops && rnn.layers > 1 && rnn.directions == 1;
    let of_steps = of_steps + u128::from(more);
    let vectors =
        of_steps * u128::from(data.cells) + of_layers * u128::from(rnn.layers * data.batch);
    let width = u128::from(rnn.hidden * rnn.directions);
    rnn.bytes(
        rnn.all_matrices()
            .saturating_add(vectors.saturating_mul(width)),
    )
}

/// The size of the workspace, by the settings.
fn wanted(rnn: &Rnn, data: &Data) -> u64 {
    match Setting::get() {
        Setting::Model => workspace(rnn, data),
        Setting::High => workspace(rnn, data).saturating_mul(4),
        Setting::Fixed(bytes) => bytes,
    }
}

/// Bytes of workspace and reserve for a call.
pub fn needs(rnn: &Rnn, mode: u32, data: &Data) -> [usize; 2] {
    let reserve = if mode == TRAINING {
        reserve(rnn, data)
    } else {
        0
    };
    [wanted(rnn, data), reserve].map(|bytes| bytes as usize)
}

/// `cudnnGetRNNTempSpaceSizes`.
pub fn temporary(
    handle: Handle,
    rnn: Handle,
    mode: u32,
    x: Handle,
    workspace: Out<usize>,
    reserve: Out<usize>,
) -> Status {
    let ask = || -> Done {
        handle::stream(handle)?;
        require(mode <= TRAINING, Status::BAD_PARAM)?;
        let [for_call, kept] = needs(&get(rnn)?, mode, &data::get(x)?);
        require(
            !workspace.is_null() || !reserve.is_null(),
            Status::BAD_PARAM,
        )?;
        if !workspace.is_null() {
            pointer(workspace.put(for_call))?;
        }
        reserve.put_if_asked(kept);
        Ok(())
    };
    status(ask())
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
