"""`gpumem-analyze live --serve`: a running program, as a browser shows it.

What breaks these tests: figures that are not those of `lines`, a page that downloads anything but its events, a
request that is answered without the token or for another host, a server that grows or stops because of its requests,
and a program that ends with its viewer."""

import json
import random
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import browser
import harness
import pytest
from test_live import program  # noqa: F401  (a fixture is found by name)
from waiting import WATCHDOG, until

FIXTURES = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"


class Served:
    """A capture that is served."""

    def __init__(self, *arguments):
        command = [harness.ANALYZER, "live", "--serve", "127.0.0.1:0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        parts = urlsplit(self.url)
        assert parts.scheme == "http" and parts.hostname == "127.0.0.1" and parts.path == "/", self.url
        self.port, self.query = parts.port, parts.query

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=WATCHDOG)

    def ask(self, path="/", token=True, host="localhost", method="GET", more=""):
        """The status of the answer and its text; 0 without one."""
        query = ("?" if "?" not in path else "&") + self.query if token else ""
        request = f"{method} {path}{query} HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n"
        answer = self.send(request.encode())
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, text.decode()

    def ask_json(self, path):
        status, text = self.ask(path)
        assert status == 200, (path, status, text)
        return json.loads(text)

    def send(self, request):
        """All that is answered to these bytes."""
        with self.connect() as connection:
            answer = b""
            try:
                connection.sendall(request)
                while more := connection.recv(1 << 16):
                    answer += more
            except (BrokenPipeError, ConnectionResetError):
                pass
            return answer

    def events(self, **choices):
        """The events of a choice as (kind, figures), as they come."""
        query = "&".join([self.query, *(f"{name}={value}" for name, value in choices.items())])
        with self.connect() as connection:
            connection.sendall(f"GET /events?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            with connection.makefile("rb") as lines:
                assert lines.readline().split()[1] == b"200"
                kind = None
                for line in lines:
                    if line.startswith(b"event: "):
                        kind = line[7:].strip().decode()
                    elif line.startswith(b"data: "):
                        yield kind, json.loads(line[6:])

    def table(self, wanted=lambda table: True, **choices):
        """The first table that is wanted."""
        return next(of for kind, of in self.events(**choices) if kind == "table" and wanted(of))

    def resident(self):
        """KiB of memory that the server has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


@pytest.fixture(scope="module")
def ended():
    with Served(FIXTURES / "torch-kill.bin") as served:
        yield served


class Window(browser.Browser):
    """A browser that shows a served page."""

    def visit(self, url, part="#table"):
        """Shows a page, once this part of it has something."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && document.querySelector('{part} > *') !== null")
        return self

    def rows(self):
        """Name and exact bytes of each row."""
        cells = "[...document.querySelectorAll('#table tbody tr')].map(r => [r.cells[0].firstChild.title, Number(r.querySelector('[data-bytes]').dataset.bytes)])"
        return [tuple(row) for row in self.tell(cells)]

    def choose(self, name, value):
        self.tell(f"(() => {{ const e = document.getElementById('{name}'); e.value = '{value}';"
                  " e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); })()")

    def text(self, name):
        return self.tell(f"document.getElementById('{name}').textContent")


@pytest.fixture
def windows():
    binary = browser.find()
    if binary is None:
        pytest.skip("no Chromium on this machine: scripts/lib/environment browser")
    opened = []

    def show(*page):
        opened.append(Window(binary))
        return opened[-1].visit(*page)

    yield show
    for window in opened:
        window.close()


def named(row):
    return f"{row['file']}:{row['line']}" if row["file"] else row.get("library", "(no line)")


def test_the_page_has_the_figures_of_lines(ended, windows):
    """Each row, to the byte."""
    window = windows(ended.url)
    for level, moment, words in (
        ("tensor", "now", "tensors now"), ("driver", "now", "memory from CUDA now"), ("driver", "peak", "memory from CUDA at the peak so far"),
        ("tensor", "peak", "tensors at the peak so far"),
    ):  # fmt: skip
        at = {"now": "end"}.get(moment, moment)
        lines = harness.analyze_json("lines", "--at", at, "--level", level, FIXTURES / "torch-kill.bin", check=False)
        assert lines, "there is something to compare"
        window.choose("level", level)
        window.choose("moment", moment)
        total = sum(row["bytes"] for row in lines)
        window.wait(f"document.getElementById('sum').textContent.startsWith('Lines: {words}, ')")
        assert sorted(window.rows()) == sorted((named(row), row["bytes"]) for row in lines)
        assert window.tell("Number(document.querySelector('#sum [data-bytes]').dataset.bytes)") == total
        assert window.tell("Number(document.querySelector('#table caption [data-bytes]').dataset.bytes)") == total
    assert window.errors() == []
    own = [url for url in window.requests() if not url.startswith("data:")]
    assert own and all(url.startswith(f"http://127.0.0.1:{ended.port}/") for url in own)


def test_rows_are_filtered_and_sorted(ended, windows):
    window = windows(ended.url)
    window.choose("moment", "peak")
    window.wait("document.querySelectorAll('#table tbody tr').length > 5")
    every = window.rows()
    assert [size for _, size in every] == sorted((size for _, size in every), reverse=True)
    window.choose("sort", "name")
    window.wait("gpumem.shown.table.rows[0].name === gpumem.shown.table.rows.map(row => row.name).sort()[0]")
    assert [name for name, _ in window.rows()] == sorted(name for name, _ in every)
    window.choose("filter", "optimizer")
    window.wait(f"document.querySelectorAll('#table tbody tr').length < {len(every)}")
    some = window.rows()
    assert some and set(some) < set(every)
    window.choose("filter", "<img src=x>")
    window.wait("document.getElementById('table').textContent === 'No row contains this text.'")
    assert window.errors() == []


def test_two_browsers_follow_a_program(program, windows):  # noqa: F811
    """Each has the table that it requested; the requests of one do not change the other."""
    with Served(program.report) as served:
        first, second = windows(served.url), windows(served.url)
        second.choose("by", "category")
        second.wait("document.getElementById('sum').textContent.startsWith('Categories: ')")
        for mib in (8, 100, 1):
            held = program.allocate(mib) << 20
            for window, word in ((first, "Lines"), (second, "Categories")):
                window.wait(f"gpumem.shown.table.total === {held}")
                assert window.text("sum").startswith(f"{word}: memory from CUDA now")
            ((name, size),) = first.rows()
            assert size == held and "on_demand.py:" in name
        assert first.text("state").startswith("running")
        first.tell("document.getElementById('pause').click()")
        before, held = held, program.allocate(5) << 20
        second.wait(f"gpumem.shown.table.total === {held}")
        assert first.tell("gpumem.shown.table.total") == before, "stopped here"
        first.tell("document.getElementById('pause').click()")
        first.wait(f"gpumem.shown.table.total === {held}")
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
        for window in (first, second):
            window.wait("document.getElementById('state').textContent.startsWith('ended without its exit handlers')")
            assert window.errors() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_viewer_ends_and_the_program_goes_on(program, windows, how):  # noqa: F811
    with Served(program.report) as served:
        window = windows(served.url)
        served.process.send_signal(how)
        assert served.process.wait(WATCHDOG) == -how
        window.wait("document.getElementById('connection').textContent.startsWith('No connection')")
    assert program.allocate(3) == 19
    program.process.stdin.close()
    assert program.process.wait() == 0
    harness.analyze("check", program.report)


def test_it_is_drawn_in_light_and_dark_and_narrow(ended, windows, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    window = windows(ended.url)
    window.wait("document.querySelector('#chart svg') !== null")
    brightness = {}
    for scheme in ("light", "dark"):
        picture = tmp_path / f"{scheme}.png"
        window.picture(picture, scheme)
        with image.open(picture) as opened:
            pixels = opened.convert("L")
            brightness[scheme] = sum(i * n for i, n in enumerate(pixels.histogram())) / (pixels.width * pixels.height)
    assert brightness["light"] > 180 and brightness["dark"] < 90
    window.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
    window.wait("document.documentElement.scrollWidth === 390 && document.querySelector('#chart svg').viewBox.baseVal.width <= 390")


def test_hostile_requests_are_refused(ended):
    """Its paths and choices, and one of each request that the server refuses (analyzer/http/tests/hostile.rs)."""
    assert ended.ask()[0] == 200
    head = ended.send(f"HEAD /events?{ended.query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n") and b"cache-control: no-store" in head
    for status, options in (
        (403, {"token": False}),
        (403, {"token": False, "path": "/events"}),
        (403, {"token": False, "path": "/?" + ended.query[:-1]}),
        (421, {"host": "gpu.example"}),
        (405, {"method": "PUT", "path": "/x.bin"}),
        (413, {"more": "content-length: 5\r\n"}),
        (404, {"path": "/etc/passwd"}),
        (404, {"path": "/report.bin"}),
        (400, {"path": "/../../../etc/passwd"}),
        (400, {"path": "/events?by=stack"}),
        (400, {"path": "/events?file=/etc/passwd"}),
        (400, {"path": "/events?filter=" + "x" * 201}),
        (431, {"more": "x: " + "y" * 20_000 + "\r\n"}),
    ):
        got, text = ended.ask(**options)
        assert got == status, (options, got, text)
        assert len(text) < 100 and "root:" not in text
    assert ended.ask()[0] == 200


def test_readers_are_bounded(ended):
    """Above the limit they are refused with a message; there is room again when others have left."""
    events = [ended.events() for _ in range(16)]
    for reader in events:
        assert next(reader)[0] == "now"
    with ended.connect() as late:
        late.sendall(f"GET /events?{ended.query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert late.recv(100).split()[1] == b"503"
    for reader in events:
        reader.close()
    until(lambda: ended.ask("/events", method="HEAD")[0] == 200, "room for a reader")
    assert ended.table()["rows"]


def test_random_bytes_change_nothing(ended):
    """A small fuzz run: what is sent is made of a request's pieces and of noise. It answers on, in bounded memory."""
    chance = random.Random(20261127)
    good = f"GET /events?{ended.query}&by=line HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    pieces = [
        b"GET ", b"HEAD ", b"/", b"/events?", ended.query.encode(), b" HTTP/1.1", b"\r\n", b"host: localhost", b"host: evil",
        b"content-length: 99999999999", b"transfer-encoding: chunked", b"..", b"%2e", b"%", b"\x00", b"\n", b"&", b"=", b"x" * 9000,
    ]
    before = None
    for turn in range(600):
        if turn == 200:
            before = ended.resident()
        if turn % 2:
            request = bytearray(good)
            for _ in range(chance.randrange(1, 12)):
                request[chance.randrange(len(request) - 4)] = chance.randrange(256)
        else:
            parts = [chance.choice(pieces) if chance.random() < 0.8 else chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(1, 30))]
            request = b"".join(parts)
        with ended.connect() as connection:
            try:
                connection.sendall(request)
                if chance.random() < 0.3:
                    # Also a head that does not end: nothing follows it.
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
            except OSError:  # it has closed the connection
                pass
    assert ended.resident() < before + 16_384, "KiB"
    until(lambda: ended.ask()[0] == 200, "an answer")
    assert ended.table()["rows"] and ended.process.poll() is None


def test_what_cannot_be_served_is_said_in_one_line(tmp_path):
    report = FIXTURES / "torch-kill.bin"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for address, file, said in (
            ("0.0.0.0:8000", report, "0.0.0.0:8000 can be reached from other machines: listen on 127.0.0.1:8000 and use ssh -L"),
            (f"127.0.0.1:{port}", report, f"cannot listen on 127.0.0.1:{port}: Address already in use (os error 98)"),
            ("127.0.0.1:0", tmp_path / "none.bin", f"{tmp_path}/none.bin: No such file or directory (os error 2): record one with gpumem run PROGRAM (writes report.bin, or the path in GPUMEM_OUTPUT)"),
        ):
            done = harness.run([harness.ANALYZER, "live", "--serve", address, file], check=False)
            assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gpumem-analyze: {said}\n")
    done = harness.run([harness.ANALYZER, "live", "--serve", "somewhere", report], check=False)
    assert done.returncode == 2
