//! Reads the simulated NVML through the `nvml-wrapper` crate, with and without the simulated driver
//! in the process, and compares the two libraries.

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Both libraries, which cargo has built for this test: the driver is a dev-dependency for this reason. A build from here
/// would have other features than that of the workspace, and replace what it has built.
fn built() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().expect("path of the test");
    let folder = test.parent().expect("a folder");
    (folder.join("libsimnvml.so"), folder.join("libsimcuda.so"))
}

/// The driver, loaded as clients load it.
struct Driver(*mut c_void);

impl Driver {
    fn load(path: &Path) -> Self {
        let path = CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
        // SAFETY: a terminated path to a library of this workspace.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Self(handle)
    }

    fn function(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("no zero byte");
        // SAFETY: a live handle and a terminated name.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    /// Calls a function of up to three integers or pointers, which must succeed.
    fn call(&self, name: &str, a: u64, b: u64, c: u64) {
        // SAFETY: the functions called here take at most three words and return an int.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64, u64) -> c_int>(
                self.function(name),
            )
        };
        assert_eq!(function(a, b, c), 0, "{name}");
    }

    fn physical(&self, ordinal: c_int) -> u64 {
        type Books = unsafe extern "C" fn(c_int, *const c_char, *mut u64, *mut u64) -> c_int;
        // SAFETY: the simulated driver exports the name with this signature.
        let books =
            unsafe { std::mem::transmute::<*mut c_void, Books>(self.function("gpumem_sim_books")) };
        let (mut current, mut peak) = (0, 0);
        // SAFETY: a terminated name and two local places.
        let code = unsafe { books(ordinal, c"physical".as_ptr(), &mut current, &mut peak) };
        assert_eq!(code, 0);
        current
    }
}

fn set(name: &str, value: &str) {
    // SAFETY: this file has one test, and it sets variables before it starts a thread.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn nvml_tells_what_the_driver_books() {
    set("GPUMEM_SIM_DEVICES", "2");
    set("GPUMEM_SIM_MEMORY", "4GiB,1=2GiB");
    set("GPUMEM_SIM_CC", "86");
    set("GPUMEM_SIM_CONTEXT_BYTES", "100MiB");
    set("GPUMEM_SIM_RESERVED_BYTES", "300MiB");
    set("GPUMEM_SIM_OTHER_BYTES", "1=64MiB");
    // The driver's device 0 is NVML's device 1.
    set("CUDA_VISIBLE_DEVICES", "1");
    let (nvml_path, driver_path) = built();
    // The driver is found by its soname, so it must be loaded from a file of that name.
    let folder = tempfile::tempdir().expect("a folder");
    let soname = folder.path().join("libcuda.so.1");
    std::os::unix::fs::symlink(&driver_path, &soname).expect("a link");

    let nvml = Nvml::builder()
        .lib_path(nvml_path.as_os_str())
        .init()
        .expect("NVML starts");
    assert_eq!(nvml.device_count().expect("count"), 2);
    assert_eq!(nvml.sys_cuda_driver_version().expect("version"), 13020);
    assert!(!nvml.sys_driver_version().expect("version").is_empty());
    assert!(nvml.device_by_index(2).is_err());
    let first = nvml.device_by_index(0).expect("device 0");
    let second = nvml.device_by_index(1).expect("device 1");

    // Identity, by every kind of look-up.
    assert_eq!(first.name().expect("name"), "gpumem simulated GPU");
    let uuid = second.uuid().expect("uuid");
    assert_ne!(first.uuid().expect("uuid"), uuid);
    let by_uuid = nvml.device_by_uuid(uuid.as_str()).expect("by UUID");
    assert_eq!(by_uuid.index().expect("index"), 1);
    let pci = second.pci_info().expect("PCI");
    assert_eq!(
        (pci.bus_id.as_str(), pci.bus),
        ("00000000:02:00.0", 2),
        "{pci:?}"
    );
    let by_pci = nvml
        .device_by_pci_bus_id(pci.bus_id.as_str())
        .expect("by PCI address");
    assert_eq!(by_pci.minor_number().expect("minor"), 1);
    assert!(nvml.device_by_uuid("GPU-nobody").is_err());
    let capability = second.cuda_compute_capability().expect("capability");
    assert_eq!((capability.major, capability.minor), (8, 6));
    assert_eq!(second.utilization_rates().expect("rates").gpu, 0);

    // Without the driver this process uses no memory.
    let memory = second.memory_info().expect("memory");
    assert_eq!(memory.total, 2048 * MIB + 300 * MIB);
    assert_eq!((memory.reserved, memory.used), (300 * MIB, 64 * MIB));
    assert_eq!(memory.free, 2048 * MIB - 64 * MIB);
    assert_eq!(first.memory_info().expect("memory").used, 0);
    assert!(first.running_compute_processes().expect("list").is_empty());
    assert!(
        second
            .running_graphics_processes()
            .expect("list")
            .is_empty()
    );

    // With the driver, its physical books: a context, and whole pages.
    let driver = Driver::load(&soname);
    let (mut context, mut pointer) = (0u64, 0u64);
    driver.call("cuInit", 0, 0, 0);
    driver.call("cuDevicePrimaryCtxRetain", &raw mut context as u64, 0, 0);
    driver.call("cuCtxSetCurrent", context, 0, 0);
    driver.call("cuMemAlloc_v2", &raw mut pointer as u64, 3 * MIB, 0);
    let used = 100 * MIB + 4 * MIB;
    assert_eq!(driver.physical(0), used);
    let memory = second.memory_info().expect("memory");
    assert_eq!(memory.used, used + 64 * MIB);
    let (mut free, mut total) = (0u64, 0u64);
    driver.call(
        "cuMemGetInfo_v2",
        &raw mut free as u64,
        &raw mut total as u64,
        0,
    );
    assert_eq!((free, total), (memory.free, memory.total - memory.reserved));
    let running: Vec<(u32, u64)> = second
        .running_compute_processes()
        .expect("list")
        .into_iter()
        .map(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => (process.pid, bytes),
            UsedGpuMemory::Unavailable => (process.pid, 0),
        })
        .collect();
    assert_eq!(running, [(std::process::id(), used), (1, 64 * MIB)]);
    assert_eq!(first.memory_info().expect("memory").used, 0);
    assert!(first.running_compute_processes().expect("list").is_empty());

    // Without a context the process is not listed.
    driver.call("cuDevicePrimaryCtxRelease_v2", 0, 0, 0);
    assert_eq!(second.memory_info().expect("memory").used, 64 * MIB);
    assert_eq!(second.running_compute_processes().expect("list").len(), 1);
}
