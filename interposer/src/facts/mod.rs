//! The capture's facts about the process.

mod command;

use core::ops::ControlFlow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gpumem_capture::{ProcessKey, Writer};
use gpumem_stacks::Stacks;
use gpumem_sys::loaded;

use crate::allocator;
use crate::driver;
use crate::launcher::Identity;
use crate::options::Options;

pub(crate) use self::command::quoted;

/// This machine's name.
pub(crate) fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for its length, less one for the NUL.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if result != 0 {
        return String::new();
    }
    let end = name.iter().position(|&b| b == 0).unwrap_or(0);
    String::from_utf8_lossy(name.get(..end).unwrap_or(&[])).into_owned()
}

/// PyTorch's version, from a file next to the folder of its libraries.
fn pytorch() -> Option<String> {
    let library = loaded::find(|library| match library.file_name() == b"libc10_cuda.so" {
        true => ControlFlow::Break(library.path().to_bytes().to_vec()),
        false => ControlFlow::Continue(()),
    })?;
    let library = Path::new(OsStr::from_bytes(&library));
    let file = library.parent()?.parent()?.join("version.py");
    version_in(&std::fs::read_to_string(file).ok()?).map(str::to_owned)
}

/// The version in the text of PyTorch's `version.py`.
fn version_in(text: &str) -> Option<&str> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(line.trim().trim_matches(['\'', '"']))
}

/// Writes the facts of this process.
pub(crate) fn write(writer: &'static Writer, options: &Options, identity: &Identity) {
    let tell = |key: &str, value: &[u8]| {
        // Long command lines are truncated, not dropped.
        let value = value.get(..8192).unwrap_or(value);
        let _ = writer.fact(key, value);
    };
    let path = |path: std::io::Result<std::path::PathBuf>| {
        path.map(|p| p.into_os_string().as_bytes().to_vec())
            .unwrap_or_default()
    };
    tell(ProcessKey::COMMAND, command::of_process().as_bytes());
    tell(
        ProcessKey::EXECUTABLE,
        &path(std::fs::read_link("/proc/self/exe")),
    );
    tell(ProcessKey::DIRECTORY, &path(std::env::current_dir()));
    tell(ProcessKey::HOST, host().as_bytes());
    let rank = identity.rank.as_ref();
    let numbers = [
        (ProcessKey::RANK, rank.map(|rank| rank.rank)),
        (
            ProcessKey::WORLD_SIZE,
            rank.and_then(|rank| rank.world_size),
        ),
        (ProcessKey::LOCAL_RANK, identity.local_rank),
        (ProcessKey::NODE_RANK, identity.node_rank),
        (ProcessKey::RESTARTS, identity.restarts),
        (ProcessKey::REQUEUES, identity.requeues),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            tell(key, number.to_string().as_bytes());
        }
    }
    if let Some(job) = &identity.job {
        tell(ProcessKey::JOB, job.as_bytes());
    }
    if let Some(coordinates) = &options.coordinates {
        tell(ProcessKey::COORDINATES, coordinates.to_string().as_bytes());
    }
    if let Some(version) = driver::version() {
        tell(ProcessKey::DRIVER_VERSION, version.to_string().as_bytes());
    }
    tell(
        ProcessKey::RECORDER_VERSION,
        env!("CARGO_PKG_VERSION").as_bytes(),
    );
    let stacks = match options.stacks {
        Stacks::Mixed => "mixed",
        Stacks::Python => "python",
        Stacks::Native => "native",
        Stacks::Off => "off",
    };
    tell(ProcessKey::STACKS, stacks.as_bytes());
    if let Some(code) = &options.code {
        tell(ProcessKey::CODE, code.as_bytes());
    }
    let settings = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];
    if let Some(settings) = settings.into_iter().find_map(std::env::var_os) {
        tell(ProcessKey::ALLOCATOR_CONF, settings.as_bytes());
    }
    if let Some(backend) = allocator::found::backend() {
        tell(ProcessKey::ALLOCATOR_BACKEND, backend.as_bytes());
    }
    if let Some(version) = pytorch() {
        tell(ProcessKey::PYTORCH, version.as_bytes());
    }
    if let Some(every) = options
        .stack_sample
        .filter(|_| options.stacks != Stacks::Off)
    {
        tell(ProcessKey::STACK_SAMPLE, every.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_a_text_in_quotes() {
        let text = "from typing import Optional\n\n__version__ = '2.15.0+cu132'\ndebug = False\n";
        assert_eq!(version_in(text), Some("2.15.0+cu132"));
        assert_eq!(version_in("debug = False\n"), None);
    }
}
