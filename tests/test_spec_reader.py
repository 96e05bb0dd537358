"""Two readers agree on every capture: gpumem's, and tests/spec_reader, written from capture/SPEC.md alone.

tests/fixtures/captures has captures of every released version of the format, and beside each its contents, reviewed by
people. Both readers must always return these. GPUMEM_BLESS=1 rewrites them. What breaks these tests: a change of the
format that SPEC.md does not describe, an old capture that is read differently than before, or another account of
damage.
"""

import hashlib
import json
import os
import re
import subprocess
import tempfile
import zlib
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

# SPEC.md's kinds of damage, by the messages of gpumem's reader.
KINDS = [
    (r"a copy of the header is damaged", "header copy"),
    (r"(in the embedded names|where the embedded names start|an embedded name makes)", "names"),
    (r"names were embedded from here on", "end of names"),
    (r"(no page starts here|the page's|the page (belongs|is coded)|a column|the file ends (before its pages|within a page))", "page"),
    (r"a page repeats records", "repeated page"),
    (r"records before this place are missing", "gap"),
    (r"the definition of kind", "definition"),
    (r"the file ends within the ring", "ring cut off"),
    (r"(the file ends before this slot|the slot holds no|the record's|a slot that should be empty)", "slot"),
    (r"(a record that was committed is|records that were committed are) gone", "gone"),
    (r"up to where records are committed is damaged", "known"),
    (r"the ring's tail is damaged", "tail"),
    (r"where the pages end is damaged$", "end of pages"),
    (r"where the pages end is damaged: pages lie beyond", "past end of pages"),
    (r"how the process ended", "ending"),
    (r"the drain's error", "drain"),
    (r"the place that the counters are of", "counted"),
    (r"where the journal is is damaged", "journal"),
    (r"an entry of the table of losses", "loss"),
    (r"(the totals of lost records|lost events:)", "totals"),
    (r"the counters of device", "counters"),
]


def kind_of(what):
    kinds = [kind for pattern, kind in KINDS if re.match(pattern, what)]
    assert len(kinds) == 1, f"SPEC.md knows no such damage: {what}"
    return kinds[0]


def said(lines):
    """A reader's output, with damage sorted."""
    account = lines[-1]
    if "damage" in account:
        account["damage"].sort(key=json.dumps)
    return lines


@pytest.fixture(scope="module")
def tell():
    """The output of gpumem's reader for files."""

    def told(*paths):
        done = harness.run([harness.EXAMPLES / "tell", *paths])
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


def read_by_the_spec(path):
    try:
        lines = list(spec_reader.read(path).lines())
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
    spec = read_by_the_spec(path)
    assert spec == ours
    golden = path.with_suffix(".json")
    if os.environ.get("GPUMEM_BLESS") == "1":
        golden.write_text(written_down(sorted_keys(spec)))
    assert written_down(sorted_keys(spec)) == golden.read_text()


def test_the_fixtures_are_all_there():
    for version in ("v1",):
        captures = [path for path in CAPTURES if path.parent.name == version]
        assert {path.stem for path in captures} == {
            "baked", "both-headers", "clean", "closed", "cut-in-ring", "cut-off", "first-header", "journal", "killed",
            "lost", "merged", "page-content", "page-header", "second-header", "slots", "torch-kill", "torch-return",
            "unfinished-page", "unknown", "wrapped",
        }
        assert sum(path.stat().st_size for path in captures) < 1 << 20


def test_both_say_the_same_of_damage(tell, tmp_path):
    """Random bytes changed, and files cut off: which records are left, and what is reported as missing."""
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
        spec = read_by_the_spec(path)
        assert spec == ours, path.name
        account = ours[-1]
        kinds.update(entry[0] for entry in account.get("damage", []))
    assert len(kinds) >= 10, kinds


@pytest.fixture(scope="module")
def killed():
    """Makes the capture of a killed program and its ring, both of this machine and boot."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        subprocess.run([harness.EXAMPLES / "fixtures", "--killed", folder, rings], check=True)
        (ring,) = Path(rings).iterdir()
        yield Path(folder) / "killed.bin", ring


def written(path, content):
    """The file as only its owner may open it."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


def test_both_say_the_same_of_a_ring_beside_its_capture(killed, tell):
    """Whole, and with random bytes of either file changed, or one of them cut off: also when the ring is refused."""
    path, ring = killed
    capture, slots = path.read_bytes(), ring.read_bytes()
    (whole,) = tell(path)
    assert read_by_the_spec(path) == whole
    assert whole[-1] | {"ring": "read", "events": 63, "in_flight": 2, "pages": 2, "damage": []} == whole[-1]
    # Where something is: most of the queue was never written.
    used = len(slots.rstrip(b"\0"))
    kinds, states = set(), set()
    for seed in range(200):
        ring_changes, way = seed % 4 != 3, damaged.cut if seed % 20 == 0 else damaged.changed
        if ring_changes:
            changed = way(slots[:used], seed)
            # A ring that is cut off is refused.
            written(ring, changed + (slots[used:] if way is damaged.changed else b""))
            written(path, capture)
        else:
            written(ring, slots)
            written(path, way(capture, seed))
        (ours,) = tell(path)
        assert read_by_the_spec(path) == ours, seed
        account = ours[-1]
        kinds.update(entry[0] for entry in account.get("damage", []))
        states.add(str(account.get("ring")))
    assert {"slot", "counters"} <= kinds and "read" in states and any("refused" in state for state in states)
    written(ring, slots)
    written(path, capture)


def test_both_refuse_a_planted_ring(killed, tell):
    path, ring = killed
    slots, aside = ring.read_bytes(), ring.with_name("aside")

    def with_header(place):
        """The ring of another capture, or of another boot: its static header's check fits."""
        content = bytearray(slots)
        content[2048 + place] ^= 1
        content[2048 + 508 : 2048 + 512] = zlib.crc32(content[2048 : 2048 + 508]).to_bytes(4, "little")
        written(ring, content)

    plants = {
        "nonce": lambda: with_header(16), "boot id": lambda: with_header(64), "open to others": lambda: ring.chmod(0o644),
        "a second name": lambda: os.link(ring, aside), "longer": lambda: written(ring, slots + bytes(64)),
        "a link": lambda: (ring.rename(aside), ring.symlink_to(aside)), "a folder": lambda: (ring.unlink(), ring.mkdir()),
        "nothing": ring.unlink,
    }
    for what, plant in plants.items():
        plant()
        (ours,) = tell(path)
        assert read_by_the_spec(path) == ours, what
        assert ours[-1]["ring"][0] == ("gone" if what == "nothing" else "refused"), what
        if ring.is_dir() and not ring.is_symlink():
            ring.rmdir()
        written(ring, slots)
        aside.unlink(missing_ok=True)


def test_the_worked_example_of_the_spec():
    """Slot 4 of SPEC.md's example, its indexes, its row of counters, and its page, byte for byte."""
    text = (harness.ROOT / "capture" / "SPEC.md").read_text()
    nonce = 0xD02CAF7455CBB1A0
    dump = re.findall(r"^([1267]\w{3}): ((?:[0-9a-f]{4} ){7}[0-9a-f]{4})", text, re.MULTILINE)
    raw = {int(at, 16): bytes.fromhex(line) for at, line in dump}
    slot = b"".join(raw[at] for at in (0x6100, 0x6110, 0x6120, 0x6130))
    words = spec_reader.checks.words(slot, 0, 8)
    assert spec_reader.checks.commit(4, nonce, [words]) == words[0] == 0x2129C7AEFEBEA349
    for value, sealed in ((5, "47d3000000000005"), (4, "76a2000000000004"), (0x70C3, "69e90000000070c3")):
        assert spec_reader.checks.seal(value, nonce) == int(sealed, 16)
        assert sealed in text
    row = spec_reader.checks.words(b"".join(raw[at] for at in (0x2040, 0x2050, 0x2060, 0x2070)), 0, 8)
    assert row == [512, 512, 2, 1, 1024, 6, spec_reader.checks.check(nonce, 0x2040, row[:6]), 0]
    counted = spec_reader.checks.words(raw[0x1140] + raw[0x1150], 0, 4)
    assert counted == [5, 6656, 0, spec_reader.checks.check(nonce, 0x1140, counted[:3])]
    header = b"".join(raw[0x7000 + 16 * n] for n in range(9))
    payload = b"".join(
        bytes.fromhex(re.sub(r"[ |]", "", line))
        for line in re.findall(r"^70(?:9|a|b)\w: ((?:[0-9a-f|]+ )*[0-9a-f]+)(?:\s{2,}|$)", text, re.MULTILINE)
    )
    parsed = spec_reader.page.Header.parse(header, nonce)
    first, second, third = spec_reader.page.records(parsed, payload)
    assert first == (0, 128, b"\x01\0\x0a\0\0\0cudaMalloc")
    assert second == (2, [1024, 0x7F0000000000, 512, 0, 1, 2, 4242, 1, 1, 0, 1, 0, 0, 0])
    assert third == (3, [5120, 0x7F0000000000, 512, 0, 1, 2, 4242, 2, 1, 0, 1, 0, 0, 0])
