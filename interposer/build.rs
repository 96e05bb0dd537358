//! The library stays mapped once it is loaded, however it was loaded: its drain thread and its hooks'
//! addresses outlive any `dlclose`. And a hook's address, as the table has it, is our function even where
//! another preloaded library before us exports the same name.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Zig, which links the wheel, has no `-Bsymbolic-functions`. Only functions are exported, so the other does the
    // same; but it also has the loader search this library first in all that is looked up from here,
    // which scripts/wheel takes back.
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_default();
    let bound = match linker.contains("zig") {
        true => "-Bsymbolic",
        false => "-Bsymbolic-functions",
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,{bound}");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo:rerun-if-changed=build.rs");
}
