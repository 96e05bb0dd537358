//! One device of the simulated machine.

/// A device as the machine has it, before any `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its index on the machine: NVML's index and the minor number.
    pub index: u32,
    /// Its memory in bytes, as CUDA gives it out.
    pub total_bytes: u64,
    /// Memory beyond that, which the driver keeps for itself and only NVML mentions.
    pub reserved_bytes: u64,
    /// Memory that other processes are said to use.
    pub other_bytes: u64,
    /// Its compute capability: major, minor.
    pub compute_capability: (u32, u32),
}

impl DeviceSpec {
    /// The name that both libraries give it.
    pub const NAME: &'static str = "gpumem simulated GPU";

    /// Its UUID: the same on every run, different for every index.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"gpumem\x40\x00\x80\x00\x00\x00\x00\x00\x00\x00";
        uuid[12..].copy_from_slice(&self.index.to_be_bytes());
        uuid
    }

    /// Its UUID as tools print it, `GPU-67707565-…`.
    pub fn uuid_text(&self) -> String {
        let hex: String = self.uuid().iter().map(|b| format!("{b:02x}")).collect();
        format!(
            "GPU-{}-{}-{}-{}-{}",
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

    /// Whether `text` is its PCI address, with a domain of any width or none.
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
        DeviceSpec {
            index,
            total_bytes: 1 << 30,
            reserved_bytes: 0,
            other_bytes: 0,
            compute_capability: (9, 0),
        }
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
