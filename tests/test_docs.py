"""Pages that repeat what the code knows must say the same. GPUMEM_BLESS=1 writes them anew."""

import ctypes
import os
import re

import harness

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
