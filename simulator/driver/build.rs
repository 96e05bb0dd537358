//! Gives the library the name that its clients look for.

fn main() {
    gpumem_sim_link::Library {
        soname: "libcuda.so.1",
        exports: &["cu*", "gpumem*"],
        // A preloaded library may export the driver's names; the table must still refer to this
        // library's.
        own_calls_stay: true,
    }
    .link();
}
