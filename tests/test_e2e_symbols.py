"""Names of native functions: from every place that may have a file with the build id, never from a file with another
one, and embedded in a capture for people who have none of the files.

What breaks these tests: a file chosen by its name alone, a place that is not searched, an inlined function left out
or not marked, a name guessed where only the nearest exported one is known, a view that differs once names are
embedded, or embedded names that hide the capture's own description."""

import collections
import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import harness
import pytest

SOURCES = {"c": "symbols_c.c", "cpp": "symbols_cpp.cpp", "rust": "symbols_rust.rs"}
# The symbols in a build: with debug information, all names, exported names.
BUILDS = ("debug", "plain", "stripped")


def compile_library(language, library, *, debug, defines=()):
    source = harness.WORKLOADS / SOURCES[language]
    level = ["-g"] if debug else []
    if language == "rust":
        command = ["rustc", "--edition", "2021", "--crate-type", "cdylib", "-O", *level]
        command += ["-C", "panic=abort", "-C", "force-unwind-tables=yes", "-C", "strip=none"]
        command += ["-C", "link-arg=-Wl,--build-id=sha1", "-C", f"link-arg=-Wl,-soname,{library.name}"]
    else:
        command = ["cc" if language == "c" else "c++", "-shared", "-fPIC", "-O2", *level]
        command += ["-Wl,--build-id=sha1", *(f"-D{name}" for name in defines)]
    harness.run([*command, "-o", library, source])
    return library


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """libraries[language, build] is a library; those of one language have different build ids."""
    folder = tmp_path_factory.mktemp("libraries")
    found = {}
    for language in SOURCES:
        if language == "rust" and shutil.which("rustc") is None:
            continue
        for build in BUILDS:
            library = folder / f"lib{language}_{build}.so"
            compile_library(language, library, debug=build == "debug")
            if build == "stripped":
                harness.run(["strip", "--strip-all", library])
            found[language, build] = library
    return found


@pytest.fixture
def record(build_c, simulate, tmp_path):
    """record(libraries…) is the capture of a program that has each allocate."""

    def run(*libraries, check=True):
        report = tmp_path / "report.bin"
        done = simulate(
            [build_c("symbols_main.c", "-ldl"), *libraries],
            preload=True,
            env={"GPUMEM_OUTPUT": str(report)},
            check=check,
        )
        return report, done

    return run


@pytest.fixture
def nowhere(tmp_path):
    """Options and environment in which no file of the recorded machine can be found."""
    empty = tmp_path / "nowhere"
    empty.mkdir()
    return ["--sysroot", empty], {"HOME": str(empty), "XDG_CACHE_HOME": None}


def view(*arguments, env=None, check=True):
    """gpumem-analyze in an environment without variables of debuginfod or gpumem."""
    clean = {"DEBUGINFOD_CACHE_PATH": None, "XDG_CACHE_HOME": None, **(env or {})}
    return harness.run([harness.ANALYZER, *arguments], env=clean, check=check)


def stacks(report, *options, env=None):
    """The folded stacks, each as its frames between the program's own."""
    found = []
    for line in view("flamegraph", "--format", "folded", *options, report, env=env).stdout.splitlines():
        frames = line.rsplit(" ", 1)[0].split(";")
        start = max(at for at, frame in enumerate(frames) if re.match(r"main\b|symbols_main", frame))
        ends = [at for at, frame in enumerate(frames) if re.match(r"allocate\b", frame)]
        found.append(frames[start + 1 : ends[0] if ends else None])
    return found


def line_of(language, text):
    source = (harness.WORKLOADS / SOURCES[language]).read_text().splitlines()
    return 1 + next(at for at, line in enumerate(source) if line.rstrip(" */").endswith(text))


def expected(language, build, library):
    """The frames between `main` and `allocate`, as patterns."""
    source = re.escape(SOURCES[language])

    def at(function, inlined=False):
        mark = ", inlined" if inlined else ""
        return rf" \({source}:{line_of(language, f'the call in {function}')}{mark}\)"

    names = {
        "c": ["grow", "step", "hidden"],
        "cpp": ["grow", r"pool::\(anonymous namespace\)::inside", r"pool::Arena<char>::step", r"pool::Arena<char>::hidden"],
        "rust": ["grow", r"symbols_rust::pool::Arena<T>::step", r"symbols_rust::pool::Arena<T>::hidden"],
    }[language]
    short = [name.rsplit("::", 1)[-1] for name in names]
    if build == "debug":
        return [name + at(of, of == "step") for name, of in zip(names, short)]
    called = [name for name, of in zip(names, short) if of != "step"]
    if build == "plain":
        return called
    nameless = re.escape(library) + r"\+0x[0-9a-f]+"
    # Functions that are not exported have no name; templates are exported, as the linker may have to merge them.
    exported = {"c": ["grow"], "cpp": ["grow", "hidden"], "rust": ["grow"]}[language]
    return [
        name + r"\+0x[0-9a-f]+" if name.rsplit("::", 1)[-1] in exported else nameless for name in called
    ]


def fits(frames, patterns):
    return len(frames) == len(patterns) and all(map(re.fullmatch, patterns, frames))


@pytest.mark.parametrize("language", SOURCES)
def test_a_build_tells_what_it_knows(language, libraries, record):
    if (language, "debug") not in libraries:
        pytest.skip("no rustc")
    builds = [libraries[language, build] for build in BUILDS]
    report, _ = record(*builds)
    found = stacks(report)
    for build, library in zip(BUILDS, builds):
        patterns = expected(language, build, library.name)
        assert sum(fits(frames, patterns) for frames in found) == 1, f"{build}: {patterns}\n{found}"
    assert len(found) == len(BUILDS)


@pytest.fixture
def separate(libraries, tmp_path):
    """A stripped library in a separate folder, its debug file, and its build id."""
    folder = tmp_path / "lib"
    folder.mkdir()
    library, debug = folder / "libgrow.so", tmp_path / "apart" / "libgrow.so.debug"
    debug.parent.mkdir()
    shutil.copy(libraries["cpp", "debug"], library)
    harness.run(["objcopy", "--only-keep-debug", library, debug])
    harness.run(["strip", "--strip-all", library])
    harness.run(["objcopy", f"--add-gnu-debuglink={debug}", library])
    return library, debug, build_id_of(library)


def build_id_of(path):
    return re.search(r"Build ID: ([0-9a-f]+)", harness.run(["readelf", "-n", path]).stdout)[1]


def by_build_id(folder, build_id):
    return folder / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"


def place_next_to(tmp_path, library, build_id):
    return library.parent / f"{library.name}.debug", [], {}


def place_in_dot_debug(tmp_path, library, build_id):
    return library.parent / ".debug" / f"{library.name}.debug", [], {}


def place_in_debug_dir(tmp_path, library, build_id):
    return by_build_id(tmp_path / "d", build_id), ["--debug-dir", tmp_path / "d"], {}


def place_in_second_debug_dir(tmp_path, library, build_id):
    options = ["--debug-dir", tmp_path / "none", "--debug-dir", tmp_path / "d"]
    return by_build_id(tmp_path / "d", build_id), options, {}


def place_in_variable(tmp_path, library, build_id):
    folders = f"{tmp_path / 'none'}:{tmp_path / 'd'}"
    return by_build_id(tmp_path / "d", build_id), [], {"GPUMEM_DEBUG_DIR": folders}


def place_by_path_in_debug_dir(tmp_path, library, build_id):
    inside = str(library.parent).lstrip("/")
    return tmp_path / "d" / inside / f"{library.name}.debug", ["--debug-dir", tmp_path / "d"], {}


def place_in_debuginfod(tmp_path, library, build_id):
    cache = tmp_path / "cache"
    return cache / build_id / "debuginfo", [], {"DEBUGINFOD_CACHE_PATH": str(cache)}


def place_in_xdg(tmp_path, library, build_id):
    cache = tmp_path / "xdg" / "debuginfod_client"
    return cache / build_id / "debuginfo", [], {"XDG_CACHE_HOME": str(tmp_path / "xdg")}


def place_in_home(tmp_path, library, build_id):
    cache = tmp_path / "home" / ".cache" / "debuginfod_client"
    return cache / build_id / "debuginfo", [], {"HOME": str(tmp_path / "home")}


def place_copied(tmp_path, library, build_id):
    copied = tmp_path / "copied"
    return copied / "from" / "node7" / "whatever", ["--symbols", copied], {}


PLACES = [value for name, value in sorted(globals().items()) if name.startswith("place_")]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__[6:])
def test_a_separate_debug_file_is_found(place, separate, record, tmp_path):
    library, debug, build_id = separate
    report, _ = record(library)
    path, options, env = place(tmp_path, library, build_id)
    before = stacks(report, *options, env=env)
    assert fits(before[0], expected("cpp", "stripped", library.name)), before
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(debug, path)
    after = stacks(report, *options, env=env)
    assert fits(after[0], expected("cpp", "debug", library.name)), after


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__[6:])
def test_a_file_with_another_build_id_is_never_used(place, separate, record, libraries, tmp_path):
    """The other file has a function at the same place, and lies where the right one would."""
    library, _, build_id = separate
    report, _ = record(library)
    plain = stacks(report)
    path, options, env = place(tmp_path, library, build_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(libraries["c", "debug"], path)
    assert stacks(report, *options, env=env) == plain
    # An empty file, as debuginfod leaves for files that no server has, or one that is not an ELF file.
    for content in (b"", b"\x7fELF", b"not found\n" * 100):
        path.write_bytes(content)
        assert stacks(report, *options, env=env) == plain


def openings(files, act):
    """How often each file is opened while `act` runs (inotify(7)). Reads are watched too, because equal events that
    follow each other count as one."""
    read, opened = 0x1, 0x20
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    try:
        watched = {libc.inotify_add_watch(watch, os.fsencode(file), read | opened): file for file in files}
        assert -1 not in watched, os.strerror(ctypes.get_errno())
        act()
        # struct inotify_event, without a name.
        events = memoryview(os.read(watch, 1 << 20)).cast("I")
    finally:
        os.close(watch)
    return collections.Counter(watched[number] for number, mask in zip(events[::4], events[1::4]) if mask & opened)


@pytest.mark.parametrize(
    "command", ("report", "html -o OUT", "tree --native", "flamegraph -o OUT", "export pprof -o OUT", "check --symbolize OUT")
)
def test_a_command_opens_each_library_once(command, libraries, record, tmp_path):
    """Debug information is read through a second opening."""
    files = [libraries["cpp", build] for build in BUILDS]
    report, _ = record(*files)
    words = [str(tmp_path / "out") if word == "OUT" else word for word in command.split()]
    counts = openings(files, lambda: view(*words, report))
    assert counts == dict(zip(files, (2, 1, 1))), counts


def test_a_library_that_was_built_again_names_nothing(libraries, record, tmp_path):
    library = tmp_path / "libgrow.so"
    shutil.copy(libraries["c", "debug"], library)
    report, _ = record(library)
    assert fits(stacks(report)[0], expected("c", "debug", library.name))
    compile_library("c", library, debug=True, defines=["OTHER"])
    assert build_id_of(library) != build_id_of(libraries["c", "debug"])
    unknown = stacks(report)[0]
    assert len(unknown) == 2 and all(re.fullmatch(r"libgrow\.so\+0x[0-9a-f]+", frame) for frame in unknown)


@pytest.mark.parametrize("coding", ("zlib", "zstd"))
def test_compressed_debug_information_is_read(coding, libraries, record, tmp_path):
    library = tmp_path / "libgrow.so"
    done = harness.run(
        ["objcopy", f"--compress-debug-sections={coding}", libraries["c", "debug"], library], check=False
    )
    if done.returncode:
        pytest.skip(f"objcopy knows no {coding}")
    report, _ = record(library)
    found = stacks(report)
    assert fits(found[0], expected("c", "debug", library.name)), found


def test_another_machines_files_below_a_sysroot(libraries, record, nowhere, tmp_path):
    library = tmp_path / "lib" / "libgrow.so"
    library.parent.mkdir()
    shutil.copy(libraries["c", "debug"], library)
    report, _ = record(library)
    here = stacks(report)
    root = tmp_path / "root"
    copied = root / str(library).lstrip("/")
    copied.parent.mkdir(parents=True)
    library.rename(copied)
    assert "hidden" not in str(view("flamegraph", "--format", "folded", report).stdout)
    found = view("flamegraph", "--format", "folded", "--sysroot", root, report).stdout
    assert ";".join(here[0]) in found
    # What the sysroot does not have is not taken from this machine.
    assert "symbols_main-" in found


def views(report, *options, env=None):
    """Every view that shows native functions, and some that do not."""
    svg = report.parent / "view.svg"
    shown = {
        "folded": view("flamegraph", "--format", "folded", *options, report, env=env).stdout,
        "svg": view("flamegraph", "-o", svg, *options, report, env=env) and svg.read_text(),
        "tree": view("tree", "--native", "--all", *options, report, env=env).stdout,
        "tree.json": harness.unwrapped(view("tree", "--native", "--format", "json", *options, report, env=env).stdout),
    }
    for name in ("report --all", "lines", "ledger", "changes"):
        shown[name] = harness.unwrapped(view(*name.split(), "--format", "json", report, env=env).stdout)
    return shown


def test_a_capture_with_embedded_names_needs_no_libraries(libraries, record, nowhere, tmp_path):
    options, env = nowhere
    folder = tmp_path / "lib"
    folder.mkdir()
    copies = [shutil.copy(library, folder) for library in libraries.values()]
    report, _ = record("jit", *copies)
    here = views(report)
    embedded = tmp_path / "embedded" / "report.bin"
    embedded.parent.mkdir()
    said = view("check", report, "--symbolize", embedded).stdout
    assert re.search(r"[\d,]+ of [\d,]+ places in \d+ modules have names", said)
    assert embedded.read_bytes().startswith(report.read_bytes())
    shutil.rmtree(folder)
    without = views(report, *options, env=env)
    assert "hidden" not in without["folded"] and "(JIT code)" in without["folded"]
    there = views(embedded, *options, env=env)
    for name, text in here.items():
        assert there[name] == text, name
    # Again, now without any file: the same bytes.
    again = tmp_path / "again.bin"
    for more in ([], ["--anew"]):
        view("check", *more, *options, embedded, "--symbolize", again, env=env)
        assert again.read_bytes() == embedded.read_bytes()
    # In its own place.
    view("check", *options, again, "--symbolize", again, env=env)
    assert again.read_bytes() == embedded.read_bytes()
    assert not list(tmp_path.glob("**/*.part"))
    checked, whole = (harness.unwrapped(view("check", "--format", "json", path).stdout) for path in (embedded, report))
    assert checked.pop("names") > 10 and whole.pop("names") == 0
    assert checked.pop("bytes") > whole.pop("bytes")
    assert checked == whole


def test_names_can_be_looked_up_anew(separate, record, tmp_path):
    """Embedded where only exported names were known, and again where the debug file has come."""
    library, debug, _ = separate
    report, _ = record(library)
    view("check", report, "--symbolize", report)
    assert fits(stacks(report)[0], expected("cpp", "stripped", library.name))
    shutil.copy(debug, library.parent)
    kept, found = stacks(report)[0], expected("cpp", "debug", library.name)
    assert kept[0].startswith("grow+0x"), "embedded names hold"
    assert re.fullmatch(found[1], kept[1]), "what is not is looked up"
    view("check", "--anew", report, "--symbolize", report)
    assert fits(stacks(report)[0], expected("cpp", "debug", library.name))


@pytest.mark.parametrize("harm", ("cut", "flipped"))
def test_a_damaged_capture_is_still_said_to_be(harm, libraries, record, tmp_path):
    report, _ = record(libraries["c", "debug"])
    content = bytearray(report.read_bytes())
    # The pages start at byte 24576; so short a program has one.
    assert content[24_576 : 24_576 + 8] == b"GPUMPAGE"
    if harm == "cut":
        del content[-1_000:]
    else:
        content[-1_000] ^= 0x40
    report.write_bytes(content)
    embedded = tmp_path / "embedded.bin"
    done = view("check", report, "--symbolize", embedded, check=False)
    assert done.returncode == 3 and done.stdout.startswith("report.bin: DAMAGED:"), harness.described(done)
    checks = [view("check", "--format", "json", path, check=False) for path in (report, embedded)]
    assert [check.returncode for check in checks] == [3, 3]
    first, second = (harness.unwrapped(check.stdout) for check in checks)
    assert first["damage"] and first["damage"] == second["damage"]
    for told in (first, second):
        told.pop("bytes"), told.pop("names")
    assert first == second
    summaries = [view("report", "--all", path, check=False).stdout for path in (report, embedded)]
    assert summaries[0] == summaries[1].replace(embedded.name, report.name)


def test_damage_to_the_names_is_said(libraries, record, tmp_path):
    report, _ = record(libraries["c", "debug"])
    embedded = tmp_path / "embedded.bin"
    view("check", report, "--symbolize", embedded)
    whole = embedded.read_bytes()
    embedded.write_bytes(whole[:-100])
    done = view("check", embedded, check=False)
    assert done.returncode == 3 and "names were embedded" in done.stdout, harness.described(done)
    # The capture itself can still be given its names again.
    view("check", embedded, "--symbolize", embedded, check=False)
    assert "hidden" in view("flamegraph", "--format", "folded", embedded, check=False).stdout


def test_errors_leave_no_file_behind(libraries, record, tmp_path):
    report, _ = record(libraries["c", "plain"])
    content = report.read_bytes()
    out = tmp_path / "out.bin"
    assert view("check", report, "--symbolize", check=False).returncode == 2, "nobody said where to"
    assert view("check", tmp_path / "none.bin", "--symbolize", out, check=False).returncode == 1
    text = tmp_path / "text.bin"
    text.write_text("not a capture")
    assert view("check", text, "--symbolize", out, check=False).returncode == 1
    done = view("check", report, "--symbolize", tmp_path / "no" / "folder.bin", check=False)
    assert done.returncode == 1 and "folder.bin" in done.stderr
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for special in ("folder", "fifo", "-"):
        done = harness.run([harness.ANALYZER, "check", report, "--symbolize", special], cwd=tmp_path, check=False)
        assert done.returncode == 1 and "name a regular file" in done.stderr, harness.described(done)
    assert (tmp_path / "fifo").is_fifo() and not (tmp_path / "-").exists()
    assert not out.exists() and not list(tmp_path.glob("**/*.part"))
    assert report.read_bytes() == content


def test_a_link_is_replaced(libraries, record, tmp_path):
    report, _ = record(libraries["c", "plain"])
    link = tmp_path / "link.bin"
    link.symlink_to(report)
    before = report.read_bytes()
    view("check", link, "--symbolize", link)
    assert not link.is_symlink() and link.stat().st_size > len(before)
    assert report.read_bytes() == before


def test_a_capture_that_is_still_written_is_refused(build_c, libraries, tmp_path):
    report = tmp_path / "report.bin"
    program = build_c("symbols_main.c", "-ldl")
    waiting = subprocess.Popen(
        harness.simulator_command([program, libraries["c", "plain"], "wait"]),
        env=harness.clean_environment(harness.preloaded({"GPUMEM_OUTPUT": str(report)})),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path,
    )
    try:
        assert waiting.stdout.readline() == b"waiting\n"
        done = view("check", report, "--symbolize", tmp_path / "out.bin", check=False)
        assert done.returncode == 1 and "still running" in done.stderr, harness.described(done)
    finally:
        waiting.stdin.close()
        waiting.wait()
    view("check", report, "--symbolize", tmp_path / "out.bin")


def test_code_made_at_run_time_is_named_from_its_map(record, tmp_path):
    report, done = record("jit")
    folded = view("flamegraph", "--format", "folded", report).stdout
    assert "(JIT code)" in folded and "made_here" not in folded
    pid, address = done.stdout.split()[:2]
    beside = report.parent / f"perf-{pid}.map"
    beside.write_text(f"{address} 8 made_here\n")
    named = view("flamegraph", "--format", "folded", report).stdout
    assert named == folded.replace("(JIT code)", "made_here (JIT code)")
    embedded = tmp_path / "elsewhere" / "report.bin"
    embedded.parent.mkdir()
    view("check", report, "--symbolize", embedded)
    beside.unlink()
    assert view("flamegraph", "--format", "folded", embedded).stdout == named
    assert view("flamegraph", "--format", "folded", report).stdout == folded


def test_a_map_of_an_earlier_process_with_the_number_is_not_used(record):
    """/tmp/perf-PID.map counts only if it was written while the process ran."""
    report, done = record("jit")
    pid, address = done.stdout.split()[:2]
    stale = Path("/tmp") / f"perf-{pid}.map"
    if stale.exists():
        pytest.skip("somebody else's map is there")
    stale.write_text(f"{address} 8 made_here\n")
    try:
        written_at = report.stat().st_mtime
        for age, is_used in ((-3600, False), (3600, False), (0, True)):
            os.utime(stale, (written_at + age, written_at + age))
            folded = view("flamegraph", "--format", "folded", report).stdout
            assert ("made_here" in folded) == is_used, age
        if os.geteuid() == 0:
            os.chown(stale, 65_534, -1)
            assert "made_here" not in view("flamegraph", "--format", "folded", report).stdout, "a stranger's map"
    finally:
        stale.unlink()


def test_a_training_with_embedded_names_says_the_same_anywhere(forks, nowhere, tmp_path):
    options, env = nowhere
    report = tmp_path / "report.bin"
    forks("torch215").run([harness.WORKLOADS / "train.py", "--steps", "1", "--batch", "4"], cwd=tmp_path)
    embedded = tmp_path / "embedded.bin"
    said = view("check", report, "--symbolize", embedded).stdout
    places = re.search(r"([\d,]+) of ([\d,]+) places", said)
    assert int(places[1].replace(",", "")) > 0.95 * int(places[2].replace(",", "")), said
    here = view("flamegraph", "--native", "--format", "folded", report).stdout
    assert view("flamegraph", "--native", "--format", "folded", *options, embedded, env=env).stdout == here
    assert "at::_ops::" in here
