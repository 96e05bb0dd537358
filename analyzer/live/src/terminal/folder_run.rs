//! The event loop of a folder's view, and of a rank's view opened from it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::frames::{Ask, Folder, Watch};

use super::app::App;
use super::folder::FolderApp;
use super::folder_draw::draw_folder;
use super::run::{Export, draw_whole, on_terminal, show as show_watch};
use super::style::Look;

/// Returns the function that writes HTML pages of a capture.
type ExportOf<'a> = &'a dyn Fn(&Path) -> Arc<Export>;

/// The interval of redrawing rows.
const ROWS_EVERY: Duration = Duration::from_millis(500);

/// Shows a folder until the user leaves. `ask` is the first request of a rank's view, and `every` the interval of its
/// frames.
///
/// # Errors
/// Those of the terminal.
pub fn run_folder(
    folder: &mut Folder,
    ask: Ask,
    look: Look,
    (every, export_of): (Duration, ExportOf<'_>),
) -> io::Result<()> {
    on_terminal(|terminal| show(terminal, folder, ask, look, (every, export_of)))
}

fn show(
    terminal: &mut DefaultTerminal,
    folder: &mut Folder,
    ask: Ask,
    look: Look,
    with: (Duration, ExportOf<'_>),
) -> io::Result<()> {
    let mut app = FolderApp::default();
    loop {
        app.take(folder.rows());
        draw_whole(terminal, |screen| {
            draw_folder(folder, &mut app, look, screen)
        })?;
        if event::poll(ROWS_EVERY)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            app.key(key);
        }
        if app.is_over {
            return Ok(());
        }
        if let Some(path) = app.entered.take()
            && show_rank(terminal, &path, ask, look, with)?
        {
            return Ok(());
        }
    }
}

/// Shows one rank until Esc; returns whether the whole view ends.
fn show_rank(
    terminal: &mut DefaultTerminal,
    path: &Path,
    ask: Ask,
    look: Look,
    (every, export_of): (Duration, ExportOf<'_>),
) -> io::Result<bool> {
    // The capture was removed, which its row shows.
    let Ok(watch) = Watch::start(path, ask, every) else {
        return Ok(false);
    };
    let mut app = App::within(ask);
    show_watch(terminal, &watch, &mut app, look, (every, &export_of(path)))?;
    Ok(app.is_over)
}
