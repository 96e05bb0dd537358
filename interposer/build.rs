//! The library stays mapped once it is loaded, however it was loaded: its drain thread and its hooks'
//! addresses outlive any `dlclose`. And a hook's address, as the table has it, is our function even where
//! another preloaded library before us exports the same name. (Only functions are exported; Zig, which links
//! the wheel, has no `-Bsymbolic-functions`.)

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rerun-if-changed=build.rs");
}
