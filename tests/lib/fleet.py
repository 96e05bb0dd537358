"""Captures for datasets, the contents of a dataset, and a real S3 server behind a proxy that fails on request."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import signal
import struct
import subprocess
import threading
import time
import urllib.parse
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Callable, Iterator, Optional

import harness
from waiting import WATCHDOG

TRAINING = harness.ROOT / "tests" / "fixtures" / "captures" / "v1" / "torch-return.bin"
KILLED = TRAINING.with_name("torch-kill.bin")
KEY = "AKIAGPUMEM"
BUCKET = "gpumem"


def capture(path: Path, pid: int, of: Path = TRAINING) -> Path:
    """A capture of another process: its number in both headers is another."""
    contents = bytearray(of.read_bytes())
    for header in (0, 2048):
        struct.pack_into("<I", contents, header + 48, pid)
        struct.pack_into("<I", contents, header + 508, zlib.crc32(contents[header : header + 508]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    return path


def captures(folder: Path, count: int) -> Path:
    """A folder of captures."""
    for number in range(count):
        capture(folder / f"report.rank{number}.bin", 1000 + number)
    return folder


def fleet(*arguments, env=None, check: bool = True):
    """Runs `gpumem-analyze fleet`."""
    return harness.run([harness.ANALYZER, "fleet", *arguments], env=env, check=check)


def fleet_json(command: str, *arguments, env=None, check: bool = True):
    """The JSON output of a fleet command."""
    return harness.unwrapped(fleet(command, "--format", "json", *arguments, env=env, check=check).stdout)


def started(*arguments, env=None) -> subprocess.Popen:
    """The same in the background."""
    return subprocess.Popen(
        [str(part) for part in (harness.ANALYZER, "fleet", *arguments)],
        env=harness.clean_environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def killed(process: subprocess.Popen) -> None:
    """Ends it at once."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def contents(dataset: Path) -> dict[str, str]:
    """A dataset's files by hash. Of the list of parts only the captures count, not the writer of a part."""
    found = {}
    for path in sorted(dataset.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".json":
                entry = json.loads(data)
                entry.pop("by")
                data = json.dumps(entry, sort_keys=True).encode()
            found[str(path.relative_to(dataset))] = hashlib.sha256(data).hexdigest()
    return found


class Proxy:
    """Forwards to an S3 server. `fault` decides for each request what is done instead: see Fault."""

    def __init__(self, port: int):
        self.port_of_server = port
        self.fault: Callable[[str, str], Optional["Fault"]] = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self):
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = any

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        path = urllib.parse.unquote(request.path.split("?")[0])
        self.requests.append((request.command, path))
        fault = self.fault(request.command, path)
        if fault and fault.held:
            fault.reached.set()
            fault.held.wait()
        if fault and fault.delay:
            time.sleep(fault.delay)
        if f"Credential={KEY}/" not in request.headers.get("authorization", ""):
            fault = Fault(status=403, code="InvalidAccessKeyId")
        if fault and fault.status:
            said = f"<Error><Code>{fault.code}</Code><Message>asked for</Message></Error>".encode()
            return self.answer(request, fault.status, [], said)
        if fault and fault.cut_request:
            request.close_connection = True
            return None
        server = http.client.HTTPConnection("127.0.0.1", self.port_of_server)
        try:
            server.request(request.command, request.path, body, dict(request.headers))
            answer = server.getresponse()
            said = answer.read()
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server")]
            if fault and fault.cut_answer:
                request.close_connection = True
                if not said:
                    return None
                request.send_response(answer.status)
                for name, value in [*headers, ("Content-Length", str(len(said)))]:
                    request.send_header(name, value)
                request.end_headers()
                request.wfile.write(said[: len(said) // 2])
                return None
            return self.answer(request, answer.status, headers, said, answer.getheader("content-length"))
        finally:
            server.close()

    def answer(self, request, status, headers, said, length=None):
        with contextlib.suppress(ConnectionError):
            request.send_response(status)
            length = length if request.command == "HEAD" and length else str(len(said))
            for name, value in [*headers, ("Content-Length", length)]:
                request.send_header(name, value)
            request.end_headers()
            if request.command != "HEAD":
                request.wfile.write(said)


class Fault:
    """What the proxy does to a request."""

    def __init__(self, status=0, code="SlowDown", cut_request=False, cut_answer=False, hold=False, delay=0.0):
        self.status, self.code, self.cut_request, self.cut_answer = status, code, cut_request, cut_answer
        self.held = threading.Event() if hold else None
        self.delay = delay
        self.reached = threading.Event()


class S3:
    """moto's server, the proxy before it, and a bucket."""

    def __init__(self, port: int):
        self.direct = port
        self.proxy = Proxy(port)
        self.fresh = 0

    def environment(self, key: str = KEY) -> dict[str, Optional[str]]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.server.server_port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": None, "http_proxy": None, "HTTP_PROXY": None,
        }

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        server = http.client.HTTPConnection("127.0.0.1", self.direct)
        server.request(method, urllib.parse.quote(path, safe="/?=&"), body, {"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20261125/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"})
        answer = server.getresponse()
        said = answer.read()
        assert answer.status < 300, (answer.status, said)
        return said

    def place(self, files: Optional[Path] = None) -> str:
        """A prefix of the bucket that has these files and no others."""
        self.proxy.fault, self.proxy.requests[:] = lambda method, path: None, []
        self.fresh += 1
        prefix = f"place{self.fresh}"
        for path in sorted(files.rglob("*")) if files else []:
            if path.is_file():
                self.ask("PUT", f"/{BUCKET}/{prefix}/{path.relative_to(files)}", path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def copy(self, place: str, folder: Path) -> Path:
        """What is at a place, as a folder."""
        prefix = place.split("/", 3)[3] + "/"
        listed = self.ask("GET", f"/{BUCKET}?list-type=2&prefix={prefix}").decode()
        for name in (part.split("</Key>")[0] for part in listed.split("<Key>")[1:]):
            path = folder / name[len(prefix) :]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.ask("GET", f"/{BUCKET}/{name}"))
        return folder


@contextlib.contextmanager
def s3_server(python: Path) -> Iterator[S3]:
    """A separate server."""
    script = Path(__file__).with_name("s3_server.py")
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    process = subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    try:
        s3 = S3(int(process.stdout.readline()))
        s3.ask("PUT", f"/{BUCKET}")
        yield s3
    finally:
        process.stdin.close()
        process.wait(timeout=WATCHDOG)


def nth(method: str, number: int, fault: Fault, of: str = "") -> Callable[[str, str], Optional[Fault]]:
    """The fault at one request only: the nth of a method whose path has `of` in it, counted from 1."""
    seen = [0]
    lock = threading.Lock()

    def decide(found: str, path: str) -> Optional[Fault]:
        if found != method or of not in path:
            return None
        with lock:
            seen[0] += 1
            return fault if seen[0] == number else None

    return decide
