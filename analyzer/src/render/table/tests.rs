use super::*;

fn table() -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]).elastic(&[0]);
    table.row(["train.py:88 forward", "3.21 GiB", "x"]);
    table.row(["名.py:1", "7 B", ""]);
    table
}

#[test]
fn columns_align_and_lines_end_where_their_text_does() {
    let expected = "  train.py:88 forward  3.21 GiB  x\n  名.py:1                   7 B\n";
    assert_eq!(table().render(Terminal::PLAIN, 2), expected);
}

#[test]
fn a_title_runs_over_columns() {
    let left = Align::Left;
    let mut table = Table::new(&[left, left, Align::Right]);
    table
        .row(["A long title of two columns", "", "bytes"])
        .span(2);
    table.row(["a.py:1", "f", "7 B"]);
    let expected = "A long title of two columns  bytes\na.py:1  f                      7 B\n";
    assert_eq!(table.render(Terminal::PLAIN, 0), expected);
}

#[test]
fn a_narrow_terminal_cuts_the_elastic_column_only() {
    let narrow = Terminal {
        width: Some(30),
        colour: false,
    };
    let expected = "train.py:88 forw…  3.21 GiB  x\n名.py:1                 7 B\n";
    assert_eq!(table().render(narrow, 0), expected);
}

fn at(table: &Table, width: usize) -> String {
    let terminal = Terminal {
        width: Some(width),
        colour: false,
    };
    table.render(terminal, 0)
}

#[test]
fn paths_give_up_folders_before_text_is_cut_short() {
    let left = Align::Left;
    let mut table = Table::new(&[left, left]).elastic(&[1, 0]);
    table.row(["/very/long/path/to/train.py:88", "loss = f(x).sum()"]);
    table.place(0, 0);
    assert_eq!(at(&table, 40), "path/to/train.py:88  loss = f(x).sum()\n");
    assert_eq!(at(&table, 34), "to/train.py:88  loss = f(x).sum()\n");
    assert_eq!(at(&table, 28), "train.py:88  loss = f(x).su…\n");
    assert_eq!(at(&table, 16), "…ain.py:88  los…\n");
}

#[test]
fn a_note_gives_way_before_what_it_stands_after() {
    let mut table = Table::new(&[Align::Left]).elastic(&[0]);
    let note = " (backward: MmBackward0)";
    table.row(["folder/train.py:88 (backward: MmBackward0)"]);
    table.place(0, note.len());
    assert_eq!(
        at(&table, 80),
        "folder/train.py:88 (backward: MmBackward0)\n"
    );
    assert_eq!(at(&table, 30), "folder/train.py:88 (backward:…\n");
    assert_eq!(at(&table, 20), "folder/train.py:88\n");
    assert_eq!(at(&table, 15), "train.py:88 (b…\n");
    assert_eq!(at(&table, 9), "…in.py:88\n");
}

#[test]
fn columns_are_left_out_where_cutting_is_not_enough() {
    let left = Align::Left;
    let mut table = Table::new(&[left, left, Align::Right])
        .elastic(&[1, 0])
        .shed(&[1]);
    table.row(["train.py:88", "Transformer.forward", "3.21 GiB"]);
    table.place(0, 0);
    assert_eq!(
        at(&table, 42),
        "train.py:88  Transformer.forward  3.21 GiB\n"
    );
    assert_eq!(at(&table, 36), "train.py:88  Transformer.…  3.21 GiB\n");
    assert_eq!(at(&table, 30), "train.py:88  3.21 GiB\n");
}

#[test]
fn where_a_row_is_stays_readable_to_the_last() {
    let left = Align::Left;
    let mut table = Table::new(&[left, left, Align::Right]).elastic(&[0, 1]);
    table.row(["a/train.py:88", "optimizer state", "3.21 GiB"]);
    table.place(0, 0);
    assert_eq!(at(&table, 28), "train.py:88  opti…  3.21 GiB\n");
}

#[test]
fn rows_that_differ_in_what_is_cut_are_told_apart_below() {
    let left = Align::Left;
    let mut table = Table::new(&[left, left, Align::Right]).elastic(&[1, 0]);
    for (place, note, figure) in [
        ("a/train.py:88", "", "3 B"),
        ("a/train.py:88", " (backward: MmBackward0)", "2 B"),
        ("b/train.py:88", "", "1 B"),
        ("a/train.py:89", "", "1 B"),
        ("a/train.py:88", "", "3 B"),
    ] {
        table.row([&format!("{place}{note}"), "loss = f(x).sum()", figure]);
        table.place(0, note.len());
    }
    let expected = "train.py:88  loss = f(x).…  3 B\n    a/train.py:88\n\
                    train.py:88  loss = f(x).…  2 B\n    a/train.py:88 (backward:\n      MmBackward0)\n\
                    train.py:88  loss = f(x).…  1 B\n    b/train.py:88\n\
                    train.py:89  loss = f(x).…  1 B\n\
                    train.py:88  loss = f(x).…  3 B\n    a/train.py:88\n";
    assert_eq!(at(&table, 31), expected);
    assert!(!table.render(Terminal::PLAIN, 0).contains("\n    "));
}

#[test]
fn a_title_wider_than_its_columns_has_a_line_of_its_own() {
    let left = Align::Left;
    let mut table = Table::new(&[left, left, Align::Right]);
    table.row(["A long title of two", "", "bytes"]).span(2);
    table.row(["a.py:1", "f", "7 B"]);
    assert_eq!(
        at(&table, 30),
        "A long title of two\n           bytes\na.py:1  f    7 B\n"
    );
}

#[test]
fn bars_become_shorter_and_keep_their_proportions() {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, right, left]);
    table.row(["one", "4 B", ""]).bar(2, 4, 4, 20);
    table.row(["two", "2 B", ""]).bar(2, 2, 4, 20);
    let bar = |cells: usize| "█".repeat(cells);
    assert_eq!(
        at(&table, 80),
        format!("one  4 B  {}\ntwo  2 B  {}\n", bar(20), bar(10))
    );
    assert_eq!(
        at(&table, 22),
        format!("one  4 B  {}\ntwo  2 B  {}\n", bar(12), bar(6))
    );
}

#[test]
fn no_row_is_wider_than_the_terminal() {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [left, left, left, right, right, left];
    let mut table = Table::new(&columns).elastic(&[2, 0, 1]).shed(&[1, 2]);
    let title = ["A title that is long enough to be wrapped", "", ""];
    table.cells(&[&title[..], &["bytes", "blocks", ""]].concat());
    table.span(3);
    for (index, path) in ["x.py:1", "a/b/c/long_name_of_a_file.py:12345", "名/前.py:7"]
        .iter()
        .enumerate()
    {
        let note = " (backward: NativeLayerNormBackward0)";
        let place = format!("  {path}{note}");
        table.row([
            &place,
            "Block.forward",
            "x = self.norm(x)",
            "3.21 GiB",
            "12",
            "",
        ]);
        table.place(0, note.len()).bar(5, index as u64 + 1, 3, 20);
    }
    for width in 34..120 {
        for line in at(&table, width).lines() {
            assert!(display_width(line) <= width, "{width}: {line}");
        }
    }
}

#[test]
fn text_from_a_capture_cannot_steer_the_terminal() {
    let mut table = Table::new(&[Align::Left]);
    table.row(["\x1b[2Jx"]);
    assert_eq!(table.render(Terminal::PLAIN, 0), "\u{fffd}[2Jx\n");
}
