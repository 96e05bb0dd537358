"""Readers of the files that `gpumem-analyze export` writes: each format's own reader if there is one, otherwise one
that checks the format's documented rules."""

import gzip
import json
from collections import defaultdict

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INT64, UINT64, BOOL, STRING, MESSAGE = 3, 4, 8, 9, 11
REPEATED = 3
# google/pprof's proto/profile.proto: fields by message as (name, number, type, repeated).
PROFILE = {
    "ValueType": [("type", 1, INT64, 0), ("unit", 2, INT64, 0)],
    "Label": [("key", 1, INT64, 0), ("str", 2, INT64, 0), ("num", 3, INT64, 0), ("num_unit", 4, INT64, 0)],
    "Sample": [("location_id", 1, UINT64, 1), ("value", 2, INT64, 1), ("label", 3, "Label", 1)],
    "Mapping": [
        ("id", 1, UINT64, 0), ("memory_start", 2, UINT64, 0), ("memory_limit", 3, UINT64, 0),
        ("file_offset", 4, UINT64, 0), ("filename", 5, INT64, 0), ("build_id", 6, INT64, 0),
        ("has_functions", 7, BOOL, 0), ("has_filenames", 8, BOOL, 0), ("has_line_numbers", 9, BOOL, 0),
        ("has_inline_frames", 10, BOOL, 0),
    ],
    "Line": [("function_id", 1, UINT64, 0), ("line", 2, INT64, 0)],
    "Location": [
        ("id", 1, UINT64, 0), ("mapping_id", 2, UINT64, 0), ("address", 3, UINT64, 0),
        ("line", 4, "Line", 1), ("is_folded", 5, BOOL, 0),
    ],
    "Function": [
        ("id", 1, UINT64, 0), ("name", 2, INT64, 0), ("system_name", 3, INT64, 0),
        ("filename", 4, INT64, 0), ("start_line", 5, INT64, 0),
    ],
    "Profile": [
        ("sample_type", 1, "ValueType", 1), ("sample", 2, "Sample", 1), ("mapping", 3, "Mapping", 1),
        ("location", 4, "Location", 1), ("function", 5, "Function", 1), ("string_table", 6, STRING, 1),
        ("drop_frames", 7, INT64, 0), ("keep_frames", 8, INT64, 0), ("time_nanos", 9, INT64, 0),
        ("duration_nanos", 10, INT64, 0), ("period_type", 11, "ValueType", 0), ("period", 12, INT64, 0),
        ("comment", 13, INT64, 1), ("default_sample_type", 14, INT64, 0),
    ],
}


def _profile_class():
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="perftools.profiles", syntax="proto3"
    )
    for name, fields in PROFILE.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            made = message.field.add(name=field, number=number, label=REPEATED if repeated else 1)
            if isinstance(kind, str):
                made.type, made.type_name = MESSAGE, f".perftools.profiles.{kind}"
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


def no_unknown_fields(message):
    from google.protobuf import unknown_fields

    assert not len(unknown_fields.UnknownFieldSet(message)), message
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if field.is_repeated else [value]:
                no_unknown_fields(part)


def pprof(path):
    """A profile, held to the rules that pprof's own CheckValid has."""
    profile = _profile_class().FromString(gzip.decompress(path.read_bytes()))
    no_unknown_fields(profile)
    texts = profile.string_table
    assert texts[0] == "" and len(set(texts)) == len(texts)
    assert profile.sample_type
    ids = {}
    for name in ("mapping", "location", "function"):
        found = [row.id for row in getattr(profile, name)]
        assert 0 not in found and len(set(found)) == len(found), name
        ids[name] = set(found)
    for sample in profile.sample:
        assert len(sample.value) == len(profile.sample_type)
        assert sample.location_id and set(sample.location_id) <= ids["location"]
    for location in profile.location:
        assert location.mapping_id == 0 or location.mapping_id in ids["mapping"]
        assert location.line and {line.function_id for line in location.line} <= ids["function"]
    for mapping in profile.mapping:
        assert mapping.memory_start < mapping.memory_limit
        assert texts[mapping.filename]
    assert texts[profile.default_sample_type] in pprof_types(profile)
    return profile


def pprof_types(profile):
    return [profile.string_table[of.type] for of in profile.sample_type]


def pprof_totals(profile):
    """{sample type: sum over all samples}"""
    return {
        name: sum(sample.value[index] for sample in profile.sample)
        for index, name in enumerate(pprof_types(profile))
    }


def perfetto(path):
    """A trace's events by their letter, held to the rules of Chrome's trace format: B and E nest on
    each track, b and e are pairs, and times of slices do not go back on a track."""
    events = json.loads(path.read_text())["traceEvents"]
    by_letter = defaultdict(list)
    open_slices, open_async = defaultdict(list), {}
    newest = {}
    for event in events:
        by_letter[event["ph"]].append(event)
        assert {"ph", "pid", "tid", "name"} <= event.keys()
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["args"]
            continue
        assert event["ts"] >= 0
        if event["ph"] in "BE":
            assert event["ts"] >= newest.get(track, 0), event
            newest[track] = event["ts"]
        if event["ph"] == "B":
            open_slices[track].append(event["name"])
        elif event["ph"] == "E":
            assert open_slices[track].pop() == event["name"], event
        elif event["ph"] == "b":
            assert open_async.setdefault((event["cat"], event["id"]), event) is event
        elif event["ph"] == "e":
            assert open_async.pop((event["cat"], event["id"]))["name"] == event["name"]
        elif event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
        else:
            assert event["ph"] == "i" and event["s"] in "gpt", event
    assert not any(open_slices.values()) and not open_async
    return by_letter


def column(table, name):
    assert len(table[name]) == table["length"], name
    return table[name]


def firefox(path):
    """(stacks as lists of function names, weights, profile), held to the processed format's rules:
    columns are as long as their table, and indices lead into the table that they are of."""
    profile = json.loads(path.read_text())
    assert profile["meta"]["preprocessedProfileVersion"] == 55
    (thread,) = profile["threads"]
    texts = thread["stringArray"]
    tables = ("samples", "nativeAllocations", "markers", "stackTable", "frameTable", "funcTable",
              "resourceTable", "nativeSymbols")
    for name in tables:
        table = thread[name]
        for key, values in table.items():
            if isinstance(values, list):
                column(table, key)
    functions, frames, stacks = thread["funcTable"], thread["frameTable"], thread["stackTable"]
    assert all(0 <= name < len(texts) for name in functions["name"])
    assert all(file is None or 0 <= file < len(texts) for file in functions["fileName"])
    assert all(0 <= function < functions["length"] for function in frames["func"])
    assert all(0 <= category < len(profile["meta"]["categories"]) for category in frames["category"])
    names = []
    for prefix, frame in zip(stacks["prefix"], stacks["frame"]):
        # A stack comes after its prefix.
        assert prefix is None or 0 <= prefix < len(names)
        before = [] if prefix is None else names[prefix]
        names.append([*before, texts[functions["name"][frames["func"][frame]]]])
    allocations = thread["nativeAllocations"]
    assert allocations["weightType"] == "bytes"
    assert len(set(allocations["memoryAddress"])) == allocations["length"]
    times = allocations["time"]
    assert times == sorted(times)
    assert all(0 <= time <= thread["samples"]["timeDeltas"][1] for time in times)
    return [names[stack] for stack in allocations["stack"]], allocations["weight"], profile


def firefox_counters(profile):
    """{name: greatest value}, of counters as changes from point to point."""
    greatest = {}
    for counter in profile["counters"]:
        samples = counter["samples"]
        column(samples, "timeDeltas")
        assert min(samples["timeDeltas"], default=0) >= 0
        value = most = 0
        for change in column(samples, "count"):
            value += change
            assert value >= 0
            most = max(most, value)
        greatest[counter["name"]] = most
    return greatest


def speedscope(path, schema):
    """{first word of a profile's name: (total, {stack: bytes})}, after validation against the schema."""
    import jsonschema

    file = json.loads(path.read_text())
    jsonschema.validate(file, json.loads(schema.read_text()))
    frames = file["shared"]["frames"]
    profiles = {}
    for profile in file["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "bytes"
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["startValue"] == 0 and profile["endValue"] == sum(profile["weights"])
        assert min(profile["weights"], default=1) > 0
        stacks = defaultdict(int)
        for stack, weight in zip(profile["samples"], profile["weights"]):
            assert all(0 <= frame < len(frames) for frame in stack)
            stacks[tuple(frames[frame]["name"] for frame in stack)] += weight
        profiles[profile["name"].split(":")[0]] = (profile["endValue"], dict(stacks))
    return profiles


def folded(path):
    """{frames: bytes}. The count is the text after the last blank, as inferno and flamegraph.pl read it; a second
    number before it would be read as a difference."""
    stacks = {}
    for line in path.read_text().splitlines():
        stack, _, number = line.rpartition(" ")
        assert number.isdigit() and int(number) > 0, line
        assert stack and not stack.rpartition(" ")[2].replace(".", "").isdigit(), line
        assert tuple(stack.split(";")) not in stacks
        stacks[tuple(stack.split(";"))] = int(number)
    return stacks
