//! Gives the library the name that its clients look for.

fn main() {
    // NVIDIA's library has no versions of symbols.
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
    // As NVIDIA's: a call from inside does not come back through an interposer.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl.so.2");
}
