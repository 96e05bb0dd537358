"""Plants holders of tensors, fails because memory is missing, and prints what is freed without each holder:
`holders_torch.py MODE`. A line `freed BYTES TEXT` for each, in the words that a walk is to find."""

import collections
import functools
import gc
import os
import queue
import sys
import threading

import torch

MIB = 1 << 20


def tensor(mib, more=0):
    return torch.zeros(mib * MIB + more, dtype=torch.uint8, device="cuda")


def floats(mib):
    return torch.zeros(mib * MIB // 4, device="cuda")


def fail():
    """Requests more than the card has."""
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


def failing(*_):
    try:
        fail()
    except torch.cuda.OutOfMemoryError:
        pass


def leave():
    """Ends the process. PyTorch's threads of backward may end it with SIGABRT when the interpreter ends, with the
    recorder and without."""
    sys.stdout.flush()
    os._exit(0)


def freed(text, release):
    before = torch.cuda.memory_allocated()
    release()
    gc.collect()
    print("freed", before - torch.cuda.memory_allocated(), text, flush=True)


class Thing:
    pass


class Slots:
    __slots__ = ("slot",)


def containers():
    global history, settings, window, names, numbered, pair
    # The allocator rounds sizes up to 512 bytes.
    history = [tensor(3, 1000) for _ in range(40)]
    settings = Thing()
    settings.nested = Thing()
    settings.nested.table = tensor(50)
    window = collections.deque([tensor(20), tensor(20)])
    names = {"first": tensor(30)}
    numbered = {7: [tensor(25)]}
    pair = (1, (2, tensor(24)))
    failing()
    freed("history[0…39]", history.clear)
    freed("settings.nested.table", lambda: delattr(settings.nested, "table"))
    freed("window[…]", window.clear)
    freed("names['first']", names.clear)
    freed("numbered[7][0]", numbered.clear)
    freed("pair[1][1]", lambda: globals().pop("pair"))


def thousands():
    """In another order than that of their addresses; what has no view and no name is free before."""
    global shuffled, numbered, viewed
    made = [tensor(0, 700 + number) for number in range(7000)]
    order = [number * 3001 % 7000 for number in range(7000)]
    shuffled = [made[number] for number in order[:4000]]
    numbered = {number: (made[number],) for number in order[4000:6000]}
    viewed = [(made[number], made[number][:9]) for number in order[6000:6500]]
    del made
    failing()
    freed("shuffled[0…3999]", shuffled.clear)
    freed("numbered[1…6997][0]", numbered.clear)


def functions():
    global kept, hook, lookup, running, slots
    kept = None

    def broken():
        large = tensor(60)
        raise ValueError(large.shape)

    try:
        broken()
    except ValueError as error:
        kept = error

    def make():
        captured = tensor(50)
        return lambda: captured

    hook = make()

    @functools.lru_cache(None)
    def lookup(key):
        return tensor(40)

    lookup("a")

    def produce():
        inside = tensor(30)
        yield 1
        print(inside)

    running = produce()
    next(running)
    slots = Slots()
    slots.slot = tensor(20)
    Thing.shared = tensor(10)
    failing()
    line = broken.__code__.co_firstlineno
    name = "functions.broken" if sys.version_info >= (3, 11) else "broken"
    freed("kept → traceback → %s (holders_torch.py:%d) large" % (name, line + 2), lambda: globals().pop("kept"))
    freed("hook → closure of functions.make.<lambda> → captured", lambda: globals().pop("hook"))
    freed("cache of lookup(), 1 result", lookup.cache_clear)
    line, name = produce.__code__.co_firstlineno, "functions.produce" if sys.version_info >= (3, 11) else "produce"
    freed("running → generator %s (holders_torch.py:%d) inside" % (name, line + 2), running.close)
    freed("slots.slot", lambda: delattr(slots, "slot"))
    freed("Thing.shared", lambda: delattr(Thing, "shared"))


def views():
    global rows, whole, parts, halves
    # No other object has the tensors of which these are views.
    rows = [floats(16)[:1024] for _ in range(3)]
    whole = floats(12)
    parts = list(whole.split(len(whole) // 4))
    halves = list(floats(8).chunk(2))
    failing()


def variables():
    """Of a caller, once its calls have returned, which have the same tensors and others."""
    own, items, view = tensor(50), [tensor(40) for _ in range(2)], tensor(30)
    parts = [view[: 10 * MIB]]
    storage = tensor(20)
    shared = storage.untyped_storage()

    def call(argument, *more):
        local = tensor(10)
        copied = [argument, more, local, items]
        fail()
        return copied

    try:
        call(own, own)
    except torch.cuda.OutOfMemoryError:
        pass
    before = torch.cuda.memory_allocated()

    def step(name):
        nonlocal before
        gc.collect()
        now = torch.cuda.memory_allocated()
        print("freed", before - now, name, flush=True)
        before = now

    del own
    step("own")
    items.clear()
    step("items[0…1]")
    # A part of it is elsewhere.
    del view
    step("view")
    # Its memory is a separate object.
    del storage
    step("storage")
    del parts, shared


def peaks():
    """Ten tensors, and soon after a large one, which nothing keeps."""
    global history
    history = [tensor(10) for _ in range(10)]
    tensor(50)
    history.clear()


def graphs():
    """What autograd keeps too is not freed."""
    global saved, outputs, model
    weight = floats(4).requires_grad_()
    saved = (floats(4) * weight).exp()
    outputs = [saved.sum()]
    model = torch.nn.Linear(1024, 2048, device="cuda")
    model(torch.zeros(8, 1024, device="cuda")).sum().backward()
    failing()
    freed("saved", lambda: globals().pop("saved"))


def trainers():
    """What trainers and loaders keep: outputs of steps, metrics by name, the queue of a thread that loads ahead, and a
    dataset's cache."""
    global trainer, feed, loader

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 16)
            self.validation_step_outputs = []

        def validation_step(self, batch):
            self.validation_step_outputs.append(batch.clone())
            return batch

    class Trainer:
        def __init__(self, module):
            self.module = module
            self.callback_metrics = {}

        def validate(self, batches):
            for batch in batches:
                self.callback_metrics["val/batch"] = self.module.validation_step(batch)

    class Feed(threading.Thread):
        def __init__(self):
            super().__init__(daemon=True)
            self.ahead = queue.Queue(maxsize=2)

        def run(self):
            for _ in range(2):
                self.ahead.put(tensor(25))

    class Cached(torch.utils.data.Dataset):
        def __init__(self):
            self.cache = {}

        def __len__(self):
            return 3

        def __getitem__(self, at):
            return self.cache.setdefault(at, tensor(15))

    loader = torch.utils.data.DataLoader(Cached(), batch_size=None)
    trainer = Trainer(Module().cuda())
    trainer.validate(loader)
    trainer.callback_metrics["val/predictions"] = tensor(35)
    feed = Feed()
    feed.start()
    feed.join()
    failing()
    freed("trainer.module.validation_step_outputs[0…2]", trainer.module.validation_step_outputs.clear)
    freed("trainer.callback_metrics['val/predictions']", lambda: trainer.callback_metrics.pop("val/predictions"))
    freed("feed.ahead.queue[…]", feed.ahead.queue.clear)
    # The last batch is a metric, too.
    freed("loader.dataset.cache[0…1]", loader.dataset.cache.clear)


def in_backward():
    class Large(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.kept = [tensor(40)]
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            inside = tensor(50)
            fail()
            return inside

    outer = tensor(30)
    value = floats(1).requires_grad_()
    result = Large.apply(value).sum()
    try:
        result.backward()
    except torch.cuda.OutOfMemoryError:
        print("raised in backward", flush=True)
    del outer
    leave()


def in_backward_without_code():
    """No Python code runs in the thread of backward that fails."""
    outer = [tensor(30), tensor(30)]
    # What was expanded takes no memory, but the gradient of a part of it does.
    value = torch.zeros(1, device="cuda", requires_grad=True)
    try:
        value.expand(1 << 38)[:1].sum().backward()
    except torch.cuda.OutOfMemoryError:
        print("raised in backward", flush=True)
    del outer
    leave()


def in_thread():
    """The main thread has come to its end, and waits for this one."""
    global history
    history = [tensor(30) for _ in range(3)]

    def work():
        own = tensor(20)
        threading.main_thread().join()
        failing()
        del own
        print("thread ends", flush=True)

    threading.Thread(target=work).start()


def in_child():
    """A child of a process that has failed, and one of a process that has not used the card."""
    global history
    first = os.fork()
    if first == 0:
        history = [tensor(30)]
        failing()
        leave()
    os.waitpid(first, 0)
    history = [tensor(40)]
    failing()
    second = os.fork()
    if second == 0:
        try:
            failing()
        except RuntimeError as error:
            print("child:", str(error).splitlines()[0], flush=True)
        leave()
    os.waitpid(second, 0)
    failing()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
