//! The devices that CUDA shows, and their order: `CUDA_DEVICE_ORDER`, `CUDA_VISIBLE_DEVICES`, MIG.
//!
//! NVML lists devices by PCI address and ignores these variables.

use crate::DeviceSpec;
use std::cmp::Reverse;

/// The devices that CUDA may choose from.
pub(crate) struct Candidates {
    /// In CUDA's order, each as CUDA sees it: for a split card, its first instance.
    devices: Vec<DeviceSpec>,
    /// Every MIG instance.
    instances: Vec<DeviceSpec>,
}

impl Candidates {
    /// In the order of PCI addresses, or in CUDA's default order, fastest first: by compute
    /// capability, then by memory, then by address.
    pub(crate) fn new(cards: &[DeviceSpec], by_address: bool, page_bytes: u64) -> Self {
        let mut devices = cards.to_vec();
        if !by_address {
            devices.sort_by_key(|d| Reverse((d.compute_capability, d.total_bytes)));
        }
        let instances = cards
            .iter()
            .flat_map(|card| (0..card.instances).filter_map(|n| card.instance(n, page_bytes)))
            .collect();
        for device in &mut devices {
            if let Some(first) = device.instance(0, page_bytes) {
                *device = first;
            }
        }
        Self { devices, instances }
    }

    /// Without `CUDA_VISIBLE_DEVICES`: everything, or one instance if the machine has a split card.
    pub(crate) fn all(self) -> Vec<DeviceSpec> {
        match self.devices.iter().find(|d| d.instance.is_some()) {
            Some(first) => vec![first.clone()],
            None => self.devices,
        }
    }

    /// CUDA's rules: a list of indices or UUID prefixes. The first entry that matches no device, or
    /// one already listed, ends the list. A MIG instance is visible only alone: it ends the list,
    /// too, and is left out unless it is the first entry.
    pub(crate) fn chosen(&self, text: &str) -> Vec<DeviceSpec> {
        let mut chosen: Vec<DeviceSpec> = Vec::new();
        for entry in text.split(',') {
            let Some(found) = self.named(entry.trim()) else {
                break;
            };
            if chosen.iter().any(|device| device.index == found.index) {
                break;
            }
            if found.instance.is_some() {
                if chosen.is_empty() {
                    chosen.push(found.clone());
                }
                break;
            }
            chosen.push(found.clone());
        }
        chosen
    }

    fn named(&self, entry: &str) -> Option<&DeviceSpec> {
        if entry.starts_with("GPU-") {
            return only(&self.devices, |device| {
                let card = DeviceSpec::new(device.index, 0);
                card.uuid_text().starts_with(entry)
            });
        }
        if entry.starts_with("MIG-") {
            return only(&self.instances, |d| d.uuid_text().starts_with(entry));
        }
        self.devices.get(entry.parse::<usize>().ok()?)
    }
}

/// The matching device, if exactly one matches.
fn only(devices: &[DeviceSpec], meant: impl Fn(&DeviceSpec) -> bool) -> Option<&DeviceSpec> {
    let mut matches = devices.iter().filter(|device| meant(device));
    matches.next().filter(|_| matches.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(devices: &[DeviceSpec]) -> Vec<u32> {
        devices.iter().map(|device| device.index).collect()
    }

    fn cards() -> Vec<DeviceSpec> {
        let card = |index, total_bytes, compute_capability| DeviceSpec {
            compute_capability,
            ..DeviceSpec::new(index, total_bytes)
        };
        vec![
            card(0, 8, (8, 0)),
            card(1, 8, (9, 0)),
            card(2, 16, (8, 0)),
            card(3, 8, (9, 0)),
        ]
    }

    #[test]
    fn fastest_first_goes_by_capability_then_memory_then_address() {
        let order = |by_address| indices(&Candidates::new(&cards(), by_address, 1).all());
        assert_eq!(order(false), [1, 3, 2, 0]);
        assert_eq!(order(true), [0, 1, 2, 3]);
    }

    #[test]
    fn visible_indices_count_in_cudas_order() {
        let chosen = |by_address, text| {
            let candidates = Candidates::new(&cards(), by_address, 1);
            indices(&candidates.chosen(text))
        };
        assert_eq!(chosen(false, "3,0"), [0, 1]);
        assert_eq!(chosen(true, "3,0"), [3, 0]);
        let uuid = DeviceSpec::new(2, 0).uuid_text();
        assert_eq!(chosen(false, &uuid), [2]);
    }
}
