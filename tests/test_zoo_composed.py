"""The zoo, composed: random programs of its traits, each with and without the recorder with the same output and status,
and a capture that equals the simulator's books. A seed decides the steps, the size of the thread-local data, the
library that is preloaded beside the recorder and the end of the process.

What breaks these tests: two traits that each are harmless, such as a fiber in a thread with a small stack below a
cancelled call."""

import signal

import harness
import pytest
import zoo
from lanes import lanes

STEPS = 20
ENDINGS = {
    "return": 30, "thread": 31, "exit": 32, "_exit": 33, "quick_exit": 34, "main ends": 0,
    "abort": -signal.SIGABRT, "kill": -signal.SIGKILL,
}
THREAD_LOCAL = (64, 60_000, 3 << 20)
BESIDE = (None, "ITERATES", "CLOCKS", "CALLS")


@pytest.mark.parametrize("seed", lanes(range(200), range(10)))
def test_a_random_composition(seed, build_c, tmp_path):
    ending = list(ENDINGS)[seed % len(ENDINGS)]
    size = THREAD_LOCAL[seed // 2 % len(THREAD_LOCAL)]
    shim = BESIDE[seed // 3 % len(BESIDE)]
    client = build_c("zoo/composed.c", "-ldl", "-pthread", "-rdynamic", f"-DTHREAD_LOCAL={size}")
    plugin = build_c("zoo/plugin.c", "-shared", "-fPIC", "-DNUMBER=0")
    libraries = [harness.LIBRARY]
    if shim:
        libraries.insert(seed % 2, build_c("zoo/shims.c", "-shared", "-fPIC", f"-D{shim}", "-ldl"))
    done = zoo.live_together(
        tmp_path / "with", [client, seed, STEPS, ending, plugin], ENDINGS[ending],
        recorder_env=zoo.preloading(*libraries),
    )
    report = tmp_path / "with" / "report.bin"
    zoo.assert_exact(report, done.stdout)
    if ending not in ("abort", "kill"):
        assert harness.analyze_json("report", "--all", report)["exact"]
