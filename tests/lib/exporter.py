"""A running `live --metrics`, and its answers."""

import re
import socket
import subprocess
import urllib.request

import harness
from waiting import WATCHDOG

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Exporter:
    def __init__(self, *captures, options=()):
        command = [harness.ANALYZER, "live", "--metrics=127.0.0.1:0", "--every", "1", *options, *captures]
        self.process = subprocess.Popen(
            [str(word) for word in command], stderr=subprocess.PIPE, text=True, env=harness.clean_environment()
        )
        self.url = self.process.stderr.readline().split()[-1]
        self.port = int(re.search(r":(\d+)/metrics$", self.url)[1])

    def text(self, accept="text/plain"):
        request = urllib.request.Request(self.url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=WATCHDOG) as answer:
            return answer.read().decode()

    def samples(self):
        """(name, labels, value) of all."""
        found = []
        for line in self.text().splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                number = int(value) if re.fullmatch(r"-?\d+", value) else float(value)
                found.append((name, dict(LABEL.findall(labels or "")), number))
        return found

    def value(self, name, **wanted):
        """The only sample with these labels, or `None`."""
        found = [value for of, labels, value in self.samples() if of == name and wanted.items() <= labels.items()]
        assert len(found) <= 1, found
        return found[0] if found else None

    def raw(self, request):
        """The first line of what it answers to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WATCHDOG) as connection:
            try:
                connection.sendall(request)
                return connection.recv(65536).split(b"\r\n")[0].decode()
            except (ConnectionResetError, BrokenPipeError):
                return ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
