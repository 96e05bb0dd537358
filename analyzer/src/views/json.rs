//! Levels and devices in JSON.

use gpumem_capture::{DeviceOrdinal, Level};
use serde::Serializer;

/// A level by its name.
pub fn by_name<S: Serializer>(level: &Level, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(level.name())
}

/// A device by its number; null for memory of no device.
pub fn ordinal(device: DeviceOrdinal) -> Option<u8> {
    (device != DeviceOrdinal::NONE).then_some(device.0)
}
