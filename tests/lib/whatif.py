"""Runs programs of tests/workloads/whatif for real under settings on a card, and replays their captures with the
package.

    PYTHON tests/lib/whatif.py --torch PYTHON [--other] --few gpt random:1 wide:1
    PYTHON tests/lib/whatif.py --torch PYTHON [--other] [--seeds 300] [--first 0] [--cards 3] [--kind wide] [--few]

compares random programs under all settings, each on a roomy card, a barely sufficient one and one that is too small.
Prints a line for each difference and the number of all comparisons; exits with 1 if there was a difference."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import other_torch

sys.path.insert(0, str(harness.ROOT / "python"))
from gpumem._whatif.servers import Failed, Request, Servers  # noqa: E402

SETTINGS = (
    "", "expandable_segments:True", "max_split_size_mb:21", "max_split_size_mb:64", "max_split_size_mb:256",
    "roundup_power2_divisions:1", "roundup_power2_divisions:4", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "garbage_collection_threshold:0.6", "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "max_split_size_mb:40,garbage_collection_threshold:0.8", "expandable_segments:True,garbage_collection_threshold:0.5",
)  # fmt: skip
# The settings of the tests, which find the most.
FEW = tuple(SETTINGS[n] for n in (0, 1, 3, 6))
ROOMY, PAGE = 16 << 30, 2 << 20
# Restoring a private pool allocates all blocks of a segment before it frees those that were free, segment by segment.
# The order depends on addresses of PyTorch's own objects, and so do the peaks in between.
RESTORES = ("restored", "branches", "compiled")
DEPEND_ON_ORDER = {f"{of}_bytes.all.peak" for of in ("allocated", "requested", "active", "inactive_split")}
ORDERS = 12


def with_parts(env, parts, first):
    """Adds what another release's PyTorch needs to an environment in which a library is loaded before all others."""
    env.update({name: value for name, value in parts.items() if name != "OTHER_TORCH_PRELOAD"})
    preload = ":".join(filter(None, (first, parts.get("OTHER_TORCH_PRELOAD"))))
    if preload:
        env["LD_PRELOAD"] = preload


class Programs:
    """A process that runs programs. Recorded ones preload `recorder`; `late`, a library made of late.c, is preloaded
    where streams must be late."""

    def __init__(self, python, recorded, parts=None, late=None):
        env = harness.clean_environment()
        env.update(GPUMEM_SIM_CARD="", GPUMEM_QUIET="1", GPUMEM_POSTMORTEM="off", TORCH_CPP_LOG_LEVEL="ERROR")
        preloaded = [*([harness.LIBRARY] if recorded else []), *([late] if late else [])]
        with_parts(env, parts or {}, ":".join(map(str, preloaded)))
        script = harness.WORKLOADS / "whatif" / "programs.py"
        self.process = subprocess.Popen(
            [harness.WITH_SIMULATOR, python, "-W", "ignore", script], env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, program, settings="", card=ROOMY, **more):
        request = {"program": program, "settings": settings, "card": card, **more}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                done = json.loads(line)
                assert "figures" in done, (request, done)
                return done
        raise AssertionError(f"{request}: the process has ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Bench:
    """Programs that run for real, recorded ones, and replays. `parts` is made by other_torch.py for another release."""

    def __init__(self, python, folder, parts=None, late=None):
        self.python, self.folder, self.parts, self.varying = python, Path(folder), parts, 0
        self.real, self.recorded = Programs(python, False, parts), Programs(python, True, parts, late)
        self.replays = Servers(str(python), 1)
        with_parts(self.replays._environment, parts or {}, self.replays._environment["LD_PRELOAD"])

    def close(self):
        self.real.close()
        self.recorded.close()
        self.replays.__exit__()

    def record(self, program, settings="", card=ROOMY):
        """The capture of a program, and its own figures."""
        capture = self.folder / f"{program.replace(':', '-')}-{card}.bin"
        capture.unlink(missing_ok=True)
        return capture, self.recorded.run(program, settings, card, capture=str(capture))

    def imported(self, program, settings="", card=ROOMY, **more):
        """The capture that is made of PyTorch's own snapshot of a program, and the program's figures."""
        snapshot = self.folder / f"{program.replace(':', '-')}-{card}.pickle"
        capture = snapshot.with_suffix(".import.bin")
        real = self.real.run(program, settings, card, snapshot=str(snapshot), **more)
        done = harness.run([harness.ANALYZER, "import", "torch-snapshot", snapshot, "-o", capture])
        return capture, {**real, "said": done.stdout}

    def replay(self, capture, settings, card):
        [replay] = self.replays.all([Request(capture, 0, card, settings)])
        return replay

    def differences(self, program, capture, settings, card, stop=True, foreign=0, **more):
        """The differences between a rerun and a replay, by name: both values. Both run to the first failure, or to
        the end. `foreign` is the other memory on the rerun's card, where the capture lacks it."""
        real = self.real.run(program, settings, card, stop=stop, **more)
        if real.get("refused"):
            return real, self._refusal(capture, settings, card)
        replay = self.replay(capture, settings, card - foreign)
        differ = {
            name: (value, replay.figures[name]) for name, value in real["figures"].items() if replay.figures[name] != value
        }
        failures = real.get("failures", int(bool(real.get("failed"))))
        if stop and bool(failures) != bool(replay.outcome["failed_seq"]):
            differ["failures"] = (failures, replay.outcome["failed_seq"])
        if stop and "successes" in real:
            differ.update(self._allocations(real, replay))
        if differ and program.partition(":")[0] in RESTORES and differ.keys() <= DEPEND_ON_ORDER:
            differ = self._fixed(differ, program, capture, settings, card, stop)
        return real, differ

    def _fixed(self, differ, program, capture, settings, card, stop):
        """The differences that are larger than those between reruns, each in a separate process."""
        theirs, ours = ({name: {both[of]} for name, both in differ.items()} for of in (0, 1))

        def varies(name):
            return len(theirs[name]) > 1 and max(ours[name]) >= min(theirs[name]) and min(ours[name]) <= max(theirs[name])

        for _ in range(ORDERS):
            if all(map(varies, differ)):
                break
            rerun = Programs(self.python, False, self.parts)
            figures = rerun.run(program, settings, card, stop=stop)["figures"]
            rerun.close()
            with Servers(str(self.python), 1) as servers:
                [replay] = servers.all([Request(capture, 0, card, settings)])
            for name in differ:
                theirs[name].add(figures[name])
                ours[name].add(replay.figures[name])
        fixed = {name: (sorted(theirs[name]), sorted(ours[name])) for name in differ if not varies(name)}
        self.varying += len(differ) - len(fixed)
        return fixed

    def _refusal(self, capture, settings, card):
        """If PyTorch refuses to run the program under the settings, the replay must refuse, too."""
        try:
            self.replay(capture, settings, card)
        except Failed as error:
            return {} if "refuses an allocation" in str(error) else {"refusal": str(error)}
        return {"refusal": "none"}

    @staticmethod
    def _allocations(real, replay):
        """The failure comes at the same allocation. A workspace of a graph's first kernel is one more than the program's."""
        if not real["failures"]:
            return {}
        ours, theirs = replay.outcome["allocations"], real["successes"]
        return {"allocations before the failure": (theirs, ours)} if ours < theirs else {}


def cards(real):
    """Three cards for a program, by its own figures: roomy, just enough, and too small."""
    figures, foreign = real["figures"], real["foreign"]
    enough = foreign + figures["reserved_bytes.all.peak"]
    small = foreign + int(figures["allocated_bytes.all.peak"] * 0.8)
    return [ROOMY, enough, small // PAGE * PAGE]


def few(python, programs, folder, parts=None):
    """(comparisons, differences) of programs under few settings, on a roomy card and one that is not enough."""
    bench, compared, differences = Bench(python, folder, parts), 0, 0
    for program in programs:
        capture, real = bench.record(program)
        for card in (ROOMY, *(cards(real)[2:] if ":" in program else ())):
            for settings in FEW:
                _, differ = bench.differences(program, capture, settings, card)
                compared += 1
                if differ:
                    differences += 1
                    print(f"{program} on {card >> 20} MiB under {settings or 'default'}: {differ}", flush=True)
        capture.unlink()
        print(f"to {program}: {compared} comparisons, {differences} differences", file=sys.stderr, flush=True)
    bench.close()
    return compared, differences


def campaign(python, seeds, number_of_cards, folder, kind="random", parts=None, all_settings=SETTINGS):
    """(comparisons, differences) of random programs."""
    bench, compared, differences = Bench(python, folder, parts), 0, 0
    for seed in seeds:
        capture, real = bench.record(f"{kind}:{seed}")
        if real.get("failures"):
            print(f"{kind}:{seed} is left out: it comes to the share of the card that it may hold", flush=True)
            continue
        for card in cards(real)[:number_of_cards]:
            for settings in all_settings:
                _, differ = bench.differences(f"{kind}:{seed}", capture, settings, card)
                compared += 1
                if differ:
                    differences += 1
                    print(f"{kind}:{seed} on {card >> 20} MiB under {settings or 'default'}: {differ}", flush=True)
        tight = cards(real)[-1]
        capture.unlink()
        print(f"to seed {seed}: {compared} comparisons, {differences} differences", file=sys.stderr, flush=True)
        if kind != "random":
            continue
        for settings in SETTINGS[:3]:
            capture, _ = bench.record(f"tight:{seed}", settings, tight)
            _, differ = bench.differences(f"tight:{seed}", capture, settings, tight, stop=False)
            compared += 1
            if differ:
                differences += 1
                print(f"tight:{seed} on {tight >> 20} MiB under {settings or 'default'}: {differ}", flush=True)
            capture.unlink()
    bench.close()
    if bench.varying:
        print(f"{bench.varying} peaks differ from rerun to rerun as from replay to replay", flush=True)
    return compared, differences


def imported(python, seeds, folder):
    """(comparisons, differences) of random programs that PyTorch's own snapshot was taken of, on a roomy card and one that is
    too small. How often all streams were waited for is left out: a snapshot does not say."""
    bench, compared, differences = Bench(python, folder), 0, 0
    for seed in seeds:
        program = f"random:{seed}"
        capture, real = bench.imported(program)
        for card in (ROOMY, cards(real)[-1]):
            for settings in (SETTINGS[n] for n in (0, 1, 3, 6)):
                _, differ = bench.differences(program, capture, settings, card, foreign=real["foreign"])
                differ.pop("num_sync_all_streams", None)
                compared += 1
                if differ:
                    differences += 1
                    print(f"{program} on {card >> 20} MiB under {settings or 'default'}: {differ}", flush=True)
        capture.unlink()
    bench.close()
    return compared, differences


def smallest_cards(python, programs, folder):
    """(comparisons, differences): on the smallest card a rerun works, and on one of a page less it does not."""
    bench, compared, differences = Bench(python, folder), 0, 0
    for program in programs:
        capture, _ = bench.record(program)
        command = [python, "-m", "gpumem", "whatif", capture, "--smallest-card", "--format", "json"]
        command += [word for settings in SETTINGS[1:4:2] for word in ("--conf", settings)]
        env = harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")})
        said = harness.unwrapped(subprocess.run(command, capture_output=True, text=True, env=env).stdout)
        for replay in said["devices"][0]["replays"]:
            settings, least = replay["settings"], replay["smallest_card_bytes"]
            reruns = [bench.real.run(program, settings, card, stop=True) for card in (least, least - PAGE)]
            failed = [bool(rerun.get("failed") or rerun.get("failures")) for rerun in reruns]
            compared += 1
            if failed != [False, True]:
                differences += 1
                print(f"{program} under {settings or 'default'}: {least >> 20} MiB, reruns failed: {failed}", flush=True)
        capture.unlink()
    bench.close()
    return compared, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, type=Path)
    parser.add_argument("--other", action="store_true", help="a release whose CUDA libraries are those of other_torch.py")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cards", type=int, default=3)
    parser.add_argument(
        "--few", nargs="*", metavar="PROGRAM", help="four settings instead of twelve; of these programs, if some are named, on two cards"
    )
    parser.add_argument("--smallest-cards", nargs="+", metavar="PROGRAM", help="compare the smallest cards of these instead")
    parser.add_argument("--imported", action="store_true", help="compare captures of PyTorch's own snapshots instead")
    parser.add_argument("--kind", choices=("random", "wide", "restored"), default="random")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seeds = range(options.first, options.first + options.seeds)
        parts = other_torch.environment(options.torch, Path(folder)) if options.other else None
        if options.few:
            compared, differences = few(options.torch, options.few, folder, parts)
        elif options.smallest_cards:
            compared, differences = smallest_cards(options.torch, options.smallest_cards, folder)
        elif options.imported:
            compared, differences = imported(options.torch, seeds, folder)
        else:
            settings = SETTINGS if options.few is None else FEW
            compared, differences = campaign(options.torch, seeds, options.cards, folder, options.kind, parts, settings)
    print(f"{compared} comparisons, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
