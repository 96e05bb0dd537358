"""Python frames read without the GIL, and line tables decoded offline, against each CPython here.

The probe (interposer/examples/python_probe.rs) takes stacks with the recorder's own code; the workloads compare them
with the interpreter's own frames.
"""

import platform
import subprocess

import harness
import pytest
from lanes import slow
from pythons import VERSIONS, versions


@pytest.fixture(scope="module")
def probe():
    return harness.EXAMPLES / "libpython_probe.so"


@pytest.fixture(scope="module")
def decode_lines():
    decoder = harness.EXAMPLES / "decode_lines"

    def decode(path):
        with open(path) as file:
            done = subprocess.run(
                [decoder], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        assert done.returncode == 0, done.stdout[-4000:]
        fields = done.stdout.split()
        return {name: int(value) for name, value in zip(fields[::2], fields[1::2])}

    return decode


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_are_the_interpreters_own(version, python_env, probe, decode_lines, tmp_path):
    python = python_env(version)
    done = harness.run([python, harness.WORKLOADS / "python_frames.py", probe, tmp_path])
    words = done.stdout.split()
    assert words[0] == "checked" and int(words[1]) > 15_000 and int(words[4]) > 3_500, done.stdout
    lines = decode_lines(tmp_path / "lines.txt")
    assert lines["compared"] > 500


@pytest.mark.parametrize("version", VERSIONS)
def test_the_example_of_the_crate(version, python_env):
    """python-frames/examples/print_stack.rs, which does not depend on gpumem."""
    library = harness.EXAMPLES / "libprint_stack.so"
    program = f"""import ctypes
library = ctypes.CDLL({str(library)!r})
def inner():
    library.print_stack()
def outer():
    inner()
outer()
"""
    done = harness.run([python_env(version), "-c", program])
    frames = [line.split()[:3] for line in done.stdout.splitlines()]
    assert frames == [["inner", "<string>", "3"], ["outer", "<string>", "5"], ["<module>", "<string>", "1"]], done.stdout


# PyTorch up to 1.13 has plain calls, and no CPython above 3.10.
@pytest.mark.parametrize(
    "version, way", [*((version, "wrapped") for version in VERSIONS), *((version, "plain") for version in ("py38", "py39", "py310"))]
)
def test_modules_that_frames_call(version, way, python_env, probe):
    """The first local of each frame of the function through which PyTorch calls modules: by the same code, at the same
    frame, another module is another stack."""
    done = harness.run([python_env(version), harness.WORKLOADS / "python_modules.py", probe, way])
    _, calls, _, _, stacks, _, _, modules, _ = done.stdout.split()
    assert (int(calls), int(modules)) >= (400, 28) and int(stacks) > 100, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_whether_the_interpreter_is_finalizing(version, python_env, probe):
    """Py_AtExit's functions are called while it is, those of atexit before. The end of a subinterpreter is not meant."""
    program = f"""import atexit, ctypes, sys
probe = ctypes.CDLL({str(probe)!r})
for _ in range(2000):
    probe.probe_take(1)
probe.probe_print_finalizing()
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreters.destroy(interpreters.create())
probe.probe_print_finalizing()
atexit.register(probe.probe_print_finalizing)  # before it begins
ctypes.pythonapi.Py_AtExit(probe.probe_print_finalizing)
"""
    done = harness.run([python_env(version), "-c", program])
    assert done.stdout.split("\n") == ["finalizing 0"] * 3 + ["finalizing 1", ""], done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="replaces a function by machine code")
@pytest.mark.parametrize("version", VERSIONS)
def test_whether_the_interpreter_is_finalizing_is_read_without_a_call(version, python_env, probe):
    """CPython's own function is replaced by one that counts its calls and answers no."""
    program = f"""import ctypes, os, sys
probe = ctypes.CDLL({str(probe)!r})
function = ctypes.pythonapi[{'Py_IsFinalizing' if version in ('py313', 'py314') else '_Py_IsFinalizing'!r}]
address = ctypes.cast(function, ctypes.c_void_p).value
calls = ctypes.c_long(0)
mov, add, answer = b"\\x48\\xb8", b"\\x48\\xff\\x00", b"\\x31\\xc0\\xc3"
code = mov + ctypes.addressof(calls).to_bytes(8, "little") + add + answer
page = address & -4096
protect = ctypes.CDLL(None, use_errno=True).mprotect
assert protect(ctypes.c_void_p(page), ctypes.c_size_t(8192), 7) == 0, os.strerror(ctypes.get_errno())
ctypes.memmove(address, code, len(code))
assert [function(), function()] == [0, 0] and calls.value == 2
def new_code(number):
    exec(compile(f"def f_{{number}}(): return probe.probe_take(1)\\nf_{{number}}()", "new.py", "exec"), dict(probe=probe))
for number in range(200):
    new_code(number)
    probe.probe_take(1)
print(calls.value, probe.probe_take(1) != 0)
sys.stdout.flush()
os._exit(0)
"""
    done = harness.run([python_env(version), "-c", program])
    assert done.stdout == "2 True\n", done.stderr


def test_frames_of_code_that_the_interpreter_compiled(python_env, probe, tmp_path):
    """CPython's own compiler to machine code, where it is built in."""
    python = python_env("py314")
    enabled = "import sys; print(int(sys._jit.is_enabled()))"
    env = {"PYTHON_JIT": "1"}
    if harness.run([python, "-c", enabled], env=env).stdout != "1\n":
        pytest.skip(f"{python} is built without its compiler")
    done = harness.run([python, harness.WORKLOADS / "python_frames.py", probe, tmp_path], env=env)
    assert int(done.stdout.split()[1]) > 15_000, done.stdout


@pytest.mark.parametrize("version", versions("py38", "py312", "py314"))
def test_frames_in_greenlets(version, python_env, probe, tmp_path):
    python = python_env(version)
    folder = subprocess.run(
        [harness.ENVIRONMENT, f"greenlet-{version}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    if folder.returncode != 0:
        pytest.skip(f"greenlet for {python} is not at hand: {folder.stderr.strip()}")
    done = harness.run(
        [python, harness.WORKLOADS / "python_greenlets.py", probe, tmp_path],
        env={"PYTHONPATH": folder.stdout.strip()},
    )
    words = done.stdout.split()
    assert words[0] == "checked" and int(words[1]) > 7_000 and int(words[4]) > 1_800, done.stdout


# The forms of a table: with lines alone up to 3.9, that of 3.10, and with columns since.
FORMS = ("py39", "py310", "py312")


@pytest.mark.parametrize("version, every", [*((version, 4) for version in FORMS), *slow(*((version, 1) for version in VERSIONS))])
def test_line_tables_of_the_standard_library(version, every, python_env, decode_lines, tmp_path):
    python = python_env(version)
    dump = tmp_path / "lines.txt"
    with open(dump, "w") as file:
        subprocess.run(
            [python, harness.WORKLOADS / "python_lines.py", str(every)],
            stdout=file, check=True, env=harness.clean_environment(),
        )
    lines = decode_lines(dump)
    assert lines["objects"] * every > 10_000 and lines["compared"] * every > 1_000_000, lines


@pytest.mark.parametrize("version", ["py310", "py312", "py313", "py314"])
def test_a_known_stack_costs_little(version, python_env, probe):
    """In the time of the thread's processor, against a round of an empty loop of the interpreter's. A stack that is
    interned frame by frame, or with the code objects read again each time, costs more."""
    done = harness.run([python_env(version), harness.WORKLOADS / "stack_cost.py", probe])
    words = done.stdout.split()
    cost = {name: float(value) for name, value in zip(words[4::2], words[5::2])}
    assert 0 < cost["walk"] < 150 * cost["loop"] and 0 < cost["python_stack"] < 250 * cost["loop"], cost


def test_a_library_in_the_place_of_an_unloaded_one(python_env, probe, build_c):
    """Stacks with the very same addresses, but through another library, are other stacks: our `dlclose`
    sees that the first is gone, which needs the preload."""
    libraries = [build_c("call_back.c", "-shared", "-fPIC", f"-DANSWER={i}") for i in (1, 2)]
    done = harness.run(
        [python_env("py312"), harness.WORKLOADS / "python_unloads.py", probe, *libraries, *libraries],
        env={"LD_PRELOAD": str(probe)},
    )
    *taken, last = [line.split() for line in done.stdout.splitlines()]
    assert [name for _, name in taken] == [path.name for path in libraries * 2]
    assert len({number for number, _ in taken}) == 4
    # The last one is unloaded too, but no stack came after that.
    assert last == ["ended", "3", "addresses", "1"]


@pytest.mark.parametrize(
    "version, why",
    [
        ("py36", "is not among 3.8 to 3.14"),
        ("py37", "is not among 3.8 to 3.14"),
        pytest.param("py315", "is not among 3.8 to 3.14", marks=pytest.mark.slow),
        pytest.param("py313t", "is a free-threaded build (no GIL)", marks=pytest.mark.slow),
        pytest.param("py314t", "is a free-threaded build (no GIL)", marks=pytest.mark.slow),
    ],
)
def test_unknown_interpreters_are_declined(version, why, python_env, probe):
    """No Python stack and one note, however many threads take stacks; native stacks are taken nevertheless."""
    harness.run([python_env(version), harness.WORKLOADS / "python_declined.py", probe, why])


@pytest.mark.parametrize("version", ["py38", "py312", "py313"])
def test_a_python_that_a_plugin_loads_for_itself(version, python_env, probe, build_c):
    """libpython is loaded late, and out of the global scope's sight."""
    python = python_env(version)
    script = "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('LDLIBRARY'))"
    folder, name = harness.run([python, "-c", script]).stdout.split()
    if ".so" not in name:
        pytest.skip(f"{python} has no shared libpython")
    program = build_c("embedded_python.c", "-ldl", "-rdynamic")
    done = harness.run([program, probe, f"{folder}/{name}"], env={"PYTHONHOME": f"{folder}/.."})
    assert done.stdout == "before: none\ninside: some\nafter: none\n"
