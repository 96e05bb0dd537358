"""third_party.py PACKAGE…: prints the licences of everything in the binaries of these packages, as one text. Needs
cargo and any Python from 3.8 on. Run by scripts/wheel and scripts/release."""

import re
import sys
import textwrap
from typing import Dict, List, Sequence

import shipped

_HEAD = """\
Third-party software in gpumem's binaries

gpumem itself is under MIT OR Apache-2.0 (LICENSE-MIT, LICENSE-APACHE). Its binaries contain the parts below, each under
its own licence. A text that several parts share stands once.
"""
_RULE = "-" * 78


def document(parts: Sequence[shipped.Part]) -> str:
    """A list of all parts, then each text with its parts."""
    others = [part for part in parts if not part.ours]
    texts: Dict[str, str] = {}
    owners: Dict[str, List[str]] = {}
    bare = []
    for part in others:
        for text in part.texts:
            key = re.sub(r"\W+", "", text).lower()
            if not key:
                continue
            texts.setdefault(key, text)
            if part.label not in owners.setdefault(key, []):
                owners[key].append(part.label)
        if not part.texts:
            bare.append(part)
    lines = [_HEAD]
    lines += [f"  {part.label}  ({part.licence})" for part in others]
    if bare:
        lines += ["", "These have no file with their licence in their package. It is the one named, and its text is below.", ""]
        lines += [f"  {part.label}  ({part.licence})  {part.authors}".rstrip() for part in bare]
    for key in sorted(texts, key=lambda key: owners[key]):
        named = textwrap.wrap(", ".join(owners[key]), 78, break_long_words=False, break_on_hyphens=False)
        lines += ["", _RULE, *named, _RULE, "", texts[key]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document(shipped.parts(sys.argv[1:])))
