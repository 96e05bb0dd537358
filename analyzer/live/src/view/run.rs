//! The loop of events and drawings.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind,
};
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use ratatui::crossterm::{execute, queue};

use crate::watch::Watch;

use super::app::App;
use super::draw::draw;
use super::style::Look;

/// Shows a capture until the user leaves, or the terminal is gone.
///
/// # Errors
/// The terminal's.
pub fn run(watch: &Watch, app: &mut App, look: Look, every: Duration) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    // A terminal without a mouse does as well.
    let has_mouse = execute!(io::stdout(), EnableMouseCapture).is_ok();
    let shown = show(&mut terminal, watch, app, look, every);
    if has_mouse {
        let _ = execute!(io::stdout(), DisableMouseCapture);
    }
    let restored = ratatui::try_restore();
    shown.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    watch: &Watch,
    app: &mut App,
    look: Look,
    every: Duration,
) -> io::Result<()> {
    let mut is_old = true;
    loop {
        if let Some(frame) = watch.frame() {
            is_old |= app.take(frame);
        }
        if is_old {
            // A terminal that knows these shows no half of a frame.
            queue!(io::stdout(), BeginSynchronizedUpdate)?;
            terminal.draw(|screen| draw(app, look, screen))?;
            execute!(io::stdout(), EndSynchronizedUpdate)?;
            is_old = false;
        }
        // Keys are taken at once, frames as they come.
        while event::poll(if is_old { Duration::ZERO } else { every })? {
            is_old = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
                Event::Mouse(mouse) => app.mouse(mouse),
                _ => {}
            }
            if app.is_over {
                return Ok(());
            }
        }
        watch.ask(app.ask);
    }
}
