//! The addresses of the driver's functions, found in every way that programs use.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::elf;
use crate::functions::{ALL, Function};

/// A function's addresses, one for each way to look it up. Each can be called.
pub type Ways = Vec<usize>;

/// Every function's addresses, in the order of [`ALL`], and the functions that return both sides'
/// figures.
pub struct Driver {
    /// The addresses.
    pub ways: Vec<Ways>,
    /// `gpumem_sim_books` of the simulator.
    pub books: usize,
    /// `gpumem_counters` of the recorder; 0 without it.
    pub counters: usize,
    /// `gpumem_read_card` of the recorder; 0 without it.
    pub read_card: usize,
}

/// How the driver is reached.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Whether the driver's library is loaded with RTLD_GLOBAL.
    pub global: bool,
    /// The planted fault: these functions are called without any hook.
    pub dropped: Vec<String>,
    /// These functions are missing.
    pub missing: Vec<String>,
}

type GetV1 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> u32;
type GetV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut u32) -> u32;

const PER_THREAD: u64 = 2;
/// Versions that clients request: that of the runtime of each CUDA release.
const ASKED: [i32; 13] = [
    2000, 3020, 4000, 8000, 10020, 11020, 11040, 11080, 12000, 12050, 12080, 13020, 13050,
];

fn symbol(handle: *mut c_void, name: &CStr) -> usize {
    // SAFETY: a handle of the loader's and a C string.
    unsafe { libc::dlsym(handle, name.as_ptr()) as usize }
}

impl Driver {
    /// Loads the driver and looks up every function in every way.
    ///
    /// # Errors
    /// A missing function, or two ways that led to different functions.
    pub fn load(reach: &Reach) -> Result<Self, String> {
        let scope = if reach.global {
            libc::RTLD_GLOBAL
        } else {
            libc::RTLD_LOCAL
        };
        // SAFETY: a C string; the driver's own constructors run.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | scope) };
        if library.is_null() {
            return Err("there is no libcuda.so.1: run under scripts/with-simulator".into());
        }
        let books = symbol(library, c"gpumem_sim_books");
        if books == 0 {
            return Err(
                "this libcuda.so.1 keeps no books: run under scripts/with-simulator".into(),
            );
        }
        let counters = symbol(libc::RTLD_DEFAULT, c"gpumem_counters");
        let read_card = symbol(libc::RTLD_DEFAULT, c"gpumem_read_card");
        let mut ways = Vec::with_capacity(ALL.len());
        for function in ALL {
            let is_in = |list: &[String]| list.iter().any(|name| name == function.symbol);
            if is_in(&reach.missing) {
                ways.push(vec![0]);
            } else if is_in(&reach.dropped) {
                let name = CString::new(function.symbol).map_err(|e| e.to_string())?;
                let address = elf::address(books, &name).ok_or(function.symbol)?;
                ways.push(vec![address]);
            } else {
                ways.push(every_way(library, reach.global, function)?);
            }
        }
        Ok(Self {
            ways,
            books,
            counters,
            read_card,
        })
    }
}

fn every_way(library: *mut c_void, global: bool, function: &Function) -> Result<Ways, String> {
    let name = CString::new(function.symbol).map_err(|e| e.to_string())?;
    let base = CString::new(function.base).map_err(|e| e.to_string())?;
    if function.base.is_empty() {
        return Ok(vec![symbol(libc::RTLD_DEFAULT, &name)]);
    }
    let first = symbol(library, &name);
    if first == 0 {
        return Ok(vec![0]); // an older driver
    }
    let mut ways = vec![first];
    let mut take = |way: &str, found: usize, must: bool| {
        if found == first {
            ways.push(found);
        } else if must {
            return Err(format!(
                "{way} finds another {} than dlsym: {found:#x} and {first:#x}",
                function.symbol
            ));
        }
        Ok(())
    };
    if global {
        let found = symbol(libc::RTLD_DEFAULT, &name);
        take("dlsym(RTLD_DEFAULT)", found, true)?;
    }
    let (get_v1, get_v2) = getters(library)?;
    let (since, until) = function.versions;
    // A driver does not return a form that is newer than the driver.
    let until = until.min(version_of(library)? + 1);
    for version in ASKED
        .into_iter()
        .chain([since])
        .filter(|v| (since..until).contains(v))
    {
        for flags in 0..=2 {
            let must = (flags == PER_THREAD) == function.per_thread;
            if function.per_thread && !must {
                continue;
            }
            let (mut found, mut status) = (std::ptr::null_mut(), 0);
            // SAFETY: the functions of these names; the name and the places live for the call.
            let code = unsafe { get_v1(base.as_ptr(), &mut found, version, flags) };
            if code == 0 {
                take("cuGetProcAddress", found as usize, must)?;
            }
            found = std::ptr::null_mut();
            // SAFETY: as above.
            let code = unsafe { get_v2(base.as_ptr(), &mut found, version, flags, &mut status) };
            if code == 0 && status == 0 {
                take("cuGetProcAddress_v2", found as usize, must)?;
            }
        }
    }
    Ok(ways)
}

/// The driver's own version.
fn version_of(library: *mut c_void) -> Result<i32, String> {
    type Get = unsafe extern "C" fn(*mut c_int) -> u32;
    let get = symbol(library, c"cuDriverGetVersion");
    if get == 0 {
        return Err("this driver does not tell its version".into());
    }
    // SAFETY: the function of this name, whose type this is.
    let get = unsafe { core::mem::transmute::<usize, Get>(get) };
    let mut version = 0;
    // SAFETY: the variable lives for the call.
    match unsafe { get(&mut version) } {
        0 => Ok(version),
        code => Err(format!("cuDriverGetVersion = {code}")),
    }
}

/// `cuGetProcAddress` in both versions: the first by its name, the second from the first.
fn getters(library: *mut c_void) -> Result<(GetV1, GetV2), String> {
    let v1 = symbol(library, c"cuGetProcAddress");
    if v1 == 0 {
        return Err("this driver has no cuGetProcAddress".into());
    }
    // SAFETY: the function of this name, whose type this is.
    let v1 = unsafe { core::mem::transmute::<usize, GetV1>(v1) };
    let mut v2 = std::ptr::null_mut();
    // SAFETY: a C string and a variable, both alive for the call.
    let code = unsafe { v1(c"cuGetProcAddress".as_ptr(), &mut v2, 12000, 0) };
    if code != 0 || v2.is_null() {
        return Err("cuGetProcAddress does not find itself".into());
    }
    // SAFETY: requested for version 12.0, it is the second version, whose type this is.
    let v2 = unsafe { core::mem::transmute::<*mut c_void, GetV2>(v2) };
    Ok((v1, v2))
}
