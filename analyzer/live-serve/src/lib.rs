//! A capture that is watched in a browser: a page, and its figures as server-sent events.
//!
//! # Design constraints
//! - The figures are those of [`gpumem_live`]'s frames, and so those of `summary` and `lines` at the same event.
//! - One thread reads the capture, however many readers look. A reader asks for a table; tables that several ask
//!   for are made once.
//! - Two paths, `/` and `/events`. No request names a file, and none writes anything.
//! - Only this machine's loopback addresses, and only requests with the token of the URL.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod course;
mod hub;
mod now;
mod page;
mod pump;
mod serve;
mod table;
mod view;

pub use gpumem_http::StartError;
pub use serve::{LiveServer, ServeError};
