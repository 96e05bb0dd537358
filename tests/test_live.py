"""`gpumem-analyze live`: a program that runs, as its screen shows it.

What breaks these tests: figures that are not those of the capture, a view that ends with its program or takes the
program along, a terminal that is left as it was not, and a viewer that goes on when its terminal is gone."""

import signal
import subprocess

import harness
import pytest
from on_demand import Program
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
    """After each allocation: what it says, and what `lines` says of the capture."""
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
        assert text.startswith({"kill": "ended without saying so", "return": "ended at"}[how])
        screen.press("\t")
        screen.wait("Categories: memory from CUDA now")
        screen.press("q")
        assert screen.end() == 0


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
            (program.report, "live needs a terminal: gpumem-analyze summary tells the same once"),
            (tmp_path, f"{tmp_path}: is a folder: name the capture of one process in it"),
        ):
            done = harness.run([harness.ANALYZER, "live", asked], check=False)
            assert (done.returncode, done.stderr) == (1, f"gpumem-analyze: {said}\n")
        for asked, said in (
            (tmp_path / "text", "text"),
            (other.pid, f"{other.pid}: writes no capture"),
            (4_194_304, "4194304: there is no such process"),
        ):
            with live(asked, columns=300) as screen:
                text = screen.wait(lambda text: "\n" in text and "gpumem-analyze: " in text)
                assert said in text and screen.end() == 1
        other.kill()
    assert program.allocate(1) == 17
