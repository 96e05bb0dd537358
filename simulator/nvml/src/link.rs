//! Links between devices, which are not simulated.
#![allow(non_snake_case)]

use crate::device::{Device, not_supported};
use crate::out::{Out, put};
use crate::result::{Return, answer};

/// `nvmlGpuFabricInfo_v2_t`: 36 bytes. PyTorch queries it at compute capability 9.0 and crashes if
/// the function is missing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FabricInfo {
    version: u32,
    cluster: [u8; 16],
    status: u32,
    clique: u32,
    state: u8,
    health: u32,
}

/// `nvmlGpuFabricInfo_v3_t`: 40 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FabricInfoV3 {
    v2: FabricInfo,
    health_summary: u8,
}

const FABRIC_V2: u32 = size_of::<FabricInfo>() as u32 | 2 << 24;
const FABRIC_V3: u32 = size_of::<FabricInfoV3>() as u32 | 3 << 24;

/// `nvmlDeviceGetGpuFabricInfoV`, versions 2 and 3: state 0, not supported.
///
/// # Safety
/// `info` is null or points to the structure whose version is in its first field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(
    device: Device,
    info: *mut FabricInfo,
) -> Return {
    answer(|| {
        device.spec()?;
        if info.is_null() {
            return Err(Return::INVALID_ARGUMENT);
        }
        // SAFETY: not null; every version begins with the version field.
        let version = unsafe { (*info).version };
        if version != FABRIC_V2 && version != FABRIC_V3 {
            return Err(Return::ARGUMENT_VERSION_MISMATCH);
        }
        let v2 = FabricInfo {
            version,
            cluster: [0; 16],
            status: 0,
            clique: 0,
            state: 0,
            health: 0,
        };
        if version == FABRIC_V2 {
            // SAFETY: the version field is that of version 2.
            unsafe { info.write(v2) };
        } else {
            let v3 = FabricInfoV3 {
                v2,
                health_summary: 0,
            };
            // SAFETY: the version field is that of version 3.
            unsafe { info.cast::<FabricInfoV3>().write(v3) };
        }
        Ok(())
    })
}

/// `nvmlDeviceGetP2PStatus`: 0 (OK) between different devices.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetP2PStatus(
    from: Device,
    to: Device,
    _capability: u32,
    status: Out<'_, u32>,
) -> Return {
    answer(|| {
        from.spec()?;
        to.spec()?;
        put(status, 0)
    })
}

macro_rules! no_links {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: `NOT_SUPPORTED`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(device: Device, _link: u32) -> Return {
            not_supported(device)
        }
    )*};
}

no_links! {
    nvmlDeviceGetGpuFabricInfo
    nvmlDeviceGetNvLinkState
    nvmlDeviceGetNvLinkVersion
    nvmlDeviceGetNvLinkCapability
    nvmlDeviceGetNvLinkRemotePciInfo
    nvmlDeviceGetNvLinkRemotePciInfo_v2
    nvmlDeviceGetNvLinkRemoteDeviceType
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_nvmls_sizes() {
        assert_eq!(FABRIC_V2, 0x0200_0024);
        assert_eq!(FABRIC_V3, 0x0300_0028);
    }
}
