"""The damage campaign: captures with random bytes changed or cut off, read by gpumem-analyze itself.

    python tests/lib/campaign.py [--changes 2000] [--cuts 500] [--seed 0] [--workers 2] FILE…

goes through the files in turn, one seed per case. It prints a line for each fault and a summary, and exits with 1 if
there was a fault. A fault is a crash, a hang, an unmarked figure that differs from the undamaged capture's, or a
partial report without a list of the missing parts.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import damaged
import harness

COMPLETE, NO_RESULT, PARTIAL = 0, 1, 3
SECONDS = 240
MEMORY = 512 << 20
VIEWS = {
    "check": ("check", "--format", "json"),
    "summary": ("summary", "--format", "json"),
    "lines": ("lines", "--format", "json"),
    "driver lines": ("lines", "--level", "driver", "--at", "end", "--format", "json"),
    "ledger": ("ledger", "--format", "json"),
}
# Fields of a view that describe the file, not the program. A changed byte in an empty slot of the ring looks like the
# beginning of a record, and a note reports it.
OF_THE_FILE = {"bytes", "missing", "notes", "damage", "whole", "exact", "in_flight"}


def within_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def analyzed(view, path):
    """Exit code, output and stderr of a view; the code is `None` if it hung."""
    command = [str(harness.ANALYZER), *VIEWS[view], str(path)]
    try:
        done = subprocess.run(
            command, env=harness.clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=SECONDS, preexec_fn=within_memory,
        )
    except subprocess.TimeoutExpired:
        return None, "", ""
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def truth(path):
    """The output of each view for the undamaged capture."""
    return {view: analyzed(view, path) for view in VIEWS}


def missing(view, output, said):
    """What is missing according to a view."""
    if view in ("check", "summary"):
        return harness.unwrapped(output)["missing"]
    return [line for line in said.splitlines() if "partial: " in line]


def figures(view, output):
    """All figures and names of the program in a view."""
    content = harness.unwrapped(output)
    if isinstance(content, dict):
        # Counters whose place in the order of records is damaged are not compared, and a note reports it. The field
        # then has no value.
        not_compared = any("not compared" in note for note in content["notes"])
        if not_compared and "counters_agree" in content and content["counters_agree"] is None:
            content["counters_agree"] = True
        for key in OF_THE_FILE:
            content.pop(key, None)
    return content


def fault(view, path, whole, found):
    """The fault in a view's output for the damaged capture `path`, or `None`."""
    (code, output, said), (whole_code, whole_output, whole_said) = found, whole
    if code is None:
        return f"hangs: {SECONDS} s"
    if code not in (COMPLETE, NO_RESULT, PARTIAL) or "panicked" in said:
        return f"crashes: exit {code}: {said[:200]}"
    if code == NO_RESULT:
        one_line = len(said.strip().splitlines()) == 1 and str(path) in said
        return None if one_line and not output else f"no result, and not one line: {said[:200]}"
    try:
        same = figures(view, output) == figures(view, whole_output)
    except ValueError:
        return "no JSON"
    now, before = missing(view, output, said), missing(view, whole_output, whole_said)
    if code == COMPLETE:
        # A complete file can have figures that are not exact; `check` lists the reasons.
        if whole_code != COMPLETE or not set(now) <= set(before if view == "check" else ()):
            return "called complete, and is not"
        return None if same else "called complete, with other figures"
    if not now:
        return "partial, and does not say what is missing"
    if view == "summary" and harness.unwrapped(output)["exact"]:
        return "partial, and called exact"
    if not same and set(now) <= set(before):
        return "other figures, and nothing more is missing than before"
    return None


def case(path, whole, content):
    """Faults of one damaged capture: (view, what), and its exit codes by view."""
    path.write_bytes(content)
    faults, codes = [], {}
    for view in VIEWS:
        found = analyzed(view, path)
        what = fault(view, path, whole[view], found)
        codes[view] = found[0]
        if what:
            faults.append((view, what))
    by_code = {codes["summary"], codes["lines"], codes["ledger"]}
    if len(by_code) > 1:
        faults.append(("all", f"views do not agree on whether it is whole: {codes}"))
    return faults, codes


def run(files, changes, cuts, seed, workers):
    """All cases. Yields (name, faults, codes)."""
    truths = [(path, path.read_bytes(), truth(path)) for path in files]
    for path, _, whole in truths:
        for view, (code, _, said) in whole.items():
            assert code in (COMPLETE, PARTIAL), f"{path} {view}: {said}"
    plan = [("changed", damaged.changed, n) for n in range(changes)]
    plan += [("cut", damaged.cut, n) for n in range(cuts)]

    with tempfile.TemporaryDirectory() as folder:

        def one(job):
            word, damage, n = job
            original, content, whole = truths[n % len(truths)]
            name = f"{original.stem}-{word}-{seed + n}"
            path = Path(folder) / f"{name}.bin"
            faults, codes = case(path, whole, damage(content, seed + n))
            path.unlink()
            return name, faults, codes

        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            yield from pool.map(one, plan)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=2000)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    codes, faults, cases = collections.Counter(), 0, 0
    for name, found, exits in run(options.files, options.changes, options.cuts, options.seed, options.workers):
        cases += 1
        codes[exits["summary"]] += 1
        for view, what in found:
            faults += 1
            print(f"{name}: {view}: {what}", flush=True)
    told = ", ".join(f"exit {code}: {count}" for code, count in sorted(codes.items(), key=str))
    print(f"{cases} cases through {len(VIEWS)} views ({told}): {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
