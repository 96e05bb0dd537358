"""Files of cards, and `gpumem card`: each file follows its schema, its figures agree with each other and with the
rule for contexts, and each name finds only one card."""

import copy
import json
import random
import sys

import harness
import jsonschema
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._machine import cards as _cards  # noqa: E402
from gpumem._machine.cards import check, finding, rule, simulated  # noqa: E402

FOLDER = harness.ROOT / "python" / "gpumem" / "_machine" / "cards" / "known"
FILES = sorted(FOLDER.glob("*.json"))
SCHEMA = json.loads((FOLDER.parent / "schema.json").read_text())
MIB = 1 << 20
WANTED = {
    "t4", "l4", "a10g", "l40s", "v100-16", "v100-32", "a100-40", "a100-80", "a100-80-pcie", "h100", "h100-pcie",
    "h100-nvl", "h200", "b200", "gb200", "gh200", "3090", "4090", "5090", "rtx-6000-ada", "rtx-pro-6000", "a6000", "p100",
}  # fmt: skip
# What the rule gives, in MiB, by SMs and threads of one.
BY_RULE = {
    (40, 1024): 86, (56, 2048): 230, (80, 2048): 326, (80, 1536): 246, (108, 2048): 438, (58, 1536): 180, (84, 1536): 258,
    (142, 1536): 432, (128, 1536): 390, (170, 1536): 516, (114, 2048): 462, (132, 2048): 534, (152, 2048): 614,
    (48, 1536): 150,
}  # fmt: skip
# What was published of bare contexts: RTX 4060 Ti, RTX 3090, RTX 6000 Ada, RTX PRO 6000, B200.
PUBLISHED = {(34, 1536): 107, (82, 1536): 256, (142, 1536): 426, (188, 1536): 555, (148, 2048): 612}


def data_of(path):
    return json.loads(path.read_text())


def gpumem(*words, check=True, env=None, cwd=None):
    return harness.run(
        [sys.executable, "-m", "gpumem", *words], env={"PYTHONPATH": str(harness.ROOT / "python"), **(env or {})},
        check=check, cwd=cwd,
    )  # fmt: skip


def test_the_cards_that_are_wanted_are_there():
    assert {path.stem for path in FILES} >= WANTED
    assert [card.name for card in _cards.known()] and {card.name for card in _cards.known()} == {p.stem for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_holds_what_the_schema_says(path):
    data = data_of(path)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert check.fault(data) is None
    assert data["name"] == path.stem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_figures_of_a_file_agree(path):
    data = data_of(path)
    figures = [data[key] for key in ("nvml_total", "cuda_total", "reserve", "context") if data[key] is not None]
    figures += [*data["modules"].values(), *data["workspaces"].values(), *data.get("mig", []), *data.get("other_totals", [])]
    for figure in figures:
        low, likely, high = figure["bytes"]
        assert 0 <= low <= likely <= high
    nvml, cuda = data["nvml_total"]["bytes"], data["cuda_total"]["bytes"]
    assert cuda[2] <= nvml[2] and data["reserve"]["bytes"][1] == nvml[1] - cuda[1]
    for slice_ in data.get("mig", []):
        assert slice_["bytes"][2] <= cuda[2] and slice_["sms"] < data["sms"]["value"]
    card = _cards.find(data["name"])
    by_rule = rule.context_bytes(card.sms, card.threads_per_sm)
    if card.context.source.kind == "measured":
        assert abs(card.context.likely / by_rule - 1) < 0.05, "the rule is said to be that good"
    else:
        assert card.context.low <= by_rule <= card.context.high
    if card.context.source.kind == "assumed":
        assert card.context.likely == by_rule and "the rule" in card.context.source.text
    published = PUBLISHED.get((card.sms, card.threads_per_sm))
    if card.context.source.kind == "published":
        assert card.context.likely == published * MIB


def test_the_rule():
    for (sms, threads), wanted in BY_RULE.items():
        assert rule.context_bytes(sms, threads) == wanted * MIB
    for (sms, threads), published in PUBLISHED.items():
        assert abs(rule.context_bytes(sms, threads) / (published * MIB) - 1) < 0.03


def test_a_name_is_one_cards():
    cards = {}
    for card in _cards.known():
        for name in (card.name, *card.aliases, *card.device_names):
            assert cards.setdefault(finding.normal(name), card.name) == card.name, name
    assert len(cards) > 2 * len(FILES)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("h100", "h100"), ("h100-sxm", "h100"), ("NVIDIA H100 80GB HBM3", "h100"), ("RTX 4090", "4090"), ("rtx4090", "4090"),
        ("Tesla T4", "t4"), ("A100_80", "a100-80"), (str(FOLDER / "l4.json"), "l4"),
    ],
)  # fmt: skip
def test_a_card_is_found(name, wanted):
    assert _cards.find(name).name == wanted


FAULTS = {
    "no source": lambda data: data["context"].pop("source"),
    "two sources": lambda data: data["context"]["source"].update(assumed="x", published=["a/b#1"]),
    "an empty source": lambda data: data["cuda_total"].update(source={"published": []}),
    "a source of another kind": lambda data: data["cuda_total"].update(source={"told": "x"}),
    "measured without a driver": lambda data: data["cuda_total"].update(source={"measured": {"date": "2026-11-25"}}),
    "no date": lambda data: data["cuda_total"].update(source={"measured": {"date": "today", "driver": "580"}}),
    "two figures": lambda data: data["context"]["bytes"].pop(),
    "a fraction": lambda data: data["context"]["bytes"].__setitem__(0, 1.5),
    "a negative figure": lambda data: data["context"]["bytes"].__setitem__(0, -1),
    "no total": lambda data: data.pop("cuda_total"),
    "null total": lambda data: data.update(cuda_total=None),
    "another format": lambda data: data.update(format=2),
    "an unknown figure": lambda data: data.update(colour="green"),
    "no device name": lambda data: data.update(device_names=[]),
    "a comma in a name": lambda data: data.update(device_names=["a,b"]),
    "a capital": lambda data: data.update(name="H100"),
    "no SMs": lambda data: data["sms"].update(value=0),
    "a capability of one number": lambda data: data["compute_capability"].update(value="9"),
    "ECC perhaps": lambda data: data["ecc"].update(value="perhaps"),
    "a slice without a profile": lambda data: data["mig"][0].pop("profile"),
    "a driver without an end": lambda data: data["driver"].pop("to"),
    "a total without its when": lambda data: data.update(other_totals=[{"bytes": [1, 1, 1], "source": {"assumed": "x"}}]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_schema_and_loader_refuse_the_same(fault, tmp_path):
    data = copy.deepcopy(data_of(FOLDER / "a100-40.json"))
    FAULTS[fault](data)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(data)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    with pytest.raises(_cards.NotACard, match=r"mine\.json: "):
        _cards.find(str(path))


DISAGREEING = {
    "is not between": lambda data: data["context"]["bytes"].reverse(),
    "cuda_total: more than nvml_total": lambda data: data["cuda_total"].update(bytes=[1 << 40] * 3),
    "reserve: not nvml_total less cuda_total": lambda data: data["reserve"]["bytes"].__setitem__(1, 500 * MIB),
    "context: as large as the card": lambda data: data["context"].update(bytes=[1 << 40] * 3),
}


@pytest.mark.parametrize("fault", DISAGREEING)
def test_figures_that_disagree_are_refused(fault):
    data = data_of(FOLDER / "a100-40.json")
    DISAGREEING[fault](data)
    assert fault in check.fault(data)


def _changed(value, dice):
    """A value with one part removed, doubled, nested or replaced, at any depth."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        if dice.random() < 0.2:
            return {of: part for of, part in value.items() if of != key}
        return {**value, key: _changed(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        return [*value[:at], _changed(value[at], dice), *value[at + dice.randrange(2) :]]
    odd = (None, True, -1, 0, 1, 2**63, 2**64, 1e308, float("nan"), "", "\x1b[2J\n", "a,b=c", "9" * 5000, [], {}, [[]], {"value": []})
    return dice.choice((*odd, [value], {"value": value}))


def test_any_change_of_a_file_gives_a_card_or_one_line(tmp_path):
    """2,000 changed files: the loader never fails in another way, and figures of what it accepts can be read."""
    dice, path = random.Random(43), tmp_path / "card.json"
    cards = [data_of(file) for file in FILES]
    refused = 0
    for _ in range(2000):
        data = dice.choice(cards)
        for _ in range(dice.randint(1, 3)):
            data = _changed(data, dice)
        text = json.dumps(data)
        if dice.random() < 0.1:
            at = dice.randrange(len(text) + 1)
            text = text[:at] + dice.choice(("", "}", "[" * 3000, "\0", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"))) + text[at:]
        path.write_text(text)
        try:
            card = _cards.load(path)
        except _cards.NotACard as error:
            assert "\n" not in str(error) and "\x1b" not in str(error) and len(str(error)) < 1000, error
            refused += 1
            continue
        assert card.cuda_total.likely > 0 and card.context.likely >= 0
        assert "\n" not in "".join(simulated.environment(card).values())
    assert 200 < refused < 2000


def test_a_file_that_is_none(tmp_path):
    for content, told in (("{", "no JSON"), ("[]", "not an object"), ('{"format": 1}', "name: ")):
        path = tmp_path / "mine.json"
        path.write_text(content)
        with pytest.raises(_cards.NotACard, match=told):
            _cards.load(path)
    with pytest.raises(_cards.NotACard, match="No such file"):
        _cards.load(tmp_path / "none.json")


def test_environment():
    card = _cards.find("h100")
    likely = _cards.environment(card)
    assert likely == {
        "GPUMEM_SIM_NAME": "NVIDIA H100 80GB HBM3", "GPUMEM_SIM_CC": "9.0", "GPUMEM_SIM_SMS": "132",
        "GPUMEM_SIM_THREADS_PER_SM": "2048", "GPUMEM_SIM_MEMORY": str(81079 * MIB),
        "GPUMEM_SIM_RESERVED_BYTES": str((81559 - 81079) * MIB), "GPUMEM_SIM_CONTEXT_BYTES": str(518 * MIB),
        "GPUMEM_SIM_STREAM_BYTES": str(512 << 10),
    }  # fmt: skip
    low, high = (_cards.environment(card, which) for which in ("low", "high"))
    for ends, total, context in ((low, card.cuda_total.low, card.context.high), (high, card.cuda_total.high, card.context.low)):
        assert (int(ends["GPUMEM_SIM_MEMORY"]), int(ends["GPUMEM_SIM_CONTEXT_BYTES"])) == (total, context)
        assert int(ends["GPUMEM_SIM_MEMORY"]) + int(ends["GPUMEM_SIM_RESERVED_BYTES"]) == 81559 * MIB
    for name, least in (("h100", 512 << 10), ("a100-40", 0)):
        ends = [_cards.environment(_cards.find(name), which)["GPUMEM_SIM_STREAM_BYTES"] for which in ("high", "low")]
        assert ends == [str(least), str(552 << 10)]
    with pytest.raises(ValueError, match="not low, likely or high"):
        _cards.environment(card, "middle")


def test_environment_of_several_cards():
    mixed = simulated.environment_of(simulated.parse("0=h100,2=t4"))
    assert mixed["GPUMEM_SIM_NAME"] == "0=NVIDIA H100 80GB HBM3,2=Tesla T4"
    assert (mixed["GPUMEM_SIM_SMS"], mixed["GPUMEM_SIM_DEVICES"]) == ("0=132,2=40", "3")
    others = simulated.environment_of(simulated.parse("h100,1=t4"))
    assert (others["GPUMEM_SIM_CC"], others["GPUMEM_SIM_DEVICES"]) == ("9.0,1=7.5", "2")
    assert "GPUMEM_SIM_DEVICES" not in simulated.environment_of(simulated.parse("h100"))
    sizes = simulated.environment_of(simulated.parse("1=24GiB,h100"))
    assert sizes["GPUMEM_SIM_MEMORY"].startswith(f"1={24 << 30},") and sizes["GPUMEM_SIM_NAME"] == "NVIDIA H100 80GB HBM3"
    assert simulated.environment_of(simulated.parse("24GiB")) == {"GPUMEM_SIM_MEMORY": str(24 << 30)}
    for text, told in (("24GB8", "is not a size"), ("0", "no size of a card"), ("24", "write a unit"), ("t44", "no card 't44'")):
        with pytest.raises(LookupError, match=told):
            simulated.parse(text)
    for text, told in (("h100,t4", "two cards for all GPUs"), ("1=h100,1=t4", "two cards for GPU 1"), ("64=t4", "no GPU 64")):
        with pytest.raises(ValueError, match=told):
            simulated.parse(text)


def test_list():
    lines = gpumem("card", "list").stdout.splitlines()
    assert {line.split()[0] for line in lines[1:-1]} == {path.stem for path in FILES}
    t4 = next(line for line in lines if line.startswith("t4 "))
    assert t4.split() == "t4 14,910 -20 +20 published 15,360 7.5 40 86 -22 +22 assumed".split()
    assert harness.unwrapped(gpumem("card", "list", "--format", "json").stdout) == [card.data for card in _cards.known()]


def test_show():
    assert "[measured: 2026-11-26, driver 580.159.04]" in gpumem("card", "show", "h100-sxm").stdout
    page = gpumem("card", "show", "a100-80").stdout
    assert page.startswith("a100-80, also a100-80-sxm")
    data = data_of(FOLDER / "a100-80.json")
    for source in data["cuda_total"]["source"]["published"]:
        assert source in " ".join(page.split())
    assert harness.unwrapped(gpumem("card", "show", "a100-80", "--format", "json").stdout) == data
    for path in FILES:
        assert gpumem("card", "show", path).stdout.count("[") >= 10, "every figure has its source"


def test_a_reader_who_has_seen_enough():
    """More than a pipe holds, of which one line is read."""
    command = f"set -o pipefail; {sys.executable} -m gpumem card list --format json | head -n 1"
    done = harness.run(["bash", "-c", command], env={"PYTHONPATH": str(harness.ROOT / "python")})
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("show", "a100"), 1, "gpumem: card: no card 'a100'; near are a100-40, a100-80, a100-80-pcie (gpumem card list)"),
        (("show", "./none.json"), 1, "gpumem: card: ./none.json: No such file or directory"),
        (("measure",), 1, "gpumem: card measure: there is no NVIDIA driver on this machine (libnvidia-ml.so.1 was not found, "
         "or does not start)"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(words, status, told, tmp_path):
    if words == ("measure",) and harness.run(["sh", "-c", "ls /dev/nvidia0"], check=False).returncode == 0:
        pytest.skip("there is a GPU here")
    done = gpumem("card", *words, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (status, "", [told])
    assert not list(tmp_path.iterdir())


def test_a_wrong_command_line():
    for words in ((), ("paint",), ("show",), ("list", "--format", "xml"), ("measure", "--device", "first")):
        done = gpumem("card", *words, check=False)
        assert done.returncode == 2 and "usage: gpumem card" in done.stderr
