"""unsymbolic.py LIBRARY: removes the flags by which the loader searches the library itself first (DF_SYMBOLIC,
DT_SYMBOLIC). Its own references were bound when it was linked. Its dlsym look-ups for others must use the usual
order, or other preloaded libraries would be skipped. Run by scripts/wheel, which has pyelftools."""

import sys

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

DT_FLAGS, DT_SYMBOLIC, DF_SYMBOLIC = 30, 16, 2
# A tag without meaning in a library: the loader writes there only in programs.
DT_DEBUG = 21
ENTRY = 16


def entries(file):
    """Offset in the file, tag and value of each entry of the dynamic section."""
    section = next(s for s in ELFFile(file).iter_sections() if isinstance(s, DynamicSection))
    for number, tag in enumerate(section.iter_tags()):
        yield section["sh_offset"] + number * ENTRY, tag.entry.d_tag, tag.entry.d_val


def symbolic(file):
    """The entries with these flags, as (offset, replacement)."""
    found = []
    for offset, tag, value in entries(file):
        if tag == "DT_SYMBOLIC":
            found.append((offset, (DT_DEBUG, 0)))
        elif tag == "DT_FLAGS" and value & DF_SYMBOLIC:
            found.append((offset, (DT_FLAGS, value & ~DF_SYMBOLIC)))
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "r+b") as library:
        for place, words in symbolic(library):
            library.seek(place)
            library.write(b"".join(word.to_bytes(8, "little") for word in words))
