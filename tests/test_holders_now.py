"""gpumem.holders() and gpumem_holders: who keeps the tensors, asked at any moment of a program with PyTorch.

What breaks these tests: a search that lists the frames of the call itself, a lock that is taken twice or by a thread that
may not, a collector that stays off, a holder whose bytes deleting it does not free, a text that a short buffer ends."""

import json
import re
import sys

import harness
import pytest

MIB = 1 << 20
QUIET = {"GPUMEM_QUIET": "1", "PYTHONPATH": str(harness.ROOT / "python")}
MAIN = "global of __main__"
NOTHING = "RuntimeError: gpumem.holders() needs the recorder, and nothing is recorded in this process: "
GRAPH = [16 * MIB, 2, "graph", "history[0]", MAIN, None, False]
RESULTS = [12 * MIB, 4, "object", "results[0…3]", MAIN, 12 * MIB, False]
KEEPER = [8 * MIB, 1, "object", "keeper.last", MAIN, 8 * MIB, False]
LOCAL = [6 * MIB, 1, "object", "local", "local of inside (holders_now.py:LINE)", 6 * MIB, True]
SAVED = [5 * MIB, 1, "traceback", "saved → traceback → fails (holders_now.py:LINE) local", MAIN, 5 * MIB, False]
PARAMETERS = [4 * MIB, 1, "parameters", "model", MAIN, None, False]
GRADIENTS = [4 * MIB, 1, "gradients", "model", MAIN, None, False]
LOSS = [512, 1, "object", "history[0]", MAIN, None, False]
# Outside of the function with the local variable.
KEPT = [GRAPH, RESULTS, KEEPER, SAVED, PARAMETERS, GRADIENTS, LOSS]
LIVE = sum(row[0] for row in KEPT)
TABLE = """\
tensors on GPU 0: 49.0 MiB
   bytes  share  blocks     frees  holder
16.0 MiB   33 %       2         -  graph of history[0], global of __main__
12.0 MiB   24 %       4  12.0 MiB  results[0…3], global of __main__
21.0 MiB   43 %                    5 more holders"""


def rows(found):
    """Rows as constants above, without the numbers of lines."""
    return [[re.sub(r"(?<=\.py:)\d+", "LINE", part) if isinstance(part, str) else part for part in row] for row in found]


def rows_of(text):
    """Rows of the text that gpumem_holders writes, as capture/SPEC.md describes it; the first line; and the blocks."""
    walk, *lines = text.splitlines()
    blocks = [line.split(" ") for line in lines if line.startswith("block ")]
    found = []
    for number in range(0, len(lines) - len(blocks), 3):
        (word, kind, whose, size, count, frees), name, place = lines[number].split(" "), lines[number + 1], lines[number + 2]
        assert whose == ("other" if "native" in place else "own")
        assert (word, name[:5], place[:6]) == ("holder", "text ", "place ")
        found.append([int(size), int(count), kind, name[5:], place[6:], None if frees == "-" else int(frees), False])
    return rows(found), walk.split(" "), blocks


@pytest.fixture(scope="module")
def answers(python_env, build_c, tmp_path_factory):
    """What tests/workloads/holders_now.py printed."""
    library = build_c("holders_now.c", "-shared", "-fPIC", "-ldl", "-lpthread")
    command = [python_env("torch215"), "-Wignore", harness.WORKLOADS / "holders_now.py", library]
    env = {**QUIET, "GPUMEM_HOLDERS": "off"}  # at failures only
    done = harness.simulate(command, devices=2, preload=True, env=env, cwd=tmp_path_factory.mktemp("holders"))
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("of", ("caller", "thread"))
def test_all_that_keeps_tensors_is_found(of, answers):
    """On any thread, to the byte, and without the frames and variables of the call itself."""
    found, allocated = answers[of]
    assert rows(found) == [GRAPH, RESULTS, KEEPER, LOCAL, SAVED, PARAMETERS, GRADIENTS, LOSS]
    assert allocated == LIVE + LOCAL[0] == sum(row[0] for row in found)


def test_what_is_freed_when_a_holder_lets_go(answers):
    assert answers["freed"] == {"results": RESULTS[5], "keeper": KEEPER[5], "saved": SAVED[5]}


def test_the_table(answers):
    found, device, live, cut, table, first, shown = answers["two"]
    assert (found, device, live, cut) == (KEPT[:2], 0, LIVE, None)
    assert table == TABLE
    assert first == "graph of history[0], global of __main__"
    assert shown == (
        f"Holder(bytes={16 * MIB}, blocks=2, kind='graph', text='history[0]', place='global of __main__', frees=None, "
        "unused=False)"
    )


def test_devices_and_the_collector(answers):
    assert answers["same"]
    empty, table, *refused = answers["others"]
    assert (empty, table) == ([], "tensors on GPU 1: 0 B")
    assert refused == [
        "ValueError: top is the number of holders, at least 1, and not 0", "ValueError: no such device: -1"
    ]  # fmt: skip
    assert answers["collector"] == [False, True], "the collector is as the program has set it"


def test_where_nothing_is_recorded(answers, python_env, tmp_path):
    """Before the first use of the GPU, in a forked child, and without the library."""
    assert answers["early"].startswith(NOTHING) and answers["child"].startswith(NOTHING)
    script = "import gpumem\ntry: gpumem.holders()\nexcept RuntimeError as error: print('RuntimeError:', error)\n"
    for version in ("py38", "py312", "py314"):
        done = harness.run([python_env(version), "-c", script], env=QUIET, cwd=tmp_path)
        assert done.stdout.startswith(NOTHING)


def test_the_c_api(answers, build_c, simulate):
    """With the interpreter's lock and without it; a buffer that is too short; no interpreter; no right to the lock."""
    for text, length, again, short in answers["c"]:
        found, walk, blocks = rows_of(text)
        assert found == KEPT
        assert (walk[:2], walk[-2:], len(walk)) == (["walk", "whole"], [str(LIVE)] * 2, 7)
        assert [sum(of == str(number) for *_, of in blocks) for number in range(7)] == [row[1] for row in KEPT]
        # The walk's time may have another number of digits in the next call.
        assert length == len(text.encode()) and abs(length - again) < 8
        assert short == text[:7] + "\0xxxx"
    assert answers["foreign"] == -2
    done = simulate([build_c("holders_now.c", "-ldl", "-lpthread")], preload=True, env=QUIET)
    assert done.stdout == "0 -1 -1\n-3 -1\n"


IN_SUBINTERPRETER = """\
import ctypes, gpumem
cuda = ctypes.CDLL('libcuda.so.1')
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
print(gpumem.holders(), flush=True)
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
interpreters.run_string(other, '''
import gpumem
try: print(gpumem.holders(), flush=True)
except RuntimeError as error: print(error, flush=True)
''')
interpreters.destroy(other)
"""
EMPTY = "tensors on GPU 0: 0 B"
REFUSED = "gpumem.holders() cannot search for objects here: this is a subinterpreter"


@pytest.mark.parametrize("version, answer", [("py311", EMPTY), ("py313", REFUSED), ("py314", REFUSED)])
def test_a_subinterpreter(version, answer, python_env, simulate):
    """With one lock for all, the search is that of the main interpreter, and waits for no lock that the thread has. With a
    lock for each there is no search: other threads change the main interpreter's frames meanwhile."""
    done = simulate([python_env(version), "-c", IN_SUBINTERPRETER], preload=True, env=QUIET)
    first, second = done.stdout.splitlines()
    assert first == EMPTY and second.startswith(answer)


def test_a_table_is_at_most_79_columns_wide():
    """Long names are wrapped; a line marks a search that was not completed."""
    sys.path.insert(0, QUIET["PYTHONPATH"])
    from gpumem._inside import holders

    text = "walk time 1000000 5 6 4294967296 4294967296\n"
    for number in range(3):
        name = f"trainer.callbacks[{number}].outputs['validation'][…].logits → closure of make_hook → features[0…213]"
        text += f"holder object own {(3 - number) << 20} 12345 -\ntext {name}\nplace local of Trainer.fit (trainer.py:1234)\n"
    found = holders._parsed(text, 1, 2)
    assert str(found) == """\
tensors on GPU 1: 4.00 GiB
   bytes  share  blocks  frees  holder
3.00 MiB   <1 %  12,345      -  trainer.callbacks[0].outputs['validation'][…].l
                                ogits → closure of make_hook → features[0…213],
                                local of Trainer.fit (trainer.py:1234)
2.00 MiB   <1 %  12,345      -  trainer.callbacks[1].outputs['validation'][…].l
                                ogits → closure of make_hook → features[0…213],
                                local of Trainer.fit (trainer.py:1234)
1.00 MiB   <1 %                 1 more holder
The search was not completed: it ran out of time"""
    assert max(map(len, str(found).splitlines())) <= 79


def test_the_page_shows_what_is_printed(forks, tmp_path):
    """The program of docs/holders.md prints the table below it."""
    page = (harness.ROOT / "docs" / "holders.md").read_text()
    program, table = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S).groups()
    (tmp_path / "evaluate.py").write_text(program)
    done = forks("torch215").run(["evaluate.py"], env=QUIET, cwd=tmp_path)
    assert done.stdout == table
