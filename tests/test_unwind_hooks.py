"""Stacks that others take while a thread is in one of libgpumem.so's functions in assembly: the system's unwinder
finds the caller from each instruction of each function, so profilers, debuggers and exceptions do, too."""

import re
import struct

import harness
import pytest

LIBRARY = harness.BUILT / "libgpumem.so"
# Crates whose code is in the library.
CRATES = ("interposer", "stacks", "tracker", "python-frames", "unwind", "capture", "cuda-abi")


def read(*command) -> str:
    return harness.run(command).stdout


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """Offset → (name, size) of each function that `naked_code!` made (interposer/src/caller.rs)."""
    folder = tmp_path_factory.mktemp("naked")
    listed = folder / "functions"
    harness.run(["objcopy", "--dump-section", f".naked_functions={listed}", LIBRARY, folder / "copy"])
    symbols = {}
    for line in read("nm", "--defined-only", "-S", LIBRARY).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tT":
            symbols[int(fields[0], 16)] = (fields[3], int(fields[1], 16))
    found = {offset: (symbols[offset][0], size) for offset, size in struct.iter_unpack("<QQ", listed.read_bytes())}
    assert {offset: symbols[offset] for offset in found} == found, "the list has the symbols' sizes"
    return found


def instructions(offset: int, size: int) -> set[int]:
    """Offsets of a function's instructions from its beginning."""
    lines = read(
        "objdump", "-d", "--no-show-raw-insn", f"--start-address={offset}", f"--stop-address={offset + size}", LIBRARY
    ).splitlines()
    found = (re.match(r"\s*([0-9a-f]+):\t", line) for line in lines)
    return {int(match[1], 16) - offset for match in found if match}


def sources():
    for crate in CRATES:
        for path in sorted((harness.ROOT / crate / "src").rglob("*.rs")):
            yield path.relative_to(harness.ROOT), path.read_text()


def test_all_code_of_naked_functions_is_listed():
    uses = [str(path) for path, text in sources() for _ in re.findall(r"\bnaked_asm!", text)]
    tests = [path for path in uses if path.endswith("/tests.rs")]
    assert [path for path in uses if path not in tests] == ["interposer/src/caller.rs"]
    # Assembly outside of functions declares thread-local storage, which symbols are hidden, and what the loader calls
    # while it relocates the library.
    outside = [str(path) for path, text in sources() if "global_asm!" in text]
    assert outside == [
        *(f"interposer/src/{name}.rs" for name in ("hook", "session", "thread/affinity")), "stacks/src/tls.rs"
    ]


def test_each_function_has_call_frame_information(functions):
    """Compiled or not. What the linker adds of the C compiler's has none."""
    startup = {"_init", "_fini", "deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy"}
    described = {
        int(start, 16): int(end, 16)
        for start, end in re.findall(r"FDE cie=\w+ pc=(\w+)\.\.(\w+)", read("readelf", "-wF", LIBRARY))
    }
    bare = []
    for line in read("nm", "--defined-only", "-S", LIBRARY).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tTW" and fields[3] not in startup:
            start, size = int(fields[0], 16), int(fields[1], 16)
            if described.get(start, 0) < start + size:
                bare.append(fields[3])
    assert len(described) > 1000 and set(functions) <= set(described)
    assert bare == []


def test_each_instruction_of_each_naked_function_can_be_unwound_from(functions, build_c, tmp_path):
    names = {name for name, _ in functions.values()}
    assert {"dlsym", "dlvsym", "dlopen", "cuGetProcAddress_v2", "cuMemAlloc_v2", "cudaMalloc"} <= names
    # The kernel alone enters it, with a signal that it would pass on.
    functions = {offset: found for offset, found in functions.items() if "handler5entry" not in found[0]}
    listed = tmp_path / "functions"
    listed.write_text("".join(f"{name} {offset:x} {size:x}\n" for offset, (name, size) in functions.items()))
    done = harness.run(
        [build_c("unwind_hooks.c", "-ldl", "-lrt"), "step", listed], check=False, cwd=tmp_path,
        env={"LD_PRELOAD": str(LIBRARY), "GPUMEM_QUIET": "1"},
    )
    found = {}
    for line in done.stdout.splitlines():
        name, *rest = line.split(maxsplit=1)
        found[name] = rest[0] if rest else ""
    assert [f"{name}: {said}" for name, said in found.items() if "failed" in said] == [], harness.described(done)
    assert done.returncode == 0, harness.described(done)
    for offset, (name, size) in functions.items():
        assert {int(word, 16) for word in found[name].split()} == instructions(offset, size), name


def test_a_profilers_stacks_of_dlsym_end_in_main(build_c, tmp_path):
    done = harness.run(
        [build_c("unwind_hooks.c", "-ldl", "-lrt"), "sample", "500"], cwd=tmp_path,
        env={"LD_PRELOAD": str(LIBRARY), "GPUMEM_QUIET": "1"},
    )
    taken, through_dlsym, without_main = map(int, done.stdout.split())
    assert taken >= through_dlsym >= 500
    assert without_main == 0, f"{without_main} of {taken} stacks end before main"
