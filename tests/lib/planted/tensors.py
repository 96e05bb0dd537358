"""Programs that keep tensors without graphs: lists, caches, views, exceptions, cycles, models."""

from __future__ import annotations

from random import Random

from program import CULPRIT, HEAD, MODES, NO_GRAD, TRAIN, Program, Sizes, indented, kind, net, optimizer, placed, previous, rounds, sizes, store

TENSORS = frozenset(["kept_tensors"])
NEAR = frozenset(["previous_round", "kept_tensors", "held", "kept_graphs"])
NO_GRAPH = frozenset(["no_grad", "backward", "expandable", "detach"])


def stored(
    rng: Random, work: str, value: str, name: str, *, train: bool = True, definitions: str = "", mode: str = "",
    near=NEAR, never=NO_GRAPH, causes=TENSORS,
) -> Program:
    """A program that stores a tensor of each round in a container."""
    of, count = sizes(rng), rounds(rng)
    made, put, form = store(rng, name, value)
    setup = f"net = Net().cuda()\n{optimizer(rng) if train else ''}{made}"
    text = work.format(rows=of.rows, dim=of.dim)
    source = placed(
        rng, setup, of.batch, (TRAIN if train else "") + text + put, definitions=net(rng, of) + definitions,
        keepers=[name], mode=mode,
    )
    fixes = {
        "drop": [(form.format(value), form.format("None"))], "host": [(form.format(value), form.format(f"{value}.cpu()"))],
    }  # fmt: skip
    return Program(source, causes | previous(count), near, (name,), fixes, never, count)


@kind
def features_kept(rng: Random) -> Program:
    """A training stores a large tensor without a graph in each step."""
    work = rng.choice([
        f'feature = torch.randn({{rows}}, {{dim}}, device="cuda"){CULPRIT}\n',
        f"feature = x * 2.0{CULPRIT}\n",
        f"feature = torch.cat([x, x], 1){CULPRIT}\n",
    ])  # fmt: skip
    return stored(rng, work, "feature", rng.choice(["features", "seen", "bank"]))


@kind
def inputs_kept(rng: Random) -> Program:
    """A training stores its batches."""
    return stored(rng, "", "x", rng.choice(["replay", "batches_seen", "buffer"]))


@kind
def outputs_detached(rng: Random) -> Program:
    """A training stores detached outputs, which are large."""
    work = f"large = (x @ x.t()[:, :2048]).detach(){CULPRIT}\n"
    return stored(rng, work, "large", rng.choice(["outputs", "logits", "results_of_steps"]))


@kind
def gradients_kept(rng: Random) -> Program:
    """A training stores copies of its gradients."""
    of, count = Sizes(256, 2048, 3), rng.choice([2, 4, 19])
    value = rng.choice(["[p.grad.clone() for p in net.parameters()]", "torch.cat([p.grad.flatten() for p in net.parameters()])"])
    work = TRAIN + f"norms.append({value}){CULPRIT}\n"
    source = placed(
        rng, f"net = Net().cuda()\n{optimizer(rng)}norms = []\n", of.batch, work, definitions=net(rng, of), keepers=["norms"],
    )  # fmt: skip
    host = [(".clone()", ".cpu()")] if "clone" in value else [(".flatten()", ".flatten().cpu()")]
    drop = [(".clone()", ".norm()")] if "clone" in value else [(".flatten()", ".norm().view(1)")]
    return Program(source, TENSORS | previous(count), NEAR, ("norms",), {"host": host, "drop": drop}, NO_GRAPH, count)


@kind
def predictions_kept(rng: Random) -> Program:
    """An evaluation under no_grad or inference_mode stores predictions on the card."""
    work = f"pred = torch.tanh(x @ x.t()[:, :2048]){CULPRIT}\nnet(x)\n"
    return stored(rng, work, "pred", rng.choice(["preds", "collected"]), train=False, mode=rng.choice(MODES))


@kind
def metric_object(rng: Random) -> Program:
    """A metric object stores predictions in its method."""
    of, count = sizes(rng), rounds(rng)
    form = rng.choice(["self.preds.append(value)", "self.preds += [value]", "self.preds.append((value, target))"])
    metric = f"""class Metric:
    def __init__(self, name):
        self.name, self.preds = name, []
    def update(self, value, target):
        {form}
"""
    work = f"target = torch.zeros(4)\nnet(x)\nguess = torch.cat([x, x]){CULPRIT}\nmetric.update(guess, target)\n"
    source = placed(
        rng, "net = Net().cuda()\nmetric = Metric('accuracy')\n", of.batch, work, definitions=net(rng, of) + metric,
        keepers=["metric"], mode=rng.choice(MODES),
    )
    fixes = {"host": [(form, form.replace("value", "value.cpu()", 1))], "drop": [(form, "pass")]}
    return Program(source, TENSORS | previous(count), NEAR, ("metric.preds",), fixes, NO_GRAPH, count)


@kind
def module_cache(rng: Random) -> Program:
    """A module has a cache on itself that only grows."""
    of, count = sizes(rng), rounds(rng)
    model = f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.cache = nn.Linear({of.dim}, {of.dim}), {{}}
    def forward(self, x):
        h = self.up(x).relu(){CULPRIT}
        self.cache[len(self.cache)] = h
        return h
"""
    source = placed(rng, "net = Net().cuda()\n", of.batch, "out = net(x)\n", definitions=model, mode=rng.choice(MODES))
    fixes = {"drop": [("= h\n", "= None\n")], "host": [("= h\n", "= h.cpu()\n")]}
    return Program(source, TENSORS | previous(count), NEAR, ("net.cache",), fixes, NO_GRAPH, count)


@kind
def function_cache(rng: Random) -> Program:
    """functools.lru_cache keeps what a function returned for other arguments."""
    of, count = sizes(rng), rounds(rng)
    cached = rng.choice(["@functools.lru_cache(maxsize=None)", "@functools.cache"])
    body = f"""import functools
{cached}
def embedding(index):
    return torch.full(({of.rows}, {of.dim}), float(index), device="cuda"){CULPRIT}
net = Net().cuda()
for step in range(1000):
    # a round
    with torch.no_grad():
        net(embedding(step))
"""
    fixes = {
        "cache_clear": [("    # a round\n", "    # a round\n    embedding.cache_clear()\n")], "drop": [(cached, "")],
        "host": [('device="cuda")', 'device="cpu")'), ("net(embedding(step))", "net(embedding(step).cuda())")],
    }  # fmt: skip
    return Program(HEAD + net(rng, of) + body, TENSORS | previous(count), NEAR, ("embedding",), fixes, NO_GRAPH, count)


@kind
def grown_by_cat(rng: Random) -> Program:
    """A tensor is extended by torch.cat in each step, as a cache of keys and values is."""
    of, count = sizes(rng), rng.choice([6, 9, 19])
    name = rng.choice(["keys", "past", "all_rows"])
    of = Sizes(of.rows // 2, of.dim, of.layers)
    form = rng.choice([f"{name} = torch.cat([{name}, x]){CULPRIT}\n", f"{name} = torch.cat(({name}, x), 0){CULPRIT}\n"])
    source = placed(
        rng, f"net = Net().cuda()\n{name} = torch.zeros(8, {of.dim}, device='cuda')\n", of.batch, "net(x)\n" + form,
        definitions=net(rng, of), keepers=[name], rebinds=True, mode=NO_GRAD,
    )
    limit = [("torch.cat([", "torch.cat([x[:4], "), (", x])", "[:8]])"), ("torch.cat((", "torch.cat((x[:4], "), (", x), 0)", "[:8]), 0)")]
    limit = [pair for pair in limit if pair[0] in source]
    return Program(
        source, frozenset(["lengthened"]), frozenset(["kept_tensors", "previous_round", "largest"]), (), {"limit": limit},
        frozenset(["expandable", "no_grad"]), count,
    )  # fmt: skip


@kind
def sessions(rng: Random) -> Program:
    """A server keeps the state of each session."""
    of, count = sizes(rng), rounds(rng)
    body = f"""class Server:
    def __init__(self):
        self.net, self.states = Net().cuda().eval(), {{}}
    {rng.choice(MODES).strip()}
    def handle(self, session):
        x = torch.randn({of.rows}, {of.dim}, device="cuda")
        state = (x * 0.5, x.argmax(-1)){CULPRIT}
        self.states[session] = state
        return self.net(x).argmax(-1).cpu()
server = Server()
for request in range(1000):
    # a round
    server.handle(request)
"""
    put = "self.states[session] = state"
    fixes = {"drop": [(put, "self.states[0] = state[1]")], "host": [(put, "self.states[session] = tuple(t.cpu() for t in state)")]}
    return Program(HEAD + net(rng, of) + body, TENSORS | previous(count), NEAR, ("server.states",), fixes, NO_GRAPH, count)


@kind
def threads(rng: Random) -> Program:
    """Threads that handle requests store their tensors."""
    of, count = sizes(rng), rounds(rng)
    body = f"""import os
import threading
net = Net().cuda().eval()
log = []
def handle(request):
    with torch.no_grad():
        x = torch.randn({of.rows}, {of.dim}, device="cuda"){CULPRIT}
        log.append(x)
        net(x)
def guarded(request):
    try:
        handle(request)
    except torch.OutOfMemoryError:
        os._exit(1)
for request in range(1000):
    # a round
    thread = threading.Thread(target=guarded, args=(request,))
    thread.start()
    thread.join()
"""
    fixes = {"drop": [("log.append(x)", "log.append(0)")], "host": [("log.append(x)", "log.append(x.cpu())")]}
    return Program(HEAD + net(rng, of) + body, TENSORS | {"held"} | previous(count), NEAR, ("log",), fixes, NO_GRAPH, count)


@kind
def futures(rng: Random) -> Program:
    """The futures of all requests are kept, and each has its result."""
    of, count = sizes(rng), rounds(rng)
    body = f"""from concurrent.futures import ThreadPoolExecutor
net = Net().cuda().eval()
def handle(request):
    with torch.no_grad():
        x = torch.randn({of.rows}, {of.dim}, device="cuda")
        net(x)
        return x + 1.0{CULPRIT}
pool = ThreadPoolExecutor(1)
pending = []
for request in range(1000):
    # a round
    future = pool.submit(handle, request)
    future.result()
    pending.append(future)
"""
    fixes = {"drop": [("pending.append(future)", "pending = [future]")], "host": [("x + 1.0", "(x + 1.0).cpu()")]}
    return Program(HEAD + net(rng, of) + body, TENSORS | previous(count), NEAR, ("pending",), fixes, NO_GRAPH, count)


@kind
def views(rng: Random) -> Program:
    """A few rows of each output are stored, and each keeps the whole."""
    take = rng.choice(["wide[:2]", "wide[0]", "wide.split(4)[0]", "wide[:, :1]", "wide.narrow(0, 0, 2)"])
    program = stored(
        rng, f"with torch.no_grad():\n    wide = torch.tanh(x){CULPRIT}\nrow = {take}\n", "row", rng.choice(["rows", "table", "samples"]),
        train=rng.random() < 0.5, near=NEAR,
    )  # fmt: skip
    fixes = {**program.fixes, "clone": [(f"row = {take}", f"row = {take}.clone()")]}
    return Program(program.source, program.causes, program.near, program.keepers, fixes, program.never, program.rounds)


@kind
def hook(rng: Random) -> Program:
    """A forward hook stores what a layer received or made."""
    of, count = sizes(rng), rounds(rng)
    value = rng.choice(["inputs[0] * 2.0", "inputs[0].detach().clone()"])
    setup = f"net = Net().cuda()\n{optimizer(rng)}net.register_forward_hook(remember)\n"
    definitions = net(rng, of) + f"""kept = []
def remember(module, inputs, output):
    value = {value}{CULPRIT}
    kept.append(value)
"""
    source = placed(rng, setup, of.batch, TRAIN, definitions=definitions)
    fixes = {"drop": [("kept.append(value)", "pass")], "host": [("kept.append(value)", "kept.append(value.cpu())")]}
    return Program(source, TENSORS | previous(count), NEAR, ("kept",), fixes, NO_GRAPH, count)


@kind
def default_argument(rng: Random) -> Program:
    """A mutable default argument, or a closure, stores each batch."""
    of, count = sizes(rng), rounds(rng)
    definitions = rng.choice([
        "def log(value, store=[]):\n    store.append(value)\n",
        "def logger():\n    store = []\n    def log(value):\n        store.append(value)\n    return log\nlog = logger()\n",
        "class Log:\n    store = []\ndef log(value):\n    Log.store.append(value)\n",
    ])  # fmt: skip
    work = TRAIN + f"feature = x.relu(){CULPRIT}\nlog(feature)\n"
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, work, definitions=net(rng, of) + definitions)
    fixes = {"drop": [("store.append(value)", "store.append(0)")], "host": [("store.append(value)", "store.append(value.cpu())")]}
    keeper = "log" if "store=" in definitions else "store"
    return Program(source, TENSORS | previous(count), NEAR, (keeper,), fixes, NO_GRAPH, count)


@kind
def errors_kept(rng: Random) -> Program:
    """The exceptions of requests that failed are stored, with the frames of their calls."""
    of, count = sizes(rng), rounds(rng)
    body = f"""net = Net().cuda().eval()
errors = []
def handle(request):
    x = torch.randn({of.rows}, {of.dim}, device="cuda"){CULPRIT}
    with torch.no_grad():
        net(x)
    raise ValueError(request){CULPRIT}
for request in range(1000):
    # a round
    try:
        handle(request)
    except ValueError as error:
        errors.append(error)
"""
    put = "errors.append(error)"
    fixes = {"except": [(put, "errors.append(repr(error))")], "drop": [(put, "errors.append(None)")]}
    return Program(
        HEAD + net(rng, of) + body, frozenset(["exception", "kept_tensors"]), NEAR, ("errors",), fixes, NO_GRAPH, count,
    )  # fmt: skip


@kind
def cycles(rng: Random) -> Program:
    """Objects that refer to themselves keep a tensor until a garbage collection, which is late or off."""
    of, count = sizes(rng), rounds(rng)
    definitions = net(rng, of) + rng.choice([
        "gc.disable()\nclass Result:\n    def __init__(self, value):\n        self.value, self.me = value, self\n",
        "gc.disable()\nclass Result:\n    def __init__(self, value):\n        self.value = value\n        self.get = lambda: self.value\n",
    ])  # fmt: skip
    work = TRAIN + f"feature = x.exp(){CULPRIT}\nResult(feature)\n"
    source = placed(rng, f"net = Net().cuda()\n{optimizer(rng)}", of.batch, work, definitions=definitions)
    at = source.index("# a round")
    blanks = source[source.rindex("\n", 0, at) + 1 : at]
    fixes = {"cycle": [(f"{blanks}# a round\n", f"{blanks}# a round\n{blanks}gc.collect()\n")]}
    return Program(source, frozenset(["reference_cycle"]), NEAR, (), fixes, NO_GRAPH, count)


@kind
def list_built(rng: Random) -> Program:
    """A list of all outputs is made at once."""
    of, count = sizes(rng), rng.choice([3, 6, 12])
    body = f"""net = Net().cuda().eval()
def run(step):
    # a round
    x = torch.randn({of.rows}, {of.dim}, device="cuda")
    net(x)
    return x * 2.0{CULPRIT}
with torch.no_grad():
    outputs = [run(step) for step in range(100)]
"""
    fixes = {"host": [("x * 2.0", "(x * 2.0).cpu()")], "drop": [("x * 2.0", "x.mean()")]}
    return Program(
        HEAD + net(rng, of) + body, frozenset(["held", "kept_tensors"]), NEAR, (), fixes, NO_GRAPH, count,
    )  # fmt: skip


@kind
def two_keepers(rng: Random) -> Program:
    """Two containers have each tensor: only together do they free it."""
    of, count = sizes(rng), rounds(rng)
    work = TRAIN + f"feature = x.sigmoid(){CULPRIT}\nfirst.append(feature)\nsecond[step] = feature\n"
    source = placed(
        rng, f"net = Net().cuda()\n{optimizer(rng)}first = []\nsecond = {{}}\n", of.batch, work, definitions=net(rng, of),
        keepers=["first", "second"],
    )
    fixes = {"drop": [("first.append(feature)", "first.append(0)"), ("second[step] = feature", "second[step] = 0")],
             "host": [("= x.sigmoid()", "= x.sigmoid().cpu()")]}  # fmt: skip
    return Program(source, TENSORS | previous(count), NEAR, ("first", "second"), fixes, NO_GRAPH, count)


def models(rng: Random, body: str, fixes, keepers=("models",), count=None, causes=frozenset(["earlier_models"])) -> Program:
    of = Sizes(128, 2048, rng.choice([4, 6]))
    text = body.format(train=indented(f"x = {of.batch}\n" + TRAIN, 2))
    return Program(
        HEAD + net(rng, of, is_deep=True) + text, causes, frozenset(["copies", "kept_tensors", "previous_round", "held"]), keepers, fixes,
        NO_GRAPH, rng.choice([2, 4, 19]) if count is None else count,
    )  # fmt: skip


@kind
def folds(rng: Random) -> Program:
    """The models of earlier folds are kept, with their optimizers."""
    keep = rng.choice(["models.append((net, opt))", "models.append(net)", "models[fold] = net"])
    body = f"""models = {'{{}}' if 'fold]' in keep else '[]'}
for fold in range(100):
    # a round
    net = Net().cuda(){CULPRIT}
    opt = torch.optim.Adam(net.parameters())
    for step in range(3):
{{train}}    {keep}
"""
    fixes = {"drop": [(keep, "net = opt = None")], "host": [(keep, "net.zero_grad(); net.cpu(); " + keep.replace("(net, opt)", "net"))]}
    return models(rng, body, fixes)


@kind
def snapshots(rng: Random) -> Program:
    """Copies of the weights of each epoch are kept on the card."""
    value = rng.choice(["copy.deepcopy(net.state_dict())", "{{k: v.clone() for k, v in net.state_dict().items()}}", "copy.deepcopy(net)"])
    body = f"""net = Net().cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
models = []
for epoch in range(100):
    # a round
    for step in range(2):
{{train}}    models.append({value}){CULPRIT}
"""
    plain = value.replace("{{", "{").replace("}}", "}")
    host = [(plain, "{k: v.cpu() for k, v in net.state_dict().items()}")]
    program = models(rng, body, {"drop": [(plain, "None")], "host": host})
    causes = frozenset(["earlier_models", "kept_tensors"]) | previous(program.rounds)
    return Program(program.source, causes, program.near, program.keepers, program.fixes, program.never, program.rounds)
