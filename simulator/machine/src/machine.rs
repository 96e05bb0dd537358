//! The machine and the environment that describes it.

use crate::DeviceSpec;
use crate::order::Candidates;
use crate::settings::{Reader, compute_capability, number, size};
use std::time::Duration;

/// Most devices that a simulated machine may have.
const MOST_DEVICES: u32 = 64;

/// The simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Every device on the machine, by index.
    pub devices: Vec<DeviceSpec>,
    /// Indices of the cards that this process may use, in its own order (`CUDA_DEVICE_ORDER`,
    /// `CUDA_VISIBLE_DEVICES`).
    pub visible: Vec<u32>,
    /// The same devices as CUDA sees them: each card, or one of its MIG instances.
    seen: Vec<DeviceSpec>,
    /// The result of `cuDriverGetVersion`: 13020 is CUDA 13.2.
    pub driver_version: u32,
    /// Device memory that each loaded module costs, in bytes.
    pub module_bytes: u64,
    /// How long `cuMemAlloc` takes. A real card needs some time; the memory is in use from the
    /// start.
    pub allocation_time: Duration,
    /// Whether libraries are loaded at once (`CUDA_MODULE_LOADING=EAGER`) instead of at first use.
    pub eager_loading: bool,
    /// Size of the physical pages of device memory.
    pub page_bytes: u64,
    /// Larger copies from the host are skipped and their target is zeroed. In bytes.
    pub copy_most: Option<u64>,
    /// The file for the driver's books at exit.
    pub books: Option<String>,
    /// The file by which processes share the cards; without one each process has separate cards.
    pub card: Option<String>,
    /// How NVML lists processes.
    pub nvml_pids: NvmlPids,
}

/// How NVML lists the processes that use a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NvmlPids {
    /// With the ids that the processes see.
    #[default]
    Own,
    /// Not at all, as in most containers.
    Hidden,
    /// With the host's ids, which differ in a container with its own process namespace.
    Host,
}

impl NvmlPids {
    /// The host's id of a process minus its id in the container.
    pub const HOST_OFFSET: u32 = 1_000_000;
}

/// A machine, and the settings that were invalid (their defaults apply).
#[derive(Clone, Debug)]
pub struct Made {
    /// The machine.
    pub machine: Machine,
    /// One line for each invalid setting.
    pub complaints: Vec<String>,
}

impl Machine {
    /// Describes the machine that the process's environment defines.
    pub fn from_env() -> Made {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// Describes the machine from any source of settings:
    ///
    /// | variable | meaning | default |
    /// |---|---|---|
    /// | `GPUMEM_SIM_DEVICES` | number of devices | 1 |
    /// | `GPUMEM_SIM_MEMORY` | memory of each: `16GiB`, or `0=16GiB,1=8GiB` | 16GiB |
    /// | `GPUMEM_SIM_CC` | compute capability, `90` or `9.0`, or `90,1=80` | 90 |
    /// | `GPUMEM_SIM_DRIVER_VERSION` | CUDA version of the driver | 13020 |
    /// | `GPUMEM_SIM_NAME` | name of each: `Tesla T4`, or `0=Tesla T4` | gpumem simulated GPU |
    /// | `GPUMEM_SIM_SMS` | multiprocessors: `132`, or `132,1=40` | 132 |
    /// | `GPUMEM_SIM_THREADS_PER_SM` | threads of one: `2048`, or `2048,1=1024` | 2048; 1024 at 7.5 |
    /// | `GPUMEM_SIM_CONTEXT_BYTES` | cost of a context: `512MiB`, or `0=512MiB` | 512MiB (CUDA ≥ 12), 320MiB before |
    /// | `GPUMEM_SIM_STREAM_BYTES` | cost of a stream: `512KiB`, or `0=512KiB`; 0: none | 512KiB |
    /// | `GPUMEM_SIM_MODULE_BYTES` | cost of a loaded module | 2MiB |
    /// | `GPUMEM_SIM_ALLOCATION_US` | microseconds that `cuMemAlloc` takes | 0 |
    /// | `GPUMEM_SIM_MIG` | MIG instances: `0=2` splits card 0 in two | none |
    /// | `GPUMEM_SIM_CARD` | file by which processes share the cards | none |
    /// | `GPUMEM_SIM_NVML_PIDS` | `own`, `hidden` or `host` | own |
    /// | `GPUMEM_SIM_OTHER_BYTES` | used by other processes: `2GiB`, or `1=2GiB` | 0 |
    /// | `GPUMEM_SIM_RESERVED_BYTES` | kept by the driver beyond the memory, seen by NVML only; `1=300MiB` of one | 0 |
    /// | `GPUMEM_SIM_PAGE_BYTES` | physical page, a power of two ≥ 64KiB | 2MiB |
    /// | `GPUMEM_SIM_COPY_MOST` | copies from the host of more bytes are left out | all are made |
    /// | `GPUMEM_SIM_BOOKS` | file for the books at exit, `%p` = pid | none |
    /// | `CUDA_DEVICE_ORDER` | as CUDA reads it: `FASTEST_FIRST` or `PCI_BUS_ID` | fastest first |
    /// | `CUDA_VISIBLE_DEVICES` | as CUDA reads it: indices or UUIDs | all, or one MIG instance |
    /// | `CUDA_MODULE_LOADING` | as CUDA reads it: `EAGER` or `LAZY` | lazy |
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Made {
        let mut reader = Reader {
            lookup,
            complaints: Vec::new(),
        };
        let count = reader.get("GPUMEM_SIM_DEVICES", 1, |text| {
            text.parse().ok().filter(|n| *n <= MOST_DEVICES)
        });
        let names = reader.per_device("GPUMEM_SIM_NAME", DeviceSpec::NAME.to_owned(), |text| {
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        });
        let capabilities = reader.per_device("GPUMEM_SIM_CC", (9, 0), compute_capability);
        let multiprocessors =
            reader.per_device("GPUMEM_SIM_SMS", DeviceSpec::MULTIPROCESSORS, |text| {
                number(text, 1024)
            });
        let threads = reader.per_device("GPUMEM_SIM_THREADS_PER_SM", None, |text| {
            number(text, 4096).map(Some)
        });
        let driver_version = reader.get("GPUMEM_SIM_DRIVER_VERSION", 13020, |text| {
            text.parse().ok().filter(|v| *v >= 2000)
        });
        let default_context = if driver_version >= 12000 { 512 } else { 320 } << 20;
        let contexts = reader.per_device("GPUMEM_SIM_CONTEXT_BYTES", default_context, size);
        let streams = reader.per_device("GPUMEM_SIM_STREAM_BYTES", 512 << 10, size);
        let page_bytes = reader.get("GPUMEM_SIM_PAGE_BYTES", 2 << 20, |text| {
            size(text).filter(|n| n.is_power_of_two() && (1 << 16..=1 << 30).contains(n))
        });
        let module_bytes = reader.get("GPUMEM_SIM_MODULE_BYTES", 2 << 20, size);
        let allocation_us = reader.get("GPUMEM_SIM_ALLOCATION_US", 0, |text| text.parse().ok());
        let others = reader.per_device("GPUMEM_SIM_OTHER_BYTES", 0, size);
        let instances = reader.per_device("GPUMEM_SIM_MIG", 0, |text| {
            let count = text.trim().parse().ok();
            count.filter(|count| *count <= DeviceSpec::MOST_INSTANCES)
        });
        let copy_most = reader.get("GPUMEM_SIM_COPY_MOST", None, |text| size(text).map(Some));
        let nvml_pids = reader.get("GPUMEM_SIM_NVML_PIDS", NvmlPids::Own, |text| match text {
            "own" => Some(NvmlPids::Own),
            "hidden" => Some(NvmlPids::Hidden),
            "host" => Some(NvmlPids::Host),
            _ => None,
        });
        let reserved = reader.per_device("GPUMEM_SIM_RESERVED_BYTES", 0, size);
        let memory = reader.per_device("GPUMEM_SIM_MEMORY", 16 << 30, size);
        let devices: Vec<DeviceSpec> = (0..count)
            .map(|index| DeviceSpec {
                index,
                name: names.of(index),
                total_bytes: memory.of(index),
                reserved_bytes: reserved.of(index),
                other_bytes: others.of(index).min(memory.of(index)),
                compute_capability: capabilities.of(index),
                multiprocessors: multiprocessors.of(index),
                threads_per_multiprocessor: threads
                    .of(index)
                    .unwrap_or(DeviceSpec::threads_of(capabilities.of(index))),
                context_bytes: contexts.of(index).next_multiple_of(page_bytes),
                stream_bytes: streams.of(index),
                instances: instances.of(index),
                instance: None,
            })
            .collect();
        let by_address = (reader.lookup)("CUDA_DEVICE_ORDER").as_deref() == Some("PCI_BUS_ID");
        let candidates = Candidates::new(&devices, by_address, page_bytes);
        let seen = match (reader.lookup)("CUDA_VISIBLE_DEVICES") {
            Some(text) => candidates.chosen(&text),
            None => candidates.all(),
        };
        let loading = (reader.lookup)("CUDA_MODULE_LOADING");
        Made {
            machine: Self {
                devices,
                visible: seen.iter().map(|spec| spec.index).collect(),
                seen,
                driver_version,
                module_bytes: module_bytes.next_multiple_of(page_bytes),
                allocation_time: Duration::from_micros(allocation_us),
                eager_loading: loading.is_some_and(|text| text.eq_ignore_ascii_case("EAGER")),
                page_bytes,
                copy_most,
                books: (reader.lookup)("GPUMEM_SIM_BOOKS").filter(|path| !path.is_empty()),
                card: (reader.lookup)("GPUMEM_SIM_CARD").filter(|path| !path.is_empty()),
                nvml_pids,
            },
            complaints: reader.complaints,
        }
    }

    /// The device with this ordinal in this process: a card, or a MIG instance of one.
    pub fn visible_device(&self, ordinal: usize) -> Option<&DeviceSpec> {
        self.seen.get(ordinal)
    }
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
        assert_eq!(machine.devices[0].context_bytes, 512 << 20);
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
        assert_eq!(machine.devices[0].context_bytes, 320 << 20);
    }

    #[test]
    fn a_context_costs_whole_pages() {
        let machine = made(&[("GPUMEM_SIM_CONTEXT_BYTES", "3MiB")]).machine;
        assert_eq!(machine.devices[0].context_bytes, 4 << 20);
    }

    #[test]
    fn what_a_stream_costs() {
        let streams = |setting| {
            let machine = made(&[
                ("GPUMEM_SIM_DEVICES", "2"),
                ("GPUMEM_SIM_STREAM_BYTES", setting),
            ])
            .machine;
            [0, 1].map(|device: usize| machine.devices[device].stream_bytes)
        };
        assert_eq!(streams(""), [512 << 10; 2]);
        assert_eq!(streams("0,1=1MiB"), [0, 1 << 20]);
    }

    #[test]
    fn each_device_may_be_another_card() {
        let machine = made(&[
            ("GPUMEM_SIM_DEVICES", "2"),
            ("GPUMEM_SIM_NAME", "0=NVIDIA H100 80GB HBM3,1=Tesla T4"),
            ("GPUMEM_SIM_SMS", "1=40"),
            ("GPUMEM_SIM_CC", "1=7.5"),
            ("GPUMEM_SIM_CONTEXT_BYTES", "0=533MiB,1=86MiB"),
            ("GPUMEM_SIM_RESERVED_BYTES", "1=450MiB"),
        ])
        .machine;
        let [h100, t4] = &machine.devices[..] else {
            panic!("two devices");
        };
        assert_eq!(h100.name, "NVIDIA H100 80GB HBM3");
        assert_eq!((h100.multiprocessors, h100.threads()), (132, 132 * 2048));
        assert_eq!((h100.context_bytes, h100.reserved_bytes), (534 << 20, 0));
        assert_eq!(t4.name, "Tesla T4");
        assert_eq!((t4.multiprocessors, t4.threads()), (40, 40 * 1024));
        assert_eq!((t4.context_bytes, t4.reserved_bytes), (86 << 20, 450 << 20));
    }

    #[test]
    fn threads_of_a_multiprocessor() {
        let threads = |setting: &str| {
            let settings = [
                ("GPUMEM_SIM_CC", "75"),
                ("GPUMEM_SIM_THREADS_PER_SM", setting),
            ];
            made(&settings).machine.devices[0].threads_per_multiprocessor
        };
        assert_eq!(
            (threads(""), threads("1536"), threads("0")),
            (1024, 1536, 1024)
        );
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
    fn a_setting_for_one_device_is_an_exception() {
        let settings = [("GPUMEM_SIM_DEVICES", "3"), ("GPUMEM_SIM_CC", "90,1=8.0")];
        let machine = made(&settings).machine;
        let all = machine.devices.iter().map(|d| d.compute_capability);
        assert_eq!(all.collect::<Vec<_>>(), [(9, 0), (8, 0), (9, 0)]);
    }

    #[test]
    fn a_split_card_is_seen_as_its_first_instance() {
        let split = |visible: Option<&str>| {
            let mut settings = vec![("GPUMEM_SIM_DEVICES", "2"), ("GPUMEM_SIM_MIG", "0=2")];
            settings.extend(visible.map(|text| ("CUDA_VISIBLE_DEVICES", text)));
            let machine = made(&settings).machine;
            let names = (0..machine.visible.len()).filter_map(|o| machine.visible_device(o));
            names.map(DeviceSpec::uuid_text).collect::<Vec<_>>()
        };
        let (first, second) = (
            "MIG-6770756d-656d-4000-8000-000100000000",
            "MIG-6770756d-656d-4000-8000-000200000000",
        );
        let whole = "GPU-6770756d-656d-4000-8000-000000000001";
        assert_eq!(split(None), [first]);
        assert_eq!(split(Some("0,1")), [first]);
        assert_eq!(split(Some(second)), [second]);
        assert_eq!(split(Some(&format!("{second},{first},1"))), [second]);
        assert_eq!(split(Some("1,0")), [whole]);
        assert_eq!(split(Some("MIG-6770756d")), [""; 0]);
    }

    #[test]
    fn an_allocation_takes_its_time() {
        let made = made(&[("GPUMEM_SIM_ALLOCATION_US", "1500")]).machine;
        assert_eq!(made.allocation_time, Duration::from_micros(1500));
    }

    #[test]
    fn costs_of_modules_and_how_nvml_names_processes() {
        let machine = made(&[]).machine;
        assert_eq!(
            (machine.module_bytes, machine.eager_loading),
            (2 << 20, false)
        );
        assert_eq!((machine.card, machine.nvml_pids), (None, NvmlPids::Own));
        let Made {
            machine,
            complaints,
        } = made(&[
            ("GPUMEM_SIM_MODULE_BYTES", "3MiB"),
            ("CUDA_MODULE_LOADING", "EAGER"),
            ("GPUMEM_SIM_CARD", "a file"),
            ("GPUMEM_SIM_NVML_PIDS", "host"),
            ("GPUMEM_SIM_MIG", "8"),
        ]);
        assert_eq!(
            (machine.module_bytes, machine.eager_loading),
            (4 << 20, true)
        );
        assert_eq!(machine.card.as_deref(), Some("a file"));
        assert_eq!(machine.nvml_pids, NvmlPids::Host);
        assert_eq!((complaints.len(), machine.devices[0].instances), (1, 0));
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
