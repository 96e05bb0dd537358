"""Reads a file of OpenTelemetry profiles with the published messages and checks their rules: the first entry of each
table is the zero value, no entry occurs twice, each is used, and each number refers to an entry. Prints the contents
as JSON."""

import json
import sys
from pathlib import Path

from opentelemetry.proto.profiles.v1development import profiles_pb2 as messages

data = messages.ProfilesData.FromString(Path(sys.argv[1]).read_bytes())
of = data.dictionary
TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")
tables = {name: getattr(of, f"{name}_table") for name in TABLES}
for name, table in tables.items():
    zero = "" if name == "string" else type(table[0])()
    assert table[0] == zero, name
    written = [entry if name == "string" else entry.SerializeToString(deterministic=True) for entry in table]
    assert len(set(written)) == len(written), name
used = {name: {0} for name in TABLES}


def take(name, number):
    used[name].add(number)
    return tables[name][number]


def value(of):
    return getattr(of, of.WhichOneof("value"))


def attributes(numbers):
    found = {}
    for number in numbers:
        attribute = take("attribute", number)
        found[take("string", attribute.key_strindex)] = value(attribute.value)
    return found


def frames(number):
    for at in take("stack", number).location_indices:
        location = take("location", at)
        mapping = take("mapping", location.mapping_index)
        take("string", mapping.filename_strindex)
        attributes(mapping.attribute_indices)
        kind = attributes(location.attribute_indices).get("profile.frame.type")
        assert (kind == "native") == bool(location.address), location
        for line in location.lines:
            function = take("function", line.function_index)
            assert take("string", function.system_name_strindex) == take("string", function.name_strindex)
            yield take("string", function.name_strindex), take("string", function.filename_strindex), kind


profiles, ids, of_profiles = [], set(), []
(resource,) = data.resource_profiles
(scope,) = resource.scope_profiles
assert scope.scope.name == "gpumem" and scope.scope.version
for profile in scope.profiles:
    assert take("string", profile.sample_type.unit_strindex) == "bytes"
    assert profile.time_unix_nano and profile.duration_nano
    assert len(profile.profile_id) == 16 and any(profile.profile_id)
    ids.add(profile.profile_id)
    of_profiles.append(attributes(profile.attribute_indices))
    stacks = []
    for sample in profile.samples:
        (size,) = sample.values
        assert size > 0 and sample.link_index == 0 and not sample.timestamps_unix_nano
        stacks.append((list(frames(sample.stack_index)), size))
    name = take("string", profile.sample_type.type_strindex)
    profiles.append((name, sum(size for _, size in stacks), stacks))
assert len(ids) == len(profiles)
for name, table in tables.items():
    assert used[name] == set(range(len(table))), f"{name}: {len(table) - len(used[name])} are not used"
about = {attribute.key: value(attribute.value) for attribute in resource.resource.attributes}
print(json.dumps({"profiles": profiles, "resource": about, "attributes": of_profiles[0]}))
