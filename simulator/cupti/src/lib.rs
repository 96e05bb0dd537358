//! The simulated `libcupti.so.13`: a profiler that sees no device activity.
//!
//! PyTorch's profiler subscribes, enables kinds of activity, and requests records at the end. All
//! of that succeeds, and there are no records: kernels take no time on the simulated card. Data
//! that the profiler takes from elsewhere (CPU times, memory) is complete.
//!
//! # Not suitable for
//! Kernel times, counters, metrics. Callbacks are registered and never called.

mod profiler;
pub mod table;
