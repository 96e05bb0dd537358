//! Copies of plain ranges.

use crate::{context, symbol};
use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle};

/// `cudaMemcpyKind`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u32);

impl Kind {
    /// Host to host.
    pub const HOST_TO_HOST: Self = Self(0);
    /// Host to device.
    pub const HOST_TO_DEVICE: Self = Self(1);
    /// Device to host.
    pub const DEVICE_TO_HOST: Self = Self(2);
    /// Device to device.
    pub const DEVICE_TO_DEVICE: Self = Self(3);
    /// Detected from the pointers.
    pub const DEFAULT: Self = Self(4);
}

/// `cudaErrorInvalidMemcpyDirection`.
pub const INVALID_DIRECTION: CudaError = CudaError(21);

/// `cudaMemcpy`.
pub fn linear(to: Address, from: Address, bytes: usize, kind: Kind) -> Answer {
    match kind {
        Kind::HOST_TO_DEVICE => cu::cuMemcpyHtoD(to, from, bytes),
        Kind::DEVICE_TO_HOST => cu::cuMemcpyDtoH(to, from, bytes),
        Kind::DEVICE_TO_DEVICE => cu::cuMemcpyDtoD(to, from, bytes),
        Kind::HOST_TO_HOST | Kind::DEFAULT => cu::cuMemcpy(to, from, bytes),
        _ => Err(INVALID_DIRECTION),
    }
}

/// `cudaMemcpyAsync`.
pub fn linear_async(
    to: Address,
    from: Address,
    bytes: usize,
    kind: Kind,
    stream: Handle,
) -> Answer {
    match kind {
        Kind::HOST_TO_DEVICE => cu::cuMemcpyHtoDAsync(to, from, bytes, stream),
        Kind::DEVICE_TO_HOST => cu::cuMemcpyDtoHAsync(to, from, bytes, stream),
        Kind::DEVICE_TO_DEVICE => cu::cuMemcpyDtoDAsync(to, from, bytes, stream),
        Kind::HOST_TO_HOST | Kind::DEFAULT => cu::cuMemcpyAsync(to, from, bytes, stream),
        _ => Err(INVALID_DIRECTION),
    }
}

/// `cudaMemcpyPeer`: between the primary contexts of two devices.
pub fn peer(to: Address, to_device: i32, from: Address, from_device: i32, bytes: usize) -> Answer {
    let (to_context, from_context) = peers(to_device, from_device)?;
    cu::cuMemcpyPeer(to, to_context, from, from_context, bytes)
}

/// `cudaMemcpyPeerAsync`.
pub fn peer_async(
    to: Address,
    to_device: i32,
    from: Address,
    from_device: i32,
    bytes: usize,
    stream: Handle,
) -> Answer {
    let (to_context, from_context) = peers(to_device, from_device)?;
    cu::cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream)
}

fn peers(to: i32, from: i32) -> Answer<(Handle, Handle)> {
    context::check_device(to)?;
    context::check_device(from)?;
    Ok((context::primary(to)?, context::primary(from)?))
}

/// `cudaMemcpyToSymbol`.
pub fn to_symbol(
    variable: Address,
    from: Address,
    bytes: usize,
    offset: usize,
    kind: Kind,
) -> Answer {
    linear(symbol::range(variable, offset, bytes)?, from, bytes, kind)
}

/// `cudaMemcpyToSymbolAsync`.
pub fn to_symbol_async(
    variable: Address,
    from: Address,
    bytes: usize,
    offset: usize,
    kind: Kind,
    stream: Handle,
) -> Answer {
    let to = symbol::range(variable, offset, bytes)?;
    linear_async(to, from, bytes, kind, stream)
}

/// `cudaMemcpyFromSymbol`.
pub fn from_symbol(
    to: Address,
    variable: Address,
    bytes: usize,
    offset: usize,
    kind: Kind,
) -> Answer {
    linear(to, symbol::range(variable, offset, bytes)?, bytes, kind)
}

/// `cudaMemcpyFromSymbolAsync`.
pub fn from_symbol_async(
    to: Address,
    variable: Address,
    bytes: usize,
    offset: usize,
    kind: Kind,
    stream: Handle,
) -> Answer {
    let from = symbol::range(variable, offset, bytes)?;
    linear_async(to, from, bytes, kind, stream)
}
