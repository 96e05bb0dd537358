"""A new answer is one file and its place in a list: text, JSON, help, schema and an assistant's tool have it then."""

import json
import os
import shutil
import subprocess

import harness
import jsonschema
import mcp_session
import pytest

pytestmark = pytest.mark.slow

CAPTURES = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"

MADE_UP = '''//! A made-up answer.

use std::collections::BTreeMap;

use super::table::{Answer, Cell, Column, Row, Unit};

/// Memory by the first letter of its library.
pub(super) const LETTER: Answer = Answer {
    name: "letter",
    about: "First letter of the library",
    form: "letters",
    title: "Letters of",
    columns: &[
        Column::new("letter", Unit::Text, "The letter."),
        Column::new("bytes", Unit::Bytes, "Bytes of its blocks."),
        Column::new("largest_bytes", Unit::Bytes, "Bytes of the stack with most of them."),
    ],
    rows: |replay, stacks| {
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (key, figure) in stacks.devices.iter().flat_map(|on| &on.figures) {
            let library = crate::attribution::library(&replay.names, *key, stacks.level);
            let letter = library.and_then(|name| name.chars().next());
            let row = all.entry(letter.map_or("?".into(), String::from)).or_default();
            *row = (row.0 + figure.bytes, row.1.max(figure.bytes));
        }
        let row = |(letter, (bytes, largest))| {
            Row::of(vec![Cell::Text(letter), Cell::Number(bytes), Cell::Number(largest)])
        };
        all.into_iter().map(row).collect()
    },
};
'''
# Of each file: a line, and the one that comes after it; or a text, and the one in its place.
CHANGED = {
    "analyzer/src/answers/mod.rs": [("mod code;\n", "mod letter;\n"), ("[&Answer; 7]", "[&Answer; 8]"), ("    &code::PHASE,\n", "    &letter::LETTER,\n")],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A copy of the workspace with the answer, built with the libraries that were built already."""
    copy = tmp_path_factory.mktemp("house")
    names = harness.run(["git", "ls-files", "-z"], cwd=harness.ROOT).stdout.split("\0")
    for name in filter(None, names):
        source = harness.ROOT / name
        if source.is_file() and not name.startswith(("docs/", "tests/fixtures/captures/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy / name)
    for name, changes in CHANGED.items():
        text = (copy / name).read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new if old[0] == "[" else old + new)
        (copy / name).write_text(text)
    (copy / "analyzer/src/answers/letter.rs").write_text(MADE_UP)
    target = harness.BUILT.parent
    shutil.copytree(harness.ROOT / "web/dist", copy / "web/dist", dirs_exist_ok=True)
    for folder in ("deps", "build", ".fingerprint"):
        shutil.copytree(target / "debug" / folder, copy / "target/debug" / folder, copy_function=shutil.copy2 if folder == ".fingerprint" else os.link)
    command = ["cargo", "build", "--quiet", "--workspace", "--bin", "gpumem-analyze", "--example", "schemas"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return copy / "target/debug/gpumem-analyze"


def test_it_touches_two_files():
    assert len(CHANGED) + 1 <= 3


def test_it_is_in_text_and_help(built):
    capture = CAPTURES / "torch-return.bin"
    text = harness.run([built, "lines", "--by", "letter", capture]).stdout
    head = next(line for line in text.splitlines() if line.startswith("Letters of"))
    assert head.split()[-3:] == ["bytes", "share", "largest"], text
    assert "First letter of the library" in harness.run([built, "lines", "--help"]).stdout


def test_json_is_what_its_schema_says(built):
    capture = CAPTURES / "torch-return.bin"
    found = json.loads(harness.run([built, "lines", "--by", "letter", "--format", "json", capture]).stdout)
    assert found["schema"] == "gpumem/letters/1"
    assert {*found["rows"][0]} == {"letter", "bytes", "largest_bytes"}
    lines = json.loads(harness.run([built, "lines", "--format", "json", capture]).stdout)["rows"]
    assert sum(row["bytes"] for row in found["rows"]) == sum(row["bytes"] for row in lines)
    schema = json.loads(harness.run([built.parent / "examples/schemas"]).stdout)["letters"]
    jsonschema.validate(found, schema)
    assert schema["$defs"]["Row"]["properties"]["largest_bytes"]["description"] == "Bytes of the stack with most of them."


def test_an_assistant_has_it(built, python_env):
    with mcp_session.Session(python_env("mcp"), "legacy", [CAPTURES], server=[built, "mcp"]) as session:
        rows = session.all("lines", capture="torch-return.bin", by="letter")["rows"]
    assert all({"letter", "bytes", "size", "largest_bytes", "largest"} == {*row} for row in rows) and rows
