"""Programs without a fault, on a card that is too small for what they need."""

from __future__ import annotations

from random import Random

from program import HEAD, NO_GRAD, TRAIN, Program, Sizes, indented, kind, net, optimizer, placed, sizes
from sizes import smaller

# What needs most, or what is bounded and not full yet.
NEEDS = frozenset(["activations", "alike", "cached", "model", "optimizer_state", "largest", "large_request", "new", "workspaces"])
NEVER = frozenset(["clone", "no_grad", "backward", "except", "cycle"])


def correct(rng: Random, setup: str, work: str, of: Sizes, **more) -> Program:
    """A program whose advice is to need less: a smaller batch."""
    causes, never = more.pop("causes", frozenset()), more.pop("never", NEVER)
    count, more_fixes = more.pop("rounds", 0), more.pop("fixes", {})
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}{setup}", of.batch, work, definitions=net(rng, of), **more)
    fixes = {"batch": smaller(of), **more_fixes}
    return Program(source, NEEDS | causes, frozenset(), (), fixes, never, count, rng.choice([0.4, 0.7]), is_correct=True)


@kind
def correct_training(rng: Random) -> Program:
    """A training that stores numbers, and tensors on the host."""
    work = TRAIN + rng.choice(["log.append(loss.item())\n", "log.append(out.detach().cpu())\n", "log.append(float(loss))\n"])
    return correct(rng, "log = []\n", work, sizes(rng), keepers=["log"])


@kind
def correct_average(rng: Random) -> Program:
    """A training with a moving average of its weights."""
    average = "with torch.no_grad():\n    for a, p in zip(average.parameters(), net.parameters()):\n        a.mul_(0.99).add_(p, alpha=0.01)\n"
    return correct(rng, "average = copy.deepcopy(net)\n", TRAIN + average, sizes(rng), keepers=["average"])


@kind
def correct_accumulation(rng: Random) -> Program:
    """Gradients are added up over micro-batches, with a backward in each."""
    work = "for micro in range(4):\n    loss = net(x).square().mean() / 4\n    loss.backward()\nopt.step()\nopt.zero_grad()\n"
    return correct(rng, "", work, sizes(rng))


@kind
def correct_queue(rng: Random) -> Program:
    """A queue of fixed length of detached features."""
    of = sizes(rng)
    length = rng.choice([2, 4])
    work = TRAIN + "queue.append(x * 0.5)\n"
    fixes = {"drop": [("queue.append(x * 0.5)", "queue.append(0)")], "host": [("queue.append(x * 0.5)", "queue.append((x * 0.5).cpu())")]}
    return correct(
        rng, f"queue = collections.deque(maxlen={length})\n", work, of, keepers=["queue"],
        causes=frozenset(["kept_tensors", "held", "previous_round"]), rounds=rng.choice([0, 1, length - 1]), fixes=fixes,
    )  # fmt: skip


@kind
def correct_replay(rng: Random) -> Program:
    """A replay buffer of fixed size, allocated at the start."""
    of = sizes(rng)
    setup = f'buffer = torch.zeros({of.rows * 2}, {of.dim}, device="cuda")\n'
    work = TRAIN + f"with torch.no_grad():\n    buffer[step % 2 * {of.rows}:][:len(x)] = x\n"
    return correct(rng, setup, work, of, keepers=["buffer"])


@kind
def correct_last_output(rng: Random) -> Program:
    """The last output is kept, detached, until the next one replaces it."""
    work = TRAIN + "last = {'out': out.detach(), 'loss': loss.item()}\n"
    return correct(rng, "last = None\n", work, sizes(rng), keepers=["last"], rebinds=True)


@kind
def correct_cache(rng: Random) -> Program:
    """A cache of what four batches need, which is full after four steps."""
    work = "with torch.no_grad():\n    if step % 4 not in cache:\n        cache[step % 4] = x.sum(0)\n" + TRAIN
    return correct(rng, "cache = {}\n", work, sizes(rng), keepers=["cache"])


@kind
def correct_validation(rng: Random) -> Program:
    """A validation under no_grad whose batch is large."""
    of = sizes(rng)
    body = f"""net = Net().cuda()
{optimizer(rng)}for step in range(4):
    # a round
{indented(f'x = {of.batch}' + chr(10) + TRAIN)}net.eval()
# a round
{NO_GRAD}def validate():
    hits = 0.0
    for step in range(3):
        x = torch.randn({of.rows} * 12, {of.dim}, device="cuda")
        hits += net(x).argmax(-1).float().mean().item()
    return hits
print(validate())
"""
    fixes = {"batch": [(f"torch.randn({of.rows} * 12,", f"torch.randn({of.rows},")]}
    return Program(HEAD + net(rng, of) + body, NEEDS, frozenset(), (), fixes, NEVER, 4, is_correct=True)


@kind
def correct_inference(rng: Random) -> Program:
    """A server that keeps nothing, whose requests are large."""
    of = sizes(rng)
    of = Sizes(of.rows * 2, of.dim, of.layers)
    source = placed(rng, "net = Net().cuda().eval()\n", of.batch, "out = net(x).argmax(-1).cpu()\n", definitions=net(rng, of), mode=NO_GRAD)
    return Program(source, NEEDS, frozenset(), (), {"batch": smaller(of)}, NEVER, 0, 0.6, is_correct=True)


@kind
def correct_pinned(rng: Random) -> Program:
    """Batches are copied from pinned memory, which is not the card's."""
    of = sizes(rng)
    setup = f"pinned = [torch.randn({of.rows}, {of.dim}).pin_memory() for _ in range(3)]\n"
    work = "x = pinned[step % 3].to('cuda', non_blocking=True)\n" + TRAIN
    fixes = {"batch": [(f"torch.randn({of.rows},", f"torch.randn({of.rows} // 8,")]}
    return correct(rng, setup, work, of, keepers=["pinned"], fixes=fixes)


@kind
def correct_gan(rng: Random) -> Program:
    """Two models and two optimizers that take turns."""
    of = sizes(rng)
    work = """with torch.no_grad():
    fake = net(x)
loss = judge(fake).square().mean()
opt.zero_grad()
loss.backward()
opt.step()
loss = judge(net(x)).mean()
second.zero_grad()
loss.backward()
second.step()
"""
    setup = "judge = nn.Linear(64, 1).cuda()\nsecond = torch.optim.Adam(judge.parameters())\n"
    return correct(rng, setup, work, of, keepers=["judge", "second"])


@kind
def correct_recomputed(rng: Random) -> Program:
    """A training that recomputes its activations."""
    of = sizes(rng)
    of = Sizes(of.rows * 2, of.dim, of.layers)
    work = TRAIN.replace("out = net(x)", "out = torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)")
    return correct(rng, "", work, of)
