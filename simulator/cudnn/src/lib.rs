//! The simulated `libcudnn.so.9`: descriptors, sizes and launches are real, arithmetic is not.
//!
//! Descriptors of the backend API are a store of attributes; heuristics offer one engine with the
//! workspace of [`workspace`]'s model and one without. RNN weights have cuDNN's layout, reserves and
//! other buffers the sizes of docs/cudnn.md. Each call that computes launches one kernel on its
//! handle's stream, so that captures, modules and errors of streams are as after a real launch.
//!
//! | part | job |
//! |---|---|
//! | `status`, `objects`, `array` | results and their texts; tables of handles; callers' arrays |
//! | `handle`, `launch` | handles and streams; what a call that computes does |
//! | `shape`, `tensor` | tensors and filters: extents, strides, bytes |
//! | `backend` | the graph API: attributes, descriptors, heuristics, plans |
//! | `workspace` | the model of convolutions' workspaces, and its settings |
//! | `convolution`, `norm`, `rnn`, `ctc`, `dropout`, `simple` | the older API |
//! | `unsupported` | the functions that are there and do nothing |
//! | `table` | every export |
//!
//! # Environment
//! - `GPUMEM_SIM_CUDNN_WORKSPACE`: `model`, `0`, `high` or a size ([`workspace`]).
//! - `CUDNN_CONV_WSCAP_DBG`: cuDNN's own limit of a convolution's workspace, in MiB.
//!
//! # Not suitable for
//! Computing anything. It takes no device memory of its own but for one module.

mod array;
pub mod backend;
mod convolution;
mod ctc;
mod dropout;
mod handle;
mod launch;
mod norm;
mod objects;
pub mod rnn;
mod shape;
mod simple;
pub mod status;
pub mod table;
mod tensor;
mod unsupported;
pub mod workspace;
