//! Copies of rows, between pitched memory and arrays.

use crate::copy::Kind;
use crate::copy_side::{ARRAY, HOST, ends};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In};
use gpumem_sim_client::structures::{Memcpy2d, Side2d};

/// Pitched memory.
fn pitched(kind: u32, address: Address, pitch: usize) -> Side2d {
    Side2d {
        kind,
        host: if kind == HOST { address } else { 0 },
        device: if kind == HOST { 0 } else { address },
        pitch,
        ..Side2d::default()
    }
}

/// An array, starting at an offset. Offsets in an array are in bytes here.
fn in_array(array: Handle, x_bytes: usize, y: usize) -> Side2d {
    Side2d {
        kind: ARRAY,
        array,
        x_bytes,
        y,
        ..Side2d::default()
    }
}

/// Copies now, or on a stream.
fn run(from: Side2d, to: Side2d, width_bytes: usize, height: usize, on: Option<Handle>) -> Answer {
    if width_bytes == 0 || height == 0 {
        return Ok(());
    }
    let copy = Memcpy2d {
        from,
        to,
        width_bytes,
        height,
    };
    match on {
        Some(stream) => cu::cuMemcpy2DAsync(In::of(&copy), stream),
        None => cu::cuMemcpy2DUnaligned(In::of(&copy)),
    }
}

/// `cudaMemcpy2D`.
pub fn rows(
    to: Address,
    to_pitch: usize,
    from: Address,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: Kind,
) -> Answer {
    let (from_kind, to_kind) = ends(kind)?;
    let from = pitched(from_kind, from, from_pitch);
    run(from, pitched(to_kind, to, to_pitch), width, height, None)
}

/// `cudaMemcpy2DAsync`.
#[allow(clippy::too_many_arguments)]
pub fn rows_async(
    to: Address,
    to_pitch: usize,
    from: Address,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: Kind,
    stream: Handle,
) -> Answer {
    let (from_kind, to_kind) = ends(kind)?;
    let from = pitched(from_kind, from, from_pitch);
    let to = pitched(to_kind, to, to_pitch);
    run(from, to, width, height, Some(stream))
}

/// `cudaMemcpy2DToArray`.
#[allow(clippy::too_many_arguments)]
pub fn rows_to_array(
    to: Handle,
    x_bytes: usize,
    y: usize,
    from: Address,
    pitch: usize,
    width: usize,
    height: usize,
    kind: Kind,
) -> Answer {
    let (from_kind, _) = ends(kind)?;
    let from = pitched(from_kind, from, pitch);
    run(from, in_array(to, x_bytes, y), width, height, None)
}

/// `cudaMemcpy2DToArrayAsync`.
#[allow(clippy::too_many_arguments)]
pub fn rows_to_array_async(
    to: Handle,
    x_bytes: usize,
    y: usize,
    from: Address,
    pitch: usize,
    width: usize,
    height: usize,
    kind: Kind,
    stream: Handle,
) -> Answer {
    let (from_kind, _) = ends(kind)?;
    let from = pitched(from_kind, from, pitch);
    run(from, in_array(to, x_bytes, y), width, height, Some(stream))
}

/// `cudaMemcpy2DFromArray`.
#[allow(clippy::too_many_arguments)]
pub fn rows_from_array(
    to: Address,
    pitch: usize,
    from: Handle,
    x_bytes: usize,
    y: usize,
    width: usize,
    height: usize,
    kind: Kind,
) -> Answer {
    let (_, to_kind) = ends(kind)?;
    let to = pitched(to_kind, to, pitch);
    run(in_array(from, x_bytes, y), to, width, height, None)
}

/// `cudaMemcpy2DFromArrayAsync`.
#[allow(clippy::too_many_arguments)]
pub fn rows_from_array_async(
    to: Address,
    pitch: usize,
    from: Handle,
    x_bytes: usize,
    y: usize,
    width: usize,
    height: usize,
    kind: Kind,
    stream: Handle,
) -> Answer {
    let (_, to_kind) = ends(kind)?;
    let to = pitched(to_kind, to, pitch);
    run(in_array(from, x_bytes, y), to, width, height, Some(stream))
}

/// `cudaMemcpy2DArrayToArray`.
#[allow(clippy::too_many_arguments)]
pub fn array_to_array(
    to: Handle,
    to_x_bytes: usize,
    to_y: usize,
    from: Handle,
    from_x_bytes: usize,
    from_y: usize,
    width: usize,
    height: usize,
    kind: Kind,
) -> Answer {
    ends(kind)?;
    let from = in_array(from, from_x_bytes, from_y);
    run(from, in_array(to, to_x_bytes, to_y), width, height, None)
}
