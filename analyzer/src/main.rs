//! `gpumem-analyze`.

fn main() {}
