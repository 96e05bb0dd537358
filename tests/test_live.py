"""`gpumem-analyze live`: a running program, as its screen shows it.

What breaks these tests: figures that are not those of the capture, a view that ends with its program or ends the
program, a terminal whose settings are not restored, and a viewer that continues when its terminal is gone."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import harness
import pytest
from on_demand import PROGRAM, Program
from screen import Screen


@pytest.fixture
def program(tmp_path, python_env):
    with Program(tmp_path, python_env("py312")) as program:
        assert program.allocate(16) == 16
        yield program


def live(*arguments, **more):
    return Screen([harness.ANALYZER, "live", *arguments], **more)


def lines_now(program):
    rows = harness.analyze_json("lines", "--at", "end", "--level", "driver", program.report, check=False)
    return {(row["line"], row["bytes"], row["blocks"]) for row in rows}


def test_the_screen_shows_what_the_program_holds(program):
    """After each allocation: the program's figures, and the output of `lines` for the capture."""
    with live(program.report) as screen:
        for mib in (8, 100, 1):
            held = program.allocate(mib)
            text = screen.wait(lambda text: f"Lines: memory from CUDA now, {held}" in text)
            assert text.startswith("running")
            (row,) = lines_now(program)
            assert row[1] == held << 20
            assert f"on_demand.py:{row[0]}" in text and "allocate" in text
        screen.press("q")
        assert screen.end() == 0
    assert program.allocate(1) == 126, "the program goes on"


def test_a_program_is_found_by_its_number(program):
    with live(program.process.pid) as screen:
        screen.wait(f"pid {program.process.pid}")
    report = program.report.rename(program.report.with_name("moved.bin"))
    with live(program.process.pid) as screen:
        screen.wait("running")
    assert report.exists()


def test_many_look_at_one_program(program):
    with live(program.report) as first, live(program.report, columns=120, rows=40) as second:
        held = program.allocate(7)
        for screen in (first, second):
            screen.wait(f"Lines: memory from CUDA now, {held}")


@pytest.mark.parametrize("how", ["return", "kill"])
def test_it_says_how_the_program_ended(program, how):
    with live(program.report) as screen:
        screen.wait("running")
        if how == "kill":
            program.process.send_signal(signal.SIGKILL)
        else:
            program.process.stdin.close()
        program.process.wait()
        text = screen.wait("ended")
        assert text.startswith({"kill": "ended without its exit handlers", "return": "ended at"}[how])
        screen.press("\t")
        screen.wait("Categories: memory from CUDA now")
        screen.press("q")
        assert screen.end() == 0


def test_a_program_that_was_killed_has_ended_before_its_parent_waits(program):
    """It stays a zombie until then."""
    with live(program.report) as screen:
        screen.wait("running")
        program.process.send_signal(signal.SIGKILL)
        assert screen.wait("ended").startswith("ended without its exit handlers")
        state = Path(f"/proc/{program.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "Z", "nobody has waited for it"


def test_a_terminal_is_resized(program):
    with live(program.report) as screen:
        screen.wait("Lines: memory")
        screen.resize(120, 40)
        screen.wait(lambda _: any("? keys" in line for line in screen.lines()[39:40]))
        screen.resize(30, 8)
        screen.wait("needs 40 columns")
        screen.resize(80, 24)
        screen.wait("Lines: memory")


def test_a_terminal_that_hangs_up_ends_the_view_and_not_the_program(program):
    screen = live(program.report)
    with screen:
        screen.wait("running")
        screen.hang_up()
        screen.end()
    assert program.allocate(1) == 17


def ended(program):
    program.process.stdin.close()
    program.process.wait()


def event_of(text):
    return re.search(r"event ([0-9,]+)", text).group(1).replace(",", "")


def mebibytes(held):
    """As the screen has such a figure."""
    mib = held >> 20
    return f"{mib} MiB" if mib >= 100 else f"{mib}.0 MiB" if mib else "0 B"


def held_at(program, event):
    return sum(bytes for _, bytes, _ in rows_at(program, event))


def rows_at(program, event):
    rows = harness.analyze_json("lines", "--at", event, "--level", "driver", program.report, check=False)
    return {(row["line"], row["bytes"], row["blocks"]) for row in rows}


def test_time_is_scrubbed_and_each_moment_is_what_lines_says_of_it(program):
    """Back by columns to the beginning, while the program runs on; then forth again to now."""
    for mib in (8, 100, 1):
        program.allocate(mib)
    seen = set()
    with live(program.report) as screen:
        screen.wait("Lines: memory from CUDA now, 125 MiB")
        for key in ("[", "\x1b[D", "[", "{", "\x1b[1;2D"):
            before = screen.text()
            screen.press(key)
            text = screen.wait(lambda text: text != before and re.match(r"at \S+, event", text) and "then" in text)
            held = held_at(program, event_of(text))
            seen.add(event_of(text))
            assert f"Lines: memory from CUDA then, {mebibytes(held)}" in text, text
            if event_of(text) == "0":
                break
        program.allocate(50)
        assert "now, " not in screen.text()
        screen.press("n")
        screen.wait("Lines: memory from CUDA now, 175 MiB")
        screen.press("[")
        screen.wait("memory from CUDA then")
        screen.press("}}}}}}}}}")
        screen.wait("memory from CUDA now")
    assert seen


def test_a_jump_to_the_peak_shows_its_event(program):
    program.allocate(9)
    with live(program.report) as screen:
        screen.wait("Lines: memory from CUDA now, 25.0 MiB")
        screen.press("p")
        text = screen.wait("at the peak of GPU 0, ")
        text = screen.wait("memory from CUDA then, 25.0 MiB")
        assert held_at(program, event_of(text)) == 25 << 20
        assert held_at(program, int(event_of(text)) - 1) < 25 << 20
        screen.press(" ")
        screen.wait("memory from CUDA now")


def test_enter_shows_the_source_and_the_stacks_of_a_row(program):
    with live(program.report, columns=160, rows=50) as screen:
        screen.wait("Lines: memory from CUDA now, 16.0 MiB")
        screen.press("\r")
        text = screen.wait("Stack 1 of 1: 16.0 MiB in 1 block")
        ((line, _, _),) = lines_now(program)
        source = PROGRAM.read_text().splitlines()[line - 1]
        assert f"16.0 MiB >{line:5}  {source}" in text
        assert f"{PROGRAM}:{line}" in text
        assert re.search(rf"^  allocate \(\S*on_demand.py:{line}\)$", text, re.M), text
        # What the program does then does not change it.
        program.allocate(1)
        screen.press("\x1b")
        screen.wait("Lines: memory from CUDA now, 17.0 MiB")


def test_the_account_is_what_ledger_says(program):
    ended(program)
    with live(program.report, columns=160, rows=50) as screen:
        screen.wait("ended at")
        screen.press("n")
        screen.wait("Lines: memory from CUDA now, 16.0 MiB")
        screen.press("a")
        text = screen.wait("Steps")
        told = harness.analyze("ledger", "--at", "end", program.report, check=False).stdout
        rows = [line.rstrip() for line in told.splitlines() if "iB" in line]
        assert len(rows) > 2 and all(row[:40] in text for row in rows[1:]), (rows, text)
        assert "no step ended yet" in text


def test_the_page_is_written_beside_the_capture_and_over_no_file(program):
    ended(program)
    with live(program.report, columns=300) as screen:
        # It opens at the peak, which is read first.
        event = event_of(screen.wait("event "))
        first, second = (program.report.with_name(f"report.event-{event}{n}.html") for n in ("", ".2"))
        screen.press("e")
        screen.wait(f"{first}: ")
        page = first.read_text()
        assert page == harness.analyze("html", "--at", event, "--output", "-", program.report).stdout
        first.write_text("mine\n")
        screen.press("e")
        screen.wait(f"{second}: ")
        assert (first.read_text(), second.read_text()) == ("mine\n", page)
        screen.press("q")
        assert screen.end() == 0
    names = {path.name for path in program.report.parent.glob("*page*")}
    assert not names


def test_a_failure_is_shown_with_its_cause_as_oom_tells_it(program):
    with live(program.report, columns=120, rows=50) as screen:
        screen.wait("running")
        program.process.stdin.write(f"{1 << 20}\n")
        program.process.stdin.close()
        program.process.wait()
        screen.wait("OUT OF MEMORY at ")
        screen.press("f")
        text = screen.wait("cause  ")
        told = harness.analyze("oom", program.report, check=False).stdout
        cause = told[told.index("cause  ") :].splitlines()[0]
        assert cause in text
        screen.press("\r")
        text = screen.wait("at failure 1, ")
        text = screen.wait("memory from CUDA then, 16.0 MiB")
        assert held_at(program, event_of(text)) == 16 << 20
        screen.press("o")
        screen.wait("there is no later failure")
        screen.press("n")
        screen.wait("ended")
        screen.press("o")
        screen.wait("at failure 1, ")


def test_a_capture_that_is_replaced_is_not_taken_for_the_old_one(program, tmp_path):
    with live(program.report) as screen:
        screen.wait("Lines: memory from CUDA now, 16.0 MiB")
        other = tmp_path / "other.bin"
        shutil.copy(harness.ROOT / "tests/fixtures/captures/v1/torch-return.bin", other)
        other.replace(program.report)
        screen.press("p")
        screen.wait("the capture was replaced by another file")
        ended(program)
        screen.wait("stopped: the capture was replaced by another file")
        assert "16.0 MiB" in screen.text()
        screen.press("q")
        assert screen.end() == 0


def test_a_capture_that_is_cut_is_shown_as_far_as_it_goes(program):
    ended(program)
    with live(program.report) as screen:
        screen.wait("Lines: memory from CUDA then")
        screen.press("n")
        screen.wait("Lines: memory from CUDA now, 16.0 MiB")
        with program.report.open("r+b") as capture:
            capture.truncate(program.report.stat().st_size // 2)
        for key in ("p", "a", "\x1b", "\r", "\x1b", "["):
            screen.press(key)
        screen.press("n\x1b")
        screen.wait("Lines: memory from CUDA now, 16.0 MiB")
        screen.press("q")
        assert screen.end() == 0


def test_a_viewer_that_is_killed_leaves_program_and_capture_alone(program):
    with live(program.report) as screen:
        screen.wait("running")
        screen.process.kill()
    assert program.allocate(3) == 19
    program.process.stdin.close()
    assert program.process.wait() == 0
    harness.analyze("check", program.report)


def test_what_cannot_be_shown_is_said_in_one_line(tmp_path, program):
    (tmp_path / "text").write_text("no capture\n")
    with subprocess.Popen(["sleep", "60"]) as other:
        for asked, said in (
            (program.report, "live needs a terminal: use gpumem-analyze report to print the figures once"),
            (tmp_path, "live needs a terminal: use gpumem-analyze report to print the figures once"),
        ):
            done = harness.run([harness.ANALYZER, "live", asked], check=False)
            assert (done.returncode, done.stderr) == (1, f"gpumem-analyze: {said}\n")
        for asked, said in (
            (tmp_path / "text", "text"),
            (other.pid, f"{other.pid}: the process writes no capture"),
            (4_194_304, "4194304: no such process"),
        ):
            with live(asked, columns=300) as screen:
                text = screen.wait(lambda text: "\n" in text and "gpumem-analyze: " in text)
                assert said in text and screen.end() == 1
        other.kill()
    assert program.allocate(1) == 17
