//! CTC loss: its workspace holds the probabilities and two tables of paths.

use crate::array::read;
use crate::handle;
use crate::objects::Objects;
use crate::status::{Done, Status, pointer, require, status};
use crate::tensor::TENSORS;
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// The longest label of each descriptor.
pub static LOSSES: Objects<i32> = Objects::new();

/// `cudnnSetCTCLossDescriptor`, `cudnnSetCTCLossDescriptorEx`: labels come with each call.
pub fn set(descriptor: Handle) -> Status {
    status(LOSSES.set(descriptor, 0))
}

/// `cudnnSetCTCLossDescriptor_v8`, `_v9`.
pub fn set_longest(
    descriptor: Handle,
    _kind: u32,
    _normalization: u32,
    _gradients: u32,
    longest: i32,
) -> Status {
    let longest = u16::try_from(longest).map(i32::from);
    status(
        longest
            .map_err(|_| Status::BAD_PARAM)
            .and_then(|longest| LOSSES.set(descriptor, longest)),
    )
}

/// Bytes for `[steps, batch, classes]` probabilities and labels of up to so many: the
/// probabilities, the tables forward and backward (a path is a label with blanks around each of its
/// parts), and the paths. NVIDIA's cuDNN 7.6.5 requests 1 % more.
fn bytes(probabilities: [u64; 3], longest: u64) -> u64 {
    let [steps, batch, classes] = probabilities;
    let path = 2 * longest + 1;
    let elements = steps
        .saturating_mul(batch)
        .saturating_mul(classes + 2 * path);
    elements
        .saturating_add(batch.saturating_mul(path))
        .saturating_mul(4)
}

fn put(handle: Handle, probabilities: Handle, longest: Done<u64>, place: Out<usize>) -> Done {
    handle::stream(handle)?;
    let extents = TENSORS.get(probabilities)?.extents;
    let [steps, batch, classes] = extents[..] else {
        return Err(Status::BAD_PARAM);
    };
    let extents = [steps, batch, classes].map(|extent| extent as u64);
    pointer(place.put(bytes(extents, longest?) as usize))
}

/// `cudnnGetCTCLossWorkspaceSize_v8`.
pub fn workspace(
    handle: Handle,
    _algorithm: u32,
    loss: Handle,
    probabilities: Handle,
    _gradients: Handle,
    place: Out<usize>,
) -> Status {
    let longest = LOSSES.get(loss).map(|longest| longest as u64);
    status(put(handle, probabilities, longest, place))
}

/// `cudnnGetCTCLossWorkspaceSize`: the lengths of labels are in host memory.
#[allow(clippy::too_many_arguments)]
pub fn workspace_of_host_labels(
    handle: Handle,
    probabilities: Handle,
    _gradients: Handle,
    _labels: Address,
    lengths: Address,
    _inputs: Address,
    _algorithm: u32,
    loss: Handle,
    place: Out<usize>,
) -> Status {
    let longest = || -> Done<u64> {
        LOSSES.get(loss)?;
        let batch = TENSORS
            .get(probabilities)?
            .extents
            .get(1)
            .copied()
            .unwrap_or(0);
        let lengths = read::<i32>(lengths, usize::try_from(batch).unwrap_or(0))?;
        require(lengths.iter().all(|length| *length >= 0), Status::BAD_PARAM)?;
        Ok(lengths.into_iter().max().unwrap_or(0) as u64)
    };
    status(put(handle, probabilities, longest(), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workspaces that cuDNN 7.6.5 requested: steps, batch, classes, longest label, bytes.
    const MEASURED: [([u64; 3], u64, u64); 5] = [
        ([50, 16, 20], 10, 200_704),
        ([100, 16, 20], 10, 399_360),
        ([50, 32, 20], 10, 401_408),
        ([50, 16, 40], 10, 264_704),
        ([50, 16, 20], 20, 330_752),
    ];

    #[test]
    fn the_workspace_is_a_percent_below_cudnn_7() {
        for (probabilities, longest, measured) in MEASURED {
            let bytes = bytes(probabilities, longest);
            assert!(
                bytes <= measured && bytes * 101 > measured * 100,
                "{bytes} {measured}"
            );
        }
    }
}
