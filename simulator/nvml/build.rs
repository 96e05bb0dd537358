//! Gives the library the name that its clients look for.

fn main() {
    gpumem_sim_link::Library {
        soname: "libnvidia-ml.so.1",
        exports: &["nvml*"],
        own_calls_stay: false,
    }
    .link();
}
