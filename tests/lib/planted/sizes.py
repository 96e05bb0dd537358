"""Programs of which one thing is too large: activations, weights, optimizer state, a request; and free memory that is of no use."""

from __future__ import annotations

from random import Random

from program import CULPRIT, HEAD, NO_GRAD, ROUND, TRAIN, Program, Sizes, indented, kind, net, optimizer, placed, sizes

KEEPS = frozenset(["clone", "no_grad", "host"])
ACTIVATIONS = frozenset(["activations", "alike"])


def smaller(of: Sizes, by: int = 8) -> list[tuple[str, str]]:
    return [(f"torch.randn({of.rows},", f"torch.randn({of.rows} // {by},")]


@kind
def batch_too_large(rng: Random) -> Program:
    """The first forward or backward does not fit."""
    of = sizes(rng)
    of = Sizes(of.rows * 2, of.dim, of.layers)
    work = rng.choice([TRAIN, TRAIN.replace("opt.zero_grad()\nloss.backward()\n", "opt.zero_grad(set_to_none=True)\nloss.backward()\n")])
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, work, definitions=net(rng, of))
    return Program(source, ACTIVATIONS | {"largest"}, frozenset(), (), {"batch": smaller(of)}, KEEPS, part=rng.choice([0.3, 0.6, 0.8]))


@kind
def sequence_too_large(rng: Random) -> Program:
    """The scores of attention grow with the square of the sequence."""
    length, width = rng.choice([2048, 4096]), rng.choice([128, 256])
    model = f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear({width}, 3 * {width}), nn.Linear({width}, {width})
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) * 0.1
        return x + self.out(scores.softmax(-1) @ v)
"""
    setup = f"net = nn.Sequential(*[Net() for _ in range({rng.choice([2, 4])})]).cuda()\n{optimizer(rng)}"
    work = "loss = net(x).square().mean()\nopt.zero_grad()\nloss.backward()\nopt.step()\n"
    source = placed(rng, setup, f'torch.randn(8, {length}, {width}, device="cuda")', work, definitions=model)
    fixes = {"batch": [(f"torch.randn(8, {length},", f"torch.randn(1, {length},")]}
    return Program(source, ACTIVATIONS, frozenset(["largest"]), (), fixes, KEEPS, part=0.6)


@kind
def autocast_casts(rng: Random) -> Program:
    """A training under autocast: the casts of the weights and the activations do not fit."""
    of = sizes(rng)
    of = Sizes(of.rows * 2, of.dim, of.layers)
    work = TRAIN.replace("out = net(x)\n", 'with torch.autocast("cuda", dtype=torch.bfloat16):\n    out = net(x)\n').replace("(out,", "(out.float(),")
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, work, definitions=net(rng, of))
    return Program(source, ACTIVATIONS, frozenset(["largest"]), (), {"batch": smaller(of)}, KEEPS, part=0.6)


@kind
def weights_too_large(rng: Random) -> Program:
    """The model does not fit."""
    of = Sizes(16, 2048, rng.choice([6, 10]))
    model = f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear({of.dim}, {of.dim}) for _ in range({of.layers})){CULPRIT}
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x
"""
    make = rng.choice(["net = Net().cuda()", 'net = Net().to("cuda")', 'with torch.device("cuda"):\n    net = Net()'])
    body = f"""# a round
{make}{CULPRIT}
with torch.no_grad():
    for step in range(3):
        net(torch.zeros({of.rows}, {of.dim}, device="cuda", dtype=next(net.parameters()).dtype))
"""
    fixes = {"dtype": [("Net()", "Net().bfloat16()")]} if "with torch.device" not in make else {
        "dtype": [("net = Net()", "torch.set_default_dtype(torch.bfloat16); net = Net()")]}  # fmt: skip
    return Program(HEAD + model + body, frozenset(["model"]), frozenset(["copies", "largest"]), (), fixes, KEEPS, part=0.7)


@kind
def optimizer_state(rng: Random) -> Program:
    """The first step of an optimizer does not fit."""
    of = Sizes(64, 2048, rng.choice([4, 8]))
    make = "opt = torch.optim." + rng.choice(["Adam(net.parameters())", "AdamW(net.parameters(), 1e-4)", "Adam(net.parameters(), foreach=False)"])
    source = placed(rng, f"net = Net().cuda()\n{make}\n", of.batch, TRAIN, definitions=net(rng, of, is_deep=True))
    fixes = {"optimizer": [(make, "opt = torch.optim.SGD(net.parameters(), 0.1, foreach=False)")]}
    return Program(
        source, frozenset(["optimizer_state"]), frozenset(["model", "copies"]), (), fixes, KEEPS | frozenset(["batch"]),
        part=rng.choice([0.5, 0.7]),
    )  # fmt: skip


@kind
def foreach_temporaries(rng: Random) -> Program:
    """A foreach optimizer makes temporaries of all parameters at once."""
    of = Sizes(64, 2048, rng.choice([10, 14]))
    make = rng.choice(["opt = torch.optim.Adam(net.parameters(), foreach=True)", "opt = torch.optim.AdamW(net.parameters(), foreach=True)"])
    source = placed(rng, f"net = Net().cuda()\n{make}\n", of.batch, TRAIN, definitions=net(rng, of, is_deep=True))
    fixes = {"foreach": [("foreach=True", "foreach=False")], "optimizer": [(make, "opt = torch.optim.SGD(net.parameters(), 0.1, foreach=False)")]}
    return Program(source, frozenset(["optimizer_state"]), frozenset(["model"]), (), fixes, KEEPS | frozenset(["batch"]), share=0.05)


@kind
def second_model(rng: Random) -> Program:
    """Copies of the model are made before the training: a teacher, a reference, an average."""
    of = Sizes(64, 2048, rng.choice([4, 6]))
    many = rng.choice([1, 2])
    copies = "".join(f"{name} = copy.deepcopy(net){CULPRIT}\n" for name in ("teacher", "reference")[:many])
    setup = f"net = Net().cuda()\n{copies}opt = torch.optim.SGD(net.parameters(), 0.1)\n"
    source = placed(rng, setup, of.batch, TRAIN, definitions=net(rng, of, is_deep=True), keepers=("teacher", "reference")[:many])
    drop = [(f"{name} = copy.deepcopy(", f"{name} = id(") for name in ("teacher", "reference")[:many]]
    return Program(
        source, frozenset(["copies", "model"]), frozenset(["largest", "held"]), (),
        {"drop": drop, "dtype": [("Net().cuda()", "Net().bfloat16().cuda()"), ("torch.randn(64, 2048", "torch.randn(64, 2048, dtype=torch.bfloat16")]},
        frozenset(["clone", "no_grad", "optimizer"]),
    )  # fmt: skip


@kind
def checkpoint_on_card(rng: Random) -> Program:
    """A checkpoint is loaded to the card and stays there beside the model."""
    of = Sizes(64, 2048, rng.choice([4, 6]))
    name = rng.choice(["state", "checkpoint", "saved"])
    load = f'{name} = torch.load("weights.pt", map_location="cuda"){CULPRIT}'
    step = rng.choice(["SGD", "Adam"])
    setup = f"net = Net().cuda()\n{load}\nnet.load_state_dict({name})\nopt = torch.optim.{step}(net.parameters(), foreach=False)\n"
    definitions = net(rng, of, is_deep=True) + 'torch.save(Net().state_dict(), "weights.pt")\n'
    source = placed(rng, setup, of.batch, TRAIN, definitions=definitions, keepers=[name])
    fixes = {"drop": [(load.removesuffix(CULPRIT), load.removesuffix(CULPRIT).replace("cuda", "cpu"))],
             "host": [('map_location="cuda"', 'map_location="cpu"')]}  # fmt: skip
    return Program(
        source, frozenset(["copies", "held"]), frozenset(["model", "optimizer_state"]), (name,), fixes, frozenset(["clone", "no_grad"]),
    )  # fmt: skip


@kind
def one_large_batch(rng: Random) -> Program:
    """One batch is much larger than all before."""
    of, count = sizes(rng), rng.choice([4, 9])
    data = f'torch.randn({of.rows} * (12 if step == {count} else 1), {of.dim}, device="cuda")'
    loop = f"for step in range(1000):\n{indented('# a round' + chr(10) + f'x = {data}' + chr(10) + TRAIN)}"
    body = f"net = Net().cuda()\n{optimizer(rng)}{loop}"
    if rng.random() < 0.5:
        body = f"def main():\n{indented(body)}main()\n"
    fixes = {"batch": [(f" * (12 if step == {count} else 1)", "")]}
    return Program(
        HEAD + net(rng, of) + body, frozenset(["large_request"]), frozenset(["activations", "new", "alike"]), (), fixes, KEEPS, count,
        rng.choice([0.2, 0.5, 0.8]),
    )  # fmt: skip


@kind
def validation_with_gradients(rng: Random) -> Program:
    """A validation after some steps runs a large batch with gradients on."""
    of = sizes(rng)
    body = f"""net = Net().cuda()
{optimizer(rng)}for step in range(4):
    # a round
{indented(f'x = {of.batch}' + chr(10) + TRAIN)}net.eval()
# a round
for step in range(3):
    x = torch.randn({of.rows} * 8, {of.dim}, device="cuda")
    out = net(x)
    print(out.argmax(-1).float().mean().item())
"""
    fixes = {"batch": [(f"torch.randn({of.rows} * 8,", f"torch.randn({of.rows},")], "no_grad": [("net.eval()", "torch.set_grad_enabled(False)")]}
    return Program(
        HEAD + net(rng, of) + body, frozenset(["activations", "large_request", "alike", "new", "no_backward"]), frozenset(["largest", "previous_round"]),
        (), fixes, frozenset(["clone", "host"]), 4,
    )  # fmt: skip


@kind
def copies_of_logits(rng: Random) -> Program:
    """The logits of a large vocabulary are cast and normalised: several tensors of their size."""
    vocabulary, rows = rng.choice([32000, 50000]), rng.choice([2048, 4096])
    model = f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(256, 256), nn.Linear(256, {vocabulary})
    def forward(self, x):
        return self.head(self.up(x).relu()){CULPRIT}
"""
    loss = rng.choice([
        f"logp = out.float().log_softmax(-1){CULPRIT}\nloss = -(logp.exp() * logp).sum(-1).mean(){CULPRIT}\n",
        f"probs = (out / 0.7).softmax(-1){CULPRIT}\nloss = -(probs * probs.log()).sum(-1).mean(){CULPRIT}\n",
        f"loss = F.cross_entropy(out.float() * 1.1, torch.zeros(len(x), dtype=torch.long, device='cuda')){CULPRIT}\n",
    ])  # fmt: skip
    work = f"out = net(x)\n{loss}opt.zero_grad()\nloss.backward()\nopt.step()\n"
    setup = f"net = Net().cuda()\n{optimizer(rng)}"
    source = placed(rng, setup, f'torch.randn({rows}, 256, device="cuda")', work, definitions=model)
    fixes = {"batch": [(f"torch.randn({rows},", f"torch.randn({rows} // 8,")]}
    return Program(source, ACTIVATIONS | {"largest"}, frozenset(["large_request"]), (), fixes, KEEPS, part=rng.choice([0.5, 0.8]))


@kind
def wrong_shape(rng: Random) -> Program:
    """Two shapes that broadcast to the product of both."""
    rows, after = rng.choice([16384, 20000, 65536]), rng.choice([0, 3])
    model = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 1)\n    def forward(self, x):\n        return self.b(self.a(x).relu())\n"
    body = f"""net = Net().cuda()
{optimizer(rng)}for step in range(100):
    # a round
    x = torch.randn({rows}, 64, device="cuda")
    target = x.mean(1)
    out = net(x) if step >= {after} else net(x).squeeze(1)
    loss = (out - target).square().mean(){CULPRIT}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    fixes = {"request": [("net(x) if", "net(x).squeeze(1) if")], "batch": [(f"randn({rows},", f"randn({rows} // 64,")]}
    return Program(
        HEAD + model + body, frozenset(["too_large", "large_request", "largest"]), frozenset(["alike", "activations", "new"]), (), fixes, KEEPS, after, 0.2,
    )  # fmt: skip


@kind
def pairs(rng: Random) -> Program:
    """All pairs of rows at once."""
    rows = rng.choice([4096, 8192])
    body = f"""rows = torch.randn({rows}, 128, device="cuda")
{NO_GRAD}def distances(rows):
    # a round
    return (rows[:, None] - rows[None]).square().sum(-1){CULPRIT}
print(distances(rows[:64]).shape)
print(distances(rows).shape)
"""
    smaller_one = [(f"torch.randn({rows},", f"torch.randn({rows} // 16,")]
    return Program(
        HEAD + body, frozenset(["large_request", "too_large"]), frozenset(["alike", "largest"]), (), {"batch": smaller_one, "request": smaller_one},
        frozenset(["clone", "no_grad"]), 1, 0.3,
    )  # fmt: skip


@kind
def fragmented(rng: Random) -> Program:
    """Of many small blocks every second one is freed, and the next request is larger than any gap."""
    size, many = rng.choice([6, 7, 9]), rng.choice([60, 90])
    body = f"""MIB = 1 << 20
def buffers(count):
    return [torch.empty({size} * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]
halves = buffers({many})
kept = halves[::2]
del halves
# a round
large = torch.empty({size * (many // 3)} * MIB, dtype=torch.uint8, device="cuda")
"""
    order = [("kept = halves[::2]", f"kept = halves[: {many // 2}]")]
    return Program(
        HEAD + body, frozenset(["fragmentation"]), frozenset(["large_request"]), (), {"order": order}, frozenset(["clone", "no_grad"]), 0, 0.3,
    )  # fmt: skip


@kind
def other_processes(rng: Random) -> Program:
    """Others hold most of the card."""
    of = sizes(rng)
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, TRAIN, definitions=net(rng, of))
    return Program(
        source, frozenset(["other_processes"]), frozenset(), (), {"others": []}, KEEPS, 0, rng.choice([0.3, 0.7]), others=2,
    )  # fmt: skip


@kind
def own_limit(rng: Random) -> Program:
    """The program limits its own share of the card."""
    of = sizes(rng)
    limit = "torch.cuda.set_per_process_memory_fraction(0.1)\n"
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, TRAIN, definitions=limit + net(rng, of))
    return Program(source, frozenset(["own_limit"]), frozenset(), (), {"fraction": [(limit, "")]}, KEEPS, 0, 0.5, fraction=0.1)


@kind
def bank_without_bound(rng: Random) -> Program:
    """A buffer is extended in each step, and each output is compared with all of it."""
    rows, dim = rng.choice([(256, 128), (512, 64), (512, 128)])
    name = rng.choice(["queue", "bank", "memory"])
    put = rng.choice([f"self.{name} = torch.cat([keys, self.{name}])", f"self.{name} = torch.cat((self.{name}, keys))"])
    scale = rng.choice([" / 0.07", ".mul(14)"])
    source = f"""{HEAD}class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, {dim}))
        self.register_buffer("{name}", torch.zeros({rows * 4}, {dim}))
    def forward(self, x):
        q = F.normalize(self.encoder(x), dim=1)
        with torch.no_grad():
            keys = F.normalize(self.encoder(x), dim=1)
        scores = q @ self.{name}.t()
        self.enqueue(keys)
        return scores{scale}
    {NO_GRAD.strip()}
    def enqueue(self, keys):
        {put}{CULPRIT}
def main():
    net = Contrast().cuda()
    {optimizer(rng).strip()}
    for step in range(1000):
        {ROUND}
        scores = net(torch.randn({rows}, 64, device="cuda"))
        loss = F.cross_entropy(scores, torch.zeros({rows}, dtype=torch.long, device="cuda"))
        opt.zero_grad()
        loss.backward()
        opt.step()
main()
"""
    return Program(
        source, frozenset(["lengthened"]), frozenset(["activations"]), ("net",), {"limit": [(put, f"{put}[-{rows * 4}:]")]},
        frozenset(["expandable", "no_grad"]), rng.choice([9, 19, 30]),
    )  # fmt: skip


@kind
def keys_and_values(rng: Random) -> Program:
    """A model that writes token by token keeps the keys and the values of all tokens."""
    heads, layers, batch = rng.choice([4, 8]), rng.choice([2, 4]), rng.choice([512, 1024])
    count = rng.choice([40, 90])
    source = f"""{HEAD}class Cache:
    def __init__(self):
        self.k = self.v = torch.zeros({batch}, {heads}, 0, 64, device="cuda")
    def append(self, k, v):
        self.k = torch.cat([self.k, k], dim=2){CULPRIT}
        self.v = torch.cat([self.v, v], dim=2){CULPRIT}
        return self.k, self.v
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear({64 * heads}, 3 * {64 * heads})
    def forward(self, x, cache):
        q, k, v = self.qkv(x).view({batch}, 3, {heads}, 1, 64).unbind(1)
        k, v = cache.append(k, v)
        return F.scaled_dot_product_attention(q, k, v).reshape({batch}, -1)
@torch.no_grad()
def write(blocks, caches):
    x = torch.randn({batch}, {64 * heads}, device="cuda")
    for token in range(1000):
        {ROUND}
        for block, cache in zip(blocks, caches):
            x = x + block(x, cache)
write(nn.ModuleList(Block() for _ in range({layers})).cuda(), [Cache() for _ in range({layers})])
"""
    fixes = {"limit": [("self.k = torch.cat([self.k, k], dim=2)", "self.k = torch.cat([self.k[:, :, -8:], k], dim=2)"),
                       ("self.v = torch.cat([self.v, v], dim=2)", "self.v = torch.cat([self.v[:, :, -8:], v], dim=2)")]}
    never = frozenset(["expandable", "no_grad", "detach"])
    return Program(source, frozenset(["lengthened"]), keepers=("k", "v"), fixes=fixes, never=never, rounds=count)


@kind
def double_precision(rng: Random) -> Program:
    """A table has the type of NumPy's numbers, and so has what is computed from it."""
    rows, dim = rng.choice([20_000, 40_000]), rng.choice([512, 768])
    work = rng.choice(["table / table.norm(dim=1, keepdim=True)", "table - table.mean(0)"])
    name = rng.choice(["table", "self.table"])
    load = f'{name} = torch.full(({rows}, {dim}), 0.5, dtype=torch.float64).cuda()\n'
    rounds = f"for query in range(100):\n    # a round\n    out = {work.replace('table', name)}\n"
    if name == "table":
        source = f"{HEAD}{load}{rounds}"
    else:
        source = f"""{HEAD}class Index:
    def __init__(self):
{indented(load, 2)}    def search(self):
{indented(rounds, 2)}index = Index()
index.search()
"""
    fixes = {"double": [("float64", "float32")]}
    return Program(source, frozenset(["large_request", "largest"]), frozenset(["alike"]), (), fixes, part=rng.choice([0.3, 0.6]))
