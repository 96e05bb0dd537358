//! A view in a terminal.

mod app;
mod chart;
mod draw;
mod help;
mod keys;
mod rows;
mod run;
mod spot;
mod style;

pub use app::{App, Mode};
pub use draw::draw;
pub use rows::Sort;
pub use run::{Export, run};
pub use style::Look;
