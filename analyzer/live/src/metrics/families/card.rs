//! NVML's readings of whole cards, by OpenTelemetry's names. The recorders read NVML; the exporter never does.

use std::collections::BTreeMap;

use crate::frames::DeviceNow;

use super::capture::Capture;
use super::family::Families;

/// Each card's newest reading, from all captures of running programs. A card has one series, even if several programs
/// use it.
pub(super) fn add(to: &mut Families, captures: &[Capture], now_ns: u64) {
    let mut newest: BTreeMap<&str, (u64, &DeviceNow)> = BTreeMap::new();
    for capture in captures.iter().filter(|of| !of.frame.state.is_final()) {
        for device in &capture.frame.devices {
            let Some((uuid, reading)) = device.uuid.as_deref().zip(device.reading) else {
                continue;
            };
            let at = capture.frame.started_wall_ns.saturating_add(reading.time.0);
            let is_newer = newest.get(uuid).is_none_or(|(before, _)| *before < at);
            if reading.card.is_some() && is_newer {
                newest.insert(uuid, (at, device));
            }
        }
    }
    for (uuid, (at, device)) in newest {
        let Some(card) = device.reading.and_then(|reading| reading.card) else {
            continue;
        };
        let labels = [
            ("UUID", uuid),
            ("hw_id", uuid),
            ("hw_type", "gpu"),
            ("hw_vendor", "NVIDIA"),
            ("hw_name", device.name.as_deref().unwrap_or_default()),
        ];
        to.gauge(
            "hw_gpu_memory_usage_bytes",
            "Used memory of the card in the newest NVML reading of a recorded program; its age is gpumem_card_reading_age_seconds.",
            &labels,
            card.used,
        );
        to.gauge(
            "hw_gpu_memory_limit_bytes",
            "Memory of the card.",
            &labels,
            card.total,
        );
        let age = now_ns.saturating_sub(at) as f64 / 1e9;
        to.gauge(
            "gpumem_card_reading_age_seconds",
            "Age of that NVML reading.",
            &[("UUID", uuid)],
            age,
        );
    }
}
