//! How the simulated libraries are linked: with the names that their clients look for and the
//! symbol versions of NVIDIA's libraries. Build scripts use this crate.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A simulated library.
pub struct Library {
    /// The name that clients look for.
    pub soname: &'static str,
    /// The names of its exports, as patterns of a version script. Empty if NVIDIA's library has no
    /// versions.
    pub exports: &'static [&'static str],
    /// Whether calls within the library cannot be interposed, even by a preloaded library: the
    /// linker's `-Bsymbolic`.
    pub own_calls_stay: bool,
}

impl Library {
    /// Prints the linker arguments for cargo. Call it from a build script.
    pub fn link(&self) {
        println!("cargo:rerun-if-changed=build.rs");
        println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
        let linker = env::var_os("RUSTC_LINKER").map(PathBuf::from);
        let mut arguments = vec![format!("-Wl,-soname,{}", self.soname)];
        if self.own_calls_stay {
            arguments.push("-Wl,-Bsymbolic".into());
        }
        if is_zig(linker.as_deref()) {
            arguments.extend(
                self.script()
                    .map(|path| format!("-Wl,--version-script={}", path.display())),
            );
        } else {
            arguments.push("-fuse-ld=bfd".into());
            if !self.exports.is_empty() {
                // Sets the version of every export to the soname. A version script here cannot do
                // that: rustc passes one without a version, and bfd accepts no second one.
                arguments.push("-Wl,--default-symver".into());
            }
        }
        for argument in arguments {
            // With `rustc-cdylib-link-arg`, cargo would also pass the argument to libraries that
            // depend on this one: libcudart.so.12 depends on that of CUDA 13, and would get its
            // name.
            println!("cargo:rustc-link-arg={argument}");
        }
    }

    /// A version script with the same version. Zig's linker has no `--default-symver`. It uses the
    /// last script that it is given, and this one comes after rustc's.
    fn script(&self) -> Option<PathBuf> {
        if self.exports.is_empty() {
            return None;
        }
        let folder =
            env::var_os("OUT_DIR").expect("cargo names a folder for what a build script makes");
        let path = Path::new(&folder).join("exports.map");
        fs::write(&path, self.version())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Some(path)
    }

    fn version(&self) -> String {
        format!(
            "{} {{ global: {}; local: *; }};\n",
            self.soname,
            self.exports.join("; ")
        )
    }
}

/// Whether this is the linker of cargo-zigbuild.
fn is_zig(linker: Option<&Path>) -> bool {
    linker
        .and_then(Path::file_name)
        .is_some_and(|name| name.to_string_lossy().starts_with("zigcc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_export_has_the_version_of_the_soname() {
        let library = Library {
            soname: "libcudart.so.13",
            exports: &["cuda*", "__cuda*"],
            own_calls_stay: true,
        };
        assert_eq!(
            library.version(),
            "libcudart.so.13 { global: cuda*; __cuda*; local: *; };\n"
        );
    }

    #[test]
    fn zig_is_told_from_its_name() {
        assert!(is_zig(Some(Path::new(
            "/cache/zigcc-x86_64-unknown-linux-gnu.2.17-1a2b.sh"
        ))));
        assert!(!is_zig(Some(Path::new("/usr/bin/cc"))));
        assert!(!is_zig(None));
    }
}
