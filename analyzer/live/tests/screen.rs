//! The screens of the view, and how keys change them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpumem_analyzer::ask::{self, CaptureFile, SecondPass};
use gpumem_analyzer::render::{self, Source, bytes, ledger_text};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::{Asked, ByStack, LedgerAt, Lines, Select};
use gpumem_capture::{Level, Seq};
use gpumem_live::frames::{Ask, State, Watch};
use gpumem_live::terminal::{App, Look, Mode, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Only ends a test that hangs.
const AT_MOST: Duration = Duration::from_secs(300);
const LOOK: Look = Look {
    has_colour: false,
    has_unicode: true,
};

/// The view of the ended capture of a real program.
struct View {
    watch: Watch,
    app: App,
    look: Look,
    size: (u16, u16),
}

impl View {
    /// At the end of the capture.
    fn of(name: &str) -> Self {
        let mut view = Self::opened(name);
        view.press(&[CHAR('n')]);
        view
    }

    fn opened(name: &str) -> Self {
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

    /// Takes in the requested frame.
    fn follow(&mut self) {
        self.watch.ask(self.app.ask);
        let frame = self.watch.wait(AT_MOST, |frame| {
            let is_read = !matches!(frame.state, State::Running | State::CatchingUp(..));
            is_read && frame.ask == self.app.ask
        });
        self.app.take(frame.expect("it has ended"));
        if let Some(request) = self.app.request() {
            let answer = self.watch.past().wait(&request, AT_MOST);
            self.app.answer(&answer.expect("it is answered"));
        }
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
    // Tests run in their package's folder.
    Path::new("../../tests/fixtures/captures/v1").join(name)
}

fn peak(level: Level) -> Lines {
    let path = fixture("torch-return.bin");
    let session = ask::read(&path, At::Peak).unwrap();
    let held = ByStack::at(&session.replay, level, At::Peak, &Select::default());
    Lines::of(&session.replay, &held)
}

const CHAR: fn(char) -> KeyCode = KeyCode::Char;

#[test]
fn what_has_ended_opens_at_its_peak_with_the_rows_of_lines() {
    let mut view = View::opened("torch-return.bin");
    let (lines, all) = (view.lines(), peak(Level::TENSOR));
    assert!(lines[0].starts_with("at the peak of GPU 0, "), "{lines:#?}");
    assert!(lines[0].contains("ended at "), "{lines:#?}");
    assert!(lines[1].starts_with("GPU 0  "), "{lines:#?}");
    let head = format!("Lines: tensors then, {}", bytes(all.bytes()));
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
    assert!(view.text().contains("Categories: tensors then"));
    view.press(&[KeyCode::Tab]);
    assert!(view.text().contains("Modules: tensors then"));
    view.press(&[CHAR('l'), CHAR('p'), KeyCode::Tab]);
    let driver = peak(Level::DRIVER);
    let head = format!("Lines: memory from CUDA then, {}", bytes(driver.bytes()));
    assert!(view.text().contains(&head), "{}", view.text());
    view.press(&[CHAR('?')]);
    assert!(view.text().contains("q  quit; the program continues"));
    view.press(&[KeyCode::Esc, CHAR('f')]);
    assert!(
        view.text()
            .contains("0 allocations failed because memory ran out")
    );
    view.press(&[KeyCode::Esc, CHAR('n')]);
    assert!(view.text().contains("Lines: memory from CUDA now"));
    view.press(&[CHAR('s')]);
    assert!(view.text().contains(", by bytes at the peak of the level"));
    view.press(&[CHAR('s')]);
    let growth = ", by growth per step over the last step";
    assert!(view.text().contains(growth), "{}", view.text());
    view.press(&[CHAR('s')]);
    let rate = ", by allocations per second since step 1";
    assert!(view.text().contains(rate), "{}", view.text());
    view.press(&[CHAR('s')]);
    assert!(view.text().contains(", by blocks"));
    view.press(&[CHAR('q')]);
    assert!(view.app.is_over);
}

#[test]
fn a_filter_leaves_rows_that_contain_it() {
    let mut view = View::of("torch-return.bin");
    view.press(&[CHAR('p'), CHAR('/'), CHAR('~')]);
    assert_eq!(view.app.mode, Mode::Filter);
    assert!(view.text().contains("no row contains this text"));
    // While a filter is typed, q is a letter.
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
    assert!(view.text().contains("(paused, Space resumes)"));
    let frame = view.watch.frame().unwrap();
    assert!(!view.app.take(frame));
    view.press(&[CHAR(' ')]);
    assert!(!view.text().contains("(paused, Space resumes)"));
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
    assert!(
        view.text()
            .starts_with("ended without its exit handlers, after ")
    );
}

/// Left and right move in time by columns of the chart, up to its end; a click selects its column.
#[test]
fn time_is_gone_through_by_columns() {
    let mut view = View::of("torch-return.bin");
    let now = view.text();
    assert!(!now.contains('│'));
    view.press(&[CHAR('[')]);
    let back = view.lines();
    assert!(back[0].starts_with("at 00:0"), "{back:#?}");
    let column = |lines: &[String]| lines[7].chars().position(|c| c == '│');
    let first = column(&back).expect("it is marked");
    view.press(&[KeyCode::Left, CHAR('[')]);
    assert_eq!(column(&view.lines()), Some(first - 2));
    view.press(&[CHAR('{')]);
    assert_eq!(column(&view.lines()), Some(first - 12));
    view.press(&[KeyCode::Right]);
    assert_eq!(column(&view.lines()), Some(first - 11));
    view.press(&[CHAR('}'), CHAR('}')]);
    assert_eq!(view.text(), now);
    view.app.mouse(MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 9,
        row: 3,
        modifiers: KeyModifiers::NONE,
    });
    view.follow();
    assert_eq!(column(&view.lines()), Some(9));
    view.press(&[CHAR(' ')]);
    assert_eq!(view.text(), now);
    // Before the start there is nothing.
    view.press(&[CHAR('{'); 100]);
    assert!(view.text().contains("no live memory"), "{}", view.text());
}

#[test]
fn enter_opens_the_stacks_of_a_row() {
    let mut view = View::of("torch-return.bin");
    view.size = (160, 300);
    view.press(&[CHAR('p')]);
    let all = peak(Level::TENSOR);
    view.press(&[KeyCode::Down, KeyCode::Enter]);
    assert_eq!(view.app.mode, Mode::Stacks);
    let text = view.text();
    let row = &all.rows[1];
    let place = format!("{}:{}", row.file.as_ref().unwrap(), row.line.unwrap());
    assert!(text.contains(&place), "{place}: {text}");
    let held: u64 = text
        .lines()
        .filter_map(|line| line.strip_prefix("Stack "))
        .map(|line| {
            line.split(" in ")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
        })
        .map(|blocks| blocks.parse::<u64>().unwrap())
        .sum();
    assert_eq!(held, row.blocks, "{text}");
    let function = row.function.as_ref().unwrap();
    assert!(text.contains(&format!("  {function} (")), "{text}");
    // On a small screen it is scrolled.
    view.size = (80, 12);
    view.lines();
    view.press(&[KeyCode::End]);
    let end = view.text();
    view.press(&[KeyCode::Home]);
    assert_ne!(view.text(), end);
    view.press(&[KeyCode::Esc]);
    assert!(view.text().contains("Lines: tensors then"));
}

/// The account equals the output of `ledger` at the event.
#[test]
fn the_account_is_that_of_the_ledger() {
    let mut view = View::of("torch-return.bin");
    view.size = (120, 90);
    view.lines();
    view.press(&[CHAR('p'), CHAR('a')]);
    let text = view.text();
    let path = fixture("torch-return.bin");
    let level = peak_event(&path, Level::TENSOR);
    let read = |moment| ask::read(&path, moment).unwrap();
    let session = read(At::Event(level));
    let asked = Asked {
        at: LedgerAt::At(level),
        ..Asked::default()
    };
    let mut capture = CaptureFile::open(&path).unwrap();
    let second = SecondPass::after(&session).ledgers(asked);
    let ledgers = second.read(&mut capture, None).unwrap().ledgers.concat();
    let mut source = Source::new(&session.replay.names, &session.header);
    let terminal = render::Terminal {
        width: Some(120),
        colour: false,
    };
    assert!(!ledgers.is_empty());
    for ledger in &ledgers {
        let ledger = ledger_text(&session.replay, ledger, &mut source, terminal);
        let whole = terminal.wrap(&ledger);
        let whole: Vec<_> = whole.lines().map(str::trim_end).collect();
        assert!(text.contains(&whole.join("\n")), "{ledger}\n{text}");
    }
    assert!(text.contains("\nSteps\n"), "{text}");
}

fn peak_event(path: &Path, level: Level) -> Seq {
    let session = ask::read(path, At::End).unwrap();
    let levels = session.replay.levels.iter();
    let of = levels.filter(|((_, of), _)| *of == level);
    of.max_by_key(|(_, state)| state.counters.peak)
        .map(|(_, state)| state.peak.0)
        .expect("it has the level")
}
