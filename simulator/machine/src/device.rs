//! One device of the simulated machine.

/// A device as the machine has it, before any `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its index on the machine: NVML's index and the minor number.
    pub index: u32,
    /// The name that CUDA and NVML report.
    pub name: String,
    /// Its memory in bytes, as CUDA reports it.
    pub total_bytes: u64,
    /// Memory beyond `total_bytes`, which the driver keeps for itself and only NVML reports.
    pub reserved_bytes: u64,
    /// Memory that other processes use, by the settings.
    pub other_bytes: u64,
    /// Its compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Threads that one of them runs at once.
    pub threads_per_multiprocessor: u32,
    /// Memory that each context on it costs, in bytes.
    pub context_bytes: u64,
    /// Device memory that each stream costs, except a context's first one.
    pub stream_bytes: u64,
    /// How many MIG instances it is split into; 0 with MIG off.
    pub instances: u32,
    /// Which of a card's MIG instances this is; `None` for a whole card.
    pub instance: Option<u32>,
}

impl DeviceSpec {
    /// The name of a device without one in the settings.
    pub const NAME: &'static str = "gpumem simulated GPU";

    /// Multiprocessors without a setting.
    pub const MULTIPROCESSORS: u32 = 132;

    /// Most MIG instances that a card can be split into.
    pub const MOST_INSTANCES: u32 = 7;

    /// A whole card with this much memory, all of it free, at compute capability 9.0, and with
    /// defaults for everything else.
    pub fn new(index: u32, total_bytes: u64) -> Self {
        Self {
            index,
            name: Self::NAME.to_owned(),
            total_bytes,
            reserved_bytes: 0,
            other_bytes: 0,
            compute_capability: (9, 0),
            multiprocessors: Self::MULTIPROCESSORS,
            threads_per_multiprocessor: Self::threads_of((9, 0)),
            context_bytes: 512 << 20,
            stream_bytes: 512 << 10,
            instances: 0,
            instance: None,
        }
    }

    /// Threads that a multiprocessor of this compute capability runs at once, without a setting.
    pub(crate) fn threads_of(compute_capability: (u32, u32)) -> u32 {
        if compute_capability == (7, 5) {
            1024
        } else {
            2048
        }
    }

    /// Threads that it runs at once.
    pub fn threads(&self) -> u64 {
        u64::from(self.multiprocessors) * u64::from(self.threads_per_multiprocessor)
    }

    /// One of the card's MIG instances: an equal share of its memory, in whole pages. Memory of
    /// other processes is in the first instance.
    pub fn instance(&self, number: u32, page_bytes: u64) -> Option<Self> {
        if number >= self.instances {
            return None;
        }
        let share = |bytes: u64| bytes / u64::from(self.instances) / page_bytes * page_bytes;
        let total_bytes = share(self.total_bytes);
        let other_bytes = if number == 0 { self.other_bytes } else { 0 };
        Some(Self {
            total_bytes,
            reserved_bytes: share(self.reserved_bytes),
            other_bytes: other_bytes.min(total_bytes),
            instances: 0,
            instance: Some(number),
            ..self.clone()
        })
    }

    /// A number for its memory, unique to each card and each instance.
    pub fn unit(&self) -> usize {
        let part = self.instance.map_or(0, |number| number + 1);
        (self.index * (Self::MOST_INSTANCES + 1) + part) as usize
    }

    /// Its UUID: the same on every run, different for every index and instance.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = self.card_uuid();
        uuid[11] = self.instance.map_or(0, |number| number as u8 + 1);
        uuid
    }

    /// The UUID of its card: of the device itself, or of the card of an instance.
    pub fn card_uuid(&self) -> [u8; 16] {
        let mut uuid = *b"gpumem\x40\x00\x80\x00\x00\x00\x00\x00\x00\x00";
        uuid[12..].copy_from_slice(&self.index.to_be_bytes());
        uuid
    }

    /// Its UUID as tools print it, `GPU-67707565-…`, or `MIG-…` for an instance.
    pub fn uuid_text(&self) -> String {
        let hex: String = self.uuid().iter().map(|b| format!("{b:02x}")).collect();
        let kind = if self.instance.is_some() {
            "MIG"
        } else {
            "GPU"
        };
        format!(
            "{kind}-{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }

    /// Its PCI bus number; the domain, device and function are 0.
    pub fn pci_bus(&self) -> u32 {
        self.index + 1
    }

    /// Its PCI address as the driver prints it, `0000:01:00.0`.
    pub fn pci_text(&self) -> String {
        format!("0000:{:02x}:00.0", self.pci_bus())
    }

    /// Whether `text` is its PCI address, with a domain of any width or without one.
    pub fn has_pci(&self, text: &str) -> bool {
        let text = text.split('.').next().unwrap_or(text);
        let mut numbers: Vec<u32> = Vec::new();
        for part in text.split(':') {
            match u32::from_str_radix(part, 16) {
                Ok(number) => numbers.push(number),
                Err(_) => return false,
            }
        }
        match numbers[..] {
            [0, bus, 0] | [bus, 0] => bus == self.pci_bus(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32) -> DeviceSpec {
        DeviceSpec::new(index, 1 << 30)
    }

    #[test]
    fn uuids_differ_and_print_as_tools_print_them() {
        assert_eq!(
            device(3).uuid_text(),
            "GPU-6770756d-656d-4000-8000-000000000003"
        );
        assert_ne!(device(0).uuid(), device(1).uuid());
    }

    #[test]
    fn instances_share_the_memory_and_have_names_of_their_own() {
        let card = DeviceSpec {
            instances: 3,
            other_bytes: 5,
            ..device(1)
        };
        let page = 2 << 20;
        let parts: Vec<DeviceSpec> = (0..4).filter_map(|n| card.instance(n, page)).collect();
        assert_eq!(parts.len(), 3);
        for part in &parts {
            assert_eq!(part.total_bytes, 341 * (1 << 20) / page * page);
            assert_eq!(part.card_uuid(), card.uuid());
            assert_eq!(part.pci_text(), card.pci_text());
        }
        assert_eq!(
            parts[2].uuid_text(),
            "MIG-6770756d-656d-4000-8000-000300000001"
        );
        assert_eq!((parts[0].other_bytes, parts[1].other_bytes), (5, 0));
        let units: Vec<usize> = parts.iter().map(DeviceSpec::unit).collect();
        assert_eq!((card.unit(), units), (8, vec![9, 10, 11]));
    }

    #[test]
    fn knows_its_pci_address_in_each_spelling() {
        let device = device(1);
        assert_eq!(device.pci_text(), "0000:02:00.0");
        for text in ["0000:02:00.0", "00000000:02:00.0", "02:00.0", "0:2:0"] {
            assert!(device.has_pci(text), "{text}");
        }
        for text in ["0000:01:00.0", "0001:02:00.0", "", "x:y:z"] {
            assert!(!device.has_pci(text), "{text}");
        }
    }
}
