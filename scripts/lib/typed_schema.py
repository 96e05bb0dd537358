"""The JSON Schemas of all forms, for scripts/schemas and the tests. Those of gpumem-analyze come from its types
(analyzer/src/envelope/schema.rs). Those of the Python package are made here from its types (python/gpumem/_text/forms.py), as closed objects in
the same way."""

import ast
import inspect
import json
import subprocess
import sys
import textwrap
import typing
from pathlib import Path

import python_reference

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from gpumem._commands.cards import form as cards  # noqa: E402
from gpumem._commands.doctor import form as doctor  # noqa: E402
from gpumem._commands.fleet import form as fleet  # noqa: E402
from gpumem._plan import form as plan  # noqa: E402
from gpumem._whatif import form as whatif  # noqa: E402

FORMS = (cards.LIST, cards.SHOW, doctor.FORM, fleet.QUERY, fleet.SQL, plan.FORM, whatif.FORM)
# The schema of a card's file, which people write.
CARD = ROOT / "python" / "gpumem" / "_machine" / "cards" / "schema.json"
PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
# The types of other schemas: the form, and the definition in it. Without one it is the whole schema.
ELSEWHERE = {
    "Capture": ("lines", "Capture"),
    "CardFile": ("card", None),
    "CategoryBytes": ("ledger", "CategoryBytes"),
    "Cause": ("oom", "Cause"),
    "Failure": ("oom", "Failure"),
    "LedgerRow": ("ledger", "LedgerRow"),
    "LineRow": ("lines", "LineRow"),
    "ModuleRow": ("modules", "Row"),
    "Phase": ("lines", "Phase"),
}
# A value of SQL has no type of Python's.
CELL = {
    "description": "A value of SQL.",
    "type": ["null", "boolean", "integer", "number", "string", "array", "object"],
    "items": {"$ref": "#/$defs/Cell"},
    "additionalProperties": {"$ref": "#/$defs/Cell"},
}


def schemas(program):
    """The schema of each form, by its name. `program` is analyzer/cli/examples/schemas.rs."""
    found = json.loads(subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout)
    found["card"] = json.loads(CARD.read_text())
    for form in FORMS:
        found[form.name] = schema(form, found)
    return found


def schema(form, others):
    """The schema of a form of the Python package."""
    types = Types(others)
    properties, required = {"schema": {"const": form.id}, form.key: types.of(form.body)}, ["schema", form.key]
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": form.id, "type": "object"}
    if form.of_captures:
        capture = types.elsewhere("Capture")
        properties.update(capture=capture, captures={"type": "array", "minItems": 2, "items": capture})
        made["oneOf"] = [{"required": ["capture"]}, {"required": ["captures"]}]
    closed = "unevaluatedProperties" if "oneOf" in made else "additionalProperties"
    made.update({"properties": properties, "required": required, closed: False, "$defs": types.definitions})
    return made


class Types:
    """Schemas of types, with the definitions that they refer to."""

    def __init__(self, others):
        self.others = others
        self.definitions = {}

    def of(self, kind):
        if kind in PLAIN:
            return {"type": PLAIN[kind]}
        if typing.is_typeddict(kind):
            return self._object(kind)
        if hasattr(kind, "__supertype__"):
            return self._defined("Cell", CELL) if kind.__name__ == "Cell" else self.elsewhere(kind.__name__)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Literal:
            return {"enum": list(arguments)} if len(arguments) > 1 else {"const": arguments[0]}
        if origin is typing.Union:
            if all(each in PLAIN for each in arguments):
                return {"type": [PLAIN[each] for each in sorted(arguments, key=list(PLAIN).index)]}
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        assert origin is dict and arguments[0] is str, kind
        return {"type": "object", "additionalProperties": self.of(arguments[1])}

    def _object(self, kind):
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}
            described = descriptions(kind)
            properties = {}
            for name, of in typing.get_type_hints(kind).items():
                properties[name] = {**self.of(of), **({"description": described[name]} if described else {})}
            self.definitions[kind.__name__] = {
                "type": "object", "description": line(kind.__doc__), "properties": properties,
                "required": [name for name in properties if name in kind.__required_keys__], "additionalProperties": False,
            }  # fmt: skip
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def elsewhere(self, name):
        """A definition of another schema, with all that it refers to."""
        form, definition = ELSEWHERE[name]
        whole = self.others[form]
        found = whole["$defs"][definition] if definition else {key: of for key, of in whole.items() if key not in ("$schema", "$id", "$defs")}
        self._with_parts(name, found, whole["$defs"])
        return {"$ref": f"#/$defs/{name}"}

    def _with_parts(self, name, definition, others):
        if self.definitions.get(name) == definition:
            return
        self._defined(name, definition)
        for other in sorted(references(definition)):
            self._with_parts(other, others[other], others)

    def _defined(self, name, definition):
        assert self.definitions.setdefault(name, definition) == definition, f"two types are called {name}"
        return {"$ref": f"#/$defs/{name}"}


def references(schema):
    """The names of the definitions to which it refers."""
    if isinstance(schema, dict):
        own = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
        return own.union(*(references(each) for each in schema.values()))
    return set().union(*(references(each) for each in schema)) if isinstance(schema, list) else set()


def descriptions(kind):
    """The texts beside the keys of a class; nothing where its keys are no names."""
    if hasattr(kind, "texts"):
        return kind.texts
    if not all(name.isidentifier() for name in kind.__annotations__):
        return {}
    text = textwrap.dedent(inspect.getsource(kind))
    [of] = ast.parse(text).body
    return {name: said for name, _, said in python_reference.fields(of, text) if said}


def line(text):
    return " ".join(text.split())


def main(program, folder):
    """Writes each schema into a file of the folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, of in schemas(program).items():
        (Path(folder) / f"{name}.json").write_text(json.dumps(of, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
