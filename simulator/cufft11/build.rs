//! Gives the library the name that its clients look for.

fn main() {
    gpumem_sim_link::Library {
        soname: "libcufft.so.11",
        exports: &["cufft*"],
        // As NVIDIA's: a call from inside does not come back through an interposer.
        own_calls_stay: true,
    }
    .link();
}
