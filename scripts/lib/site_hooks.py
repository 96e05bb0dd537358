"""Hooks of mkdocs, for the parts of the site that mkdocs.yml cannot express.

A folder in the navigation stands for its pages. A file outside docs/ that a page links to, such as
capture/SPEC.md, becomes part of the site below repository/, so that links work on GitHub and here. The name of a form
(docs/json.md) becomes a link to its schema, which scripts/docs generates. On GitHub a list may follow a line of text
directly; Python-Markdown needs an empty line between them."""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTSIDE = "repository"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FORM = re.compile(r"`gpumem/([a-z-]+)/\d+`")
FENCE = re.compile(r" *(```|~~~)")
ITEM = re.compile(r"([-*+]|\d+[.)]) ")
# The path in the repository of each copy.
SOURCES: dict[str, str] = {}


def on_config(config):
    config.nav = [expanded(entry) for entry in config.nav]
    return config


def expanded(entry):
    """An entry of the navigation with the pages of its folders."""
    if isinstance(entry, dict):
        return {title: expanded(below) for title, below in entry.items()}
    if isinstance(entry, list):
        return [page for below in entry for page in pages_of(below)]
    return entry


def pages_of(entry):
    """A page, a section, or all pages of a folder."""
    if isinstance(entry, str) and entry.endswith("/"):
        pages = sorted((DOCS / entry).glob("*.md"), key=lambda page: (page.name != "README.md", page.name))
        return [page.relative_to(DOCS).as_posix() for page in pages]
    return [expanded(entry)]


def place(target, page):
    """The target of a page's link in the repository, if it is outside of docs/; else None."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    outside = not path.startswith("docs/") and path != "docs"
    return path if outside and (ROOT / path).exists() else None


def source(uri):
    """The path in the repository of a page of the site."""
    return SOURCES.get(uri, "docs/" + uri)


def target_of(path):
    """The path in the site of a file of the repository. A folder is its README."""
    if (ROOT / path).is_dir():
        path += "/README.md"
    # mkdocs ignores names that begin with a dot.
    uri = "/".join(part.lstrip(".") for part in [OUTSIDE, *path.split("/")])
    if not uri.endswith((".md", ".json", ".txt", ".yml", ".yaml", ".svg", ".png")):
        uri += ".txt"
    SOURCES[uri] = path
    return uri


def on_files(files, config):
    """Adds the files outside docs/ that pages link to, and the files that these link to."""
    waiting = [file.src_uri for file in files if file.src_uri.endswith(".md")]
    while waiting:
        page = source(waiting.pop())
        for _, target, _, _ in LINK.findall((ROOT / page).read_text()):
            path = place(target, page)
            if path is None:
                continue
            uri = target_of(path)
            if files.get_file_from_path(uri) is not None:
                continue
            wanted = ROOT / path / "README.md" if (ROOT / path).is_dir() else ROOT / path
            if not wanted.exists():
                continue
            if uri.endswith(".md"):
                # Only pages of docs/ add further pages, because the repository is not copied.
                files.append(File.generated(config, uri, content=wanted.read_text()))
            else:
                files.append(File.generated(config, uri, content=wanted.read_bytes()))
    for path in sorted(Path(os.environ.get("GPUMEM_SCHEMAS", os.devnull)).glob("*.json")):
        files.append(File.generated(config, schema_of(path.stem), content=path.read_text()))
    return files


def schema_of(form):
    """The path in the site of a form's schema."""
    return f"schema/{form}.json"


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    return lists_apart(with_schemas(rewritten(markdown, uri, files), uri, files))


def with_schemas(markdown, uri, files):
    """Links the names of forms to their schemas."""

    def link(match):
        place = schema_of(match[1])
        known = files.get_file_from_path(place) is not None
        return f"[{match[0]}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')})" if known else match[0]

    return FORM.sub(link, markdown)


def rewritten(markdown, uri, files):
    """Changes links that leave docs/ to the copies; links of a copy without a target in the site become
    text."""
    here = source(uri)

    def link(match):
        start, target, anchor, end = match.groups()
        path = place(target, here)
        if path is None and uri.startswith(OUTSIDE + "/") and "://" not in target:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        if path is None:
            return match[0]
        place_in_site = path[len("docs/"):] if path.startswith("docs/") else target_of(path)
        if files.get_file_from_path(place_in_site) is None:
            return "]"
        return f"{start}{posixpath.relpath(place_in_site, posixpath.dirname(uri) or '.')}{anchor or ''}{end}"

    return LINK.sub(link, markdown)


def lists_apart(markdown):
    """Adds an empty line before each list that directly follows text."""
    lines, fence, text = [], "", False
    for line in markdown.split("\n"):
        marker = FENCE.match(line)
        if marker and (not fence or marker[1] == fence):
            fence = "" if fence else marker[1]
            text = False
        elif not fence:
            item = ITEM.match(line)
            if item and text:
                lines.append("")
            # Lines after an item belong to its list until an empty line.
            text = bool(line.strip()) and not item and (text or not lines or not lines[-1].strip())
        lines.append(line)
    return "\n".join(lines)
