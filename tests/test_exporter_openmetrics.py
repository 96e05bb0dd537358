"""`gpumem-analyze live --metrics` read by the parsers of prometheus_client: both formats, label by label and value by
value.

What breaks these tests: a text that a strict parser of OpenMetrics refuses, a sample that only one of the formats
has, a label that is not escaped, and a value that is not `summary`'s."""

import harness
from exporter import Exporter
from on_demand import Program
from prometheus_client import parser as prometheus
from prometheus_client.openmetrics import parser as openmetrics
from waiting import until

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
# Time passes between two requests.
AGES = {"gpumem_card_reading_age_seconds"}


def by_labels(families):
    """The value of each sample; no sample occurs twice."""
    found = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def both(exporter):
    open_text = exporter.text(OPENMETRICS)
    families = list(openmetrics.text_string_to_metric_families(open_text))
    text_families = list(prometheus.text_string_to_metric_families(exporter.text()))
    return families, by_labels(families), text_families, by_labels(text_families)


def of(samples, name, **labels):
    """The only value with these labels."""
    (value,) = [value for (found, has), value in samples.items() if found == name and labels.items() <= dict(has).items()]
    return value


def test_both_formats_say_what_summary_says(tmp_path, python_env):
    with Program(tmp_path, python_env("py312"), RANK="0", WORLD_SIZE="1") as program, Exporter(program.report) as exporter:
        for mib in (3, 5):
            program.allocate(mib)
            program.tell("step")
        program.tell("card")
        until(lambda: exporter.value("hw_gpu_memory_usage_bytes"), "a reading")
        families, open_samples, text_families, text_samples = both(exporter)
        assert {key for key in open_samples if key[0] not in AGES} == {key for key in text_samples if key[0] not in AGES}
        for key, value in open_samples.items():
            assert key[0] in AGES or value == text_samples[key], key
        for family in families:
            # OpenMetrics declares units; a counter's family has no suffix there.
            ends = [unit for unit in ("bytes", "seconds") if family.name.endswith(f"_{unit}")]
            assert [family.unit] == (ends or [""]), family.name
            assert family.documentation.endswith((".", "1.")) and family.type in ("gauge", "counter"), family.name
            assert all(sample.name.endswith("_total") == (family.type == "counter") for sample in family.samples)
        assert [(one.type, one.documentation) for one in families] == [(one.type, one.documentation) for one in text_families]
        program.process.stdin.close()
        program.process.wait()
        until(lambda: exporter.value("gpumem_capture_state", state="ended"), "the end")
        summary = harness.analyze_json("report", "--all", program.report, check=False)
        device = summary["devices"][0]
        _, open_samples, _, text_samples = both(exporter)
        for samples in (open_samples, text_samples):
            for level in ("driver", "physical"):
                assert of(samples, "gpumem_process_memory_bytes", level=level) == device[level]["live_bytes"]
                assert of(samples, "gpumem_process_memory_peak_bytes", level=level) == device[level]["peak_bytes"]
            for name in ("allocations", "frees"):
                assert of(samples, f"gpumem_{name}_total", level="driver") == device["driver"][name]
            assert of(samples, "gpumem_process_memory_bytes", level="driver") == 8 << 20
            for name, key in (("events", "events"), ("lost_events", "lost_events"), ("out_of_memory", "out_of_memory_events")):
                assert of(samples, f"gpumem_{name}_total") == summary[key], name
            for name in ("total", "nvml_process", "unexplained"):
                exported = {"total": "gpumem_limit_bytes"}.get(name, f"gpumem_{name}_bytes")
                assert of(samples, exported) == device[f"{name}_bytes"], name
            assert of(samples, "gpumem_steps_total") == 2


def test_any_path_and_any_name_come_through_as_labels(tmp_path, python_env):
    folder = tmp_path / 'a "quoted"\\n\nname \\\\ {x="1"},é'
    folder.mkdir()
    with Program(folder, python_env("py312"), POD_NAME='p"\\\n#', RANK="0", WORLD_SIZE="1") as program:
        program.allocate(3)
        with Exporter(folder) as exporter:
            until(lambda: exporter.value("gpumem_process_memory_bytes", level="driver"), "a sample")
            _, open_samples, _, text_samples = both(exporter)
            for samples in (open_samples, text_samples):
                assert of(samples, "gpumem_process_memory_bytes", level="driver") == 3 << 20
                (labels,) = [dict(has) for (name, has) in samples if name == "gpumem_capture_info"]
                assert labels["capture"] == str(program.report) and labels["pod"] == 'p"\\\n#'


def test_which_format_an_accept_header_gets(tmp_path):
    with Exporter(tmp_path) as exporter:
        for accept, is_open in (
            (OPENMETRICS, True),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1", True),
            ("text/plain", False),
            ("*/*", False),
        ):
            assert exporter.text(accept).endswith("# EOF\n") == is_open, accept
