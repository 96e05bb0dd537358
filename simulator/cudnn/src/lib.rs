//! The simulated `libcudnn.so.9`: descriptors, sizes and launches are real, computations are not.
//!
//! The backend API stores the attributes of descriptors. Heuristics offer one engine with the
//! workspace of the model ([`workspace`]) and one without. RNN weights have cuDNN's layout;
//! reserves and other buffers have the sizes of docs/cudnn.md. Each call that computes launches one
//! kernel on its handle's stream, so captures, modules and stream errors are as after a real
//! launch.
//!
//! | part | job |
//! |---|---|
//! | `status`, `objects`, `array` | results and their texts; tables of handles; callers' arrays |
//! | `handle`, `launch` | handles and streams; the body of a call that computes |
//! | `shape`, `tensor` | tensors and filters: extents, strides, bytes |
//! | `backend` | the graph API: attributes, descriptors, heuristics, plans |
//! | `workspace` | the model of convolutions' workspaces, and its settings |
//! | `convolution`, `norm`, `rnn`, `ctc`, `dropout`, `simple` | the older API |
//! | `unsupported` | functions that are not simulated |
//! | `table` | every export |
//!
//! # Environment
//! - `GPUMEM_SIM_CUDNN_WORKSPACE`: `model`, `0`, `high` or a size ([`workspace`]).
//! - `CUDNN_CONV_WSCAP_DBG`: cuDNN's own limit of a convolution's workspace, in MiB.
//!
//! # Not suitable for
//! Computing anything. Its device memory is one module only; other memory belongs to callers.

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
