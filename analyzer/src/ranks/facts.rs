//! Facts that should be the same for all ranks of a job.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, ProcessKey};

use super::holders::{Keys, Text};
use crate::names::{Module, Names};

/// Libraries whose version affects how much memory a program needs, by prefixes of their file names.
const LIBRARIES: &[&str] = &[
    "libc10",
    "libcublas",
    "libcuda.",
    "libcudart",
    "libcudnn",
    "libcufft",
    "libcusolver",
    "libcusparse",
    "libnccl",
    "libnvshmem",
    "libtorch",
];
/// How many hexadecimal digits of a build id are shown: enough to distinguish builds.
const DIGITS: usize = 12;

/// Versions and settings of a process, by name.
pub fn facts(names: &Names, device: Option<DeviceOrdinal>, keys: &mut Keys) -> Vec<(Text, Text)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let shared = [
        ("PyTorch", ProcessKey::PYTORCH),
        ("allocator", ProcessKey::ALLOCATOR_BACKEND),
        ("allocator settings", ProcessKey::ALLOCATOR_CONF),
        ("CUDA driver", ProcessKey::DRIVER_VERSION),
        ("recorder", ProcessKey::RECORDER_VERSION),
        ("program", ProcessKey::COMMAND),
        ("job", ProcessKey::JOB),
    ];
    for (name, key) in shared {
        let value = names.fact(key).unwrap_or("none").to_owned();
        found.push((name.into(), value));
    }
    if let Some(python) = names.interpreter {
        let part = |shift: u32| python.version >> shift & 0xff;
        let version = format!("{}.{}.{}", part(24), part(16), part(8));
        found.push(("Python".into(), version));
    }
    if let Some(card) = device.and_then(|device| names.devices.get(&device)) {
        let card = format!("{}, {}", card.name, crate::units::bytes(card.total_bytes));
        found.push(("GPU".into(), card));
    }
    found.extend(libraries(&names.modules));
    let shared = found.into_iter();
    shared
        .map(|(what, value)| (keys.text(what), keys.text(value)))
        .collect()
}

/// Versions of the libraries that a process loaded, by name. Libraries that are not loaded have no version.
fn libraries(modules: &[Module]) -> impl Iterator<Item = (String, String)> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for module in modules {
        let file = module.basename();
        let Some((name, _)) = file.split_once(".so") else {
            continue;
        };
        if LIBRARIES.iter().any(|of| file.starts_with(of)) {
            let builds = found.entry(name.to_owned()).or_default();
            builds.insert(build(file, &module.build_id));
        }
    }
    found.into_iter().map(|(name, builds)| {
        let builds: Vec<String> = builds.into_iter().collect();
        (name, builds.join(" and "))
    })
}

/// A file name with its build id, such as `libcudnn.so.9.2.0 (build 1f39162a97d2)`.
fn build(file: &str, id: &[u8]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    match digits.get(..DIGITS.min(digits.len())) {
        None | Some("") => file.to_owned(),
        Some(digits) => format!("{file} (build {digits})"),
    }
}

#[cfg(test)]
mod tests {
    use gpumem_capture::ModuleId;

    use super::*;

    fn module(path: &str, build_id: &[u8]) -> Module {
        Module {
            id: ModuleId(1),
            bias: 0,
            start: 0,
            end: 1,
            path: path.into(),
            build_id: build_id.to_owned(),
        }
    }

    #[test]
    fn libraries_have_the_version_of_their_file_and_their_build() {
        let modules = [
            module("/env/lib/libcudnn.so.9", &[0x1f; 20]),
            module("/lib/libc.so.6", &[1]),
            module("/lib/libcudadebugger.so.1", &[1]),
            module("/env/lib/libcuda.so.580.95.05", &[]),
            module("/env/lib/libnccl.so.2", &[0xab]),
            module("/other/lib/libnccl.so.2", &[0xcd]),
        ];
        let found: Vec<_> = libraries(&modules).collect();
        let shown: Vec<_> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(
            shown,
            [
                ("libcuda", "libcuda.so.580.95.05"),
                ("libcudnn", "libcudnn.so.9 (build 1f1f1f1f1f1f)"),
                (
                    "libnccl",
                    "libnccl.so.2 (build ab) and libnccl.so.2 (build cd)"
                ),
            ]
        );
    }
}
