"""The timeline of a real training, compared with what a second reader sums up from the records alone.

What breaks these tests: a spike that a bucket loses, an event that is counted in the wrong bucket, a
last figure that is not the last, a device's moment chosen by something else than the ledger's rule.
"""

import pytest
import spec_reader

ALLOC, FREE, CANCEL = 1, 2, 3
LEVELS = {"tensor": 0, "driver": 1, "host": 2}


def series(report, level):
    """(time, event, live bytes) of a level of GPU 0, after each of its events."""
    live, out = 0, []
    for word, seq, *fields in spec_reader.read(report).order.records:
        if word != "event":
            continue
        time, _, size, _, _, _, _, kind, of, device, *_ = fields
        if (of, device) == (LEVELS[level], 0) and kind in (ALLOC, FREE, CANCEL):
            live += -size if kind == FREE else size
            out.append((time, seq, live))
    return out


@pytest.mark.parametrize("level", ("tensor", "driver"))
@pytest.mark.parametrize("environment", ("torch215", "torch112"))
def test_each_bucket_has_the_most_and_the_last_of_its_time(environment, level, trained, analyze_json):
    report = trained(environment).report
    device = analyze_json("timeline", "--level", level, report)["devices"][0]
    events = series(report, level)
    assert len(events) > 100 if level == "tensor" else len(events) > 3
    buckets = device["buckets"]
    assert 1 < len(buckets) <= 2048
    # A bucket ends with the event that its last figure is of.
    begin, before, checked = 0, 0, 0
    for bucket in buckets:
        assert bucket["from_ns"] <= bucket["most"]["time_ns"]
        own = [e for e in events if begin < e[1] <= bucket["last"]["seq"]]
        begin = bucket["last"]["seq"]
        if not own:
            assert bucket["most"]["bytes"] == bucket["last"]["bytes"] == [before]
            continue
        checked += len(own)
        # What was there at the bucket's first event counts, too: that can be another level's.
        most = max(live for _, _, live in own)
        assert bucket["most"]["bytes"][0] in (most, max(most, before)), bucket
        before = own[-1][2]
        assert bucket["last"]["bytes"] == [before]
        for time, _, _ in own:
            assert time <= bucket["to_ns"]
    assert checked == len(events)
    peak = max(live for _, _, live in events)
    assert device["peak"]["bytes"] == [peak]
    assert device["peak"]["seq"] == next(seq for _, seq, live in events if live == peak)


def test_the_bands_are_what_the_card_gave(trained, analyze_json):
    """All bands together are the physical level, as the simulator's NVML saw it, at every reading."""
    report = trained("torch215").report
    timeline = analyze_json("timeline", report)
    device = timeline["devices"][0]
    for bucket in device["buckets"]:
        last = bucket["last"]
        assert sum(last["bytes"]) >= last["tensor_bytes"]
        if last["physical_bytes"] >= last["driver_bytes"]:
            assert sum(last["bytes"]) == last["physical_bytes"]
    readings = [
        bucket for bucket in device["buckets"]
        if bucket["nvml_process_bytes"] == bucket["last"]["physical_bytes"]
    ]
    assert len(readings) >= 3
    ledger = analyze_json("ledger", report)[0]
    assert device["peak"]["seq"] == ledger["seq"]


def test_steps_and_phases_are_there(trained, analyze_json):
    report = trained("torch215").report
    timeline = analyze_json("timeline", report)
    summary = analyze_json("summary", report)
    course = timeline["course"]
    assert sum(bucket["steps"] for bucket in course) == summary["steps"] > 0
    assert [b["step"] for b in course if b["step"]][-1] == summary["steps"]
    for bucket in course:
        phases = ("backward_ns", "optimizer_ns", "zero_grad_ns", "other_ns")
        spent = sum(bucket[phase] for phase in phases)
        assert spent <= bucket["to_ns"] - bucket["from_ns"]
    assert sum(bucket["backward_ns"] for bucket in course) > 0
    assert sum(bucket["optimizer_ns"] for bucket in course) > 0
