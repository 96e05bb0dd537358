//! The simulated `libcupti.so.13`: a profiler that sees no device activity.
//!
//! PyTorch's profiler subscribes, enables kinds of activity, and asks for records at the end. All of
//! that succeeds, and there are no records: nothing runs on the simulated card that would take time.
//! What the profiler takes from elsewhere (CPU times, memory) is complete.
//!
//! # Not suitable for
//! Kernel times, counters, metrics. Callbacks are registered and never called.

mod profiler;
pub mod table;
