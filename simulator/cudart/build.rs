//! Gives the library the name that its clients look for.

fn main() {
    gpumem_sim_link::Library {
        soname: "libcudart.so.13",
        exports: &["cuda*", "__cuda*"],
        // As in NVIDIA's library: calls within the library do not reach an interposer.
        own_calls_stay: true,
    }
    .link();
}
