//! The module that an address belongs to.
//!
//! [`find`] is for every address, [`describe`] for the first one in a module. A change of [`unloads`]
//! means that both must be called again.

mod phdr;
pub(crate) mod span;

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::PathBuf;

pub use self::span::Span;
use crate::{BuildId, object};

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where it lies.
    pub span: Span,
    /// The file it was loaded from, as stored by the loader, made absolute; symbolic links are kept,
    /// because users know their names. For the program itself the executable's real path, also if it was
    /// started as an argument of the loader. `linux-vdso.so.1` for the vDSO.
    pub path: PathBuf,
    /// Its GNU build id.
    pub build_id: BuildId,
    /// Whether it is the program itself.
    pub is_program: bool,
}

/// The module that holds `address`, whose code is executing or about to; None for code outside modules
/// (generated at run time). Takes no lock where the C library has `_dl_find_object`, otherwise the
/// loader's lock.
pub fn find(address: u64) -> Option<Span> {
    if object::is_available() {
        object::find(address)
    } else {
        phdr::find(address).map(|found| found.span)
    }
}

/// The module that holds `address`, with its path and build id. Allocates, and takes the loader's lock
/// briefly: for the first address in a module.
pub fn describe(address: u64) -> Option<Module> {
    let found = phdr::find(address)?;
    let name = found.name();
    Some(Module {
        span: found.span,
        path: if name.is_empty() {
            program(address)
        } else {
            absolute(name)
        },
        build_id: found.build_id,
        is_program: name.is_empty(),
    })
}

/// The number of modules that have been unloaded since the process started. As long as it does not
/// change, results of [`find`] stay valid. Takes the loader's lock briefly, because dl_iterate_phdr
/// requires it.
pub fn unloads() -> u64 {
    phdr::unloads()
}

/// The unloads of this process that have been detected.
struct Unloads {
    noticed: AtomicU64,
    /// The number of times that unloads were detected.
    generation: AtomicU64,
}

static UNLOADS: Unloads = Unloads {
    noticed: AtomicU64::new(0),
    generation: AtomicU64::new(0),
};

/// Changes whenever unloaded modules have been detected: by [`look`], or by an unwinder at an unknown
/// address.
#[inline]
pub fn generation() -> u64 {
    UNLOADS.generation.load(Ordering::Acquire)
}

/// Detects unloaded modules; call it after a `dlclose`. Takes the loader's lock briefly.
pub fn look() {
    let unloads = unloads();
    if UNLOADS.noticed.swap(unloads, Ordering::AcqRel) != unloads {
        UNLOADS.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// The path of the program itself, which has code at `address`.
fn program(address: u64) -> PathBuf {
    // SAFETY: reads what the kernel passed to the process; any type may be requested.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) };
    if loader != 0 {
        return std::fs::read_link("/proc/self/exe").unwrap_or_default();
    }
    // Started as an argument of the loader, which then is the process's executable.
    std::fs::read("/proc/self/maps")
        .ok()
        .and_then(|maps| mapped_file(&maps, address))
        .unwrap_or_default()
}

/// The file that is mapped at `address`, by the lines of a `/proc/<pid>/maps`.
fn mapped_file(maps: &[u8], address: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let number = |digits: &[u8]| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let dash = line.iter().position(|byte| *byte == b'-')?;
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let span = number(line.get(..dash)?)?..number(line.get(dash + 1..blank)?)?;
        // Permissions, offset, device and inode have no slash.
        let path = line.iter().position(|byte| *byte == b'/')?;
        span.contains(&address)
            .then(|| PathBuf::from(std::ffi::OsStr::from_bytes(&line[path..])))
    })
}

fn absolute(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name));
    // A bare name is the vDSO's: the loader finds libraries by paths.
    if path.is_absolute() || path.components().count() < 2 {
        return path;
    }
    std::env::current_dir().map_or(path.clone(), |directory| directory.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_with_its_path_and_build_id() {
        let here = the_program_is_found_with_its_path_and_build_id as *const () as u64;
        let module = describe(here).unwrap();
        assert!(module.is_program);
        assert_eq!(module.path, std::env::current_exe().unwrap());
        assert!(module.span.contains(here));
        let span = find(here).unwrap();
        assert_eq!(span.bias, module.span.bias);
        assert!(span.contains(here));
        assert_eq!(module.build_id, build_id_by_readelf(&module.path));
    }

    /// `ld-linux-x86-64.so.2 program`: the process's executable is the loader then.
    #[test]
    fn a_program_that_the_loader_was_told_to_start_is_found_all_the_same() {
        const TOLD: &str = "GPUMEM_TEST_PROGRAM";
        let here = mapped_file as *const () as u64;
        if let Some(path) = std::env::var_os(TOLD) {
            assert_ne!(std::env::current_exe().unwrap(), path);
            assert_eq!(describe(here).unwrap().path, path);
            return;
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(mapped_file(maps.as_bytes(), here), Some(own.clone()));
        assert_eq!(mapped_file(maps.as_bytes(), 1), None);
        let loader = maps
            .lines()
            .filter_map(|line| line.find('/').map(|at| &line[at..]))
            .find(|path| path.contains("/ld-"))
            .unwrap();
        let test = std::thread::current().name().unwrap().to_owned();
        let done = std::process::Command::new(loader)
            .arg(&own)
            .args([&test, "--exact"])
            .env(TOLD, &own)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
    }

    /// The build id according to readelf.
    fn build_id_by_readelf(path: &std::path::Path) -> BuildId {
        let output = std::process::Command::new("readelf")
            .arg("-n")
            .arg(path)
            .output()
            .expect("readelf of binutils, which every C compiler needs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some(hex) = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Build ID: "))
        else {
            return BuildId::NONE;
        };
        let mut note = Vec::new();
        for word in [4, hex.len() as u32 / 2, 3] {
            note.extend(word.to_ne_bytes());
        }
        note.extend(b"GNU\0");
        note.extend(
            (0..hex.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()),
        );
        BuildId::in_notes(&note, 4).unwrap()
    }

    #[test]
    fn the_c_library_is_found_where_its_symbols_are() {
        let address = libc::malloc as *const () as u64;
        let module = describe(address).unwrap();
        assert!(!module.is_program);
        let name = module
            .path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        assert!(name.starts_with("libc.so"), "{name}");
        assert!(module.path.is_absolute());
        assert_eq!(module.build_id, build_id_by_readelf(&module.path));
        assert!(!module.build_id.as_bytes().is_empty());
    }

    #[test]
    fn both_ways_agree_on_every_module() {
        let mut seen = 0;
        for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            if !fields[1].contains('x') || fields.len() < 6 || fields[5] == "[vsyscall]" {
                continue;
            }
            let ends = fields[0]
                .split('-')
                .map(|end| u64::from_str_radix(end, 16).unwrap());
            let middle = ends.sum::<u64>() / 2;
            let by_phdr = phdr::find(middle).expect(line);
            let by_object = find(middle).expect(line);
            assert_eq!(by_phdr.span.bias, by_object.bias, "{line}");
            assert!(
                by_phdr.span.contains(middle) && by_object.contains(middle),
                "{line}"
            );
            seen += 1;
        }
        assert!(seen >= 3, "{seen} modules with code");
    }

    #[test]
    fn what_is_no_module_is_not_found() {
        let heap = Box::new(0u64);
        assert_eq!(find(&raw const *heap as u64), None);
        assert_eq!(describe(&raw const *heap as u64), None);
        assert_eq!(find(0), None);
    }

    #[test]
    fn unloading_is_seen() {
        // A library from the C library's package that no other code in this process uses.
        let name = c"libnss_compat.so.2";
        let before = unloads();
        // SAFETY: the name is NUL-terminated; the library's constructors are harmless.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        // SAFETY: the handle is valid, the name NUL-terminated.
        let inside = unsafe { libc::dlsym(handle, c"_nss_compat_getpwnam_r".as_ptr()) } as u64;
        assert!(inside != 0);
        assert!(
            describe(inside)
                .unwrap()
                .path
                .ends_with("libnss_compat.so.2")
        );
        assert!(find(inside).is_some());
        assert_eq!(unloads(), before);
        // SAFETY: opened above, closed once.
        assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        assert!(unloads() > before);
        assert_eq!(find(inside), None);
    }
}
