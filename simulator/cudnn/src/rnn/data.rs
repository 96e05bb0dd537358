//! Sequences.

use crate::array::read;
use crate::objects::Objects;
use crate::shape::DataType;
use crate::status::{Done, Status, require, status};
use gpumem_sim_client::ffi::{Address, Handle};

/// A batch of sequences. A descriptor without steps has not been set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data {
    /// The longest sequence.
    pub steps: u64,
    /// How many sequences.
    pub batch: u64,
    /// Steps of all sequences that hold data: fewer than steps × batch if they are packed.
    pub cells: u64,
}

/// All batches.
pub static DATA: Objects<Data> = Objects::new();

/// `CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED`.
const PACKED: u32 = 1;

/// A batch that was set.
///
/// # Errors
/// `BAD_PARAM` if the handle is unknown or the descriptor has not been set.
pub fn get(descriptor: Handle) -> Done<Data> {
    let data = DATA.get(descriptor)?;
    require(data.steps > 0, Status::BAD_PARAM)?;
    Ok(data)
}

/// `cudnnSetRNNDataDescriptor`.
#[allow(clippy::too_many_arguments)]
pub fn set(
    descriptor: Handle,
    kind: u32,
    layout: u32,
    steps: i32,
    batch: i32,
    vector: i32,
    lengths: Address,
    _fill: Address,
) -> Status {
    let set = || -> Done {
        let positive = steps > 0 && batch > 0 && vector > 0;
        let known = layout <= 2 && DataType(kind).is_floating();
        require(positive && known, Status::BAD_PARAM)?;
        let lengths = read::<i32>(lengths, batch as usize)?;
        let possible = lengths.iter().all(|length| (0..=steps).contains(length));
        require(possible, Status::BAD_PARAM)?;
        let (steps, batch) = (steps as u64, batch as u64);
        let cells = match layout {
            PACKED => lengths.into_iter().map(|length| length as u64).sum(),
            _ => steps * batch,
        };
        DATA.set(
            descriptor,
            Data {
                steps,
                batch,
                cells,
            },
        )
    };
    status(set())
}
