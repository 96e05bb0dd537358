"""scripts/lib/words finds the faults that it must find. `scripts/test words` checks the repository with it."""

import sys

import harness

sys.path.insert(0, str(harness.ROOT / "scripts" / "lib" / "words"))

import checks  # noqa: E402
import text  # noqa: E402


def phrases(tmp_path, rules):
    path = tmp_path / "words.txt"
    path.write_text(rules)
    return checks.Phrases(path)


def lines(rules, name, blocks):
    return [line for block in blocks for line, _, _ in rules.check(name, block)]


def test_phrases_are_found_across_lines_and_not_in_code(tmp_path):
    page = "# Title\n\nThe file is written\nanew, each time of\nits own.\n\n```\nanew\n```\n\n| a | `anew` |\n|---|---|\n| b | anew |\n"
    rules = phrases(tmp_path, "# a comment\nanew => again\nof its own => separate\n")
    assert lines(rules, "a.md", text.markdown(page)) == [4, 4, 13]


def test_an_exempt_file_may_use_a_phrase(tmp_path):
    rules = phrases(tmp_path, "high-water mark => peak | except docs/glossary.md\n")
    blocks = text.markdown("The high-water mark.\n")
    assert lines(rules, "docs/glossary.md", blocks) == []
    assert lines(rules, "docs/limit.md", blocks) == [1]


def test_long_sentences_are_those_above_the_bound():
    longest = checks.LONGEST_SENTENCE
    blocks = text.markdown("Short.\n" + "word " * (longest + 1) + "\nend. Short again.\n\n" + "word " * longest + ".\n")
    assert [line for block in blocks for line, _, _ in checks.long_sentences(block)] == [2]


def test_messages_of_rust_are_literals_of_several_words():
    source = """
// "a comment with several words"
fn f() {
    bail!("the file {name} is not there: give another"); let c = '"'; let s = "short one";
    query("SELECT one FROM two of three");
    say(r#"a raw one with several words"#);
    say("byte {offset}: the file ends too early");
}
#[cfg(test)]
mod tests {
    const X: &str = "a test has several words";
}
"""
    assert [(block.line, block.text) for block in text.rust(source)] == [
        (4, "the file code is not there: give another"),
        (6, "a raw one with several words"),
        (7, "byte code: the file ends too early"),
    ]


def test_messages_of_python_are_no_docstrings():
    source = '"""a docstring of several words"""\n\nsay(f"the file {name} is not there")\n'
    assert [(block.line, block.text) for block in text.python(source)] == [(3, "the file code is not there")]


def test_the_changelogs_newest_section_alone_is_read():
    page = "# Changelog\n\n## [2]\nnew\n\n## [1]\nold\n"
    assert "old" not in text.newest_section(page)
    assert "new" in text.newest_section(page)


def test_a_marked_table_of_output_is_left_out():
    page = f"{text.OUTPUT}\n| a | of its own |\n|---|---|\n\n| b | anew |\n"
    assert [block.text for block in text.markdown(page)] == ["b", "anew"]


def test_rows_of_a_help_page_are_texts_of_their_own():
    page = "Shows lines.\n\nUsage: x [OPTIONS]\n\nCommands:\n  lines   Bytes by line\n  tree    Bytes by caller\n\n  --by X  the key\n          Possible values:\n          - line: a line of code\n"
    assert [block.text for block in text.help_page(page)] == ["Shows lines.", "Bytes by line", "Bytes by caller", "Possible values:", "a line of code"]
