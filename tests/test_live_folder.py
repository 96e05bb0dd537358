"""`gpumem-analyze live FOLDER`: one row for each rank of a job, and captures that change.

What breaks these tests: a rank that differs and is not marked, a capture that appears and is not shown, the view of
a rank that cannot be entered or left, and a capture that is replaced, truncated or removed without a message in the
view."""

import os
import signal

import harness
import pytest
from on_demand import Program
from screen import Screen


class Rank(Program):
    """A launcher's rank."""

    def __init__(self, folder, python, rank):
        name = f"rank{rank}.bin"
        super().__init__(folder, python, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="4", GPUMEM_OUTPUT=name)
        self.report = folder / name


def live(path, **more):
    return Screen([harness.ANALYZER, "live", path], **more)


def row_of(text, rank):
    """The words of a rank's row; empty without one."""
    rows = [line for line in text.splitlines() if line.lstrip("! ").split(" ")[0] == str(rank)]
    return rows[0] if rows else ""


def test_ranks_of_a_folder_have_a_row_each_and_the_one_that_differs_is_marked(tmp_path, python_env):
    python = python_env("py312")
    with live(tmp_path, columns=120) as screen:
        screen.wait("no capture yet")
        with Rank(tmp_path, python, 0) as first, Rank(tmp_path, python, 1) as second, Rank(tmp_path, python, 2) as third:
            for rank in (first, second, third):
                rank.allocate(16)
            screen.wait("3 captures · 3 running")
            third.allocate(64)
            text = screen.wait("1 differ")
            assert row_of(text, 2).startswith("!") and not row_of(text, 0).startswith("!")
            assert str(first.process.pid) in row_of(text, 0)
            screen.press("s")
            text = screen.wait("by difference")
            assert text.splitlines()[2].startswith("!    2"), text
            screen.press("?")
            text = screen.wait("this help")
            assert "order: rank, difference from peers, peak" in text and not row_of(text, 2)
            screen.press("s")
            screen.press("\x1b")
            text = screen.wait(lambda text: row_of(text, 2))
            assert "by difference" in text, "the order has not changed behind the help"
            screen.press("\x1b[H")
            text = screen.wait("64.0 MiB more than the median of 3 peers")
            screen.press("\r")
            screen.wait("Lines: memory from CUDA now, 80.0 MiB")
            screen.press("\x1b")
            screen.wait("by difference")
            second.process.kill()
            second.process.wait()
            screen.wait("1 killed")
            first.process.stdin.close()
            first.process.wait()
            text = screen.wait("1 ended")
            assert "ended" in row_of(text, 0)
            screen.press("q")
            assert screen.end() == 0


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("how", ["removed", "replaced", "truncated"])
def test_a_capture_that_is_not_what_it_was_is_said(tmp_path, python_env, how, is_folder):
    with Rank(tmp_path, python_env("py312"), 0) as rank:
        rank.allocate(16)
        with live(tmp_path if is_folder else rank.report, columns=120) as screen:
            screen.wait(lambda text: "running" in text and "MiB" in text)
            if how == "removed":
                rank.report.unlink()
            elif how == "replaced":
                (tmp_path / "other").write_bytes(b"no capture")
                os.replace(tmp_path / "other", rank.report)
            else:
                # A recorder that runs would soon write the head again.
                os.kill(rank.process.pid, signal.SIGSTOP)
                os.truncate(rank.report, 0)
            said = {"replaced": "the capture was replaced by another file"}.get(how, f"the capture was {how}")
            text = screen.wait(said)
            assert "stopped" in text and "MiB" in (row_of(text, 0) if is_folder else text)
            screen.press("q")
            assert screen.end() == 0
        os.kill(rank.process.pid, signal.SIGCONT)
