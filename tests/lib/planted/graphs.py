"""Programs that keep autograd graphs."""

from __future__ import annotations

from random import Random

from program import CULPRIT, HEAD, TRAIN, Program, indented, kind, net, optimizer, placed, previous, rounds, sizes, store

GRAPHS = frozenset(["kept_graphs"])
NO_BACKWARD = frozenset(["no_backward"])
NEAR = frozenset(["previous_round", "kept_tensors", "no_backward", "kept_graphs", "waiting_for_backward"])


def kept(rng: Random, work: str, value: str, *, train: bool = True, causes=GRAPHS, mode: str = "", fixes=None) -> Program:
    """A training that stores a value which has a graph."""
    of, count, name = sizes(rng), rounds(rng), rng.choice(["history", "scores", "curve", "logged"])
    made, put, form = store(rng, name, value)
    source = placed(
        rng, f"net = Net().cuda()\n{optimizer(rng)}{made}", of.batch, (TRAIN if train else "") + work + put,
        definitions=net(rng, of, CULPRIT), keepers=[name], mode=mode,
    )
    detached = [(form.format(value), form.format(f"{value}.detach()"))]
    dropped = [(form.format(value), form.format("None"))]
    return Program(
        source, causes | previous(count), NEAR, (name,), {"detach": detached, "drop": dropped, **(fixes or {})}, rounds=count,
        never=frozenset(["clone", "expandable"]),
    )


@kind
def graph_kept(rng: Random) -> Program:
    """A number with its graph is stored in each step of a training."""
    return kept(rng, rng.choice([
        f"score = net(x).std(){CULPRIT}\n",
        f"score = net(x).square().mean(){CULPRIT}\n",
        f"score = F.mse_loss(net(x), out.detach()){CULPRIT}\n",
        f"second = net(x){CULPRIT}\nscore = second.logsumexp(1).mean()\n",
    ]), "score")  # fmt: skip


@kind
def graph_retained(rng: Random) -> Program:
    """The losses are stored, and their graphs are retained by the backward."""
    program = kept(rng, "", "loss")
    source = program.source.replace("loss.backward()", "loss.backward(retain_graph=True)")
    return Program(source, program.causes, program.near, program.keepers, program.fixes, program.never, program.rounds)


@kind
def graph_on_attribute(rng: Random) -> Program:
    """An object of the program collects outputs with their graphs."""
    of, count = sizes(rng), rounds(rng)
    meter = f"""class Meter:
    def __init__(self):
        self.values, self.count = [], 0
    def update(self, value):
        self.values.append(value)
        self.count += 1
"""
    work = TRAIN + f"again = net(x){CULPRIT}\nmeter.update(again.mean())\n"
    source = placed(
        rng, f"net = Net().cuda()\n{optimizer(rng)}meter = Meter()\n", of.batch, work, definitions=net(rng, of, CULPRIT) + meter,
        keepers=["meter"],
    )
    fixes = {"detach": [("again.mean()", "again.mean().item()")], "drop": [("self.values.append(value)", "pass")]}
    return Program(source, GRAPHS | previous(count), NEAR, ("meter.values",), fixes, rounds=count)


@kind
def graph_summed(rng: Random) -> Program:
    """A running total of a training has the graphs of all steps."""
    of, count = sizes(rng), rounds(rng)
    name = rng.choice(["total", "running", "average"])
    form = rng.choice([f"{name} = {name} + {{}}", f"{name} += {{}}", f"{name} = 0.9 * {name} + 0.1 * {{}}"])
    work = TRAIN + f"extra = net(x).abs().mean(){CULPRIT}\n" + form.format("extra") + "\n"
    source = placed(
        rng, f"net = Net().cuda()\n{optimizer(rng)}{name} = 0.0\n", of.batch, work, definitions=net(rng, of, CULPRIT), keepers=[name],
        rebinds=True,
    )
    fixes = {"detach": [(".abs().mean()", ".abs().mean().item()")]}
    return Program(source, GRAPHS | previous(count), NEAR, (name,), fixes, rounds=count)


@kind
def graph_of_state(rng: Random) -> Program:
    """A recurrent state is not detached, and each backward retains the graph of all steps."""
    of, count = sizes(rng), rounds(rng)
    cell = f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_input, self.of_state = nn.Linear({of.dim}, {of.dim}), nn.Linear({of.dim}, {of.dim})
    def forward(self, x, state):
        return torch.tanh(self.of_input(x) + self.of_state(state)){CULPRIT}
"""
    work = "state = net(x, state)\nloss = state.square().mean()\nloss.backward(retain_graph=True)\n"
    source = placed(
        rng, f"net = Net().cuda()\nstate = torch.zeros({of.rows}, {of.dim}, device='cuda')\n", of.batch, work, definitions=cell,
        keepers=["state"], rebinds=True,
    )
    fixes = {"detach": [("self.of_state(state)", "self.of_state(state.detach())")]}
    return Program(source, GRAPHS | previous(count), NEAR, (), fixes, rounds=count)


@kind
def graph_of_gradients(rng: Random) -> Program:
    """A penalty of gradients is stored with its graph."""
    return kept(
        rng,
        f"first = net(x).square().mean(){CULPRIT}\n"
        f"parts = torch.autograd.grad(first, list(net.parameters()), create_graph=True){CULPRIT}\n"
        "penalty = sum(part.square().sum() for part in parts)\n",
        "penalty",
    )


def evaluated(rng: Random, work: str, keepers, fixes, setup: str) -> Program:
    """An evaluation with gradients, after some training or none."""
    of, count = sizes(rng), rounds(rng)
    trained = rng.choice([0, 3])
    warm = f"for step in range({trained}):\n{indented(f'x = {of.batch}' + chr(10) + TRAIN)}" if trained else ""
    looped = placed(rng, setup, of.batch, work, keepers=keepers, rebinds=True, mode="").removeprefix(HEAD)
    body = f"net = Net().cuda()\n{optimizer(rng)}{warm}net.eval()\n"
    source = HEAD + net(rng, of, CULPRIT) + body + looped.replace("self.net", "net")
    off = [("net.eval()\n", "net.eval()\ntorch.set_grad_enabled(False)\n")]
    return Program(
        source, NO_BACKWARD | previous(count), NEAR, tuple(keepers), {**fixes, "no_grad": off}, rounds=count,
        never=frozenset(["clone", "expandable"]),
    )


@kind
def evaluation_with_gradients(rng: Random) -> Program:
    """Each output of an evaluation is stored with its graph."""
    made, put, form = store(rng, "outputs", "out")
    work = rng.choice([f"out = net(x){CULPRIT}\n", f"out = net(x).softmax(-1){CULPRIT}\n", f"out = net(x)[:, :8]{CULPRIT}\n"])
    fixes = {"detach": [(form.format("out"), form.format("out.detach().clone()"))]}
    return evaluated(rng, work + put, ["outputs"], fixes, made)


@kind
def evaluation_summed(rng: Random) -> Program:
    """The losses of an evaluation are added up with their graphs."""
    name = rng.choice(["total", "val_loss", "error"])
    work = f"part = net(x).square().mean(){CULPRIT}\n{name} = {name} + part\n"
    return evaluated(rng, work, [name], {"detach": [(f"{name} + part", f"{name} + part.item()")]}, f"{name} = 0.0\n")


@kind
def microbatches(rng: Random) -> Program:
    """The losses of several micro-batches are added up before one backward."""
    of, count = sizes(rng), rng.choice([2, 3, 6])
    many = count + rng.choice([1, 4])
    body = f"""net = Net().cuda()
{optimizer(rng)}for step in range(100):
    total = 0
    for micro in range({many}):
        # a round
        x = {of.batch}
        part = net(x).square().mean() / {many}{CULPRIT}
        total = total + part
    total.backward()
    opt.step()
    opt.zero_grad()
"""
    if rng.random() < 0.5:
        body = f"def train():\n{indented(body)}train()\n"
    backward = [("total = total + part", "part.backward()"), ("    total.backward()\n", "")]
    return Program(
        HEAD + net(rng, of, CULPRIT) + body, NO_BACKWARD | frozenset(["waiting_for_backward"]) | previous(count),
        NEAR | frozenset(["activations"]), ("total",),
        {"backward": backward, "batch": [(f"torch.randn({of.rows},", f"torch.randn({of.rows} // 8,")]}, rounds=count,
    )  # fmt: skip


@kind
def rollout(rng: Random) -> Program:
    """A policy collects outputs with their graphs for an update that comes after the rollout."""
    of, count = sizes(rng), rounds(rng)
    body = f"""net = Net().cuda()
{optimizer(rng)}for episode in range(100):
    rewards = []
    for step in range(40):
        # a round
        x = {of.batch}
        value = net(x).mean(){CULPRIT}
        rewards.append(value)
    torch.stack(rewards).mean().backward()
    opt.step()
    opt.zero_grad()
"""
    backward = [("rewards.append(value)", "value.backward(); rewards.append(value.detach())"),
                (".mean().backward()", ".mean()")]  # fmt: skip
    detach = [("rewards.append(value)", "rewards.append(value.detach())"), (".mean().backward()", ".mean()")]
    return Program(
        HEAD + net(rng, of, CULPRIT) + body, NO_BACKWARD | frozenset(["waiting_for_backward"]) | previous(count),
        NEAR | frozenset(["activations"]), ("rewards",),
        {"backward": backward, "detach": detach, "batch": [(f"torch.randn({of.rows},", f"torch.randn({of.rows} // 8,")]},
        rounds=count,
    )  # fmt: skip

