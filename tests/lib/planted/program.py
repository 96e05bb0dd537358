"""The form of a program with known truth, and the parts that programs are made of."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from random import Random
from typing import Callable, Mapping, Optional, Sequence

HEAD = """import collections
import copy
import gc
import torch
import torch.utils.checkpoint
from torch import nn
import torch.nn.functional as F
"""
# At the end of the line that allocates what is kept. It is not in the source that runs.
CULPRIT = "  §"
# A separate line, at which a round begins. Runs that are measured call a function there.
ROUND = "# a round"
TRAIN = """out = net(x)
loss = F.cross_entropy(out, torch.zeros(len(x), dtype=torch.long, device="cuda"))
opt.zero_grad()
loss.backward()
opt.step()
"""
NO_GRAD = "@torch.no_grad()\n"
MODES = (NO_GRAD, "@torch.inference_mode()\n")


@dataclass(frozen=True)
class Program:
    """A program and its truth."""

    source: str
    # The causes that are right, and those that only have the right direction.
    causes: frozenset[str]
    near: frozenset[str] = frozenset()
    # The names that keep the memory, in the order of their requests; all must be named.
    keepers: tuple[str, ...] = ()
    # By what an advice says: the parts of the source that it replaces, and by what.
    fixes: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    # What an advice must not say, because nothing in the program can be changed in that way.
    never: frozenset[str] = frozenset()
    # The rounds before the one that fails. Between the peak before it and its own, the card is this part of the way.
    rounds: int = 0
    part: float = 0.5
    # The least share of the memory that the fault has.
    share: float = 0.25
    # What other processes hold, as a multiple of what this one needs, and the share of the card that it may use.
    others: int = 0
    fraction: float = 1.0
    # Whether nothing is wrong with it but its size.
    is_correct: bool = False

    @property
    def lines(self) -> frozenset[int]:
        """The lines that allocate what is kept; none if the truth does not depend on a line."""
        return frozenset(n for n, line in enumerate(self.source.splitlines(), 1) if line.endswith(CULPRIT))

    def text(self, fix: Optional[str] = None) -> str:
        """The source, with a fix applied."""
        source = self.source.replace(CULPRIT, "")
        for old, new in self.fixes[fix] if fix else ():
            if old not in source:
                old, new = of_self(old), of_self(new)
            assert old in source, (old, source)
            source = source.replace(old, new)
        return source


Maker = Callable[[Random], Program]
KINDS: dict[str, Maker] = {}


def kind(function: Maker) -> Maker:
    """Adds a kind of program by its function's name."""
    KINDS[function.__name__] = function
    return function


def make(name: str, seed: int) -> Program:
    """The program of a kind and a seed."""
    return KINDS[name](Random(f"{name} {seed}"))


def indented(text: str, by: int = 1) -> str:
    return textwrap.indent(text, "    " * by)


def of_self(text: str, names: Sequence[str] = ("net", "opt")) -> str:
    """The text of a function as that of a method, with attributes for these names."""
    return re.sub(rf"(?<![.\w])({'|'.join(names)})\b", r"self.\1", text)


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of a batch, and layers of the model."""

    rows: int
    dim: int
    layers: int

    @property
    def batch(self) -> str:
        return f'torch.randn({self.rows}, {self.dim}, device="cuda")'


def sizes(rng: Random) -> Sizes:
    """Activations that are larger than the weights."""
    dim = rng.choice([256, 512, 1024])
    return Sizes(rng.choice([24, 48, 96]) * 1024 * 512 // dim, dim, rng.choice([2, 3, 5]))


def net(rng: Random, of: Sizes, mark: str = "", is_deep: bool = False) -> str:
    """A class `Net`. `mark` is put at the end of the lines of its forward. `is_deep`: it has all `of.layers`."""
    dim, layers = of.dim, of.layers
    made, forward = rng.choice(([
        (f"self.body = nn.Sequential(*[m for _ in range({layers}) for m in (nn.Linear({dim}, {dim}), nn.ReLU())])",
         "x = self.body(x)\n"),
        (f"self.layers = nn.ModuleList(nn.Linear({dim}, {dim}) for _ in range({layers}))",
         "for layer in self.layers:\n    x = torch.tanh(layer(x))\n"),
        (f"self.first, self.second = nn.Linear({dim}, 2 * {dim}), nn.Linear(2 * {dim}, {dim})",
         "h = F.gelu(self.first(x))\nx = x + self.second(h)\n"),
        (f"self.norm, self.up = nn.LayerNorm({dim}), nn.Linear({dim}, {dim})",
         "x = x + self.up(self.norm(x)).relu()\n"),
    ])[: 2 if is_deep else 4])  # fmt: skip
    forward = forward.replace("\n", f"{mark}\n").replace(f":{mark}", ":")
    return f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {made}
        self.head = nn.Linear({dim}, 64)
    def forward(self, x):
{indented(forward, 2)}        return self.head(x){mark}
"""


def optimizer(rng: Random) -> str:
    return "opt = torch.optim." + rng.choice(
        ["Adam(net.parameters(), 1e-3)", "AdamW(net.parameters())", "SGD(net.parameters(), 0.1)"]
    ) + "\n"  # fmt: skip


def looped(rng: Random, data: str, work: str, called: str = "") -> tuple[str, str]:
    """(definitions, loop) of a loop over batches `x`. With `called`, `work` is in a function and this calls it."""
    how = rng.choice(["for", "while", "epochs", "generator", *(["comprehension"] if called else [])])
    take = f"x = {data}\n"
    mark = "" if called else f"{ROUND}\n"
    body = mark + take + (called or work)
    if how == "for":
        return "", f"for step in range(1000):\n{indented(body)}"
    if how == "while":
        return "", f"step = 0\nwhile step < 1000:\n{indented(body)}    step += 1\n"
    if how == "epochs":
        return "", f"step = 0\nfor epoch in range(100):\n    for batch in range(7):\n        step += 1\n{indented(body, 2)}"
    batches = f"def batches():\n    for _ in range(1000):\n        yield {data}\n"
    if how == "generator":
        return batches, f"for step, x in enumerate(batches()):\n{indented(mark + (called or work))}"
    return batches, f"results = [{called.strip()} for step, x in enumerate(batches())]\n"


def placed(
    rng: Random, setup: str, data: str, work: str, *, definitions: str = "", keepers: Sequence[str] = (), rebinds: bool = False,
    mode: str = "", after: str = "",
) -> str:
    """A loop in a module, a function, a class or a step that is called. `rebinds`: the work assigns the keepers, so that they
    cannot be arguments. `mode` decorates the function."""
    names = ["net", "opt", *keepers]
    how = rng.choice(["main", "trainer", *([] if mode else ["module"]), *([] if rebinds else ["step", "decorated"])])
    if how in ("step", "decorated"):
        arguments = ", ".join(["step", "x", *(name for name in names if re.search(rf"\b{name}\b", setup))])
        more, loop = looped(rng, data, "", f"train_step({arguments})\n")
        wrapper, first = "", ""
        if how == "decorated":
            wrapper = (
                "import functools\ndef timed(function):\n    @functools.wraps(function)\n    def call(*arguments):\n"
                "        return function(*arguments)\n    return call\n"
            )
            first = "@timed\n"
        function = f"{first}{mode}def train_step({arguments}):\n{indented(ROUND + chr(10) + work)}    return step\n"
        text = wrapper + function + more + setup + loop + after
        return HEAD + definitions + text
    more, loop = looped(rng, data, work)
    definitions += more
    if how == "module":
        return HEAD + definitions + setup + loop + after
    if how == "main":
        return HEAD + definitions + f"{mode}def main():\n{indented(setup + loop + after)}main()\n"
    return HEAD + definitions + (
        f"class Trainer:\n    def __init__(self):\n{indented(of_self(setup, names), 2)}{indented(mode)}    def fit(self):\n"
        f"{indented(of_self(loop + after, names), 2)}trainer = Trainer()\ntrainer.fit()\n"
    )  # fmt: skip


def store(rng: Random, name: str, value: str) -> tuple[str, str, str]:
    """(setup, statement, the same for a value `{}`) that keeps a value in a container."""
    made, put = rng.choice([
        ("[]", f"{name}.append({{}})"),
        ("[]", f"{name} += [{{}}]"),
        ("[]", f"{name}.append((step, {{}}))"),
        ("[]", f"{name}.append({{{{'value': {{}}, 'step': step}}}})"),
        ("{}", f"{name}[step] = {{}}"),
        ("{'all': []}", f"{name}['all'].append({{}})"),
    ])  # fmt: skip
    return f"{name} = {made}\n", put.format(value) + "\n", put


def rounds(rng: Random) -> int:
    """How many rounds a program survives that keeps something of each."""
    return rng.choice([1, 2, 2, 4, 4, 19])


def previous(count: int) -> frozenset[str]:
    """After one round nothing shows whether more would be kept. A program may die a round earlier than measured."""
    return frozenset(["previous_round"] if count <= 2 else [])
