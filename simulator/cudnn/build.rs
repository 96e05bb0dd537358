//! Gives the library the name that its clients look for.

fn main() {
    // rustc overrides a version script of ours; bfd's default-symver names the version node of
    // every export after the soname, as NVIDIA's libraries do.
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--default-symver");
    // As NVIDIA's: a call from inside does not come back through an interposer.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
}
