"""The checks. Each yields (line, what is wrong, what to write instead)."""

import contextlib
import io
import re
from pathlib import Path

LONGEST_SENTENCE = 35

# LIX of textstat: words in a sentence plus the percentage of words with more than 6 letters; lower reads more
# easily. docs/measured/words.md has the figures of other projects that the bound comes from.
HIGHEST_LIX = 38.0
# The LIX of a page with fewer sentences is not meaningful.
LEAST_SENTENCES = 8

# Checks of proselint's that are not used, with the reason.
UNUSED = {
    "annotations": "marks of unfinished work are for reviewers",
    "cliches": "its lists hold plain words such as 'in turn' and 'at once'",
    "dates_times": "times are ISO 8601",
    "hedging": "'I would', 'so to speak': the pages have no first person",
    "misc.but": "a sentence may begin with 'But'",
    "misc.capitalization": "names such as 'stone age' do not occur; 'internet' does",
    "misc.composition": "advice for essays",
    "misc.currency": "$ stands before variables",
    "misc.greylist": "'obviously', 'utilize': words.txt has those that matter",
    "misc.phrasal_adjectives": "its 'ly' rule takes 'family-' and 'early-' for adverbs",
    "misc.preferred_forms": "forms of newspapers",
    "misc.scare_quotes": "quotation marks hold the words of other programs",
    "misc.tense_present": "grammar of literary texts",
    "restricted": "limits texts to the 1,000 most frequent words",
    "social_awareness": "names groups of people; the pages name none",
    "spelling": "mixes British and American spelling up with names of options",
    "terms": "names of animals and inhabitants",
    "weasel_words": "'very' is rare here and its message is a joke",
    "typography": "ASCII quotation marks, ... and x are the style of the terminal",
}


class Phrases:
    """tests/data/words.txt: `phrase => what to write instead`, optionally `| except FILE …`."""

    def __init__(self, path):
        self.rules = []
        for number, line in enumerate(Path(path).read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            phrase, arrow, rest = line.partition(" => ")
            if not arrow:
                raise SystemExit(f"{path}:{number}: no ' => ': write the phrase, ' => ' and what replaces it")
            instead, _, but = rest.partition(" | except ")
            self.rules.append((self._pattern(phrase.strip()), phrase.strip(), instead.strip(), but.split()))

    @staticmethod
    def _pattern(phrase):
        words = phrase[3:].split() if phrase.startswith("re:") else map(re.escape, phrase.split())
        return re.compile(r"(?<![\w-])" + r"\s+".join(words) + r"(?![\w-])", re.I)

    def check(self, name, block):
        for pattern, _, instead, but in self.rules:
            if name in but:
                continue
            for found in pattern.finditer(block.text):
                quoted = " ".join(found[0].split())
                yield block.line_at(found.start()), f'"{quoted}"', f"write {instead}"


def sentences(block):
    """(offset, sentence) of each. Messages also end one at an empty line and at an indented one, as usages and examples."""
    start = 0
    ends = r"[.!?][)\"”]?(?=\s|$)|\Z" + (r"|[\n\u2028](?=\s)" if block.kind == "message" else "")
    for end in re.finditer(ends, block.text):
        sentence = block.text[start : end.end()]
        if sentence.strip():
            yield start + len(sentence) - len(sentence.lstrip()), sentence.strip()
        start = end.end()


def long_sentences(block):
    if block.kind not in ("prose", "message"):
        return
    for offset, sentence in sentences(block):
        words = len(re.findall(r"[^\W_][\w'’-]*", sentence))
        if words > LONGEST_SENTENCE:
            began = " ".join(sentence.split()[:5])
            yield block.line_at(offset), f'a sentence of {words} words: "{began} …"', f"make it two; at most {LONGEST_SENTENCE} words"


def lix(blocks):
    """The page's LIX, or None if it is too short to have one."""
    import textstat

    text = [sentence for block in blocks if block.kind == "prose" for _, sentence in sentences(block)]
    text = [" ".join(sentence.split()) for sentence in text if len(sentence.split()) > 3]
    if len(text) < LEAST_SENTENCES:
        return None
    return textstat.lix(" ".join(part if part[-1] in ".!?" else part.rstrip(" :;,") + "." for part in text))


class Proselint:
    def __init__(self):
        # It prints nothing useful when its checks are loaded.
        with contextlib.redirect_stdout(io.StringIO()):
            from proselint.checks import __register__
            from proselint.config import DEFAULT
            from proselint.registry import CheckRegistry
            from proselint.tools import LintFile

            CheckRegistry().register_many(__register__)
        self.config = {**DEFAULT, "checks": {**DEFAULT["checks"], **{name: False for name in UNUSED}}}
        self.file = LintFile

    def check(self, blocks):
        """All blocks at once, for each call takes its time."""
        text, lines = "", []
        for block in blocks:
            text += block.text + "\n\n"
            lines += [block.line + n for n in range(block.text.count("\n") + 1)] + [block.line]
        if not text:
            return
        for result in self.file("text", text).lint(self.config):
            found = result.check_result
            if _is_of_the_extraction(found.check_path, text[max(0, found.span[0] - 1) : found.span[1]]):
                continue
            line = text.count("\n", 0, max(0, found.span[0] - 1))
            yield lines[min(line, len(lines) - 1)], f"{found.check_path}: {found.message}", found.replacements or "another word"


def _is_of_the_extraction(check, quoted):
    """Repeated words that only stand for code or belong to two cells of a table; and a term of the glossary."""
    if "point in time" in quoted.lower():
        return True
    return check.startswith("lexical_illusions") and ("code" in quoted or "\n\n" in quoted or not re.search(r"[A-Za-z]", quoted))
