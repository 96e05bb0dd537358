"""`gpumem-analyze live --metrics`: the metrics that Prometheus receives from running programs.

What breaks these tests: figures that are not those of the capture, a text that Prometheus does not accept, alerts
that do not fire, series that stay permanently, a request that is answered and should not be, and CUDA in the
exporter."""

import json
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import harness
import pytest
from exporter import Exporter
from on_demand import Program
from waiting import WATCHDOG, until

SHARE = harness.ROOT / "analyzer" / "live" / "share"


@pytest.fixture(scope="module")
def prometheus():
    """The folder of Debian's prometheus and promtool."""
    done = subprocess.run([harness.ENVIRONMENT, "prometheus"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("Prometheus cannot be had here")
    return Path(done.stdout.strip().splitlines()[-1])


@pytest.fixture
def program(tmp_path, python_env):
    with Program(tmp_path, python_env("py312")) as program:
        assert program.allocate(16) == 16
        yield program


def holds(exporter, mib, **labels):
    return exporter.value("gpumem_process_memory_bytes", level="driver", **labels) == mib << 20


def test_figures_follow_the_program_to_its_end(program):
    """test_exporter_openmetrics.py compares each with `summary`."""
    with Exporter(program.report.parent) as exporter:
        until(lambda: holds(exporter, 16), "16 MiB")
        program.tell("card")
        assert program.allocate(8) == 24
        program.tell("step")
        until(lambda: holds(exporter, 24) and exporter.value("gpumem_steps_total") == 1, "24 MiB")
        program.process.stdin.close()
        program.process.wait()
        until(lambda: exporter.value("gpumem_capture_state", state="ended"), "the end")
        [device] = harness.analyze_json("report", "--all", program.report, check=False)["devices"]
        uuids = {labels["UUID"] for _, labels, _ in exporter.samples() if "UUID" in labels}
        assert uuids == {device["uuid"]}


def test_a_card_is_one_series_and_says_its_age(program, tmp_path, python_env):
    other = tmp_path / "other"
    other.mkdir()
    with Program(other, python_env("py312")) as second, Exporter(tmp_path / "*.bin", other) as exporter:
        second.allocate(8)
        for one in (program, second):
            one.tell("card")
        until(lambda: exporter.value("gpumem_exporter_captures", state="running") == 2, "both")
        until(lambda: exporter.value("hw_gpu_memory_usage_bytes", hw_type="gpu"), "a reading")
        assert exporter.value("hw_gpu_memory_limit_bytes") == 16 << 30
        # The newest reading is younger than the command that made it.
        before = time.time()
        second.allocate(1)
        second.tell("card")
        is_newer = lambda: exporter.value("gpumem_card_reading_age_seconds") <= time.time() - before  # noqa: E731
        until(is_newer, "the newest reading")
        assert exporter.value("gpumem_card_reading_age_seconds") >= 0


def test_the_lines_that_hold_most_have_names(program):
    with Exporter(program.report, options=("--top", "1")) as exporter:
        until(lambda: exporter.value("gpumem_line_bytes") == 16 << 20, "the line")
        [info] = [labels for name, labels, _ in exporter.samples() if name == "gpumem_line_info"]
        assert info["file"].endswith("on_demand.py") and info["function"] == "allocate"
        assert int(info["number"]) > 1


def expressions():
    """The queries of the dashboard and of the alerts."""
    dashboard = json.loads((SHARE / "grafana-dashboard.json").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return found + re.findall(r"expr: (.*)", (SHARE / "alerts.yml").read_text())


def metrics_in(expr):
    return set(re.findall(r"\b(?:gpumem|hw)_[a-z_]+\b", expr))


def test_documentation_rules_and_dashboard_name_metrics_that_exist(program):
    page = (harness.ROOT / "docs" / "commands" / "live.md").read_text()
    documented = set(re.findall(r"`((?:gpumem|hw)_[a-z_]+)`", page))
    with Exporter(program.report) as exporter:
        program.tell("card")
        until(lambda: exporter.value("hw_gpu_memory_usage_bytes"), "a reading")
        exported = {name for name, _, _ in exporter.samples()}
    assert exported <= documented
    for expr in expressions():
        assert metrics_in(expr) and metrics_in(expr) <= documented, expr


@pytest.mark.slow
def test_promtool_takes_the_text(program, prometheus):
    with Exporter(program.report) as exporter:
        program.tell("card")
        until(lambda: exporter.value("hw_gpu_memory_usage_bytes"), "a reading")
        text = exporter.text()
        done = subprocess.run([prometheus / "promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
        openmetrics = exporter.text("application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
        assert openmetrics.endswith("# EOF\n")
        assert "# TYPE gpumem_events counter" in openmetrics


@pytest.mark.slow
def test_promtool_takes_the_rules_and_the_queries_of_the_dashboard(prometheus):
    done = subprocess.run([prometheus / "promtool", "test", "rules", "alerts.test.yml"], cwd=SHARE, capture_output=True, text=True)
    assert done.returncode == 0, harness.described(done)
    for expr in expressions():
        rules = {"groups": [{"name": "g", "rules": [{"record": "a", "expr": expr.replace("$capture", ".*")}]}]}
        done = subprocess.run(
            [prometheus / "promtool", "check", "rules", "/dev/stdin"], input=json.dumps(rules), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{expr}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_prometheus_scrapes_it_and_an_alert_fires_on_a_planted_leak(program, prometheus, tmp_path):
    rules = (SHARE / "alerts.yml").read_text()
    rules = re.sub(r"for: \w+", "for: 0s", rules)
    (tmp_path / "alerts.yml").write_text(rules)
    with Exporter(program.report) as exporter:
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "rule_files: [alerts.yml]\n"
            f"scrape_configs: [{{job_name: gpumem, static_configs: [{{targets: ['127.0.0.1:{exporter.port}']}}]}}]\n"
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with open(tmp_path / "prometheus.log", "w") as log:
            server = subprocess.Popen(
                [prometheus / "prometheus", f"--web.listen-address=127.0.0.1:{port}", "--config.file=prometheus.yml",
                 "--storage.tsdb.path=data", "--log.level=warn"],
                cwd=tmp_path, stdout=log, stderr=log,
            )

        def ask(path):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=WATCHDOG) as answer:
                    return json.load(answer)["data"]
            except (ConnectionError, urllib.error.URLError):
                return None

        def value(expr):
            data = ask("query?" + urllib.parse.urlencode({"query": expr}))
            return data and [float(row["value"][1]) for row in data["result"]]

        def firing():
            data = ask("alerts")
            return {of["labels"]["alertname"] for of in data["alerts"] if of["state"] == "firing"} if data else set()

        try:
            driver = 'gpumem_process_memory_bytes{level="driver"}'
            until(lambda: value(driver) == [16 << 20], "scraped")
            assert "GpumemLeakPerStep" not in firing()
            for _ in range(40):
                program.allocate(2)
                program.tell("step")
            until(lambda: value("gpumem_step_growth_bytes") == [2 << 20], "growth")
            until(lambda: "GpumemLeakPerStep" in firing(), "the alert")
            assert value(driver) == [96 << 20]
            program.tell("card")
            until(lambda: value("hw_gpu_memory_usage_bytes"), "a reading")
            # What this program has no figure of: tensors, a rank, its end.
            without = {
                "gpumem_reserved_bytes", "gpumem_reserved_unallocated_bytes", "gpumem_rank_difference_bytes", "gpumem_lost_events_total",
            }
            for panel in json.loads((SHARE / "grafana-dashboard.json").read_text())["panels"]:
                for target in panel["targets"]:
                    expr = target["expr"].replace("$capture", ".*")
                    assert bool(value(expr)) == (not metrics_in(expr) & without), (panel["title"], expr)
        finally:
            server.kill()
            server.wait()


def test_it_knows_job_rank_and_pod(tmp_path, python_env):
    variables = {
        "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "SLURM_JOB_ID": "4711",
        "POD_NAME": "train-1", "POD_NAMESPACE": "ml", "CONTAINER_NAME": "main",
    }
    with Program(tmp_path, python_env("py312"), **variables) as program, Exporter(tmp_path) as exporter:
        program.allocate(1)
        until(lambda: holds(exporter, 1), "1 MiB")
        [info] = [labels for name, labels, _ in exporter.samples() if name == "gpumem_capture_info"]
        wanted = {
            "rank": "1", "world_size": "2", "local_rank": "1", "slurm_job_id": "4711", "pod": "train-1", "namespace": "ml",
            "container": "main", "job_name": "slurm:4711", "pid": str(program.process.pid),
        }
        assert wanted.items() <= info.items()


def test_a_rank_that_differs_is_a_metric(tmp_path, python_env):
    ranks = []
    try:
        for rank, mib in enumerate((64, 64, 64, 96)):
            folder = tmp_path / str(rank)
            folder.mkdir()
            variables = {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank), "TORCHELASTIC_RUN_ID": "one"}
            ranks.append(Program(folder, python_env("py312"), **variables))
            ranks[-1].allocate(mib)
        with Exporter(tmp_path) as exporter:
            name = "gpumem_rank_difference_bytes"
            # From three of them on, ranks are compared.
            differences = [0, 0, 0, 32 << 20]
            until(
                lambda: [exporter.value(name, part="outside", rank=str(rank)) for rank in range(4)] == differences,
                "the differences",
            )
    finally:
        for program in ranks:
            program.__exit__()


def test_ended_programs_leave_and_others_take_their_place(tmp_path, python_env):
    with Exporter(tmp_path / "*" / "*.bin", options=("--keep", "2", "--max-captures", "1")) as exporter:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        with Program(tmp_path / "a", python_env("py312")) as first, Program(tmp_path / "b", python_env("py312")) as second:
            first.allocate(4)
            until(lambda: holds(exporter, 4), "the first")
            second.allocate(8)
            until(lambda: exporter.value("gpumem_exporter_captures", state="beyond_limit") == 1, "one too many")
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
            until(lambda: exporter.value("gpumem_capture_state", state="killed"), "the death")
            until(lambda: holds(exporter, 8), "the second in its place")
            assert exporter.value("gpumem_exporter_captures", state="past") == 1
            # A capture that is removed leaves at once.
            second.report.unlink()
            until(lambda: exporter.value("gpumem_exporter_captures", state="running") == 0, "removed")
            assert exporter.value("gpumem_process_memory_bytes", level="driver") is None


def test_a_cut_capture_and_other_files_stop_nothing(program, tmp_path):
    (tmp_path / "cut.bin").write_bytes(program.report.read_bytes()[:700])
    (tmp_path / "other.bin").write_bytes(b"other" * 1000)
    with Exporter(tmp_path) as exporter:
        until(lambda: holds(exporter, 16, capture=str(program.report)), "the whole one")
        assert program.allocate(4) == 20
        until(lambda: holds(exporter, 20, capture=str(program.report)), "it goes on")
        assert exporter.value("gpumem_exporter_captures", state="unreadable") == 1


def test_a_capture_that_takes_another_one_s_place_is_followed_from_its_beginning(tmp_path, python_env):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with Program(tmp_path / "a", python_env("py312")) as first, Program(tmp_path / "b", python_env("py312")) as second:
        first.allocate(4)
        second.allocate(8)
        with Exporter(tmp_path / "a") as exporter:
            until(lambda: holds(exporter, 4), "the first")
            second.report.replace(first.report)
            until(lambda: holds(exporter, 8), "the second")
            assert exporter.value("gpumem_capture_state", state="running") == 1
            assert exporter.value("gpumem_exporter_captures", state="running") == 1


def test_what_should_not_be_answered_is_refused(program):
    with Exporter(program.report) as exporter:
        host = b"Host: 127.0.0.1\r\n"
        for request, status in (
            (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
            (b"GET /../etc/passwd HTTP/1.1\r\n" + host + b"\r\n", "400"),
            (b"POST /metrics HTTP/1.1\r\n" + host + b"\r\n", "405"),
            (b"GET /nothing HTTP/1.1\r\n" + host + b"\r\n", "404"),
            (b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n", "200"),
        ):
            assert exporter.raw(request).split()[1] == status, request
        huge = exporter.raw(b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n" + host + b"\r\n")
        assert huge == "" or huge.split()[1] in ("414", "431")
        assert exporter.raw(b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n").split()[1] == "200"


def test_it_loads_no_cuda_and_its_memory_is_bounded(program):
    with Exporter(program.report) as exporter:
        until(lambda: holds(exporter, 16), "16 MiB")
        maps = (Path("/proc") / str(exporter.process.pid) / "maps").read_text()
        assert "gpumem-analyze" in maps
        assert not re.search(r"libcuda|libnvidia|libcudart", maps)

        def resident():
            status = (Path("/proc") / str(exporter.process.pid) / "status").read_text()
            return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10

        for _ in range(50):
            exporter.text()
        before = resident()
        for _ in range(500):
            exporter.text()
        assert resident() - before < 8 << 20


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--metrics", "127.0.0.1:0", "a["), 1, "a[: not a pattern"),
        (("a", "--metrics=0.0.0.0:0"), 1, "add --allow-remote"),
        (("--metrics", "127.0.0.1:0"), 2, "name a capture"),
        (("--metrics", "--once", "a", "b"), 2, "name one capture"),
        (("a", "b"), 2, "name one capture"),
        (("a", "--keep", "1"), 2, "--metrics"),
        (("--serve", "127.0.0.1:0", "--once", "a"), 2, "--metrics"),
        (("--metrics", "localhost:0", "a"), 2, "localhost:0: neither a file nor an address"),
        (("--metrics", "127.0.0.1:99999", "a"), 2, "127.0.0.1:99999: neither a file nor an address"),
        (("--metrics", "--once", "--every", "1", "a"), 2, "--every"),
        (("--metrics", "--device", "0", "a"), 2, "--device"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(arguments, code, said):
    done = subprocess.run([harness.ANALYZER, "live", *arguments], capture_output=True, text=True)
    assert done.returncode == code and said in done.stderr, harness.described(done)
    assert code == 2 or len(done.stderr.splitlines()) == 1


def test_the_old_command_is_a_form_of_live(program):
    command = [harness.ANALYZER, "exporter", "--captures", program.report, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "`exporter` is now `live --metrics`" in process.stderr.readline()
            assert "metrics at http://127.0.0.1:" in process.stderr.readline()
        finally:
            process.kill()
