"""Whether JSON is what its schema says, and faults that a closed schema refuses. Each process of a test run generates the schemas once, from
what was built (scripts/lib/typed_schema.py)."""

import copy
import fnmatch
import functools
import hashlib
import json
import sys

import harness
import jsonschema_rs

sys.path.insert(0, str(harness.ROOT / "scripts" / "lib"))

import typed_schema  # noqa: E402

# A line for each form: its name, its version, the hash of its schema.
HASHES = harness.ROOT / "tests" / "schemas.txt"
NAMES = [line.split()[0] for line in HASHES.read_text().splitlines() if line[0] != "#"]
PLANTED = "planted"
# Figures that a list keeps: more than a tuple has.
_FIGURES = 8
# What has schemas in it, by their names or as a list.
_NAMED, _LISTED = ("properties", "patternProperties", "$defs"), ("allOf", "anyOf", "oneOf", "prefixItems")
# Keys that objects of gpumem-analyze lack where there is nothing to say, by the end of their place.
OPTIONAL = (
    "*.allocator_room_bytes", "*.allocator_unknown", "*.categories", "*.error_bytes", "*.events", "*.failed_times", "*.holder",
    "*.host_of_no_device", "*.imported", "*.library", "*.limit_bytes", "*.node", "*.other_devices", "*.parts",
    "*.parts.#.category", "*.parts.#.phase", "*.replayed", "*.set_up_times", "*.times", "*.wanted_bytes", "*.workspace", "*.pytorch",
)  # fmt: skip
_CLOSING = ("additionalProperties", "unevaluatedProperties")


@functools.lru_cache(maxsize=None)
def generated():
    """The schema of each form, by its name."""
    return typed_schema.schemas(harness.EXAMPLES / "schemas")


def schema_of(form):
    return copy.deepcopy(generated()[form])


def hashed(name, schema):
    """The line of a form in HASHES. Texts that describe fields do not count."""
    _, form, version = schema["$id"].split("/")
    assert form == name
    text = json.dumps(without_texts(schema), sort_keys=True)
    return f"{name} {version} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def without_texts(schema):
    """A field may be called `description`, too: its schema is no text."""
    if isinstance(schema, dict):
        return {key: without_texts(of) for key, of in schema.items() if key != "description" or not isinstance(of, str)}
    return list(map(without_texts, schema)) if isinstance(schema, list) else schema


@functools.lru_cache(maxsize=None)
def validator(form):
    return jsonschema_rs.Draft202012Validator(generated()[form])


def validated(form, text):
    """The object that a command printed as the form."""
    said = json.loads(text)
    assert said["schema"] == f"gpumem/{form}/1" == schema_of(form)["$id"]
    validator(form).validate(said)
    return said


def found(form, text):
    """Its rows or data."""
    said = validated(form, text)
    [body] = said.keys() & {"rows", "data"}
    return said[body]


def unclosed(schema, at=""):
    """The places of a schema at which an object may have any key, or a value may be anything."""
    if schema is True or schema == {}:
        yield f"{at}: anything"
        return
    if not isinstance(schema, dict):
        return
    is_object = "properties" in schema or "object" in schema.get("type", ())
    if is_object and not any(schema.get(key, True) is not True for key in _CLOSING):
        yield f"{at}: any key"
    for key, value in schema.items():
        if key in _NAMED:
            for name, each in value.items():
                yield from unclosed(each, f"{at}/{name}")
        elif key in _LISTED:
            # Conditions on the keys of the object that has them define none.
            for number, each in enumerate(value):
                if set(each) - {"required"}:
                    yield from unclosed(each, f"{at}/{key}/{number}")
        elif key == "items" or key in _CLOSING:
            yield from unclosed(value, f"{at}/{key}")


def objects(value, at=()):
    """The place of each object, outermost first. A number stands for an item of a list."""
    if isinstance(value, dict):
        yield at
        for key, each in value.items():
            yield from objects(each, (*at, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from objects(each, (*at, number))


def within(value, at):
    for key in at:
        value = value[key]
    return value


def kinds(value):
    """The first object of each kind: its place, with # for each item of a list, and its keys."""
    shape = {}
    for at in objects(value):
        of = tuple("#" if isinstance(key, int) else key for key in at)
        shape.setdefault((of, frozenset(within(value, at))), at)
    return shape


def slim(value):
    """The same with only those items of lists that have objects of another kind than those before them."""
    if isinstance(value, dict):
        return {key: slim(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    if not any(isinstance(each, (dict, list)) for each in value):
        return value[:_FIGURES]
    kept, seen = [], set()
    for each in map(slim, value):
        of = set(kinds(each))
        if of - seen or len(kept) < 2:
            kept.append(each)
            seen |= of
    return kept


def faults(form, said, seen, optional=()):
    """Each fault that can be planted in an object of a kind that is not in `seen`: its name, and the output with it. Keys whose places match
    one of OPTIONAL or of `optional` may lack: rows.#.modules.*"""
    said = slim(said)
    validator(form).validate(said)
    for kind, at in kinds(said).items():
        if kind in seen:
            continue
        seen.add(kind)
        more = copy.deepcopy(said)
        # An object, which is no value of a map of figures either.
        within(more, at)[PLANTED] = {PLANTED: None}
        yield f"{name(kind[0])} with a key more", more
        for key in within(said, at):
            if not any(fnmatch.fnmatchcase(".".join((*kind[0], key)), pattern) for pattern in (*OPTIONAL, *optional)):
                less = copy.deepcopy(said)
                del within(less, at)[key]
                yield f"{name(kind[0])} without {key}", less


def refuses_faults(form, said, seen=None, optional=()):
    """That the form's schema refuses each fault; their names."""
    check, names = validator(form), []
    for name_of_fault, faulty in faults(form, said, set() if seen is None else seen, optional):
        assert not check.is_valid(faulty), f"{form}: {name_of_fault} is valid"
        names.append(name_of_fault)
    return names


def name(of):
    return ".".join(of) or "the object"
