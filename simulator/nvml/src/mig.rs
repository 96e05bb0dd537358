//! MIG: cards that are split into instances, each with separate memory and a UUID.
//!
//! The settings define the number of instances of a split card. Each has one compute instance.
#![allow(non_snake_case)]

use crate::device::Device;
use crate::library::machine;
use crate::out::{Out, put};
use crate::result::{Answer, Return, answer};
use gpumem_sim_machine::DeviceSpec;

/// The one compute instance of each GPU instance.
pub(crate) const COMPUTE_INSTANCE: u32 = 0;

/// The id of a card's GPU instance; 0 denotes the whole card.
pub(crate) fn gpu_instance(number: u32) -> u32 {
    number + 1
}

/// A card on a machine with a split card; on other machines MIG is not supported.
fn card(device: Device) -> Answer<&'static DeviceSpec> {
    let spec = device.spec()?;
    let any = machine().devices.iter().any(|card| card.instances > 0);
    if spec.instance.is_some() || !any {
        return Err(Return::NOT_SUPPORTED);
    }
    Ok(spec)
}

/// `nvmlDeviceGetMigMode`: 1 for a card that is split.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: Out<'_, u32>,
    pending: Out<'_, u32>,
) -> Return {
    answer(|| {
        let split = u32::from(card(device)?.instances > 0);
        put(current, split)?;
        put(pending, split)
    })
}

/// `nvmlDeviceGetMaxMigDeviceCount`: the most instances of a split card; 0 if it is not split.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: Out<'_, u32>) -> Return {
    answer(|| {
        let split = device.spec()?.instances > 0;
        put(count, if split { DeviceSpec::MOST_INSTANCES } else { 0 })
    })
}

/// `nvmlDeviceGetMigDeviceHandleByIndex`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Device,
    index: u32,
    instance: Out<'_, Device>,
) -> Return {
    answer(|| {
        let found = card(device)?.instance(index, machine().page_bytes);
        put(instance, Device::of(&found.ok_or(Return::NOT_FOUND)?))
    })
}

/// `nvmlDeviceGetDeviceHandleFromMigDeviceHandle`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    instance: Device,
    device: Out<'_, Device>,
) -> Return {
    answer(|| {
        number(instance)?;
        put(device, Device::of(instance.card()?))
    })
}

/// `nvmlDeviceIsMigDeviceHandle`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceIsMigDeviceHandle(device: Device, is: Out<'_, u32>) -> Return {
    answer(|| put(is, u32::from(device.spec()?.instance.is_some())))
}

/// `nvmlDeviceGetGpuInstanceId`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceId(device: Device, id: Out<'_, u32>) -> Return {
    answer(|| put(id, gpu_instance(number(device)?)))
}

/// `nvmlDeviceGetComputeInstanceId`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeInstanceId(device: Device, id: Out<'_, u32>) -> Return {
    answer(|| {
        number(device)?;
        put(id, COMPUTE_INSTANCE)
    })
}

/// The number of a MIG handle's instance on its card.
fn number(device: Device) -> Answer<u32> {
    device.spec()?.instance.ok_or(Return::INVALID_ARGUMENT)
}
