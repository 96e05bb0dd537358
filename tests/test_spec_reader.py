"""Two readers say the same of every capture: ours, and tests/spec_reader, written from capture/SPEC.md alone.

tests/fixtures/captures has captures of every released version of the format, and beside each what it
says, reviewed by people: both readers must say that for ever. GPUMEM_BLESS=1 writes that down anew.
What breaks these tests: a change of the format that SPEC.md does not tell, an old capture that is read
otherwise than before, or another account of damage.
"""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import damaged
import harness
import pytest
import spec_reader

FIXTURES = Path(__file__).parent / "fixtures" / "captures"
CAPTURES = sorted(FIXTURES.glob("v*/*.bin"))
# Captures with more records are written down by a digest of what they say.
RECORDS_WRITTEN_DOWN = 300
CHANGED, CUT = 240, 60

# SPEC.md's kinds of damage, by what our reader says of them to people.
KINDS = [
    (r"a copy of the header is damaged", "header copy"),
    (r"(in the baked names|where the baked names start|a baked name makes)", "names"),
    (r"names were baked in from here on", "end of names"),
    (r"(no page starts here|the page's|the page (belongs|is coded)|a column|the file ends (before its pages|within a page))", "page"),
    (r"a page repeats records", "repeated page"),
    (r"records before this place are missing", "gap"),
    (r"the definition of kind", "definition"),
    (r"the file ends within the ring", "ring cut off"),
    (r"(the file ends before this slot|the slot holds no|the record's|a slot that should be empty)", "slot"),
    (r"records had left the ring", "left ring"),
    (r"a run of records is blank", "blank"),
    (r"the ring's head is damaged", "head"),
    (r"the ring's tail is damaged", "tail"),
    (r"where the pages end is damaged$", "end of pages"),
    (r"the ring's indexes contradict", "indexes"),
    (r"a record lies past the ring's head", "past head"),
    (r"where the pages end is damaged: pages lie beyond", "past end of pages"),
    (r"how the process ended", "ending"),
    (r"the drain's error", "drain"),
    (r"an entry of the table of losses", "loss"),
    (r"(the totals of lost records|lost events:)", "totals"),
    (r"the counters of device", "counters"),
]


def kind_of(what):
    kinds = [kind for pattern, kind in KINDS if re.match(pattern, what)]
    assert len(kinds) == 1, f"SPEC.md knows no such damage: {what}"
    return kinds[0]


def said(lines):
    """What a reader said, with damage in an order of its own."""
    account = lines[-1]
    if "damage" in account:
        account["damage"].sort(key=json.dumps)
    return lines


@pytest.fixture(scope="module")
def tell():
    """What our reader says of files."""
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "gpumem-capture", "--example", "tell"],
        cwd=harness.ROOT, check=True,
    )

    def told(*paths):
        done = harness.run([harness.RELEASE / "examples" / "tell", *paths])
        captures, lines = [], []
        for line in map(json.loads, done.stdout.splitlines()):
            lines.append(line)
            if isinstance(line, dict) and "damage" in line:
                for entry in line["damage"]:
                    entry[0] = kind_of(entry[0])
            if isinstance(line, dict) and ("damage" in line or "refused" in line):
                captures.append(said(lines))
                lines = []
        assert not lines and len(captures) == len(paths)
        return captures

    return told


def read_by_the_spec(content):
    try:
        lines = list(spec_reader.read(content).lines())
    except spec_reader.Refused as refused:
        return [{"refused": refused.kind}]
    return said(json.loads(json.dumps(lines)))


def written_down(lines):
    """A capture as its golden file has it."""
    text = [json.dumps(line, ensure_ascii=False) for line in lines]
    if len(text) <= RECORDS_WRITTEN_DOWN:
        return "[\n" + ",\n".join(text) + "\n]\n"
    records = text[1:-2]
    digest = hashlib.sha256("\n".join(records).encode()).hexdigest()
    short = [text[0], json.dumps({"records": len(records), "sha256": digest}), *text[-2:]]
    return "[\n" + ",\n".join(short) + "\n]\n"


def sorted_keys(lines):
    return [dict(sorted(line.items())) if isinstance(line, dict) else line for line in lines]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_released_capture_says_what_it_always_said(path, tell):
    (ours,) = tell(path)
    spec = read_by_the_spec(path.read_bytes())
    assert spec == ours
    golden = path.with_suffix(".json")
    if os.environ.get("GPUMEM_BLESS") == "1":
        golden.write_text(written_down(sorted_keys(spec)))
    assert written_down(sorted_keys(spec)) == golden.read_text()


def test_the_fixtures_are_all_there():
    for version in ("v1", "v3"):
        captures = [path for path in CAPTURES if path.parent.name == version]
        assert {path.stem for path in captures} == {
            "baked", "both-headers", "clean", "cut-in-ring", "cut-off", "first-header", "killed", "lost",
            "page-content", "page-header", "second-header", "slots", "torch-kill", "torch-return",
            "unfinished-page", "unknown", "wrapped",
        }
        assert sum(path.stat().st_size for path in captures) < 1 << 20


def test_both_say_the_same_of_damage(tell, tmp_path):
    """Random bytes changed, and files cut off: which records are left, and what is said to be missing."""
    small = [path for path in CAPTURES if path.stat().st_size < 100_000]
    files = []
    for seed in range(CHANGED + CUT):
        whole = small[seed % len(small)].read_bytes()
        content = damaged.changed(whole, seed) if seed < CHANGED else damaged.cut(whole, seed)
        path = tmp_path / f"{seed}-{small[seed % len(small)].stem}.bin"
        path.write_bytes(content)
        files.append(path)
    kinds = set()
    for path, ours in zip(files, tell(*files)):
        spec = read_by_the_spec(path.read_bytes())
        assert spec == ours, path.name
        account = ours[-1]
        kinds.update(entry[0] for entry in account.get("damage", []))
    assert len(kinds) >= 10, kinds


def test_both_say_the_same_of_blank_slots(tell, tmp_path):
    """Slots of a killed program's ring that nobody has written, as many as definitions were to have, fewer, and more."""
    whole = next(path for path in CAPTURES if path.stem == "killed").read_bytes()
    nonce = spec_reader.checks.words(whole, 16, 1)[0]
    head, tail = (spec_reader.checks.unsealed(spec_reader.checks.words(whole, at, 1)[0], nonce) for at in (4096, 4160))
    slots = int.from_bytes(whole[80:84], "little")
    files = []
    for blank in (1, 2, 3, 5, 8):
        for defining in (0, 1, 2, 3, 5, 1000):
            for first in (tail, head - blank, head - blank - 2):
                content = bytearray(whole)
                content[4416:4424] = spec_reader.checks.seal(defining, nonce).to_bytes(8, "little")
                for seq in range(max(first, tail), min(first + blank, head)):
                    at = 24576 + 64 * (seq % slots)
                    content[at : at + 64] = bytes(64)
                path = tmp_path / f"{blank}-{defining}-{first}.bin"
                path.write_bytes(content)
                files.append(path)
    damage = set()
    for path, ours in zip(files, tell(*files)):
        assert read_by_the_spec(path.read_bytes()) == ours, path.name
        damage.add(any(entry[0] == "blank" for entry in ours[-1]["damage"]))
    assert damage == {True, False}


def test_the_worked_example_of_the_spec():
    """Slot 4 of SPEC.md's example, its head, tail and end of pages, and its page, byte for byte."""
    text = (harness.ROOT / "capture" / "SPEC.md").read_text()
    nonce = 0xD02CAF7455CBB1A0
    dump = re.findall(r"^([67]\w{3}): ((?:[0-9a-f]{4} ){7}[0-9a-f]{4})", text, re.MULTILINE)
    raw = {int(at, 16): bytes.fromhex(line) for at, line in dump}
    slot = b"".join(raw[at] for at in (0x6100, 0x6110, 0x6120, 0x6130))
    words = spec_reader.checks.words(slot, 0, 8)
    assert spec_reader.checks.commit(4, nonce, [words]) == words[0] == 0x2129C7AEFEBEA349
    assert spec_reader.checks.folded_commit(4, nonce, [words]) == 0xF99132E3FEBEA349
    for value, sealed in ((5, "47d3000000000005"), (4, "76a2000000000004"), (0x70C3, "69e90000000070c3")):
        assert spec_reader.checks.seal(value, nonce) == int(sealed, 16)
        assert sealed in text
    header = b"".join(raw[0x7000 + 16 * n] for n in range(9))
    payload = b"".join(
        bytes.fromhex(re.sub(r"[ |]", "", line))
        for line in re.findall(r"^70(?:9|a|b)\w: ((?:[0-9a-f|]+ )*[0-9a-f]+)(?:\s{2,}|$)", text, re.MULTILINE)
    )
    parsed = spec_reader.page.Header.parse(header, nonce)
    first, second, third = spec_reader.page.records(parsed, payload)
    assert first == (0, 128, b"\x01\0\x0a\0\0\0cudaMalloc")
    assert second == (2, [1024, 0x7F0000000000, 512, 0, 1, 2, 4242, 1, 1, 0, 1, 0])
    assert third == (3, [5120, 0x7F0000000000, 512, 0, 1, 2, 4242, 2, 1, 0, 1, 0])
