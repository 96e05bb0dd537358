//! Serves a capture to browsers while its program runs: a page, and its figures as server-sent events.
//!
//! # Design constraints
//! - The figures are those of [`gpumem_live`]'s frames, and so those of `summary` and `lines` at the same event.
//! - One thread reads the capture for all readers. Each reader requests a table; a table that several readers request
//!   is made once.
//! - The paths are `/`, `/events` and `/moment`. A folder has `/` and `/ranks`, and the three paths of each capture
//!   below its number. No request names a file or writes anything.
//! - Past points in time are read on one thread, one at a time.
//! - Only this machine's loopback addresses, and only requests with the token of the URL.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod course;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod hub;
mod moments;
mod now;
mod page;
mod pump;
mod ranks;
mod serve;
mod served;
mod table;
mod view;

pub use gpumem_http::StartError;
pub use serve::{LiveServer, ServeError};
