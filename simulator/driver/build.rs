//! Gives the library the name that its clients look for.

fn main() {
    // rustc overrides a version script of ours; bfd's default-symver names the version node of
    // every export after the soname, as NVIDIA's libraries do.
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--default-symver");
    // A preloaded library may export the driver's names; the table must still answer with ours.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
