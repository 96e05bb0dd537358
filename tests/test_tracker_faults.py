"""The tracker's property tests find each of these faults: one line of its source is changed, and they fail."""

import os
import re
import shutil

import harness
import pytest

TRACKER = harness.ROOT / "tracker"
# Each of pytest's processes builds in a folder of its own.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
# What is changed: the file, the line (or a part that stands there once), and what comes instead.
FAULTS = {
    "a context's end keeps its bytes": ("ends.rs", "self.resize(device, reservation, 0, false, origin);", ""),
    "a failed end is not taken back": ("ends.rs", "if one.bytes != 0 {", "if one.bytes == 1 {"),
    "what ended is not noted": ("ends.rs", "            residual.has_ended = true;\n        }", "        }"),
    "what is kept of code is nobody's": ("ends.rs", "self.leave(device, owner, context, What::End, origin);", ""),
    "a reading that moved counts": ("readings.rs", "!reading.is_still || ", ""),
    "a stale reading counts": ("readings.rs", " || reading.ticket != self.begin_reading()", ""),
    "the base is never moved": ("readings.rs", "false => residual.base = left,", "false => {}"),
    "evidence outlives its reading": ("readings.rs", "residual.evidence.read();", ""),
    "managed memory is charged": ("readings.rs", "managed if grown > managed => grown - managed,", "managed if grown > managed => grown,"),
    "managed memory consumes evidence": ("readings.rs", "let keeps = reading.managed != 0;", "let keeps = false;"),
    "a share is charged twice": ("readings.rs", "saturating_add(share);", "saturating_add(2 * share);"),
    "what shrank is not taken off": ("readings.rs", "let less = before.min(most);", "let less = 0 * before.min(most);"),
    "shares of several are called exact": ("readings.rs", "is_estimate |= open.len() > 1;", ""),
    "weights of a moved card are called sure": ("readings.rs", "(bytes, !others_moved)", "(bytes, true)"),
    "the card's figure is called exact": ("readings.rs", "let is_estimate = is_hidden || ", "let is_estimate = "),
    "code of other contexts ends": ("ends.rs", "|loaded| wanted(loaded.context)", "|_| true"),
    "late functions are forgotten": ("evidence.rs", "matches!(self, Self::Function | Self::Limit)", "matches!(self, Self::Limit)"),
    "what calls tell is a weight": ("calls.rs", "unwrap_or(0)\n        });", "unwrap_or(0) + u64::try_from(grown).unwrap_or(0)\n        });"),
    "two contexts share a library's bytes": ("code.rs", "if self.charged.contains_key(&library) {", "if false {"),
    "an estimate is not said": ("change.rs", "true => flags.with(EventFlags::ESTIMATED),", "true => flags,"),
}


@pytest.fixture
def copy(tmp_path):
    """A copy of the crate, outside of the workspace."""
    folder = tmp_path / "tracker"
    # With new times: to cargo all copies are one package, and an older file is no change.
    shutil.copytree(TRACKER, folder, copy_function=shutil.copy)
    manifest = (folder / "Cargo.toml").read_text()
    manifest = re.sub(r"^\w[\w-]*\.workspace = true\n", "", manifest, flags=re.M).replace("[lints]\nworkspace = true\n", "")
    root = (harness.ROOT / "Cargo.toml").read_text()
    edition = re.search(r'^edition = ".*"$', root, re.M)[0]
    manifest = manifest.replace("[dependencies]", f'[dependencies]\ngpumem-capture = {{ path = "{harness.ROOT}/capture" }}')
    manifest = manifest.replace("[dev-dependencies]", '[dev-dependencies]\nproptest = { version = "1", default-features = false, features = ["std"] }')
    manifest = manifest.replace('name = "gpumem-tracker"', f'name = "gpumem-tracker"\nversion = "0.0.0"\n{edition}')
    (folder / "Cargo.toml").write_text(manifest + "\n[workspace]\n")
    shutil.copy(harness.ROOT / "Cargo.lock", folder)
    return folder


def properties(folder):
    environment = {"CARGO_TARGET_DIR": str(harness.ROOT / "target" / f"faults-{WORKER}"), "RUST_BACKTRACE": "0"}
    return harness.run(
        ["cargo", "test", "--quiet", "--manifest-path", folder / "Cargo.toml", "--test", "properties"],
        env={**os.environ, **environment}, check=False, timeout=280,
    )


def test_without_a_fault_they_pass(copy):
    done = properties(copy)
    assert done.returncode == 0, harness.described(done)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(copy, fault):
    name, old, new = FAULTS[fault]
    source = copy / "src" / name
    text = source.read_text()
    assert text.count(old) == 1, f"{name} has this {text.count(old)} times: {old}"
    source.write_text(text.replace(old, new))
    done = properties(copy)
    assert done.returncode == 101 and "test result: FAILED" in done.stdout, harness.described(done)
