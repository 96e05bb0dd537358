"""`--format json` of gpumem-analyze: every view's output on fixed captures follows docs/schema, and so do the
examples of docs/.

What breaks these tests: a field that the schema does not name or that is missing, another kind of value, a command
with JSON and without a schema, a file without an absolute name."""

import json
import re
import shutil

import harness
import jsonschema
import pytest

SCHEMAS = harness.ROOT / "docs" / "schema"
CAPTURES = harness.ROOT / "tests" / "data" / "captures"
DAMAGED = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"
VIEWS = {
    "report": ([],),
    "annotated": (["lines", "--annotate"],),
    "categories": (["lines", "--by", "category"],),
    "changes": (["changes"], ["changes", "--level", "driver"]),
    "check": (["check"],),
    "fragmentation": (["fragmentation"],),
    "hints": (["hints"],),
    "leaks": (["leaks"], ["leaks", "--at", "end"]),
    "ledger": (["ledger"], ["ledger", "--by", "owner"], ["ledger", "--by", "line", "--at", "end"]),
    "lines": (["lines"], ["lines", "--level", "driver", "--at", "end"]),
    "modules": (["lines", "--by", "module"],),
    "oom": (["oom"],),
    "scopes": (["scopes", "--each"],),
    "sizes": (["sizes"], ["sizes", "--exact"]),
    "summary": (["summary"],),
    "temporary": (["temporary"],),
    "threads": (["threads"],),
    "timeline": (["timeline"], ["timeline", "--level", "tensor"]),
    "tree": (["tree"], ["tree", "--by", "module"]),
    "fleet-rows": (["fleet", "rows", "--events"],),
}
JOB = CAPTURES / "job"
CAPTURE_FILES = sorted(CAPTURES.glob("*.bin"))


def schema_of(form):
    return json.loads((SCHEMAS / f"{form}.json").read_text())


def validated(form, text):
    said = json.loads(text)
    schema = schema_of(form)
    assert said["schema"] == schema["$id"] == f"gpumem/{form}/1"
    jsonschema.Draft202012Validator(schema).validate(said)
    return said


def shown(words, *paths):
    done = harness.analyze(*words, "--format", "json", *paths, check=False)
    assert done.returncode in (0, 3), harness.described(done)
    return done.stdout


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
def test_what_a_view_prints_is_what_its_schema_says(form, copies):
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


def test_what_is_of_several_captures_is_what_its_schema_says(copies, tmp_path):
    demo, oom = copies / "demo.bin", copies / "oom.bin"
    diff = validated("diff", shown(["diff"], demo, oom))
    assert [capture["file"] for capture in diff["captures"]] == [str(demo), str(oom)]
    assert any(row["before_file"] for row in diff["data"]["rows"])
    validated("diff", shown(["diff", "--by", "function"], demo, demo))
    both = validated("fragmentation", shown(["fragmentation"], demo, oom))
    assert len(both["captures"]) == 2 and both["rows"]
    validated("ranks", shown(["ranks"], JOB))
    validated("ranks-timeline", shown(["ranks", "--timeline"], JOB))
    for words in (["--fail-over", "1%"], []):
        done = harness.analyze("ci", "--base", demo, "--head", oom, *words, "--format", "json", check=False)
        validated("ci", done.stdout)
    dataset = tmp_path / "dataset"
    validated("fleet-stage", shown(["fleet", "stage"], demo, dataset))
    validated("fleet-ingest", shown(["fleet", "commit"], dataset))
    validated("fleet-ingest", shown(["fleet", "ingest"], demo, oom, dataset))
    validated("fleet-fetch", shown(["fleet", "fetch"], dataset, tmp_path / "copy"))
    validated("fleet-prune", shown(["fleet", "prune", "--older-than", "1d", "--dry-run"], dataset))


def test_every_form_is_printed_here():
    others = {"diff", "ranks", "ranks-timeline", "ci", "fleet-stage", "fleet-ingest", "fleet-fetch", "fleet-prune"}
    of_other_programs = {"card", "doctor"}
    assert {path.stem for path in SCHEMAS.glob("*.json")} == VIEWS.keys() | others | of_other_programs


def commands(words=()):
    """All commands of gpumem-analyze, with their --help."""
    text = harness.analyze(*words, "--help").stdout
    yield words, text
    listed = re.search(r"^Commands:\n(.*?)\n\n", text, re.M | re.S)
    for name in re.findall(r"^  ([a-z]+) ", listed[1], re.M) if listed else ():
        if name != "help":
            yield from commands((*words, name))


def test_every_command_with_json_has_a_schema():
    found = {"-".join(words) or "report" for words, text in commands() if re.search(r"--format <FORMAT>", text) and "json" in text}
    assert {"report", "lines", "fleet-prune", "timeline"} <= found
    # It prints what ingest does.
    for name in found - {"fleet-commit"}:
        assert (SCHEMAS / f"{name}.json").exists(), name


@pytest.mark.parametrize("where", ((), ("capture",), ("rows", 0), ("rows", 0, "categories", 0)))
def test_a_field_more_or_less_is_refused(where, copies):
    text = shown(["lines"], copies / "demo.bin")
    added, lacking = validated("lines", text), json.loads(text)
    for of, change in ((added, lambda at: at.update(planted=1)), (lacking, lambda at: at.pop(next(iter(at))))):
        at = of
        for key in where:
            at = at[key]
        change(at)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(of, schema_of("lines"))


@pytest.mark.parametrize("form", sorted(path.stem for path in SCHEMAS.glob("*.json")))
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
