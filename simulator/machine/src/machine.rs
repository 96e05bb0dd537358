//! The machine and the environment that describes it.

use crate::{DeviceSpec, parse_size};

/// Most devices that a simulated machine may have.
const MOST_DEVICES: u32 = 64;

/// The simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Every device on the machine, by index.
    pub devices: Vec<DeviceSpec>,
    /// Indices of the devices that this process may use, in its own order (`CUDA_VISIBLE_DEVICES`).
    pub visible: Vec<u32>,
    /// What `cuDriverGetVersion` says: 13020 is CUDA 13.2.
    pub driver_version: u32,
    /// Device memory that each context costs, in bytes.
    pub context_bytes: u64,
    /// Size of the physical pages that device memory is given out in.
    pub page_bytes: u64,
    /// Where the driver's books are written at exit, if anywhere.
    pub books: Option<String>,
}

/// A machine, and what was wrong with its description (the defaults were taken instead).
#[derive(Clone, Debug)]
pub struct Made {
    /// The machine.
    pub machine: Machine,
    /// One line for each setting that could not be read.
    pub complaints: Vec<String>,
}

impl Machine {
    /// Describes the machine that the process's environment asks for.
    pub fn from_env() -> Made {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// Describes the machine from any source of settings:
    ///
    /// | variable | meaning | default |
    /// |---|---|---|
    /// | `GPUMEM_SIM_DEVICES` | number of devices | 1 |
    /// | `GPUMEM_SIM_MEMORY` | memory of each: `16GiB`, or `0=16GiB,1=8GiB` | 16GiB |
    /// | `GPUMEM_SIM_CC` | compute capability, `90` or `9.0` | 90 |
    /// | `GPUMEM_SIM_DRIVER_VERSION` | CUDA version of the driver | 13020 |
    /// | `GPUMEM_SIM_CONTEXT_BYTES` | cost of a context | 512MiB (CUDA ≥ 12), 320MiB before |
    /// | `GPUMEM_SIM_OTHER_BYTES` | used by other processes: `2GiB`, or `1=2GiB` | 0 |
    /// | `GPUMEM_SIM_RESERVED_BYTES` | kept by the driver beyond the memory, seen by NVML only | 0 |
    /// | `GPUMEM_SIM_PAGE_BYTES` | physical page, a power of two ≥ 64KiB | 2MiB |
    /// | `GPUMEM_SIM_BOOKS` | file for the books at exit, `%p` = pid | none |
    /// | `CUDA_VISIBLE_DEVICES` | as CUDA reads it: indices or UUIDs | all |
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Made {
        let mut reader = Reader {
            lookup,
            complaints: Vec::new(),
        };
        let count = reader.get("GPUMEM_SIM_DEVICES", 1, |text| {
            text.parse().ok().filter(|n| *n <= MOST_DEVICES)
        });
        let compute_capability = reader.get("GPUMEM_SIM_CC", (9, 0), compute_capability);
        let driver_version = reader.get("GPUMEM_SIM_DRIVER_VERSION", 13020, |text| {
            text.parse().ok().filter(|v| *v >= 2000)
        });
        let default_context = if driver_version >= 12000 { 512 } else { 320 } << 20;
        let context_bytes = reader.get("GPUMEM_SIM_CONTEXT_BYTES", default_context, size);
        let page_bytes = reader.get("GPUMEM_SIM_PAGE_BYTES", 2 << 20, |text| {
            size(text).filter(|n| n.is_power_of_two() && (1 << 16..=1 << 30).contains(n))
        });
        let others = reader.get("GPUMEM_SIM_OTHER_BYTES", Sizes::of_all(0), |text| {
            Sizes::of_all(0).parse_over(text)
        });
        let reserved_bytes = reader.get("GPUMEM_SIM_RESERVED_BYTES", 0, size);
        let default_memory = Sizes::of_all(16 << 30);
        let memory = reader.get("GPUMEM_SIM_MEMORY", default_memory.clone(), |text| {
            default_memory.clone().parse_over(text)
        });
        let devices: Vec<DeviceSpec> = (0..count)
            .map(|index| DeviceSpec {
                index,
                total_bytes: memory.of(index),
                reserved_bytes,
                other_bytes: others.of(index).min(memory.of(index)),
                compute_capability,
            })
            .collect();
        let visible = match (reader.lookup)("CUDA_VISIBLE_DEVICES") {
            Some(text) => visible(&text, &devices),
            None => (0..count).collect(),
        };
        Made {
            machine: Self {
                devices,
                visible,
                driver_version,
                context_bytes: context_bytes.next_multiple_of(page_bytes),
                page_bytes,
                books: (reader.lookup)("GPUMEM_SIM_BOOKS").filter(|path| !path.is_empty()),
            },
            complaints: reader.complaints,
        }
    }

    /// The device that this process calls `ordinal`.
    pub fn visible_device(&self, ordinal: usize) -> Option<&DeviceSpec> {
        let index = *self.visible.get(ordinal)?;
        self.devices.get(index as usize)
    }
}

struct Reader<L> {
    lookup: L,
    complaints: Vec<String>,
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    fn get<T>(&mut self, name: &str, default: T, parse: impl Fn(&str) -> Option<T>) -> T {
        let Some(text) = (self.lookup)(name).filter(|text| !text.trim().is_empty()) else {
            return default;
        };
        parse(text.trim()).unwrap_or_else(|| {
            self.complaints
                .push(format!("{name}={text} cannot be read; using the default"));
            default
        })
    }
}

fn size(text: &str) -> Option<u64> {
    parse_size(text).ok()
}

fn compute_capability(text: &str) -> Option<(u32, u32)> {
    if let Some((major, minor)) = text.split_once('.') {
        return Some((major.parse().ok()?, minor.parse().ok()?));
    }
    let both: u32 = text.parse().ok()?;
    (both >= 10).then_some((both / 10, both % 10))
}

/// A size for each device: one for all, and exceptions.
#[derive(Clone, Debug)]
struct Sizes {
    each: u64,
    exceptions: Vec<(u32, u64)>,
}

impl Sizes {
    fn of_all(each: u64) -> Self {
        Self {
            each,
            exceptions: Vec::new(),
        }
    }

    fn parse_over(mut self, text: &str) -> Option<Self> {
        for part in text.split(',') {
            match part.split_once('=') {
                Some((index, bytes)) => self
                    .exceptions
                    .push((index.trim().parse().ok()?, size(bytes)?)),
                None => self.each = size(part)?,
            }
        }
        Some(self)
    }

    fn of(&self, index: u32) -> u64 {
        let exception = self.exceptions.iter().rev().find(|(i, _)| *i == index);
        exception.map_or(self.each, |(_, bytes)| *bytes)
    }
}

/// CUDA's rules: a list of indices or UUID prefixes; the first entry that names no device, or one
/// already named, ends the list.
fn visible(text: &str, devices: &[DeviceSpec]) -> Vec<u32> {
    let mut chosen = Vec::new();
    for entry in text.split(',') {
        let entry = entry.trim();
        let found = if entry.starts_with("GPU-") {
            let mut matches = devices.iter().filter(|d| d.uuid_text().starts_with(entry));
            matches.next().filter(|_| matches.next().is_none())
        } else {
            let index = entry.parse::<usize>().ok();
            index.and_then(|index| devices.get(index))
        };
        match found {
            Some(device) if !chosen.contains(&device.index) => chosen.push(device.index),
            _ => break,
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(settings: &[(&str, &str)]) -> Made {
        Machine::from_lookup(|name| {
            let found = settings.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn defaults() {
        let Made {
            machine,
            complaints,
        } = made(&[]);
        assert!(complaints.is_empty());
        assert_eq!(machine.devices.len(), 1);
        assert_eq!(machine.devices[0].total_bytes, 16 << 30);
        assert_eq!(machine.devices[0].compute_capability, (9, 0));
        assert_eq!(machine.driver_version, 13020);
        assert_eq!(machine.context_bytes, 512 << 20);
        assert_eq!(machine.page_bytes, 2 << 20);
        assert_eq!(machine.visible, [0]);
    }

    #[test]
    fn memory_of_each_device() {
        let machine = made(&[
            ("GPUMEM_SIM_DEVICES", "3"),
            ("GPUMEM_SIM_MEMORY", "8GiB,1=4GiB"),
        ])
        .machine;
        let sizes: Vec<u64> = machine.devices.iter().map(|d| d.total_bytes).collect();
        assert_eq!(sizes, [8 << 30, 4 << 30, 8 << 30]);
    }

    #[test]
    fn an_older_driver_has_a_smaller_context() {
        let machine = made(&[("GPUMEM_SIM_DRIVER_VERSION", "10020")]).machine;
        assert_eq!(machine.context_bytes, 320 << 20);
    }

    #[test]
    fn a_context_costs_whole_pages() {
        let machine = made(&[("GPUMEM_SIM_CONTEXT_BYTES", "3MiB")]).machine;
        assert_eq!(machine.context_bytes, 4 << 20);
    }

    #[test]
    fn visible_devices_as_cuda_reads_them() {
        let of = |text| {
            made(&[("GPUMEM_SIM_DEVICES", "3"), ("CUDA_VISIBLE_DEVICES", text)])
                .machine
                .visible
        };
        assert_eq!(of("2,0"), [2, 0]);
        assert_eq!(of("1,7,0"), [1]);
        assert_eq!(of("1,1,0"), [1]);
        assert_eq!(of("GPU-6770756d-656d-4000-8000-000000000002,0"), [2, 0]);
        assert_eq!(of("GPU-6770"), [0; 0]);
        assert_eq!(of(""), [0; 0]);
        assert_eq!(of("-1"), [0; 0]);
    }

    #[test]
    fn a_bad_setting_is_named_and_the_default_taken() {
        let Made {
            machine,
            complaints,
        } = made(&[("GPUMEM_SIM_MEMORY", "lots"), ("GPUMEM_SIM_CC", "7.5")]);
        assert_eq!(machine.devices[0].total_bytes, 16 << 30);
        assert_eq!(machine.devices[0].compute_capability, (7, 5));
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("GPUMEM_SIM_MEMORY=lots"));
    }
}
