"""The uses between the files of a crate, read from its sources: `use` declarations and paths, through re-exports."""

import re
from pathlib import Path
from typing import Dict, List, Set, Tuple

Graph = Dict[str, Set[str]]

# Comments, strings and unit tests use nothing.
_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|#\[cfg\(test\)\]\s*mod \w+ \{.*?\n\}', re.S)
_USE = re.compile(r"^ *(pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
_PATH = re.compile(r"(?<![\w:])\w+(?:::\w+)+")
_DEFINES = re.compile(r"\b(?:struct|enum|trait|fn|static|const|type|macro_rules)\b")

# A type holds `;` within brackets alone.
_STATIC = re.compile(r"\bstatic (?:mut )?(\$?\w+): ((?:[^=;\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])+?)\s*=")


def leaves(tree: str, head: str = "") -> List[Tuple[str, str]]:
    """What a `use` names: `a::{b, c as d}` gives (`a::b`, `b`) and (`a::c`, `d`)."""
    if "{" not in tree:
        path, _, alias = (head + tree).partition(" as ")
        path = path[: -len("::self")] if path.endswith("::self") else path
        return [(path, alias or path.split("::")[-1])] if tree else []
    head, rest = head + tree[: tree.index("{")], tree[tree.index("{") + 1 : tree.rindex("}")]
    parts, depth = [""], 0
    for character in rest:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [leaf for part in parts for leaf in leaves(part, head)]


def absolute(path: str, here: str) -> str:
    """A path from the crate's root, if it belongs to the crate; `here` is the module that contains it."""
    first, _, rest = path.partition("::")
    while first == "super":
        here = here.rpartition("::")[0]
        rest = rest if rest.startswith("super") else f"self::{rest}"
        first, _, rest = rest.partition("::")
    return {"crate": "crate::", "self": f"{here}::"}.get(first, f"{here}::{first}::") + rest


def _flat(tree: str) -> str:
    return re.sub(r" ?([{},:]) ?", r"\1", re.sub(r"\s+", " ", tree)).strip()


def modules(source: Path) -> Dict[str, str]:
    """Module to its text, of all files below a crate's `src`."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        parts = [part for part in path.relative_to(source).with_suffix("").parts if part not in ("mod", "lib")]
        if "tests" not in parts:
            found["::".join(["crate", *parts])] = _NOISE.sub(" ", path.read_text())
    return found


def statics(text: Dict[str, str]) -> Dict[str, str]:
    """The path and type of every static that a crate's modules define, also within functions and macros. Without
    thread-locals and symbols that the linker defines."""
    found = {}
    for name, body in text.items():
        body = re.sub(r"^thread_local! \{.*?^\}", " ", body, flags=re.S | re.M)
        for static, of_type in _STATIC.findall(body):
            found[f"{name}::{static}".removeprefix("crate::")] = of_type
    return found


def graph(source: Path) -> Graph:
    """Module to the modules that it uses. A file that only re-exports is looked through."""
    text = modules(source)
    uses = {
        name: [
            (absolute(path, name), alias, bool(public))
            for public, tree in _USE.findall(body)
            for path, alias in leaves(_flat(tree))
        ]
        for name, body in text.items()
    }

    def file_of(path: str, depth: int = 9) -> str:
        """The module that a path ends in."""
        parts = path.split("::")
        for count in range(len(parts), 0, -1):
            name = "::".join(parts[:count])
            if name in text:
                item = "".join(parts[count : count + 1])
                again = [to for to, alias, public in uses[name] if public and alias == item]
                return file_of("::".join([again[0], *parts[count + 1 :]]), depth - 1) if again and depth else name
        return ""

    edges: Graph = {}
    for name, body in text.items():
        local = {alias: to for to, alias, _ in uses[name]}
        paths = []
        for path in _PATH.findall(_USE.sub("", body)):
            head = path.split("::")[0]
            paths.append(local[head] + path[len(head) :] if head in local else absolute(path, name))
        paths += [to for to, _, public in uses[name] if not public and to not in text]
        used = {file_of(path) for path in paths}
        edges[name] = {other for other in used if other not in ("", name) and _DEFINES.search(text[other])}
    return edges


def circles(edges: Graph) -> List[List[str]]:
    """The sets of modules that use each other in a circle, the largest first (Tarjan)."""
    number: Dict[str, int] = {}
    low: Dict[str, int] = {}
    stack: List[str] = []
    found: List[List[str]] = []

    def visit(start: str) -> None:
        work = [(start, iter(sorted(edges[start])))]
        number[start] = low[start] = len(number)
        stack.append(start)
        while work:
            name, others = work[-1]
            for other in others:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    work.append((other, iter(sorted(edges[other]))))
                    break
                if other in stack:
                    low[name] = min(low[name], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    at = stack.index(name)
                    found.append(sorted(stack[at:]))
                    del stack[at:]

    for name in sorted(edges):
        if name not in number:
            visit(name)
    return sorted((circle for circle in found if len(circle) > 1), key=lambda circle: (-len(circle), circle))
