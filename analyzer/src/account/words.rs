//! Words for devices and counts.

use gpumem_capture::DeviceOrdinal;

/// A device for people.
pub fn place(device: DeviceOrdinal) -> String {
    if device == DeviceOrdinal::NONE {
        "no GPU".into()
    } else {
        format!("GPU {}", device.0)
    }
}
