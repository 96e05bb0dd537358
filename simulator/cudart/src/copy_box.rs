//! Copies of boxes, between pitched memory and arrays.

use crate::array::element_bytes;
use crate::context;
use crate::copy::Kind;
use crate::copy_side::{ARRAY, DEVICE, HOST, UNIFIED, ends};
use gpumem_cuda_abi::{CudaExtent, CudaPitchedPtr};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, In};
use gpumem_sim_client::structures::{Memcpy3d, Side3d};

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
    /// Bytes of one unit of `x`: an array counts elements, memory counts bytes.
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

/// With an array on either side, the extent's width counts elements of that array.
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

/// The driver's structure for the same copy.
pub fn for_driver(parameters: &Parameters) -> Answer<Memcpy3d> {
    let kinds = ends(parameters.kind)?;
    cuboid(&parameters.from, &parameters.to, kinds, parameters.extent)
}

/// A copy of a plain range.
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
    /// From the driver's structure for one side.
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
    /// From the driver's structure for a copy.
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
