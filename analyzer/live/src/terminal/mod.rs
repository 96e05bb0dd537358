//! A view in a terminal.

mod app;
mod chart;
mod draw;
mod folder;
mod folder_draw;
mod folder_run;
mod help;
mod keys;
mod run;
mod spot;
mod style;

pub use app::{App, Mode};
pub use draw::draw;
pub use folder::{FolderApp, FolderSort};
pub use folder_draw::draw_folder;
pub use folder_run::run_folder;
pub use run::{Export, run};
pub use style::Look;
