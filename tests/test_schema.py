"""`--format json` of gpumem-analyze: every view's output on fixed captures follows its schema, and so do the
examples of docs/.

What breaks these tests: a field that the schema does not name or that is missing, another kind of value, a command
with JSON and without a schema, a file without an absolute name, a schema that accepts an unknown key or a missing one,
a schema that changed and whose version and hash did not."""

import json
import os
import re
import shutil

import harness
import jsonschema
import pytest
from many import Many
from schemas import HASHES, NAMES, generated, hashed, refuses_faults, schema_of, unclosed, validated

CAPTURES = harness.ROOT / "tests" / "data" / "captures"
DAMAGED = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"
VIEWS = {
    "report": ([],),
    "annotated": (["lines", "--annotate"],),
    "categories": (["lines", "--by", "category"],),
    "changes": (["changes"], ["changes", "--level", "driver"]),
    "check": (["check"],),
    "fragmentation": (["ledger", "--pool"],),
    "groups": (["lines", "--by", "function"], ["lines", "--of", "kept", "--by", "caller"], ["lines", "--by", "phase"]),
    "hints": (["report", "--hints"],),
    "leaks": (["leaks"], ["leaks", "--at", "end"]),
    "ledger": (["ledger"], ["ledger", "--by", "owner"], ["ledger", "--by", "line", "--at", "end"]),
    "lines": (["lines"], ["lines", "--level", "driver", "--at", "end"]),
    "modules": (["lines", "--by", "module"],),
    "oom": (["oom"],),
    "scopes": (["lines", "--by", "scope", "--all"],),
    "sizes": (["lines", "--by", "size"], ["lines", "--by", "size", "--all"]),
    "summary": (["report", "--all"],),
    "temporary": (["lines", "--of", "temporary"],),
    "threads": (["lines", "--by", "thread"],),
    "timeline": (["timeline"], ["timeline", "--level", "tensor"]),
    "tree": (["tree"], ["tree", "--by", "module"]),
    "fleet-rows": (["fleet", "rows", "--events"],),
}
# Keys that are there for some captures only, beside those of every form (tests/lib/schemas.py).
OPTIONAL = {
    "ci": ("data.*.devices.#.*.#.of", "data.*.devices.#.*.#.phase"),
    "diff": ("data.rows.#.phase",),
    "fragmentation": ("rows.#.capture",),
    "groups": ("rows.#.file", "rows.#.function"),
    "leaks": ("data.round",),
    "lines": ("rows.#.phase",),
    "oom": ("data.*.#.phase",),
    "report": ("*.lines.#.phase",),
}
JOB = CAPTURES / "job"
CAPTURE_FILES = sorted(CAPTURES.glob("*.bin"))


@pytest.fixture(scope="module")
def many():
    with Many() as many:
        yield many


@pytest.fixture(scope="module")
def shown(many):
    """shown(words, path) is the JSON that a view prints."""

    def print_of(words, *paths):
        done = many.analyze(*words, "--format", "json", *paths)
        assert done.returncode in (0, 3), harness.described(done)
        return done.stdout

    return print_of


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """The captures where they may be written to: reading takes over what a process left in memory."""
    folder = tmp_path_factory.mktemp("captures")
    for path in (*CAPTURE_FILES, *(DAMAGED / f"{name}.bin" for name in ("torch-kill", "lost", "cut-off"))):
        shutil.copy(path, folder)
    return folder


def files_in(value):
    """All objects with a file of source code."""
    if isinstance(value, dict):
        if "file_relative" in value:
            yield value
        for each in value.values():
            yield from files_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from files_in(each)


@pytest.mark.parametrize("form", VIEWS)
def test_what_a_view_prints_is_what_its_schema_says(form, copies, shown):
    seen = 0
    for path in sorted(copies.glob("*.bin")):
        for words in VIEWS[form]:
            said = validated(form, shown(words, path))
            # Rows of a dataset name the capture themselves.
            directory = said["capture"]["directory"] if "capture" in said else None
            for of in files_in(said):
                file, relative = of["file"], of["file_relative"]
                assert file is None or file.startswith(("/", "<")) or not directory, of
                assert not file or "/./" not in file and "/../" not in file
                assert relative is None or f"{directory}/{relative}" == file or not directory, of
                seen += relative is not None
    assert seen or form not in ("lines", "changes", "annotated", "hints", "leaks", "ledger", "temporary", "report", "oom")


def test_what_is_of_several_captures_is_what_its_schema_says(copies, tmp_path, shown, many):
    demo, oom = copies / "demo.bin", copies / "oom.bin"
    diff = validated("diff", shown(["diff"], demo, oom))
    assert [capture["file"] for capture in diff["captures"]] == [str(demo), str(oom)]
    assert any(row["before_file"] for row in diff["data"]["rows"])
    validated("diff", shown(["diff", "--by", "function"], demo, demo))
    both = validated("fragmentation", shown(["ledger", "--pool"], demo, oom))
    assert len(both["captures"]) == 2 and both["rows"]
    validated("ranks", shown(["ranks"], JOB))
    validated("ranks-timeline", shown(["ranks", "--timeline"], JOB))
    for words in (["--fail-over", "1%"], []):
        done = many.analyze("ci", "--base", demo, "--head", oom, *words, "--format", "json")
        validated("ci", done.stdout)
    dataset = tmp_path / "dataset"
    validated("fleet-ingest", shown(["fleet", "ingest"], demo, oom, dataset))
    validated("fleet-prune", shown(["fleet", "prune", "--older-than", "1d", "--dry-run"], dataset))


def test_every_form_is_printed_here():
    others = {"diff", "ranks", "ranks-timeline", "ci", "fleet-ingest", "fleet-prune"}
    # tests/test_schema_python.py prints these.
    of_python = {"card", "card-list", "card-show", "doctor", "fleet-outliers", "fleet-query", "fleet-sql", "plan", "whatif"}
    assert generated().keys() == VIEWS.keys() | others | of_python


def commands(many, words=()):
    """All commands of gpumem-analyze, with their --help."""
    text = many.analyze(*words, "--help").stdout
    yield words, text
    listed = re.search(r"^Commands:\n(.*?)\n\n", text, re.M | re.S)
    for name in re.findall(r"^  ([a-z]+) ", listed[1], re.M) if listed else ():
        if name != "help":
            yield from commands(many, (*words, name))


def test_every_command_with_json_has_a_schema(many):
    found = {"-".join(words) or "report" for words, text in commands(many) if re.search(r"--format <FORMAT>", text) and "json" in text}
    assert {"report", "lines", "fleet-prune", "timeline"} <= found
    for name in found:
        assert name in generated()


def test_a_schema_changes_with_its_version_or_its_hash():
    """A hash has no old schema to compare with, so a person decides whether a change only adds."""
    text = HASHES.read_text()
    head = "".join(line for line in text.splitlines(True) if line[0] == "#")
    lines = [hashed(name, schema) for name, schema in sorted(generated().items())]
    if os.environ.get("GPUMEM_BLESS"):
        HASHES.write_text(head + "\n".join(lines) + "\n")
        text = HASHES.read_text()
    changed = {line.split()[0] for line in set(text[len(head) :].splitlines()) ^ set(lines)}
    assert not changed, (
        f"schemas of other forms than before: {', '.join(sorted(changed))}. If fields were only added: GPUMEM_BLESS=1 scripts/test e2e -k test_schema "
        "writes tests/schemas.txt. If one was removed or has another meaning, the form's `$id` needs a new version first. "
        "`scripts/schemas FOLDER` at both commits and `diff -r` show what changed"
    )


def test_a_hash_changes_with_the_fields_and_not_with_their_texts():
    """The test's own: one change each in a schema."""
    before, changed = hashed("lines", schema_of("lines")), []
    for change in (
        lambda fields: fields["bytes"].update(description="another text"),
        lambda fields: fields["bytes"].update(type="number"),
        lambda fields: fields.update(description={"type": "string"}),
        lambda fields: fields.pop("blocks"),
    ):
        schema = schema_of("lines")
        change(schema["$defs"]["LineRow"]["properties"])
        changed.append(hashed("lines", schema) != before)
    assert changed == [False, True, True, True]


def test_the_page_names_every_form():
    page = (harness.ROOT / "docs" / "json.md").read_text().partition("\n## Schemas\n")[2]
    assert set(re.findall(r"`(gpumem/[a-z-]+/\d+)`", page)) == {schema["$id"] for schema in generated().values()}


def of_several(copies, folder, shown, many):
    """Each form of several captures, with an output."""
    demo, oom = copies / "demo.bin", copies / "oom.bin"
    for form, words in (("diff", ["diff", demo, oom]), ("fragmentation", ["fragmentation", demo, oom]), ("ranks", ["ranks", JOB])):
        yield form, shown(words[:1], *words[1:])
    yield "ranks-timeline", shown(["ranks", "--timeline"], JOB)
    yield "ci", many.analyze("ci", "--base", demo, "--head", oom, "--fail-over", "1%", "--format", "json").stdout
    dataset = folder / "dataset"
    yield "fleet-ingest", shown(["fleet", "ingest"], demo, dataset)
    yield "fleet-prune", shown(["fleet", "prune", "--older-than", "1d", "--dry-run"], dataset)


@pytest.mark.parametrize("form", VIEWS)
def test_a_key_more_or_less_is_refused_at_every_object(form, copies, shown):
    """In the whole, in `capture` and in items of lists in lists: of every kind of object that the captures have one."""
    names, seen = [], set()
    for path in sorted(copies.glob("*.bin")):
        for words in VIEWS[form]:
            names += refuses_faults(form, json.loads(shown(words, path)), seen, OPTIONAL.get(form, ()))
    assert "the object with a key more" in names
    assert form == "fleet-rows" or {"capture with a key more", "capture without exact"} <= set(names)
    deep = {"lines": "rows.#.categories.#", "summary": "data.devices.#.categories.#", "ledger": "rows.#.rows.#", "sizes": "rows.#.rows.#"}
    assert form not in deep or f"{deep[form]} with a key more" in names


def test_a_key_more_or_less_is_refused_in_forms_of_several_captures(copies, tmp_path, shown, many):
    names = {form: refuses_faults(form, json.loads(text), optional=OPTIONAL.get(form, ())) for form, text in of_several(copies, tmp_path, shown, many)}
    for form in ("diff", "fragmentation"):
        assert {"captures.# with a key more", "captures.# without file"} <= set(names[form])
    assert all("data with a key more" in names[form] for form in names.keys() - {"fragmentation"})


@pytest.mark.parametrize("form", NAMES)
def test_schemas_are_closed_everywhere(form):
    assert list(unclosed(schema_of(form))) == []


@pytest.mark.parametrize(
    "place", ((), ("$defs", "Capture"), ("$defs", "LineRow"), ("$defs", "CategoryBytes"), ("$defs", "LineRow", "properties", "bytes"))
)
def test_a_schema_that_is_open_somewhere_is_found(place):
    """The test's own: a closed schema is opened in one place."""
    schema = schema_of("lines")
    at = schema
    for key in place:
        at = at[key]
    if at.get("type") == "integer":
        at.clear()
    else:
        del at["additionalProperties"]
    assert len(list(unclosed(schema))) == 1


@pytest.mark.parametrize("form", NAMES)
def test_schemas_are_schemas_with_descriptions(form):
    schema = schema_of(form)
    jsonschema.Draft202012Validator.check_schema(schema)


def test_examples_of_the_documentation_are_what_the_schemas_say():
    seen = 0
    for page in sorted((harness.ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```console\n\$ gpumem-analyze [^\n]*--format json[^\n]*\n(.*?)^```$", page.read_text(), re.M | re.S)
        for text in blocks:
            if not text.rstrip().endswith("…"):
                form = json.loads(text)["schema"].split("/")[1]
                validated(form, text)
                seen += 1
    assert seen >= 2
