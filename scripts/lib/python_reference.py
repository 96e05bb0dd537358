"""The page docs/python-api.md: the public names of the Python package, from its sources: signatures, docstrings, and the texts
beside the fields (`#: …`). tests/test_docs.py compares and writes it."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "gpumem"

HEAD = """\
# Reference of the Python package

<!-- Made from the docstrings by GPUMEM_BLESS=1 scripts/test e2e -k test_docs -->

[The Python package](python.md) explains how to use these names. All sizes are integers in bytes. `DeviceLike` is the
ordinal of a device in this process, a text such as `"cuda:1"`, a `torch.device`, or a device of CuPy, numba or JAX. A
device that is not a GPU raises ValueError. An `Optional` value is None if it is not known.
"""


def page() -> str:
    """The text of the page."""
    found = dict(public(PACKAGE / "__init__.py"))
    functions = [name for name, node in found.items() if isinstance(node[0], ast.FunctionDef)]
    lines = [HEAD, "## Functions\n"]
    for name in functions:
        lines += function("gpumem", found[name][0])
    lines.append("## Types\n")
    for name in sorted(set(found) - set(functions)):
        lines += of_class(*found[name])
    lines.append("## gpumem.fleet\n\nThe dataset of many captures on Apache Spark: [fleet](fleet.md).\n")
    fleet = (PACKAGE / "fleet.py").read_text()
    for node in ast.parse(fleet).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines += function("gpumem.fleet", node)
    return "\n".join(lines).rstrip("\n") + "\n"


def public(init: Path):
    """Each name of `__all__` with its definition and the text of its file. Of overloads, the last one."""
    tree = ast.parse(init.read_text())
    [names] = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            text = (init.parent / node.module.replace(".", "/")).with_suffix(".py").read_text()
            defined = {of.name: of for of in ast.parse(text).body if isinstance(of, (ast.FunctionDef, ast.ClassDef))}
            for alias in node.names:
                if alias.name in names and not alias.asname:
                    yield alias.name, (defined[alias.name], text)


def function(where: str, node: ast.FunctionDef) -> list:
    """A function's signature and its text."""
    return [f"### {where}.{node.name}\n", f"```\n{signature(node)}\n```\n", prose(ast.get_docstring(node) or "") + "\n"]


def of_class(node: ast.ClassDef, text: str) -> list:
    """A class with its fields, properties and methods."""
    lines = [f"### gpumem.{node.name}\n", prose(ast.get_docstring(node) or "") + "\n"]
    rows = [f"| `{name}: {kind}` | {said} |" for name, kind, said in fields(node, text)]
    for of in node.body:
        if isinstance(of, ast.FunctionDef) and not of.name.startswith("_") and not decorated(of, "overload"):
            said = prose(ast.get_docstring(of) or "")
            shown = f"{of.name}: {ast.unparse(of.returns)}" if decorated(of, "property") else signature(of)
            rows.append(f"| `{shown}` | {said} |".replace("\n", " "))
    return [*lines, "| | |\n|---|---|", *rows, ""] if rows else lines


def fields(node: ast.ClassDef, text: str):
    """Name, type and text of each field of a NamedTuple, a TypedDict or a class."""
    lines = text.splitlines()
    for of in node.body:
        if isinstance(of, ast.AnnAssign) and not of.target.id.startswith("_"):
            yield of.target.id, ast.unparse(of.annotation), lines[of.end_lineno - 1].partition("#: ")[2]


def decorated(node: ast.FunctionDef, name: str) -> bool:
    return any(isinstance(of, ast.Name) and of.id == name for of in node.decorator_list)


def signature(node: ast.FunctionDef) -> str:
    """The name with its parameters and the type of the result."""
    given = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0].args
    for several in (given.posonlyargs, given.args):
        several[:] = [of for of in several if of.arg != "self"]
    returns = ast.unparse(node.returns) if node.returns else "None"
    returns = ast.literal_eval(returns) if returns.startswith(("'", '"')) else returns
    return f"{node.name}({ast.unparse(given)}) -> {returns}"


def prose(text: str) -> str:
    """A docstring as Markdown, one line for each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
