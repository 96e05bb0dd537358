"""`gpumem card measure` on the simulator: its figures equal the simulator's settings, to the byte."""

import json
import sys

import harness
import jsonschema
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._machine import cards  # noqa: E402
from gpumem._machine.cards import check  # noqa: E402

SCHEMA = json.loads((harness.ROOT / "python" / "gpumem" / "_machine" / "cards" / "schema.json").read_text())
MIB = 1 << 20
SETTINGS = {
    "GPUMEM_SIM_CONTEXT_BYTES": "94MiB", "GPUMEM_SIM_MODULE_BYTES": "6MiB", "GPUMEM_SIM_CUBLAS_BYTES": "24MiB",
    "GPUMEM_SIM_RESERVED_BYTES": "420MiB", "GPUMEM_SIM_SMS": "50", "GPUMEM_SIM_THREADS_PER_SM": "1536",
    "GPUMEM_SIM_CC": "8.9", "GPUMEM_SIM_NAME": "A Card 9000", "GPUMEM_SIM_MEMORY": "10GiB",
}  # fmt: skip


def measure(*options, simulator=(), env=None, python=sys.executable, cwd=None, check=True):
    return harness.run(
        [harness.WITH_SIMULATOR, *simulator, "--", python, "-m", "gpumem", "card", "measure", *options],
        env={"PYTHONPATH": str(harness.ROOT / "python"), **(env or {})}, check=check, cwd=cwd,
    )  # fmt: skip


def measured(*options, **more):
    """The file that was written to stdout, checked against the schema."""
    data = json.loads(measure(*options, "-o", "-", **more).stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert check.fault(data) is None
    return data


def exactly(size):
    return [size, size, size]


def test_the_card_and_its_context():
    data = measured(env=SETTINGS)
    assert (data["name"], data["device_names"]) == ("a-card-9000", ["A Card 9000"])
    assert [data[key]["value"] for key in ("compute_capability", "sms", "threads_per_sm", "ecc")] == ["8.9", 50, 1536, "off"]
    sizes = {"cuda_total": 10 << 30, "nvml_total": (10 << 30) + 420 * MIB, "reserve": 420 * MIB, "context": 94 * MIB}
    for key, size in sizes.items():
        assert data[key]["bytes"] == exactly(size), key
        assert data[key]["source"]["measured"]["driver"] == "999.00.00"
    assert data["modules"]["cublas"]["bytes"] == exactly(24 * MIB)
    assert data["modules"]["cublaslt"]["bytes"] == exactly(0)
    measurement = data["measurement"]
    assert measurement["driver_steps"] == {
        "first_byte": 2 * MIB, "small_module": 6 * MIB, "first_launch": 0, "stack_per_kib": 76 * MIB,
    }  # fmt: skip
    assert (measurement["cuda"], measurement["context_by_rule"]) == ("13.2", 156 * MIB)
    assert measurement["other_processes"] == []
    total = (10 << 30) + 420 * MIB
    idle = {"total": total, "free": 10 << 30, "used": 420 * MIB, "reserved": 420 * MIB}
    assert measurement["nvml_idle"] == idle, "NVML's first form has the reserve in `used`"


def test_a_card_of_the_list_keeps_what_was_not_measured():
    shipped = cards.find("a100-40")
    data = measured(simulator=("--card", "a100-40"))
    assert data["name"] == "a100-40"
    assert data["cuda_total"]["bytes"] == exactly(shipped.cuda_total.likely)
    assert data["context"]["bytes"] == exactly(shipped.context.likely)
    assert data["nvml_total"]["bytes"] == exactly(shipped.nvml_total.likely)
    assert data["modules"]["nccl"] == shipped.data["modules"]["nccl"]
    assert data["mig"] == shipped.data["mig"]


def test_another_gpu():
    data = measured("--device", "1", simulator=("--card", "0=t4,1=l4"), env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert data["name"] == "l4"
    done = measure("--device", "2", simulator=("--devices", "2"), check=False)
    assert (done.returncode, done.stderr) == (1, "gpumem: card measure: there is no GPU 2; there are 0 to 1\n")
    done = measure(simulator=("--devices", "0"), check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "this machine has no GPU, or CUDA_VISIBLE_DEVICES hides it" in done.stderr


def test_a_mig_instance():
    whole = measured(env={"GPUMEM_SIM_MIG": "0=2", **SETTINGS})
    assert whole["cuda_total"]["bytes"] == exactly(5 << 30)
    assert whole["context"]["bytes"] == exactly(94 * MIB)


@pytest.mark.parametrize("pids", ["own", "host", "hidden"])
def test_others_on_the_card(pids):
    env = {**SETTINGS, "GPUMEM_SIM_OTHER_BYTES": "700MiB", "GPUMEM_SIM_NVML_PIDS": pids}
    done = measure(env=env, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    who = "700 MiB are in use by processes that NVML does not list" if pids == "hidden" else "process 1"
    assert f"other programs use GPU 0: {who}" in done.stderr and "--busy" in done.stderr
    if pids != "hidden":
        assert "has 700 MiB" in done.stderr
    data = measured("--busy", env=env)
    assert data["context"]["bytes"] == exactly(94 * MIB)
    assert data["modules"]["cublas"]["bytes"] == exactly(24 * MIB)
    others = data["measurement"]["other_processes"]
    assert [user["bytes"] for user in others] == [700 * MIB]
    assert others[0]["pid"] == (0 if pids == "hidden" else 1)


@pytest.mark.parametrize("pids", ["host", "hidden"])
def test_in_a_container(pids):
    """NVML lists the process under another id, or not at all."""
    data = measured(env={**SETTINGS, "GPUMEM_SIM_NVML_PIDS": pids})
    assert data["context"]["bytes"] == exactly(94 * MIB)
    own = [reading["process"] for reading in data["measurement"]["readings"]["context"] if reading["at"] == "context"]
    assert own == [94 * MIB if pids == "host" else None]


def test_it_leaves_nothing_behind(tmp_path):
    books, place = tmp_path / "books", tmp_path / "place"
    books.mkdir()
    place.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    env = {**SETTINGS, "GPUMEM_SIM_BOOKS": str(books / "%p.json"), "HOME": str(home), "TMPDIR": str(home)}
    done = measure(env={**env, "GPUMEM_SIM_CARD": str(tmp_path / "cards")}, cwd=place)
    assert [path.name for path in place.iterdir()] == ["a-card-9000.json"]
    assert not list(home.iterdir())
    assert "the card's use is the same as before" in done.stderr
    assert "written: a-card-9000.json" in done.stdout and "To share it" in done.stdout
    assert cards.load(place / "a-card-9000.json").context.likely == 94 * MIB
    # Every process that started CUDA has books: none of them is the command's own.
    ended = [json.loads(path.read_text())["devices"][0] for path in books.iterdir()]
    contexts = [device["context"]["peak"] for device in ended]
    stack = 76 * MIB
    assert sorted(set(contexts)) == [94 * MIB, 94 * MIB + stack] and contexts.count(94 * MIB + stack) == 2
    again = measure(env=env, cwd=place, check=False)
    assert again.returncode == 1 and "a-card-9000.json already exists: name another file with -o" in again.stderr


def test_an_output_that_cannot_be_is_refused_at_once(tmp_path):
    (tmp_path / "there.json").write_text("mine")
    for name, told in (("there.json", "already exists"), ("no/where.json", "no: no such folder")):
        done = measure("-o", name, cwd=tmp_path, check=False)
        assert done.returncode == 1 and told in done.stderr and done.stderr.count("\n") == 1
    assert (tmp_path / "there.json").read_text() == "mine"


def test_a_driver_that_refuses_the_kernel():
    """There is no room for its module: the context is measured nevertheless, and the missing figures are named."""
    data = measured(env={**SETTINGS, "GPUMEM_SIM_MEMORY": "98MiB"})
    assert data["context"]["bytes"] == exactly(94 * MIB)
    measurement = data["measurement"]
    assert measurement["driver_steps"] == {"first_byte": 2 * MIB}
    assert measurement["without"]["context"] == "CUDA out of memory: cuModuleLoadData returned 2"
    assert data["modules"]["cublaslt"]["bytes"] == exactly(0) and "cublas" not in data["modules"]


def test_it_is_started_in_any_folder(tmp_path):
    place, commands = tmp_path / "place", tmp_path / "commands"
    place.mkdir()
    commands.mkdir()
    (place / "ctypes.py").write_text("raise SystemExit(3)")
    # As an installed command: a Python that is given a file does not look into the current folder.
    command = commands / "command.py"
    command.write_text("import sys\nfrom gpumem.__main__ import main\nsys.exit(main())\n")
    done = harness.run(
        [harness.WITH_SIMULATOR, "--", sys.executable, command, "card", "measure", "-o", "-"], cwd=place,
        env={"PYTHONPATH": str(harness.ROOT / "python"), **SETTINGS},
    )  # fmt: skip
    assert json.loads(done.stdout)["context"]["bytes"] == exactly(94 * MIB)


def test_no_time_is_left():
    done = measure("--seconds", "0", check=False)
    assert done.returncode == 1 and "no context could be made: no time was left" in done.stderr


@pytest.mark.slow
def test_pytorchs_parts(python_env):
    """Each is measured in a separate process: code by module and cuBLAS's handle, without what PyTorch's allocator
    holds."""
    data = measured("--timeout", "200", env=SETTINGS, python=python_env("torch215"))
    modules = {name: figure["bytes"] for name, figure in data["modules"].items()}
    assert modules["torch-tensor"] == exactly(6 * MIB)
    assert modules["torch-matmul"] == modules["torch-linear"] == exactly(24 * MIB)
    code, rest = divmod(modules["torch"][0] - 24 * MIB, 6 * MIB)
    assert code >= 1 and rest == 0
    assert data["workspaces"]["cublas"]["bytes"] == exactly(8_519_680)
    assert data["workspaces"]["cublaslt"]["bytes"] == exactly(1_048_576)
    assert data["measurement"]["torch"].startswith("2.15")


def test_the_recorder_is_not_measured(python_env, tmp_path):
    """A preloaded recorder stays out of the measuring processes."""
    data = measured(env={**SETTINGS, "LD_PRELOAD": str(harness.LIBRARY)}, cwd=tmp_path)
    assert data["context"]["bytes"] == exactly(94 * MIB)
    assert not list(tmp_path.iterdir())
