"""Programs of which several things keep the memory, or seem to: the one that is named can be changed."""

from __future__ import annotations

from random import Random

from correct import NEEDS, NEVER
from graphs import GRAPHS, NEAR
from program import CULPRIT, HEAD, Program, indented, kind, net, optimizer, placed, previous, rounds, sizes
from sizes import smaller


@kind
def outputs_used_again(rng: Random) -> Program:
    """The loss of each episode is of all outputs so far, whose graphs each backward retains. The loss is not what keeps them."""
    of, count, name = sizes(rng), rounds(rng), rng.choice(["saved", "outputs", "memory"])
    body = f"""net = Net().cuda()
{optimizer(rng)}{name} = []
for episode in range(1000):
    # a round
    x = {of.batch}
    {name}.append(net(x)){CULPRIT}
    loss = sum(out.square().mean() for out in {name})
    loss.backward(retain_graph=True)
"""
    if rng.random() < 0.5:
        body = f"def train():\n{indented(body)}train()\n"
    fixes = {"drop": [(f"{name}.append(net(x))", f"{name} = [net(x)]")]}
    return Program(HEAD + net(rng, of, CULPRIT) + body, GRAPHS | previous(count), NEAR, (name,), fixes, rounds=count)


@kind
def buffer_with_graph(rng: Random) -> Program:
    """A buffer of a module is an average of what has a graph."""
    of, count, name = sizes(rng), rounds(rng), rng.choice(["centre", "running", "average"])
    module = f"""class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        {rng.choice([f'self.register_buffer("{name}", torch.zeros(64))', f'self.{name} = torch.zeros(64, device="cuda")'])}
    def forward(self, x):
        self.{name} = 0.9 * self.{name} + 0.1 * x.mean(0)
        return x - self.{name}.detach()
"""
    work = f"out = net(x){CULPRIT}\nloss = norm(out).square().mean()\nopt.zero_grad()\nloss.backward(retain_graph=True)\nopt.step()\n"
    source = placed(
        rng, f"net = Net().cuda()\nnorm = Norm().cuda()\n{optimizer(rng)}", of.batch, work, definitions=net(rng, of, CULPRIT) + module,
        keepers=["norm"],
    )
    fixes = {"detach": [("0.1 * x.mean(0)", "0.1 * x.detach().mean(0)")]}
    return Program(source, GRAPHS | previous(count), NEAR, (f"norm.{name}",), fixes, rounds=count)


@kind
def ensemble(rng: Random) -> Program:
    """Models that are made together and trained in turn keep their gradients and optimizer state."""
    dim, count = rng.choice([1024, 2048]), rng.choice([2, 4, 6])
    body = f"""class Member:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear({dim}, {dim}), nn.ReLU(), nn.Linear({dim}, {dim})).cuda(){CULPRIT}
        self.opt = torch.optim.Adam(self.net.parameters())
members = [Member() for _ in range(8)]
for member in members:
    # a round
    for step in range(3):
        loss = member.net(torch.randn(64, {dim}, device="cuda")).square().mean()
        member.opt.zero_grad()
        loss.backward(){CULPRIT}
        member.opt.step(){CULPRIT}
    print("trained")
"""
    fixes = {"host": [('print("trained")', "member.net.zero_grad(); member.net.cpu(); member.opt = None")]}
    return Program(
        HEAD + body, frozenset(["held"]), frozenset(["earlier_models", "model"]), ("members",), fixes, frozenset(["clone", "detach"]),
        count, share=0.2,
    )


@kind
def callbacks(rng: Random) -> Program:
    """Callbacks for the end of the program have tensors. No object of Python refers to them."""
    of, count = sizes(rng), rng.choice([2, 4, 19])
    work = f"value = torch.tanh(x){CULPRIT}\natexit.register(print, 'a value', value)\n"
    source = placed(rng, "count = 0\n", of.batch, work, definitions="import atexit\n", mode="@torch.no_grad()\n")
    fixes = {"host": [("'a value', value", "'a value', value.cpu()")], "drop": [("atexit.register(print, 'a value', value)", "pass")]}
    return Program(
        source, frozenset(["kept_tensors"]) | previous(count), NEAR, ("atexit",), fixes, frozenset(["clone", "detach"]), count
    )


@kind
def correct_states(rng: Random) -> Program:
    """An attribute collects the states of one forward, which its graph needs."""
    of = sizes(rng)
    module = f"""class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.states = nn.Linear({of.dim}, {of.dim}), []
    def forward(self, x):
        self.states{rng.choice(['.clear()', ' = []'])}
        for _ in range(8):
            x = torch.tanh(self.cell(x))
            self.states.append(x)
        return torch.stack([state.mean(0) for state in self.states])
"""
    work = "loss = net(x).square().mean()\nopt.zero_grad()\nloss.backward()\nopt.step()\n"
    source = placed(rng, f"net = Steps().cuda()\n{optimizer(rng)}", of.batch, work, definitions=module)
    return Program(
        source, NEEDS, frozenset(), (), {"batch": smaller(of)}, NEVER | {"host", "detach", "drop"}, rng.choice([0, 2]),
        rng.choice([0.4, 0.7]), is_correct=True,
    )  # fmt: skip


@kind
def optimizers_of_schedulers(rng: Random) -> Program:
    """Each stage makes an optimizer, and the schedules of earlier stages, which are kept, keep theirs."""
    dim, name, count = rng.choice([1024, 1536]), rng.choice(["schedules", "plan", "history"]), rng.choice([3, 5, 8])
    where = rng.choice([name, f"self.{name}"])
    keep = f"{where}.append(torch.optim.lr_scheduler.StepLR(opt, 10))"
    body = f"""opt = torch.optim.Adam(net.parameters())
{keep}
for step in range(4):
    loss = net(torch.randn(32, {dim}, device="cuda")).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step(){CULPRIT}
"""
    model = f"nn.Sequential(nn.Linear({dim}, {dim}), nn.ReLU(), nn.Linear({dim}, {dim})).cuda()"
    if where == name:
        source = f"{HEAD}net = {model}\n{name} = []\nfor stage in range(100):\n    # a round\n{indented(body)}"
    else:
        source = f"""{HEAD}class Course:
    def __init__(self):
        self.net = {model}
        self.{name} = []
    def stage(self):
        net = self.net
{indented(body, 2)}course = Course()
for stage in range(100):
    # a round
    course.stage()
"""
    fixes = {"drop": [(keep, f"{where} = [torch.optim.lr_scheduler.StepLR(opt, 10)]")]}
    return Program(
        source, frozenset(["held", "kept_tensors"]), keepers=(name,), fixes=fixes,
        never=frozenset(["expandable", "no_grad", "detach"]), rounds=count,
    )  # fmt: skip


@kind
def two_lists_of_one_graph(rng: Random) -> Program:
    """Two lists of an actor and critic, of which each keeps the graph of both: only without both it is free."""
    of, count = sizes(rng), rounds(rng)
    one, other = rng.sample(["logprobs", "values", "entropies", "scores"], 2)
    at = rng.choice(["", "self."])
    work = f"out = net(x){CULPRIT}\nvalue = out.square().mean()\n{at}{one}.append(out.abs().mean())\n{at}{other}.append(value)\n"
    step = f"{work}opt.zero_grad()\nvalue.backward(retain_graph=True)\nopt.step()\n"
    model = net(rng, of, CULPRIT)
    if at:
        source = f"""{HEAD}{model}class Agent:
    def __init__(self):
        self.{one}, self.{other} = [], []
    def act(self, net, opt, x):
{indented(step, 2)}net = Net().cuda()
{optimizer(rng)}agent = Agent()
for step in range(1000):
    # a round
    agent.act(net, opt, {of.batch})
"""
    else:
        source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}{one}, {other} = [], []\n", of.batch, step, definitions=model, keepers=[one, other])
    fixes = {"detach": [(".append(out.abs().mean())", ".append(out.abs().mean().detach())"), (f"{other}.append(value)", f"{other}.append(value.detach())")]}
    return Program(source, GRAPHS | previous(count), NEAR, (one, other), fixes, rounds=count)


@kind
def gradients_with_graphs(rng: Random) -> Program:
    """`backward(create_graph=True)` adds gradients up with their graphs."""
    of, count = sizes(rng), rounds(rng)
    work = f"""loss = net(x).square().mean(){CULPRIT}
loss.backward(create_graph=True){CULPRIT}
grads = [p.grad for p in net.parameters()]
norm = float(sum(g.square().sum() for g in grads))
"""
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, work, definitions=net(rng, of, CULPRIT))
    fixes = {"grad": [("loss = net(x).square().mean()", "opt.zero_grad(); loss = net(x).square().mean()")]}
    return Program(source, GRAPHS | previous(count), NEAR, ("net",), fixes, frozenset(["detach"]), count)


@kind
def parameters_replaced(rng: Random) -> Program:
    """A head is replaced in each stage, and the optimizer keeps the ones before, with their state."""
    dim, count = rng.choice([1024, 2048]), rng.choice([3, 5, 8])
    how = rng.choice(["nn.Parameter(torch.randn({0}, {0}, device='cuda') * 0.01)", "nn.Linear({0}, {0}, bias=False).cuda()"]).format(dim)
    new = "[net.head]" if "Parameter" in how else "net.head.parameters()"
    use = "x @ net.head" if "Parameter" in how else "net.head(x)"
    opt = rng.choice(["Adam", "AdamW"])
    body = f"""net = nn.Module()
net.body = nn.Linear({dim}, {dim}).cuda()
opt = torch.optim.{opt}(net.parameters())
for stage in range(100):
    # a round
    net.head = {how}{CULPRIT}
    opt.add_param_group({{"params": {new}}})
    for step in range(3):
        x = net.body(torch.randn(64, {dim}, device="cuda"))
        loss = ({use}).square().mean(){CULPRIT}
        opt.zero_grad()
        loss.backward()
        opt.step(){CULPRIT}
"""
    source = HEAD + (body if rng.random() < 0.5 else f"def main():\n{indented(body)}main()\n")
    made = f"opt = torch.optim.{opt}(net.parameters())"
    fixes = {"replaced": [(f'opt.add_param_group({{"params": {new}}})', made)]}
    return Program(
        source, frozenset(["held", "earlier_models"]), frozenset(["kept_tensors"]), ("opt",), fixes,
        frozenset(["expandable", "order", "no_grad"]), count,
    )  # fmt: skip


@kind
def state_through_chunks(rng: Random) -> Program:
    """A recurrent state goes from chunk to chunk with its graph. The steps in time within a chunk are no rounds."""
    of, count, times = sizes(rng), rounds(rng), rng.choice([3, 6])
    name = rng.choice(["state", "hidden", "memory"])
    module = f"""class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear({of.dim}, {of.dim})
    def forward(self, x, h):
        for _ in range({times}):
            h = torch.tanh(self.cell(h) + x){CULPRIT}
        return h
"""
    body = f"""net = Recurrent().cuda()
{optimizer(rng)}{name} = torch.zeros({of.rows}, {of.dim}, device="cuda")
for step in range(1000):
    # a round
    {name} = net(torch.randn({of.rows}, {of.dim}, device="cuda"), {name}){CULPRIT}
    loss = {name}.square().mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    # The weights that the graph has are not changed.
"""
    source = HEAD + module + (body if rng.random() < 0.5 else f"def main():\n{indented(body)}main()\n")
    fixes = {"detach": [("    # The weights", f"    {name} = {name}.detach()\n    # The weights")]}
    return Program(source, GRAPHS | previous(count), NEAR, (name,), fixes, rounds=count)


@kind
def checkpoint_by_name(rng: Random) -> Program:
    """A checkpoint on the card, of few large tensors with names, stays beside the model in training."""
    dim = rng.choice([2048, 3072])
    where = rng.choice(["checkpoint", "self.checkpoint"])
    layers = rng.choice([4, 6])
    build = f"nn.Sequential(*[nn.Linear({dim}, {dim}) for _ in range({layers})]).cuda()"
    load = f"""{where} = {{"model": {{name: value.clone() for name, value in net.state_dict().items()}}, "step": 3}}{CULPRIT}
net.load_state_dict({where}["model"])
"""
    train = f"""opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(100):
    # a round
    loss = net(torch.randn({rng.choice([128, 512])}, {dim}, device="cuda")).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    if where == "checkpoint":
        source = f"{HEAD}net = {build}\n{load}{train}"
    else:
        source = f"""{HEAD}class Trainer:
    def __init__(self, net):
{indented(load, 2)}    def fit(self, net):
{indented(train, 2)}net = {build}
trainer = Trainer(net)
trainer.fit(net)
"""
    loaded = f'net.load_state_dict({where}["model"])\n'
    indent = "" if where == "checkpoint" else "        "
    fixes = {"host": [("value.clone()", "value.cpu()")], "drop": [(loaded, f"{loaded}{indent}del {where}\n")]}
    return Program(source, frozenset(["held", "copies"]), frozenset(["largest", "activations", "model"]), ("checkpoint",), fixes)


@kind
def clients_collected(rng: Random) -> Program:
    """A client with its model and optimizer is made when it is first needed, and is kept."""
    dim, count = rng.choice([1024, 2048]), rng.choice([2, 4, 6])
    name, made = rng.choice([("clients", "{}"), ("workers", "dict()")])
    body = f"""class Client:
    def __init__(self, net):
        self.net = copy.deepcopy(net){CULPRIT}
        self.opt = torch.optim.Adam(self.net.parameters())
    def train(self):
        for step in range(2):
            loss = self.net(torch.randn(64, {dim}, device="cuda")).square().mean()
            self.opt.zero_grad()
            loss.backward(){CULPRIT}
            self.opt.step(){CULPRIT}
first = nn.Sequential(nn.Linear({dim}, {dim}), nn.ReLU(), nn.Linear({dim}, {dim})).cuda()
{name} = {made}
for number in range(100):
    # a round
    client = {name}.get(number)
    if client is None:
        client = {name}[number] = Client(first)
    client.train()
    print("trained")
"""
    fixes = {"host": [('print("trained")', "client.net.zero_grad(); client.net.cpu(); client.opt = None")]}
    return Program(
        HEAD + body, frozenset(["held"]), frozenset(["earlier_models", "model"]), (name,), fixes, frozenset(["clone", "detach"]), count, share=0.2
    )


@kind
def state_traced(rng: Random) -> Program:
    """An optimizer keeps a copy of each parameter of each step in its state."""
    dim, count, key = rng.choice([1024, 2048]), rng.choice([4, 9, 19]), rng.choice(["trace", "old"])
    put = f'self.state[p].setdefault("{key}", []).append(p.detach().clone())'
    body = f"""class Traced(torch.optim.SGD):
    @torch.no_grad()
    def step(self):
        super().step()
        for group in self.param_groups:
            for p in group["params"]:
                {put}{CULPRIT}
net = nn.Sequential(nn.Linear({dim}, {dim}), nn.ReLU(), nn.Linear({dim}, {dim})).cuda()
opt = Traced(net.parameters(), 0.1)
for step in range(100):
    # a round
    loss = net(torch.randn(64, {dim}, device="cuda")).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    fixes = {
        "drop": [(put, f'self.state[p]["{key}"] = [p.detach().clone()]')], "host": [(".append(p.detach().clone())", ".append(p.detach().cpu())")],
    }  # fmt: skip
    return Program(
        HEAD + body, frozenset(["held", "kept_tensors"]), frozenset(), (key,), fixes, frozenset(["optimizer", "expandable", "no_grad"]), count
    )
