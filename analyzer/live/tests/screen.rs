//! What the view shows, and what keys change of it.

use std::path::PathBuf;
use std::time::Duration;

use gpumem_analyzer::render::bytes;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session;
use gpumem_analyzer::views::{ByStack, Lines, Select};
use gpumem_capture::Level;
use gpumem_live::view::{App, Look, Mode, draw};
use gpumem_live::{Ask, State, Watch};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

const LOOK: Look = Look {
    has_colour: false,
    has_unicode: true,
};

/// The view of a real program's capture that has ended.
struct View {
    watch: Watch,
    app: App,
    look: Look,
    size: (u16, u16),
}

impl View {
    fn of(name: &str) -> Self {
        let watch = Watch::start(&fixture(name), Ask::default(), Duration::from_millis(5)).unwrap();
        let mut view = Self {
            watch,
            app: App::new(Ask::default()),
            look: LOOK,
            size: (80, 24),
        };
        view.follow();
        view
    }

    /// Takes the frame that is asked for.
    fn follow(&mut self) {
        self.watch.ask(self.app.ask);
        let frame = self.watch.wait(Duration::from_secs(60), |frame| {
            let is_read = !matches!(frame.state, State::Running | State::CatchingUp(..));
            is_read && frame.ask == self.app.ask
        });
        self.app.take(frame.expect("it has ended"));
    }

    fn press(&mut self, keys: &[KeyCode]) {
        for key in keys {
            self.app.key(KeyEvent::new(*key, KeyModifiers::NONE));
        }
        self.follow();
    }

    fn lines(&mut self) -> Vec<String> {
        let (width, height) = self.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let (app, look) = (&mut self.app, self.look);
        terminal.draw(|screen| draw(app, look, screen)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    fn text(&mut self) -> String {
        self.lines().join("\n")
    }
}

fn fixture(name: &str) -> PathBuf {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/captures/v1"
    );
    PathBuf::from(folder).join(name)
}

fn peak(level: Level) -> Lines {
    let path = fixture("torch-return.bin");
    let session = session::read(&path, At::Peak, &mut |_, _, _| {}, &mut |_| {}).unwrap();
    let held = ByStack::at(&session.replay, level, At::Peak, &Select::default());
    Lines::of(&session.replay, &held)
}

const CHAR: fn(char) -> KeyCode = KeyCode::Char;

#[test]
fn rows_are_those_of_lines() {
    let mut view = View::of("torch-return.bin");
    view.press(&[CHAR('p')]);
    let (lines, all) = (view.lines(), peak(Level::TENSOR));
    assert!(lines[0].starts_with("ended at "), "{lines:#?}");
    assert!(lines[1].starts_with("GPU 0  "), "{lines:#?}");
    let head = format!("Lines: tensors at the peak, {}", bytes(all.bytes()));
    let at = lines.iter().position(|line| line.starts_with(&head));
    let at = at.unwrap_or_else(|| panic!("{head}: {lines:#?}"));
    assert!(!all.rows.is_empty());
    for (row, line) in all.rows.iter().zip(&lines[at + 1..lines.len() - 1]) {
        let figures = format!("{:>9} ", bytes(row.bytes));
        assert!(line.starts_with(&figures), "{figures}: {lines:#?}");
        let place = row.line.map_or(String::new(), |line| format!(":{line} "));
        assert!(line.contains(&place), "{place}: {lines:#?}");
    }
}

#[test]
fn keys_change_what_is_shown() {
    let mut view = View::of("torch-return.bin");
    view.press(&[CHAR('p'), KeyCode::Tab]);
    assert!(view.text().contains("Categories: tensors at the peak"));
    view.press(&[KeyCode::Tab]);
    assert!(view.text().contains("Modules: tensors at the peak"));
    view.press(&[CHAR('l'), KeyCode::Tab]);
    let driver = peak(Level::DRIVER);
    let head = format!(
        "Lines: memory from CUDA at the peak, {}",
        bytes(driver.bytes())
    );
    assert!(view.text().contains(&head), "{}", view.text());
    view.press(&[CHAR('?')]);
    assert!(view.text().contains("q  leave; the program goes on"));
    view.press(&[KeyCode::Esc, CHAR('f')]);
    assert!(view.text().contains("0 allocations found no memory"));
    view.press(&[KeyCode::Esc, CHAR('s')]);
    assert!(view.text().contains(", by blocks"));
    view.press(&[CHAR('q')]);
    assert!(view.app.is_over);
}

#[test]
fn a_filter_leaves_rows_that_contain_it() {
    let mut view = View::of("torch-return.bin");
    view.press(&[CHAR('p'), CHAR('/'), CHAR('~')]);
    assert_eq!(view.app.mode, Mode::Filter);
    assert!(view.text().contains("no row contains that"));
    // While a filter is typed q is a letter.
    view.press(&[
        CHAR('q'),
        KeyCode::Backspace,
        KeyCode::Backspace,
        KeyCode::Enter,
    ]);
    assert!(!view.app.is_over && view.app.mode == Mode::Table);
    let all = view.text();
    view.press(&[CHAR('/'), CHAR('x'), CHAR('x'), KeyCode::Esc]);
    assert_eq!(view.text(), all);
}

#[test]
fn a_stopped_view_takes_no_frame_until_it_goes_on() {
    let mut view = View::of("torch-return.bin");
    view.press(&[CHAR(' ')]);
    assert!(view.text().contains("stopped here"));
    let frame = view.watch.frame().unwrap();
    assert!(!view.app.take(frame));
    view.press(&[CHAR(' ')]);
    assert!(!view.text().contains("stopped here"));
}

#[test]
fn a_click_and_the_wheel_choose_a_row() {
    let mut view = View::of("torch-return.bin");
    view.press(&[CHAR('p')]);
    let first = view
        .lines()
        .iter()
        .position(|line| line.starts_with("Lines:"))
        .unwrap()
        + 1;
    let click = |row: usize| MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 3,
        row: row as u16,
        modifiers: KeyModifiers::NONE,
    };
    view.app.mouse(click(first + 1));
    let (width, height) = view.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|screen| draw(&mut view.app, LOOK, screen))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let is_reversed =
        |y: usize| buffer[(2, y as u16)].modifier == ratatui::style::Modifier::REVERSED;
    assert_eq!([first, first + 1].map(is_reversed), [false, true]);
}

#[test]
fn it_fits_every_size_and_ascii_alone() {
    let mut view = View::of("torch-return.bin");
    view.look.has_unicode = false;
    view.press(&[CHAR('p')]);
    for size in [(40, 12), (80, 24), (200, 50), (500, 200)] {
        view.size = size;
        let text = view.text();
        assert!(text.is_ascii(), "{text}");
        assert!(text.contains("Lines: tensors"), "{text}");
    }
    for size in [(39, 24), (80, 11), (1, 1)] {
        view.size = size;
        assert!("needs 40 columns and 12 lines".starts_with(&view.lines()[0]));
    }
}

#[test]
fn a_killed_program_is_said_to_have_ended_so() {
    let mut view = View::of("torch-kill.bin");
    assert!(view.text().starts_with("ended without saying so, after "));
}
