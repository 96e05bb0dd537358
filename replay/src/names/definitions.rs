//! The things that definitions describe: code objects, modules, devices, hooks, the interpreter.

use gpumem_capture::ModuleId;

use crate::serialize::serialize;

/// A Python code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// File name as the interpreter has it.
    pub file: String,
    /// Qualified name of the function.
    pub name: String,
    /// First line.
    pub first_line: u32,
    /// The interpreter's own line table.
    pub line_table: Vec<u8>,
}

/// A shared library as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The capture's number for this load.
    pub id: ModuleId,
    /// Load address − link address.
    pub bias: u64,
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Path in the recorded process.
    pub path: String,
    /// Build id; empty if the library lacks one.
    pub build_id: Vec<u8>,
}

impl Module {
    /// The path's last part.
    pub fn basename(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The build id in hexadecimal digits; empty if the library lacks one.
    pub fn build_id_text(&self) -> String {
        let digits = self.build_id.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}

/// A frame of a native stack, with the module that was loaded there when the stack was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeFrame {
    /// Return address in the recorded process.
    pub address: u64,
    /// Index into [`Names::modules`]; `None` for code that is in no module.
    pub module: Option<u32>,
}

impl NativeFrame {
    /// The address to symbolize: inside the call, not after it.
    pub fn call_address(&self) -> u64 {
        self.address.saturating_sub(1)
    }
}

/// A device of the recorded process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The card's memory.
    pub total_bytes: u64,
    /// 16 bytes as the driver returns them.
    pub uuid: [u8; 16],
    /// Marketing name.
    pub name: String,
    /// PCI bus id.
    pub pci: String,
}

impl Device {
    /// The UUID as nvidia-smi prints it: `GPU-…`; `None` if it is not known (all zeros).
    pub fn uuid_text(&self) -> Option<String> {
        if self.uuid == [0; 16] {
            return None;
        }
        let mut out = String::from("GPU-");
        for (index, byte) in self.uuid.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                out.push('-');
            }
            out.push_str(&format!("{byte:02x}"));
        }
        Some(out)
    }
}

/// A hook that was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The function.
    pub function: String,
    /// How the program accessed it.
    pub way: String,
    /// The library that requested it.
    pub library: String,
}

/// The Python interpreter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interpreter {
    /// Hex version, 0x030c01f0 for 3.12.1.
    pub version: u32,
    /// Addresses of its evaluation function; zeros if unknown.
    pub eval: (u64, u64),
}

serialize! {
    Code { file, name, first_line, line_table }
    Module { id, bias, start, end, path, build_id }
    NativeFrame { address, module }
    Device { total_bytes, uuid, name, pci }
    Hook { function, way, library }
    Interpreter { version, eval }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvidia_smi_prints_it() {
        let uuid = std::array::from_fn(|index| index as u8);
        let device = Device {
            total_bytes: 0,
            uuid,
            name: String::new(),
            pci: String::new(),
        };
        let text = device.uuid_text();
        assert_eq!(
            text.as_deref(),
            Some("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")
        );
    }
}
