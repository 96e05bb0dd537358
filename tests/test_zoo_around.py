"""What a hook leaves behind on the calling thread, from the first call of a process on: it writes at most 16 KiB of the
program's stack, and changes neither errno, dlerror, the signal mask, the state of the floating-point units nor how the
thread may be cancelled.

Each exported hook of the driver, the runtime and NVML is called, in a separate process, with results of success,
exhausted memory and another failure, on libraries without effect. What breaks these tests: a path's buffer or a table of
functions on the stack, a look-up by the loader, a pointer of errno that is restored before the last system call."""

import platform
import re

import harness
import pytest
import zoo

MOST = 16 << 10
# An address that is also a plausible number of bytes.
AREA = "0x20000L"
LIBRARIES = {"libcuda.so.1": "cu[A-Z]", "libcudart.so.13": "cuda[A-Z]", "libnvidia-ml.so.1": "nvml[A-Z]"}


def exported() -> list[str]:
    symbols = harness.run(["nm", "-D", "--defined-only", harness.LIBRARY]).stdout.split()
    return sorted(name for name in symbols if re.match("|".join(LIBRARIES.values()), name))


@pytest.fixture
def around(build_c, tmp_path):
    """around(kind, recorded) calls all of them on a thread's stack or a fiber's, and returns the lines of the program."""
    if platform.machine() != "x86_64":
        pytest.skip("the states are those of x86-64")
    names = exported()

    def listed(pattern):
        chosen = [name for name in names if re.match(pattern, name)]
        assert chosen, pattern
        return "-DNAMES(X)=" + " ".join(f"X({name})" for name in chosen)

    folder = tmp_path / "libraries"
    folder.mkdir()
    for library, pattern in LIBRARIES.items():
        own = ["-DQUERIES"] if library == "libcuda.so.1" else []
        built = build_c(
            "zoo/around_driver.c", "-shared", "-fPIC", "-Wl,-Bsymbolic", f"-Wl,-soname,{library}", f"-DAREA={AREA}",
            "-Wno-builtin-declaration-mismatch", *own, listed(pattern),
        )
        (folder / library).symlink_to(built)
    client = build_c("zoo/around.c", "-ldl", "-pthread", f"-DAREA={AREA}", listed("."))

    def around(kind, recorded):
        env = {"LD_LIBRARY_PATH": str(folder), **zoo.QUIET}
        if recorded:
            # A ring that ends with its process, because these are ended without their exit handlers.
            env |= harness.preloaded({"GPUMEM_RING": "memfd", "GPUMEM_OUTPUT": str(tmp_path / kind / "%p.bin")})
            (tmp_path / kind).mkdir()
        done = harness.run([client, kind, *(folder / library for library in LIBRARIES)], env=env, cwd=tmp_path)
        return done.stdout.splitlines()

    return around


@pytest.mark.parametrize("kind", ("thread", "fiber"))
def test_a_hook_leaves_little_behind(kind, around, tmp_path):
    without, recorded = around(kind, False), around(kind, True)
    names = exported()
    assert len(names) >= 190
    # One line for each: no state has changed, and no child has crashed.
    touched = [dict(line.rsplit(" ", 1) for line in lines) for lines in (without, recorded)]
    assert [sorted(lines) for lines in touched] == [names, names], set(recorded) - set(without)
    more = {name: int(touched[1][name]) - int(touched[0][name]) for name in names}
    assert {name: bytes for name, bytes in more.items() if bytes > MOST} == {}
    # Each process records, after its first call at the latest.
    assert len(list((tmp_path / kind).iterdir())) == len(names)
