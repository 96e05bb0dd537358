//! The library stays mapped once it is loaded, however it was loaded, because its drain thread and its hooks'
//! addresses outlive any `dlclose`. The address of a hook in the table must be our function, even if an earlier
//! preloaded library exports the same name.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Zig, which links the wheel, has no `-Bsymbolic-functions`. Only functions are exported, so `-Bsymbolic` has
    // the same effect. But it also makes the loader search this library first for all look-ups from here, which
    // scripts/wheel reverts.
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_default();
    let bound = match linker.contains("zig") {
        true => "-Bsymbolic",
        false => "-Bsymbolic-functions",
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,{bound}");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo:rerun-if-changed=build.rs");
}
