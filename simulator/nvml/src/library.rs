//! Initialisation, shutdown, versions.
#![allow(non_snake_case)]

use crate::out::{Out, TextOut, put};
use crate::result::{Return, answer};
use crate::started::INITIALISED;
use gpumem_sim_machine::{Machine, NvmlPids};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The machine that the environment describes; read once. The driver reports invalid settings, so
/// this library does not.
pub(crate) fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| Machine::from_env().machine)
}

/// `nvmlInit_v2`. Counted: it takes as many `nvmlShutdown` calls to shut down.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    INITIALISED.fetch_add(1, Ordering::AcqRel);
    Return::SUCCESS
}

/// `nvmlInit`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit() -> Return {
    nvmlInit_v2()
}

/// `nvmlInitWithFlags`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: u32) -> Return {
    nvmlInit_v2()
}

/// `nvmlShutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    let less = |count: u32| count.checked_sub(1);
    match INITIALISED.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
        Ok(_) => Return::SUCCESS,
        Err(_) => Return::UNINITIALIZED,
    }
}

/// `nvmlSystemGetDriverVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(text: TextOut, room: u32) -> Return {
    answer(|| text.put("999.00.00", room))
}

/// `nvmlSystemGetNVMLVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetNVMLVersion(text: TextOut, room: u32) -> Return {
    answer(|| {
        let version = machine().driver_version;
        text.put(&format!("{}.999.00.00", version / 1000), room)
    })
}

/// `nvmlSystemGetCudaDriverVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion(version: Out<'_, i32>) -> Return {
    answer(|| put(version, machine().driver_version as i32))
}

/// `nvmlSystemGetCudaDriverVersion_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: Out<'_, i32>) -> Return {
    nvmlSystemGetCudaDriverVersion(version)
}

/// `nvmlSystemGetProcessName`: of a process on this host, by the id that this library gives it.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetProcessName(pid: u32, text: TextOut, room: u32) -> Return {
    answer(|| {
        let pid = match machine().nvml_pids {
            NvmlPids::Host => pid.saturating_sub(NvmlPids::HOST_OFFSET),
            _ => pid,
        };
        let path = std::fs::read_link(format!("/proc/{pid}/exe"));
        let path = path.map_err(|_| Return::NOT_FOUND)?;
        text.put(&path.to_string_lossy(), room)
    })
}
