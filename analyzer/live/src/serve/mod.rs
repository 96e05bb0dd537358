//! Serves a capture to browsers while its program runs: a page, and its figures as server-sent events.
//!
//! # Design constraints
//! - The figures are those of [`Frame`](crate::frames::Frame)s.
//! - One thread reads the capture for all readers. Each reader requests a table; a table that several readers request
//!   is made once.
//! - The paths are `/`, `/events` and `/moment`. A folder has `/` and `/ranks`, and the three paths of each capture
//!   below its number. No request names a file or writes anything.
//! - Past points in time are read on one thread, one at a time.
//! - Only this machine's loopback addresses, and only requests with the token of the URL.

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
mod served;
mod server;
mod table;
mod view;

pub use server::{LiveServer, ServeError};
