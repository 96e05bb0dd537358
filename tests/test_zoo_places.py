"""The zoo, second part: processes without the usual permissions, and places where a capture cannot be written, or
only for some time. The program is not affected. There is one line on stderr where the recorder cannot work, and what
is missing from a capture is counted.

What breaks these tests: a store to the mapped file where the disk has no room (SIGBUS), SIGXFSZ from a write by the
recorder, reliance on /proc, a descriptor or a path that is looked up again after chroot, and a failure that is not
reported."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest
import zoo
from test_interposer import read  # noqa: F401

# The simulator's cards are in no file: it could not be made or found everywhere, and counts as one.
NO_CARD_FILE = {"GPUMEM_SIM_CARD": ""}
# What finds no room on the disk is lost where the ring is in the capture; elsewhere it waits in memory.
IN_CAPTURE = {"GPUMEM_RING": "file"}
SMALL_RING = {**IN_CAPTURE, "GPUMEM_RING_SLOTS": "1024", "GPUMEM_STACKS": "off"}
# The head and a ring of 1024 slots, and 40 KiB more for pages.
ROOM_FOR_A_WHILE = (24 + 64 + 40) << 10
THREADS_EVENTS = (8 * 4000, 8 * 4000 - 8 * 10)


@pytest.fixture(params=range(zoo.ROUNDS), autouse=True)
def _round(request):
    """Each round is a separate test."""


@pytest.fixture
def confined(build_c):
    return build_c("zoo/confined.c", "-ldl")


@pytest.fixture
def threads(build_c):
    return [build_c("hook_threads.c", "-ldl", "-pthread"), "join"]


def on_a_disk(options, folder, command):
    """The command line that runs `command` in a separate file system, which is mounted at `folder`; reports are
    copied to the folder `saved` beside it."""
    script = (
        'mkdir -p "$2" "$2.saved" && mount -t tmpfs -o "$1" none "$2" && cd "$2" || exit 99\n'
        'saved=$2.saved; shift 2; "$@"; code=$?\n'
        'for report in report*; do if [ -e "$report" ]; then cp "$report" "$saved"; fi; done; exit $code'
    )
    return ["unshare", "--mount", "sh", "-c", script, "sh", options, folder, *command]


@pytest.fixture(scope="session")
def mounts(tmp_path_factory):
    """Skips where nothing may be mounted."""
    folder = tmp_path_factory.mktemp("mounts") / "disk"
    if harness.run(on_a_disk("size=64k", folder, ["true"]), check=False).returncode != 0:
        pytest.skip("nothing may be mounted here")



def run(folder, command, code, **options):
    """A program of the zoo, on cards that are in no file."""
    return zoo.live_together(folder, command, code, env=NO_CARD_FILE, **options)


def cannot_create(why, advice="Set GPUMEM_OUTPUT to a writable path"):
    """The one line where there can be no capture."""
    return (
        rf"^gpumem: cannot write a capture: \S*report\.bin: cannot {why}.* Recording is off; the program "
        rf"continues\. {advice}\.$"
    )


def cannot_write(why):
    """The one line where there is a capture, but no page can be added to it."""
    return rf"^gpumem: cannot write to \S*report\.bin: {why}.* counted as lost\. The program continues\.$"


# The one line where no folder lies in memory.
NO_MEMORY = (
    "gpumem: no ring in /dev/shm: No such file or directory (os error 2). The ring is in unnamed memory: a kill loses "
    "up to 50 ms of events."
)


def assert_counted(report, read):  # noqa: F811
    """Events without room are counted, with the times between which they were lost, and the counters include them."""
    state = zoo.checked(report)
    capture = read(report, whole=False)
    assert capture.counters["driver", 0][2:] == list(THREADS_EVENTS)
    seen = sum(event["kind"] in (1, 2) and event["level"] == "driver" for event in capture.events)
    missing = sum(THREADS_EVENTS) - seen
    assert 0 < missing <= state["lost_events"], (missing, state)
    assert state["exit"] == 3 and not state["whole"]
    assert sum(row["events"] for row in state["loss_ranges"]) == state["lost_events"]
    assert all(row["first_ns"] <= row["last_ns"] for row in state["loss_ranges"])


def test_a_disk_without_room(mounts, threads, tmp_path):
    """The head does not fit: no file is left behind."""
    disk = tmp_path / "disk"
    run(
        tmp_path / "with", on_a_disk("size=1m", disk, threads), 0, recorder_env=IN_CAPTURE,
        says=[cannot_create("reserve space for: No space left on device")],
    )
    assert list((tmp_path / "disk.saved").iterdir()) == []


def test_a_disk_that_fills_up(mounts, threads, read, tmp_path):  # noqa: F811
    disk = tmp_path / "disk"
    run(
        tmp_path / "with", on_a_disk(f"size={ROOM_FOR_A_WHILE}", disk, threads), 0,
        recorder_env=SMALL_RING, says=[cannot_write("No space left on device")],
    )
    assert_counted(tmp_path / "disk.saved" / "report.bin", read)


def test_a_disk_that_may_only_be_read(mounts, threads, tmp_path):
    run(
        tmp_path / "with", on_a_disk("size=16m,ro", tmp_path / "disk", threads), 0,
        says=[cannot_create("create: Read-only file system")],
    )


def test_a_limit_of_file_sizes(threads, tmp_path):
    """Files may have a million bytes: a store past it would be the end of the program (SIGXFSZ)."""
    run(
        tmp_path / "with", ["prlimit", "--fsize=1000000", *threads], 0, recorder_env=IN_CAPTURE,
        says=[cannot_create("reserve space for: File too large", r"Raise the limit on the size of files \(ulimit -f\)")],
    )
    assert list((tmp_path / "with").iterdir()) == []


def test_a_limit_of_file_sizes_that_is_reached(threads, read, tmp_path):  # noqa: F811
    run(
        tmp_path / "with", ["prlimit", f"--fsize={ROOM_FOR_A_WHILE}", *threads], 0,
        recorder_env={**SMALL_RING, "GPUMEM_QUIET": "0"},
        says=[
            cannot_write(r"the limit on the size of files \(ulimit -f\) is reached"),
            r"^gpumem: wrote report\.bin, without \d+ events that did not fit\. Read it with: gpumem-analyze",
        ],
    )
    assert_counted(tmp_path / "with" / "report.bin", read)


def test_a_quota_that_is_used_up(build_c, threads, tmp_path):
    full = build_c("zoo/full.c", "-shared", "-fPIC")
    run(
        tmp_path / "with", threads, 0,
        recorder_env={**zoo.preloading(full, harness.LIBRARY), "FULL": "at once"},
        says=[cannot_create("reserve space for: Disk quota exceeded")],
    )
    assert list((tmp_path / "with").iterdir()) == []


def test_a_quota_that_is_used_up_for_a_while(build_c, threads, tmp_path):
    """As long as there is room in the ring, nothing is lost."""
    full = build_c("zoo/full.c", "-shared", "-fPIC")
    run(
        tmp_path / "with", threads, 0,
        recorder_env={
            **zoo.preloading(full, harness.LIBRARY), "FULL": "later", "GPUMEM_RING_SLOTS": "131072",
        },
        says=[cannot_write("Disk quota exceeded")],
    )
    state = zoo.assert_whole(tmp_path / "with" / "report.bin")
    assert state["events"] >= sum(THREADS_EVENTS)


def test_a_folder_that_is_deleted(confined, tmp_path):
    """At the end a line reports that there is no capture."""
    for folder in ("with", "with.without"):
        (tmp_path / folder / "out").mkdir(parents=True)
    run(
        tmp_path / "with", [confined, "deleted", "out"], 19,
        recorder_env={"GPUMEM_OUTPUT": "out/report.bin", "GPUMEM_QUIET": "0"},
        says=[r"^gpumem: out/report\.bin was deleted while the program ran, so there is no capture\.$"],
    )


def test_a_folder_that_was_deleted_before(confined, tmp_path):
    run(
        tmp_path / "with", [confined, "nowhere", "gone"], 19,
        says=[cannot_create("find: No such file or directory")],
    )


def test_a_chroot(confined, tmp_path):
    """Without /proc, without any library, from before the first call on."""
    jail = tmp_path / "jail"
    jail.mkdir()
    done = run(tmp_path / "with", [confined, "chroot", jail], 19, says=[f"^{re.escape(NO_MEMORY)}$"])
    zoo.assert_exact(jail / "report.bin", done.stdout)


def test_a_chroot_later(confined, tmp_path):
    jail = tmp_path / "jail"
    jail.mkdir()
    done = run(
        tmp_path / "with", ["sh", "-c", 'cd "$2" && exec "$0" "chroot later" "$1"', confined, jail, "."], 19
    )
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)
    assert list(jail.iterdir()) == []


def needed_by(*binaries):
    """The files that the loader takes for these."""
    found = set()
    for binary in binaries:
        text = harness.run(["ldd", binary]).stdout
        found.update(re.findall(r"(/\S+) \(0x", text))
    return found


def test_a_start_in_a_chroot(confined, tmp_path):
    """The loader, the program and its libraries are all that there is."""
    jail = tmp_path / "jail"
    jail.mkdir()
    driver = harness.SIMULATOR / "libcuda.so.1"
    harness.run([harness.WITH_SIMULATOR, "true"])
    for path in needed_by(confined, harness.LIBRARY, driver):
        shutil.copy(path, jail / Path(path).name)
    shutil.copy(driver, jail / "libcuda.so.1")
    shutil.copy(harness.LIBRARY, jail / "libgpumem.so")
    shutil.copy(confined, jail / "confined")
    start = ["chroot", jail, "/ld-linux-x86-64.so.2", "--library-path", "/"]
    alone = harness.run(
        [*start, "/confined", "plain"], check=False, env={"GPUMEM_SIM_CARD": ""}, cwd=tmp_path
    )
    done = harness.run(
        [*start, "--preload", "/libgpumem.so", "/confined", "plain"], check=False,
        env={"GPUMEM_SIM_CARD": "", **zoo.QUIET}, cwd=tmp_path,
    )
    assert alone.returncode == 19, harness.described(alone)
    assert (done.returncode, done.stdout, done.stderr) == (19, alone.stdout, f"{NO_MEMORY}\n{alone.stderr}")
    zoo.assert_exact(jail / "report.bin", done.stdout)


def test_another_user(confined, tmp_path):
    """It may not write here any more, and a line reports it."""
    run(
        tmp_path / "with", [confined, "uid"], 19,
        says=[cannot_create("create: Permission denied")],
    )


def test_another_user_later(confined, tmp_path):
    """The change reaches the recorder's threads, which block all signals, too; the capture continues."""
    done = run(tmp_path / "with", [confined, "uid later"], 19, recorder_env={"GPUMEM_RING_SLOTS": "1024"})
    zoo.assert_exact(tmp_path / "with" / "report.bin", done.stdout)


def test_a_setuid_program(confined):
    """The loader does not load the recorder into it: there is no record and no message."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        for source, copy in (
            (confined, "confined"), (harness.LIBRARY, "libgpumem.so"),
            (harness.BUILT / "libsimcuda.so", "libcuda.so.1"),
        ):
            shutil.copy(source, folder / copy)
            (folder / copy).chmod(0o755)
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        command = [*as_nobody, folder / "confined", "is it another", folder / "libcuda.so.1"]
        preload = {"LD_PRELOAD": str(folder / "libgpumem.so"), "GPUMEM_SIM_CARD": ""}
        plain = harness.run(command, cwd=folder, env=preload, check=False)
        assert plain.stdout == "uid 65534, euid 65534, recorder there\n", harness.described(plain)
        (folder / "confined").chmod(0o4755)
        done = harness.run(command, cwd=folder, env=preload, check=False)
        if "euid 65534" in done.stdout:
            pytest.skip("setuid programs are not honoured where temporary files lie")
        assert (done.returncode, done.stdout, done.stderr) == (
            19, "uid 65534, euid 0, recorder not there\n", "",
        )
        assert list(folder.glob("report*")) == []


def test_a_filter_that_refuses_new_files(confined, tmp_path):
    run(
        tmp_path / "with", [confined, "no files"], 19,
        says=[cannot_create("create: Operation not permitted")],
    )


def test_a_filter_that_refuses_writes(confined, tmp_path):
    """On all threads, after the capture was opened: what the ring cannot hold is counted."""
    run(
        tmp_path / "with", [confined, "no writes"], 19, recorder_env=SMALL_RING,
        says=[cannot_write("Operation not permitted")],
    )
    state = zoo.checked(tmp_path / "with" / "report.bin")
    assert state["exit"] == 3 and state["lost_events"] > 5000
    assert sum(row["events"] for row in state["loss_ranges"]) == state["lost_events"]


@pytest.mark.parametrize("reader", ("gone", "asleep"))
def test_a_stderr_that_nobody_reads(reader, build_c, tmp_path):
    """The line at the end neither ends the program (SIGPIPE) nor holds it up."""
    client = build_c("zoo/endings.c", "-ldl", "-pthread")
    end, stderr = os.pipe()
    if reader == "gone":
        os.close(end)
    else:
        os.set_blocking(stderr, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(stderr, bytes(4096))
        os.set_blocking(stderr, True)
    done = subprocess.run(
        harness.simulator_command([client, "jumps back"]), cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=stderr, text=True, timeout=240, check=False,
        env=harness.clean_environment(harness.preloaded(NO_CARD_FILE)),
    )
    os.close(stderr)
    if reader == "asleep":
        os.close(end)
    assert done.returncode == 14
    zoo.assert_exact(tmp_path / "report.bin", done.stdout)


def test_programs_with_one_output_name(build_c, tmp_path):
    """Eight at the same moment: each has a separate capture, and all are complete."""
    client = build_c("zoo/endings.c", "-ldl", "-pthread")
    processes = [
        subprocess.Popen(
            harness.simulator_command([client, "jumps back"]), cwd=tmp_path, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env=harness.clean_environment(harness.preloaded({**zoo.QUIET, "GPUMEM_OUTPUT": "one.bin"})),
        )
        for _ in range(8)
    ]
    for process in processes:
        output, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (14, ""), errors
    reports = sorted(tmp_path.glob("one*.bin"))
    assert len(reports) == 8
    for report in reports:
        zoo.assert_exact(report, output)
    pids = {harness.analyze_json("report", "--all", report)["process"]["pid"] for report in reports}
    assert pids == {process.pid for process in processes}
