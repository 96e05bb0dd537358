"""A session with `gpumem-analyze mcp` through the protocol's official Python client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

import harness

# What the protocol's answers may have at most.
MOST = 4096
CLIENT = Path(__file__).with_name("mcp_client.py")
TEE = Path(__file__).with_name("mcp_tee.py")
SERVER = [harness.ANALYZER, "mcp"]


class Refused(Exception):
    """The tool's own error."""


class Session:
    """With a server over `roots`. What goes over the wire is written to `log`."""

    def __init__(
        self, python: Path, mode: str, roots: Sequence[Path], *, log: Optional[Path] = None, server: Sequence[harness.Arg] = SERVER
    ):
        words = [*server, *(word for root in roots for word in ("--root", root))]
        words = [sys.executable, TEE, log, *words] if log else words
        self.process = subprocess.Popen(
            [str(word) for word in (python, CLIENT, mode, *words)], env=harness.clean_environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.about = self._line()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        _, self.stderr = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, self.stderr

    def _line(self) -> Any:
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    def result(self, tool: str, **arguments: object) -> Any:
        """The client's result."""
        self.process.stdin.write(json.dumps([tool, arguments]) + "\n")
        self.process.stdin.flush()
        return self._line()

    def ask(self, tool: str, **arguments: object) -> Any:
        """One page of an answer."""
        result = self.result(tool, **arguments)
        assert "protocol_error" not in result, result
        (text,) = result["texts"]
        if result["is_error"]:
            assert len(text.splitlines()) == 1, text
            raise Refused(text)
        assert len(text.encode()) <= MOST, len(text.encode())
        answer = json.loads(text)
        assert result["structured"] == answer
        return answer

    def all(self, tool: str, **arguments: object) -> Any:
        """All pages of an answer as one."""
        answer = page = self.ask(tool, **arguments)
        while page["more"]:
            page = self.ask(tool, cursor=page["next"], **arguments)
            assert page["rows"], page
            answer["rows"] += page["rows"]
        assert len(answer["rows"]) == answer.get("total_rows", len(answer["rows"]))
        return answer


def transcript(log: Path, root: Path) -> str:
    """What went over the wire, without what differs from one machine or moment to the next."""
    text = log.read_text().replace(str(root), "/captures")
    text = re.sub(r'"next":"[0-9a-f]+\.[0-9a-f]{16}"', '"next":"CURSOR"', text)
    text = re.sub(r'\\"next\\":\\"[0-9a-f]+\.[0-9a-f]{16}\\"', r'\\"next\\":\\"CURSOR\\"', text)
    text = re.sub(r'"cursor":"[0-9a-f]+\.[0-9a-f]{16}"', '"cursor":"CURSOR"', text)
    messages = [(line[:1], json.loads(line[2:])) for line in text.splitlines()]
    for _, message in messages:
        result = message.get("result", {})
        if "structuredContent" in result:
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
            result["content"][0]["text"] = "the structured content"
    return "".join(f"{mark} {json.dumps(message, indent=1, ensure_ascii=False, sort_keys=True)}\n" for mark, message in messages)
