//! The simulated `libcublas.so.13`.
