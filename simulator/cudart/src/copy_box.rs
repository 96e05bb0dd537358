//! Copies of rows and boxes, between pitched memory and arrays alike.

use crate::array::element_bytes;
use crate::context;
use crate::copy::{INVALID_DIRECTION, Kind};
use gpumem_cuda_abi::{CudaExtent, CudaPitchedPtr};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In};
use gpumem_sim_client::structures::{Memcpy2d, Memcpy3d, Side2d, Side3d};

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// What the two ends of a copy of this kind are: from, to.
pub fn ends(kind: Kind) -> Answer<(u32, u32)> {
    match kind {
        Kind::HOST_TO_HOST => Ok((HOST, HOST)),
        Kind::HOST_TO_DEVICE => Ok((HOST, DEVICE)),
        Kind::DEVICE_TO_HOST => Ok((DEVICE, HOST)),
        Kind::DEVICE_TO_DEVICE => Ok((DEVICE, DEVICE)),
        Kind::DEFAULT => Ok((UNIFIED, UNIFIED)),
        _ => Err(INVALID_DIRECTION),
    }
}

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

/// An array, from an offset on; in an array offsets are bytes here.
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

/// `cudaPos`: 24 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Position {
    x: usize,
    y: usize,
    z: usize,
}

/// One side of `cudaMemcpy3DParms`: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Corner {
    array: Handle,
    position: Position,
    pitched: CudaPitchedPtr,
}

/// `cudaMemcpy3DParms`: 160 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    from: Corner,
    to: Corner,
    extent: CudaExtent,
    kind: Kind,
}

/// One side of `cudaMemcpy3DPeerParms`: 72 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PeerCorner {
    corner: Corner,
    device: i32,
}

/// `cudaMemcpy3DPeerParms`: 168 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PeerParameters {
    from: PeerCorner,
    to: PeerCorner,
    extent: CudaExtent,
}

impl Corner {
    /// Bytes of one unit of its `x`: an array counts elements, memory bytes.
    fn unit(&self) -> Answer<usize> {
        if self.array == 0 {
            return Ok(1);
        }
        element_bytes(self.array)
    }

    fn side(&self, memory: u32) -> Answer<Side3d> {
        let address = self.pitched.ptr as Address;
        let (kind, host, device) = match (self.array, memory) {
            (0, HOST) => (HOST, address, 0),
            (0, other) => (other, 0, address),
            _ => (ARRAY, 0, 0),
        };
        Ok(Side3d {
            x_bytes: self.position.x * self.unit()?,
            y: self.position.y,
            z: self.position.z,
            kind,
            host,
            device,
            array: self.array,
            pitch: self.pitched.pitch,
            height: self.pitched.ysize,
            ..Side3d::default()
        })
    }
}

/// With an array on either side the extent's width counts that array's elements.
fn cuboid(from: &Corner, to: &Corner, kinds: (u32, u32), extent: CudaExtent) -> Answer<Memcpy3d> {
    let unit = from.unit()?.max(to.unit()?);
    Ok(Memcpy3d {
        from: from.side(kinds.0)?,
        to: to.side(kinds.1)?,
        width_bytes: extent.width * unit,
        height: extent.height,
        depth: extent.depth,
    })
}

/// The same box for the driver.
pub fn for_driver(parameters: &Parameters) -> Answer<Memcpy3d> {
    let kinds = ends(parameters.kind)?;
    cuboid(&parameters.from, &parameters.to, kinds, parameters.extent)
}

/// A plain range as a box.
pub fn line(to: Address, from: Address, bytes: usize, kind: Kind) -> Answer<Memcpy3d> {
    let corner = |address: Address| Corner {
        array: 0,
        position: Position { x: 0, y: 0, z: 0 },
        pitched: CudaPitchedPtr {
            ptr: address as *mut _,
            pitch: bytes,
            xsize: bytes,
            ysize: 1,
        },
    };
    let extent = CudaExtent {
        width: bytes,
        height: 1,
        depth: 1,
    };
    cuboid(&corner(from), &corner(to), ends(kind)?, extent)
}

impl Corner {
    /// As the driver tells one.
    fn of(side: &Side3d) -> Answer<Self> {
        let address = side.host.max(side.device);
        let mut corner = Self {
            array: side.array,
            position: Position {
                x: side.x_bytes,
                y: side.y,
                z: side.z,
            },
            pitched: CudaPitchedPtr {
                ptr: address as *mut _,
                pitch: side.pitch,
                xsize: side.pitch,
                ysize: side.height,
            },
        };
        corner.position.x /= corner.unit()?;
        Ok(corner)
    }
}

impl Parameters {
    /// A box as the driver tells it.
    pub fn of(copy: &Memcpy3d) -> Answer<Self> {
        let (from, to) = (Corner::of(&copy.from)?, Corner::of(&copy.to)?);
        let kind = match (copy.from.kind, copy.to.kind) {
            (UNIFIED, _) | (_, UNIFIED) => Kind::DEFAULT,
            (HOST, HOST) => Kind::HOST_TO_HOST,
            (HOST, _) => Kind::HOST_TO_DEVICE,
            (_, HOST) => Kind::DEVICE_TO_HOST,
            _ => Kind::DEVICE_TO_DEVICE,
        };
        let unit = from.unit()?.max(to.unit()?);
        let extent = CudaExtent {
            width: copy.width_bytes / unit,
            height: copy.height,
            depth: copy.depth,
        };
        Ok(Self {
            from,
            to,
            extent,
            kind,
        })
    }
}

fn is_empty(extent: CudaExtent) -> bool {
    extent.width == 0 || extent.height == 0 || extent.depth == 0
}

/// `cudaMemcpy3D`.
pub fn boxes(parameters: In<Parameters>) -> Answer {
    let Parameters {
        from,
        to,
        extent,
        kind,
    } = parameters.get()?;
    if is_empty(extent) {
        return Ok(());
    }
    cu::cuMemcpy3D(In::of(&cuboid(&from, &to, ends(kind)?, extent)?))
}

/// `cudaMemcpy3DAsync`.
pub fn boxes_async(parameters: In<Parameters>, stream: Handle) -> Answer {
    let Parameters {
        from,
        to,
        extent,
        kind,
    } = parameters.get()?;
    if is_empty(extent) {
        return Ok(());
    }
    cu::cuMemcpy3DAsync(In::of(&cuboid(&from, &to, ends(kind)?, extent)?), stream)
}

fn between_peers(parameters: In<PeerParameters>) -> Answer<Memcpy3d> {
    let PeerParameters { from, to, extent } = parameters.get()?;
    let mut copy = cuboid(&from.corner, &to.corner, (DEVICE, DEVICE), extent)?;
    context::check_device(from.device)?;
    context::check_device(to.device)?;
    copy.from.context = context::primary(from.device)?;
    copy.to.context = context::primary(to.device)?;
    Ok(copy)
}

/// `cudaMemcpy3DPeer`.
pub fn boxes_peer(parameters: In<PeerParameters>) -> Answer {
    cu::cuMemcpy3DPeer(In::of(&between_peers(parameters)?))
}

/// `cudaMemcpy3DPeerAsync`.
pub fn boxes_peer_async(parameters: In<PeerParameters>, stream: Handle) -> Answer {
    cu::cuMemcpy3DPeerAsync(In::of(&between_peers(parameters)?), stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_cudas_sizes() {
        assert_eq!(size_of::<Parameters>(), 160);
        assert_eq!(size_of::<PeerParameters>(), 168);
    }
}
