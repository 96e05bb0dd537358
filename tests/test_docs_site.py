"""The site of docs/: it builds without a warning, and needs no network. What breaks these tests: a broken link or
anchor, a page that the navigation does not name, a script or a font from another host."""

import re
import shutil
import subprocess

import harness
import pytest

# What a page loads; where a link leads does not count.
LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"'\s>]+)|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preconnect|preload|modulepreload))[^>]*\bhref=["']?([^"'\s>]+)""")
STYLES = re.compile(r"""url\(\s*["']?((?:https?:)?//[^"')]+)|@import\s+["']?((?:https?:)?//[^"';]+)""")


@pytest.fixture(scope="module")
def site(python_env, tmp_path_factory):
    """The folder of the site as scripts/docs builds it."""
    python_env("docs")
    folder = tmp_path_factory.mktemp("site")
    command = [harness.ROOT / "scripts" / "docs", "--out", folder]
    done = subprocess.run(command, env=harness.clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout
    return folder


def test_every_page_is_built(site):
    for page in (harness.ROOT / "docs").rglob("*.md"):
        built = page.relative_to(harness.ROOT / "docs").with_suffix(".html")
        built = built.with_name("index.html") if built.name == "README.html" else built
        assert (site / built).is_file(), page


def test_nothing_is_loaded_from_a_network(site):
    loaded = {
        (page.name, address)
        for page in site.rglob("*.html")
        for found in LOADED.findall(page.read_text())
        for address in found
        if re.match(r"(https?:)?//", address)
    }
    assert not loaded
    assert not [style for style in site.rglob("*.css") if STYLES.search(style.read_text())]


def test_the_search_works_without_a_server(site):
    assert (site / "search" / "search_index.js").is_file()
    assert "assets/iframe-worker/shim.js" in (site / "index.html").read_text()


def test_links_that_leave_docs_lead_to_copies(site):
    assert (site / "repository" / "capture" / "SPEC.html").is_file()
    pages = (site / "commands" / "live.html").read_text()
    assert "repository/analyzer/live/share/alerts.yml" in pages


def test_names_of_forms_lead_to_their_schemas(site):
    """Those of json.md, which names every form, and of a page in a folder."""
    forms = {line.split()[0] for line in (harness.ROOT / "tests" / "schemas.txt").read_text().splitlines() if line[0] != "#"}
    assert {path.stem for path in (site / "schema").iterdir()} == forms
    assert set(re.findall(r'href="schema/([a-z-]+)\.json"', (site / "json.html").read_text())) == forms
    assert 'href="../schema/plan.json"' in (site / "commands" / "plan.html").read_text()


def test_an_anchor_that_leads_nowhere_fails_the_build(python_env, tmp_path):
    """The same settings, on a copy with one wrong anchor."""
    python = python_env("docs")
    for name in ("mkdocs.yml", "docs", "scripts", "capture", "analyzer/live/share", "tests/fixtures/captures/README.md"):
        wanted = harness.ROOT / name
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(wanted, tmp_path / name) if wanted.is_dir() else shutil.copy(wanted, tmp_path / name)
    page = tmp_path / "docs" / "index.md"
    page.write_text(page.read_text() + "\n[nowhere](commands/lines.md#there-is-no-such-heading)\n")
    command = [python, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, env=harness.clean_environment({"NO_MKDOCS_2_WARNING": "1"}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode != 0 and "there-is-no-such-heading" in done.stdout, done.stdout


def test_each_question_names_the_thread_that_it_comes_from():
    page = (harness.ROOT / "docs" / "how-to" / "faq.md").read_text().partition("## Troubleshooting")[0]
    questions = page.split("\n### ")[1:]
    assert len(questions) >= 30
    for question in questions:
        assert re.search(r"^Asked in \[[^\]]+\]\(https://[^)]+\)", question, re.M), question.partition("\n")[0]
