"""`gpumem-analyze live --metrics --otlp`: the requests to a receiver with OpenTelemetry's own messages.

What breaks these tests: a request with fields outside the messages, figures that are not the capture's, and a line
on standard error for each push that fails."""

import json
import socket
import subprocess
from pathlib import Path

import harness
import pytest
from exporter import Exporter
from on_demand import Program


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Receiver:
    def __init__(self, python):
        command = [python, harness.ROOT / "tests" / "lib" / "otlp_receiver.py"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def next(self):
        """The resource and the points of the next request: by name and level."""
        got = json.loads(self.process.stdout.readline())
        assert isinstance(got, list), got
        resource, points = got
        return resource, {(name, labels.get("level")): rest for name, *rest in points for labels in [rest[3]]}

    def with_value(self, name, level, value):
        """The first request in which the metric has this value."""
        while True:
            resource, points = self.next()
            if (name, level) in points and points[name, level][4] == value:
                return resource, points

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_a_receiver_gets_the_capture_s_figures(tmp_path, python_env):
    with Program(tmp_path, python_env("py312")) as program, Receiver(python_env("otlp")) as receiver:
        program.allocate(16)
        program.tell("card")
        program.tell("step")
        with Exporter(program.report, options=("--otlp", receiver.url)) as exporter:
            resource, points = receiver.with_value("gpumem.steps", None, 1)
            assert resource == {"service.name": "gpumem-exporter", "host.name": socket.gethostname()}
            unit, kind, rising, labels, value, _ = points["gpumem.process_memory", "driver"]
            assert (unit, kind, value) == ("By", "gauge", 16 << 20) and labels["capture"] == str(program.report)
            unit, kind, rising, labels, value, _ = points["gpumem.steps", None]
            assert (kind, rising, value) == ("sum", True, 1)
            unit, kind, rising, labels, value, _ = points["hw.gpu.memory.usage", None]
            assert (unit, kind, rising) == ("By", "sum", False)
            assert value == exporter.value("hw_gpu_memory_usage_bytes")
            assert labels["hw.id"] == labels["UUID"] and labels["hw.type"] == "gpu"
            assert program.allocate(1) == 17
            receiver.with_value("gpumem.process_memory", "driver", 17 << 20)


@pytest.mark.slow
def test_a_collector_passes_them_on(tmp_path, python_env):
    """rotel, an independent collector: it passes on all points that it received."""
    python = python_env("otlp")
    where = "import importlib.util; print(*importlib.util.find_spec('rotel').submodule_search_locations)"
    agent = Path(harness.run([python, "-c", where]).stdout.strip()) / "rotel-agent"
    port, unused = free_port(), free_port()
    agent.chmod(0o755)
    options = ("--otlp", f"http://127.0.0.1:{port}")
    with Program(tmp_path, python_env("py312")) as program, Receiver(python) as receiver:
        collector = [
            agent, "start", "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{unused}", "--exporter", "otlp",
            "--otlp-exporter-endpoint", receiver.url, "--otlp-exporter-protocol", "http",
        ]  # fmt: skip
        with open(tmp_path / "collector.log", "w") as log:
            process = subprocess.Popen(list(map(str, collector)), stdout=log, stderr=log, cwd=tmp_path)
        try:
            program.allocate(16)
            with Exporter(program.report, options=options) as exporter:
                receiver.with_value("gpumem.process_memory", "driver", 16 << 20)
                assert program.allocate(1) == 17
                _, points = receiver.with_value("gpumem.process_memory", "driver", 17 << 20)
                unit, kind, rising, labels, value, _ = points["gpumem.process_memory", "driver"]
                assert (unit, kind) == ("By", "gauge") and labels["capture"] == str(program.report)
                assert points["gpumem.capture_info", None][3]["process.pid"] == program.process.pid
                assert exporter.value("gpumem_events_total") == points["gpumem.events", None][4]
        finally:
            process.kill()
            process.wait()


def test_a_collector_that_is_not_there_is_one_line(tmp_path):
    with socket.socket() as listener:
        # A port of this test's own that refuses connections until `listen`.
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Exporter(tmp_path, options=("--otlp", url)) as exporter:
            line = exporter.process.stderr.readline()
            assert f"{url}/v1/metrics: " in line and "tried again every 1 s" in line
            # It has failed again by the time that a listener has seen two more attempts.
            listener.listen()
            for _ in range(2):
                listener.accept()[0].close()
            exporter.process.kill()
            assert exporter.process.stderr.read() == ""


def test_a_url_that_is_none_is_refused():
    command = [harness.ANALYZER, "live", "--metrics=127.0.0.1:0", "--otlp", "gpu7:4318", "a"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "gpu7:4318: not a URL of a collector" in done.stderr, harness.described(done)
