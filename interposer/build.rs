//! The library stays mapped once it is loaded, however it was loaded: its drain thread and its hooks'
//! addresses outlive any `dlclose`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
