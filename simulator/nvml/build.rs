//! Gives the library the name that its clients look for.

fn main() {
    // rustc overrides a version script of ours; bfd's default-symver names the version node of
    // every export after the soname, as NVIDIA's libraries do.
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--default-symver");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
}
