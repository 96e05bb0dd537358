"""Faults that are planted into a copy of a crate's source, which its property tests must find."""

import os
import re
import shutil

import harness

# Each of pytest's processes builds in a separate folder.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")


def planted(name, text, changes):
    """The text of the file of this name with its parts replaced, each of which stands there once."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1, f"{name} has this {text.count(old)} times: {old}"
        text = text.replace(old, new)
    return text


class Copy:
    """A copy of a crate, outside of the workspace: one for all faults, of which cargo builds what has changed."""

    def __init__(self, crate, folder):
        self.folder = folder / crate
        # With new times: to cargo all copies are one package, and an older file is no change.
        shutil.copytree(harness.ROOT / crate, self.folder, copy_function=shutil.copy)
        manifest = (self.folder / "Cargo.toml").read_text().replace("[lints]\nworkspace = true\n", "")
        workspace = (harness.ROOT / "Cargo.toml").read_text().replace('path = "', f'path = "{harness.ROOT}/')

        def inherited(name):
            return re.search(rf"^{name[1]} = .*$", workspace, re.M)[0]

        manifest = re.sub(r"^([\w-]+)\.workspace = true$", inherited, manifest, flags=re.M)
        (self.folder / "Cargo.toml").write_text(manifest + "\n[workspace]\n")
        shutil.copy(harness.ROOT / "Cargo.lock", self.folder)

    def _properties(self):
        environment = {
            "CARGO_TARGET_DIR": str(harness.ROOT / "target" / f"faults-{WORKER}"), "RUST_BACKTRACE": "0",
            "PROPTEST_MAX_SHRINK_ITERS": "0", "CARGO_PROFILE_DEV_OPT_LEVEL": "1", "CARGO_PROFILE_DEV_DEBUG": "0",
            # A fault is a small change of one crate, built again for each: 4 to 8 s instead of 20 s.
            "CARGO_INCREMENTAL": "1",
        }
        return harness.run(
            ["cargo", "test", "--quiet", "--manifest-path", self.folder / "Cargo.toml", "--test", "*"],
            env=environment, check=False, timeout=580,
        )

    def passes(self):
        """Without a fault the properties hold."""
        done = self._properties()
        assert done.returncode == 0, harness.described(done)

    def finds(self, name, *changes):
        """With these parts of a file, each of which stands there once, replaced by what follows it they do not."""
        source = self.folder / "src" / name
        text = source.read_text()
        changed = planted(name, text, changes)
        source.write_text(changed)
        try:
            done = self._properties()
        finally:
            source.write_text(text)
        assert done.returncode == 101 and "test result: FAILED" in done.stdout, harness.described(done)
