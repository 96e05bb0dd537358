//! The simulated `libcudart.so.13`.
