//! A capture that is watched in a browser: a page, and its figures as server-sent events.
//!
//! # Design constraints
//! - The figures are those of [`gpumem_live`]'s frames, and so those of `summary` and `lines` at the same event.
//! - One thread reads the capture, however many readers look. A reader asks for a table; tables that several ask
//!   for are made once.
//! - Three paths, `/`, `/events` and `/moment`; of a folder `/` and `/ranks`, and the three of each capture below its number.
//!   No request names a file, and none writes anything.
//! - A moment of the past is read by one thread at a time, whoever asks.
//! - Only this machine's loopback addresses, and only requests with the token of the URL.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod course;
mod folder;
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
