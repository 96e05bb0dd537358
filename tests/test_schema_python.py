"""`--format json` of the Python package: what its commands print is what its types say.

What breaks these tests: a field that the types do not name or that lacks, another kind of value, a command with JSON and without a schema."""

import json
import re
import shutil
import sys

import fleet_data
import harness
import jsonschema_rs
import pytest
import schemas
from fleet_data import MIB, Job, Plant

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._commands.doctor import form as doctor  # noqa: E402
from gpumem._commands.fleet import outliers, queries  # noqa: E402
from gpumem._commands.fleet.engine import Engine  # noqa: E402
from gpumem._plan import form as plan  # noqa: E402
from gpumem._whatif import child  # noqa: E402
from gpumem._whatif import form as whatif  # noqa: E402

FORMS = [form.name for form in schemas.typed_schema.FORMS]
CAPTURES = harness.ROOT / "tests" / "data" / "captures"
KNOWN = harness.ROOT / "python" / "gpumem" / "_machine" / "cards" / "known"
# What not every card's file has.
OPTIONAL_OF_A_CARD = (
    *(f"{card}.{key}" for card in ("rows.#", "data") for key in ("stream", "modules", "modules.*", "workspaces", "workspaces.*", "mig")),
    *(f"{card}.{key}" for card in ("rows.#", "data") for key in ("mig.#.sms", "other_totals", "measurement")),
    "data.measurement.driver_steps.*", "data.measurement.without.*", "data.measurement.readings.*",
)  # fmt: skip
# Reads a value that a plan does not know, makes weights, and runs out of memory.
PROGRAM = """
import torch

model = torch.nn.Linear(4096, 8192).cuda()
inputs = torch.randn(16, 4096, device="cuda")
print(model(inputs).sum().item())
torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
"""


def gpumem(*arguments, python=sys.executable, statuses=(0,)):
    env = {"PYTHONPATH": str(harness.ROOT / "python"), "GPUMEM_RING": None}
    place = arguments.index("--") if "--" in arguments else len(arguments)
    words = [*arguments[:place], "--format", "json", *arguments[place:]]
    done = harness.run([python, "-m", "gpumem", *words], env=env, check=False)
    assert done.returncode in statuses, harness.described(done)
    return done.stdout


def test_every_field_has_a_description():
    for name in FORMS:
        for of, definition in schemas.schema_of(name)["$defs"].items():
            if definition.get("required") and not any("." in key for key in definition["properties"]) and of[:1].isupper():
                lacking = [key for key, field in definition["properties"].items() if "description" not in field]
                assert not lacking or of == "CardFile", (name, of, lacking)


def test_figures_and_calls_are_those_of_a_replay():
    assert tuple(whatif.Figures.__annotations__) == child.FIGURES
    assert tuple(whatif.Calls.__annotations__) == child.CALLED


def test_every_command_with_json_has_a_form():
    for name in FORMS:
        words = name.split("-")
        said = harness.run([sys.executable, "-m", "gpumem", *words, "--help"], env={"PYTHONPATH": str(harness.ROOT / "python")}).stdout
        assert re.search(r"--format \{text,json[,}]", said), words
    package = harness.ROOT / "python" / "gpumem"
    with_json = {file.parent.name for file in package.rglob("*.py") if re.search(r"add_argument\(\s*\"--(format|json)\"", file.read_text())}
    assert with_json == {"cards", "doctor", "fleet", "_plan", "_whatif"}


def test_doctor():
    said = schemas.validated("doctor", gpumem("doctor", statuses=(0, 1)))
    assert said["data"]["rows"]
    schemas.refuses_faults("doctor", said)


@pytest.fixture(scope="module")
def cards_listed():
    return schemas.validated("card-list", gpumem("card", "list"))


def test_cards(cards_listed):
    assert len(cards_listed["rows"]) > 20


@pytest.mark.slow
def test_a_fault_in_any_kind_of_card_is_refused(cards_listed):
    """A row is what `card show` prints, whose faults are below."""
    schemas.refuses_faults("card-list", cards_listed, optional=OPTIONAL_OF_A_CARD)


def test_a_card_with_readings(tmp_path):
    """A file as `card measure` writes it."""
    data = json.loads((KNOWN / "t4.json").read_text())
    reading = {"at": "nothing", "card": 1, "process": None, "driver": None}
    data["measurement"] = {
        "gpumem": "0.1.0", "cuda": "13.0", "torch": None, "context_by_rule": 1, "driver_steps": {"first_byte": 1},
        "other_processes": [{"pid": 1, "name": None, "bytes": 2}], "without": {"cudnn": "not found"}, "torch_without": [],
        "nvml_idle": {"total": 3, "free": 2, "used": 1, "reserved": None}, "readings": {"context": [reading]},
    }  # fmt: skip
    (tmp_path / "mine.json").write_text(json.dumps(data))
    said = schemas.validated("card-show", gpumem("card", "show", tmp_path / "mine.json"))
    assert said["data"] == data
    schemas.refuses_faults("card-show", said, optional=OPTIONAL_OF_A_CARD)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet") / "dataset"
    fleet_data.write(
        folder,
        Job("a", 16, plants={3: Plant("tensors", 64 * MIB, 5, 7), 11: Plant("outside", 96 * MIB)}, labels=(("team", "x"),), failures=((2, "leak"),), noise=0),
        Job("b", 8, lines=22, version="b2", started="2026-11-24 09:00:00", noise=0),
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("query", ["outliers", *(query.name for query in queries.known())])
def test_fleet_query(query, dataset):
    said = schemas.validated("fleet-query", gpumem("fleet", "query", query, dataset))
    assert said["data"]["query"] == query and said["data"]["rows"]
    schemas.refuses_faults("fleet-query", said)


def test_fleet_outliers(dataset, tmp_path):
    """Of `gpumem-analyze`, of rows that the package selects."""
    rows = outliers.select(Engine(), str(dataset), [], outliers.ALL, tmp_path / "rows")
    said = schemas.validated("fleet-outliers", harness.analyze("fleet", "outliers", "--format", "json", rows).stdout)
    assert all(of["outliers"][0]["differences"] for of in said["data"]["ranks"])
    schemas.refuses_faults("fleet-outliers", said)


def test_fleet_sql(dataset):
    sql = "select 1 as one, 'nan'::double as no, [1, null] as many, {'a': date '2026-11-24'} as part, 1.5::decimal as text, started from ranks limit 1"
    [row] = schemas.found("fleet-sql", gpumem("fleet", "sql", sql, dataset))
    assert row.pop("started").endswith("Z")
    assert row == {"one": 1, "no": "nan", "many": [1, None], "part": {"a": "2026-11-24"}, "text": "1.500"}


@pytest.mark.parametrize("captures", (["demo.bin"], pytest.param(["demo.bin", "second.bin"], marks=pytest.mark.slow)))
def test_whatif(captures, python_env, tmp_path):
    paths = [tmp_path / name for name in captures]
    for path in paths:
        shutil.copy(CAPTURES / "demo.bin", path)
    words = ["--conf", "expandable_segments:True", "--card", "1200MiB"]
    text = gpumem("whatif", *paths, *words, python=python_env("torch215"), statuses=(0, 3))
    said = schemas.validated("whatif", text)
    heads = [said["capture"]] if len(paths) == 1 else said["captures"]
    assert [head["file"] for head in heads] == list(map(str, paths)) == [device["capture"] for device in said["data"]["devices"]]
    summary = json.loads(harness.analyze("report", "--all", "--format", "json", paths[0], check=False).stdout)
    assert heads[0] == summary["capture"]
    schemas.refuses_faults("whatif", said)


def test_plan(python_env, tmp_path):
    """A program that does not fit, beside a capture. A change that was tried is added: trying all takes minutes."""
    (tmp_path / "program.py").write_text(PROGRAM)
    shutil.copy(CAPTURES / "demo.bin", tmp_path / "demo.bin")
    words = ["--card", "t4", "--no-weights", "--no-changes", "--against", tmp_path / "demo.bin", "--", tmp_path / "program.py"]
    text = gpumem("plan", *words, python=python_env("torch215"), statuses=(4,))
    said = schemas.validated("plan", text)
    [case] = said["data"]["cases"]
    case["tried"] = [plan.TriedRow(change="--batch 4", needed_bytes=None, failed="the program does not use it")]
    assert all(case[key] for key in ("failure", "reads", "weights")) and all(case["at"][key] for key in ("rows", "lines", "modules"))
    assert said["data"]["against"]["capture"]["file"] == str(tmp_path / "demo.bin")
    schemas.refuses_faults("plan", said, optional=("*.lines.#.phase",))


def test_a_field_that_lacks_is_found():
    row = {"check": "driver", "status": "ok", "found": "580"}
    with pytest.raises(jsonschema_rs.ValidationError):
        schemas.validated("doctor", doctor.FORM.json({"works": True, "rows": [row]}))
