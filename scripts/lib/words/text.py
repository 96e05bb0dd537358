"""Blocks of text that people read, taken out of Markdown, help pages, and messages and comments of programs."""

import ast
import re
from dataclasses import dataclass

# Inline code is one short word of a sentence, whatever it contains.
CODE = "code"
# An escaped end of line: a line of the message, and none of the source.
LINE_END = "\u2028"
# Marks a table that quotes a program's output; its messages are checked where they are written.
OUTPUT = "<!-- words: the table quotes output -->"


@dataclass
class Block:
    """A paragraph, list item, table cell, heading or message. `line` is the line of its first character."""

    line: int
    kind: str  # prose, cell, heading, message
    text: str

    def line_at(self, offset):
        return self.line + self.text.count("\n", 0, offset)


def markdown(text):
    """The blocks of a page, without code, addresses of links and comments, and tables of quoted output."""
    text = re.sub(rf"^{OUTPUT}\n+((?:\|.*\n)+)", _only_newlines, text, flags=re.M)
    text = re.sub(r"<!--.*?-->", _only_newlines, text, flags=re.S)
    text = re.sub(r"^( *)```.*?^\1```", _only_newlines, text, flags=re.S | re.M)
    text = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", _code, text, flags=re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)", r"\1", text)
    text = re.sub(r"https?://\S+|</?[a-z][^>\n]*>", CODE, text)
    text = text.replace("**", "").replace("__", "")
    blocks, lines, first = [], [], 0

    def end():
        if lines:
            blocks.append(Block(first, "prose", "\n".join(lines)))
            lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("|"):
            end()
            blocks += [Block(number, "cell", cell.strip()) for cell in re.split(r"(?<!\\)\|", stripped) if cell.strip(" :-")]
        elif stripped.startswith("#"):
            end()
            blocks.append(Block(number, "heading", stripped.lstrip("# ")))
        elif not stripped:
            end()
        else:
            item = re.match(r"(?:[-*+]|\d+[.)])\s+", stripped)
            if item:
                end()
                stripped = stripped[item.end() :]
            if not lines:
                first = number
            lines.append(stripped.lstrip("> "))
    end()
    return blocks


def newest_section(text):
    """CHANGELOG.md up to the second heading of a version, with the rest left empty."""
    heads = [head.start() for head in re.finditer(r"^## ", text, re.M)]
    return text[: heads[1]] if len(heads) > 1 else text


SKIPPED = re.compile(r"\s+-{1,2}\w|[Uu]sage:|Examples:|\s+(?:gpumem|LD_PRELOAD|GPUMEM_|\S+=|mkdir|cd|for|jq) ?")
# A row of two columns (`  lines   Bytes by line`), a value (`  - off: none`) or a heading (`Commands:`).
ITEM = re.compile(r"(?:\s+|\s*- )\S[^:]{0,40}?(?:\s{2,}|:\s+)(?=\S)|\S.*:$")


def help_page(text):
    """The blocks of what `--help` prints: paragraphs, and descriptions of options, values and commands."""
    blocks, lines, first, deepest = [], [], 0, 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        skipped, item = SKIPPED.match(line), ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if (not line.strip() or skipped or item or indent < deepest) and lines:
            blocks.append(Block(first, "prose", "\n".join(lines)))
            lines = []
        if skipped:
            continue
        if item:
            line = line[item.end() :]
        if line.strip():
            if not lines:
                first = number
            deepest = 0 if item else indent
            lines.append(re.sub(r"`[^`]*`|'[^']*'", CODE, line.strip()))
    return blocks


RUST = re.compile(
    r"//[^\n]*|/\*.*?\*/|\bb?r(#*)\"(?P<raw>.*?)\"\1|\"(?P<plain>(?:[^\"\\]|\\.)*)\"|'(?:[^'\\\n]|\\[^\n]+?)'", re.S
)


def rust(text):
    """String literals of several words, without those of unit tests."""
    text = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.M)[0]
    blocks = []
    for found in RUST.finditer(text):
        literal = found["raw"] if found["raw"] is not None else found["plain"]
        if literal and _is_message(literal):
            literal = re.sub(r"\\\n", "\n", literal).replace("\\n", LINE_END).replace('\\"', '"')
            literal = re.sub(r"\{[^{}]*\}|`[^`]*`", CODE, literal)
            blocks.append(Block(text.count("\n", 0, found.start()) + 1, "message", literal))
    return blocks


# A comment at the beginning of its line, or behind code; `://` is an address.
COMMENT = {
    ".rs": re.compile(r"(?:^\s*|\s)//[/!]?(?: |$)(?P<text>.*)"),
    ".ts": re.compile(r"(?:^\s*|\s)(?://|/\*\*?|\*(?=\s))(?: |$)(?P<text>.*?)(?:\*/.*)?$"),
    "": re.compile(r"(?:^\s*|\s)#(?: |$)(?P<text>.*)"),
}
COMMENT[".c"] = COMMENT[".cpp"] = COMMENT[".ts"]


def comments(text, suffix):
    """Comments as paragraphs: neighbouring lines are one. Code in them, tables' rulers and drawings are left out."""
    pattern, lines, fenced = COMMENT.get(suffix, COMMENT[""]), [], False
    for line in text.splitlines():
        found = pattern.search(line)
        said = found["text"].strip() if found else ""
        if said.startswith("```"):
            fenced = not fenced
        is_prose = found and not fenced and not said.startswith("```") and re.search(r"[A-Za-z]{3}", said)
        lines.append(said if is_prose and '"' not in line[: found.start("text")] else "")
    blocks = markdown("\n".join(lines))
    return [Block(block.line, "comment", block.text) for block in blocks]


def docstrings(text):
    """Docstrings of modules, classes and functions."""
    return [
        Block(node.body[0].lineno + block.line - 1, "comment", block.text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and (said := ast.get_docstring(node, clean=False))
        for block in markdown(said)
    ]


def python(text):
    """String literals of several words that are no docstrings."""
    tree = ast.parse(text)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    blocks = []
    for node in ast.walk(tree):
        if id(node) in documents or id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            literal = "".join(str(part.value) if isinstance(part, ast.Constant) else CODE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            literal = node.value
        else:
            continue
        if _is_message(literal):
            blocks.append(Block(node.lineno, "message", re.sub(r"`[^`]*`", CODE, literal)))
    return blocks


def _is_message(literal):
    """Whether people read it: several words, and no SQL, markup, style or list of examples."""
    if literal.startswith(("Examples:", "import ")) or re.search(r"\b(SELECT|CREATE|INSERT)\b|</|;\s*\}|^\s*[.#\w-]+\s*\{[^{}]*[;\n]", literal):
        return False
    return len(re.findall(r"(?<!\S)[A-Za-z][a-z']*(?=[\s,.;:]|$)", literal)) >= 3


def _only_newlines(found):
    return "\n" * found[0].count("\n")


def _code(found):
    return CODE + "\n" * found[0].count("\n")
