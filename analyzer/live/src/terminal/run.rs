//! The event loop of the view.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use gpumem_capture::Seq;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind,
};
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use ratatui::crossterm::{execute, queue};
use ratatui::{DefaultTerminal, Frame as Screen};

use crate::frames::Watch;

use super::app::App;
use super::draw::draw;
use super::style::Look;

/// Writes the HTML page as of an event; returns a message with the path, or with the error.
pub type Export = dyn Fn(Seq) -> Result<String, String> + Send + Sync;

/// Shows a capture until the user leaves or the terminal is closed.
///
/// # Errors
/// Those of the terminal.
pub fn run(
    watch: &Watch,
    app: &mut App,
    look: Look,
    (every, export): (Duration, &Arc<Export>),
) -> io::Result<()> {
    on_terminal(|terminal| show(terminal, watch, app, look, (every, export)))
}

/// Sets up the terminal, and restores it at the end.
pub(super) fn on_terminal(
    show: impl FnOnce(&mut DefaultTerminal) -> io::Result<()>,
) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    // The first call handles the signal of a new size: one that comes before the first frame is not missed.
    event::poll(Duration::ZERO)?;
    // The view also works without a mouse.
    let has_mouse = execute!(io::stdout(), EnableMouseCapture).is_ok();
    let shown = show(&mut terminal);
    if has_mouse {
        let _ = execute!(io::stdout(), DisableMouseCapture);
    }
    let restored = ratatui::try_restore();
    shown.and(restored)
}

/// Shows a capture until the user leaves or returns to the previous view.
pub(super) fn show(
    terminal: &mut DefaultTerminal,
    watch: &Watch,
    app: &mut App,
    look: Look,
    (every, export): (Duration, &Arc<Export>),
) -> io::Result<()> {
    let mut is_old = true;
    let mut written: Option<Receiver<String>> = None;
    loop {
        if let Some(frame) = watch.frame() {
            is_old |= app.take(frame);
        }
        is_old |= ask_the_past(watch, app);
        if let Some(seq) = app.page_wanted.take() {
            app.message = Some("writing the page".into());
            written = Some(write(export.clone(), seq));
            is_old = true;
        }
        if let Some(said) = written.as_ref().and_then(|written| written.try_recv().ok()) {
            app.message = Some(said);
            (written, is_old) = (None, true);
        }
        if is_old {
            draw_whole(terminal, |screen| draw(app, look, screen))?;
            is_old = false;
        }
        // Keys are handled at once, frames when they come.
        while event::poll(if is_old { Duration::ZERO } else { every })? {
            is_old = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
                Event::Mouse(mouse) => app.mouse(mouse),
                _ => {}
            }
            if app.is_over || app.is_back {
                return Ok(());
            }
        }
        watch.ask(app.ask);
    }
}

/// With a terminal that supports synchronized updates, a frame appears as a whole.
pub(super) fn draw_whole(
    terminal: &mut DefaultTerminal,
    draw: impl FnOnce(&mut Screen<'_>),
) -> io::Result<()> {
    queue!(io::stdout(), BeginSynchronizedUpdate)?;
    terminal.draw(draw)?;
    execute!(io::stdout(), EndSynchronizedUpdate)
}

/// Requests the point in time to be shown, and takes in its answer and progress; returns whether the screen changes.
fn ask_the_past(watch: &Watch, app: &mut App) -> bool {
    let past = watch.past();
    match app.request().filter(|_| app.is_waiting()) {
        Some(request) => past.ask(request),
        None => {
            // An earlier request is not needed any more.
            past.give_up();
            return std::mem::take(&mut app.progress).is_some();
        }
    }
    app.progress = past.progress();
    if let Some(answer) = past.answer() {
        app.answer(&answer);
    }
    true
}

/// Writes the page on a separate thread, because it takes as long as reading the capture.
fn write(export: Arc<Export>, seq: Seq) -> Receiver<String> {
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let told = export(seq).unwrap_or_else(|why| why);
        // The view may have ended.
        let _ = say.send(told);
    });
    said
}
