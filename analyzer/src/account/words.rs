//! Words for devices and counts.

use gpumem_capture::DeviceOrdinal;

use crate::units;

/// A device for people.
pub fn place(device: DeviceOrdinal) -> String {
    if device == DeviceOrdinal::NONE {
        "no GPU".into()
    } else {
        format!("GPU {}", device.0)
    }
}

/// A count with its word.
pub fn many(count: u64, one: &str, more: &str) -> String {
    format!(
        "{} {}",
        units::count(count),
        if count == 1 { one } else { more }
    )
}
