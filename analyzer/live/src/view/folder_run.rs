//! The loop of a folder's view, and of the view of a rank in it.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};

use crate::ask::Ask;
use crate::folder::Folder;
use crate::watch::Watch;

use super::app::{App, Mode};
use super::draw::draw;
use super::folder::FolderApp;
use super::folder_draw::draw_folder;
use super::style::Look;

/// New captures are looked for this often.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// Rows are drawn anew this often.
const ROWS_EVERY: Duration = Duration::from_millis(500);

/// Shows a folder until the user leaves. `ask` is what the view of a rank begins with, and `every` how often it changes.
///
/// # Errors
/// The terminal's.
pub fn run_folder(folder: &mut Folder, ask: Ask, look: Look, every: Duration) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, folder, ask, look, every);
    let restored = ratatui::try_restore();
    shown.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    folder: &mut Folder,
    ask: Ask,
    look: Look,
    every: Duration,
) -> io::Result<()> {
    let mut app = FolderApp::default();
    let mut scanned = Instant::now();
    loop {
        if scanned.elapsed() >= SCAN_EVERY {
            folder.scan();
            scanned = Instant::now();
        }
        app.take(folder.rows());
        terminal.draw(|screen| draw_folder(folder, &mut app, look, screen))?;
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
            && show_rank(terminal, &path, ask, look, every)?
        {
            return Ok(());
        }
    }
}

/// Shows one rank until Esc; whether the whole view is to end.
fn show_rank(
    terminal: &mut DefaultTerminal,
    path: &Path,
    ask: Ask,
    look: Look,
    every: Duration,
) -> io::Result<bool> {
    // A capture that is gone: its row says so.
    let Ok(watch) = Watch::start(path, ask, every) else {
        return Ok(false);
    };
    let mut app = App::new(ask);
    let mut is_old = true;
    loop {
        if let Some(frame) = watch.frame() {
            is_old |= app.take(frame);
        }
        if is_old {
            terminal.draw(|screen| draw(&mut app, look, screen))?;
            is_old = false;
        }
        while event::poll(if is_old { Duration::ZERO } else { every })? {
            is_old = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let is_back = key.code == KeyCode::Esc
                        && app.mode == Mode::Table
                        && app.filter.is_empty();
                    if is_back {
                        return Ok(false);
                    }
                    app.key(key);
                }
                Event::Mouse(mouse) => app.mouse(mouse),
                _ => {}
            }
            if app.is_over {
                return Ok(true);
            }
        }
        watch.ask(app.ask);
    }
}
