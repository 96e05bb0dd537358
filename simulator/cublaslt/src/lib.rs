//! The simulated `libcublasLt.so.13`.
