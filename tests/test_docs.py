"""Pages that repeat what the code defines must agree with it. GPUMEM_BLESS=1 rewrites them."""

import ast
import ctypes
import os
import re
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "python"))
sys.path.insert(0, str(harness.ROOT / "scripts" / "lib"))

import python_reference  # noqa: E402
from gpumem._commands.cards import text as of_cards  # noqa: E402
from gpumem._machine import cards  # noqa: E402

CARDS = harness.ROOT / "docs" / "cards.md"
ENVIRONMENT = harness.ROOT / "docs" / "environment.md"


def options_of_the_library():
    """What gpumem_help_env prints: the table of interposer/src/options/table.rs."""
    library = ctypes.CDLL(str(harness.LIBRARY))
    library.gpumem_help_env.restype = ctypes.c_size_t
    library.gpumem_help_env.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    buffer = ctypes.create_string_buffer(library.gpumem_help_env(None, 0) + 1)
    library.gpumem_help_env(buffer, len(buffer))
    return buffer.value.decode()


def test_environment_options():
    options = options_of_the_library()
    assert "GPUMEM_OUTPUT" in options
    page = ENVIRONMENT.read_text()
    wanted = re.sub(r"```\n.*?```", lambda _: f"```\n{options.rstrip()}\n```", page, flags=re.S)
    if os.environ.get("GPUMEM_BLESS") == "1":
        ENVIRONMENT.write_text(wanted)
    assert page == wanted, "docs/environment.md differs from the table: run with GPUMEM_BLESS=1"


def test_table_of_cards():
    """The table of docs/cards.md is made from the cards' files."""
    rows = [list(of_cards.HEADS), ["---"] * len(of_cards.HEADS), *map(of_cards.row, cards.known())]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    page = CARDS.read_text()
    wanted, places = re.subn(r"(?<=-->\n)(\|.*\n)*\|.*", lambda _: table, page)
    if os.environ.get("GPUMEM_BLESS") == "1":
        CARDS.write_text(wanted)
    assert places == 1
    assert page == wanted, "docs/cards.md differs from the cards' files: run with GPUMEM_BLESS=1"


def test_reference_of_the_python_package():
    """Each public name has a text, each number of bytes its unit, and each error that its code raises is named."""
    page = harness.ROOT / "docs" / "python-api.md"
    wanted = python_reference.page()
    if os.environ.get("GPUMEM_BLESS") == "1":
        page.write_text(wanted)
    assert page.read_text() == wanted, "docs/python-api.md differs from the docstrings: run with GPUMEM_BLESS=1"
    assert not re.findall(r"\|  \||```\n\n\n", wanted), "a name without a text"
    for name, (node, text) in python_reference.public(harness.ROOT / "python" / "gpumem" / "__init__.py"):
        for of in ast.walk(node):
            if isinstance(of, ast.FunctionDef) and not of.name.startswith("_"):
                raised = {each.exc.func.id for each in ast.walk(of) if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)}
                said = f"{ast.get_docstring(node)} {ast.get_docstring(of)}"
                assert all(error in said for error in raised), (name, of.name, raised)


def test_links_lead_somewhere():
    """Relative links of all pages that people read."""
    pages = [*harness.ROOT.glob("*.md"), *(harness.ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(harness.ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
