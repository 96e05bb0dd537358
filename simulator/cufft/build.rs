//! Gives the library the name that its clients look for.

fn main() {
    gpumem_sim_link::Library {
        soname: "libcufft.so.12",
        exports: &["cufft*"],
        // As in NVIDIA's library: calls within the library do not reach an interposer.
        own_calls_stay: true,
    }
    .link();
}
