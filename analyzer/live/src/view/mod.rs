//! A view in a terminal.

mod app;
mod chart;
mod draw;
mod help;
mod rows;
mod run;
mod style;

pub use app::{App, Mode};
pub use draw::draw;
pub use rows::{Row, Sort, rows};
pub use run::run;
pub use style::Look;
