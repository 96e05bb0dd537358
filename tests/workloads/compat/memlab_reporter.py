"""pytorch_memlab's MemReporter: the documented tables, line by line, and names that last."""

import gc
import weakref

import torch
from checking import MB, equal, said
import winds_up  # noqa: F401

import gpumem.compat

gpumem.compat.install()

from pytorch_memlab import Courtesy, MemReporter  # noqa: E402

torch.ones(1).cuda()
HEAD = "Element type                                            Size  Used MEM"
RULE = "-" * 79
DIFFERS = "Memory differs due to the matrix alignment or invisible gradient buffer tensors"


def device():
    return torch.cuda.current_device()


def row(name, size, used):
    return f"{name:<40}{str(size):>20}{used:>10}"


def reported(reporter, **options):
    """The rows of the current card, and the two lines of sums."""
    text = said(reporter.report, **options).split("\n")
    equal((text[0], text[-1]), (HEAD, ""))
    place = text.index(f"Storage on cuda:{device()}")
    lines = text[place:]
    end = lines.index(RULE)
    after = lines[end + 1:lines.index(RULE, end + 1)]
    equal(text[place - 1], RULE)
    return lines[1:end], after


def sums(numbers, used, allocated):
    lines = [f"Total Tensors: {numbers} \tUsed Memory: {used}", f"The allocated memory on cuda:{device()}: {allocated}"]
    return lines if used == allocated else [*lines, DIFFERS]


def check_documented_parameters_without_a_model():
    linear = torch.nn.Linear(1024, 1024).cuda()
    rows, after = reported(MemReporter())
    equal(rows, [row("Parameter0", (1024, 1024), "4.00M"), row("Parameter1", (1024,), "4.00K")])
    equal(after, sums(1049600, "4.00M", "4.00M"))
    del linear


def check_documented_model():
    linear = torch.nn.Linear(1024, 1024).cuda()
    inp = torch.empty(512, 1024).cuda()
    reporter = MemReporter(linear)
    out = linear(inp).mean()
    tensors = [row("Tensor0", (512, 1024), "2.00M"), row("Tensor1", (1,), "512.00B")]
    weight, bias = ("weight", (1024, 1024), "4.00M"), ("bias", (1024,), "4.00K")
    rows, after = reported(reporter)
    equal(rows, [row(*weight), row(*bias), *tensors])
    # What autograd holds and no name shows is only in the allocated memory.
    allocated = torch.cuda.memory_allocated()
    equal(after, sums(1573889, "6.00M", f"{allocated / MB:.2f}M"))
    out.backward()
    rows, after = reported(reporter)
    equal(rows, [row(*weight), row("weight.grad", *weight[1:]), row(*bias), row("bias.grad", *bias[1:]), *tensors])
    equal(after[0], "Total Tensors: 2623489 \tUsed Memory: 10.01M")
    equal(after[1], f"The allocated memory on cuda:{device()}: {torch.cuda.memory_allocated() / MB:.2f}M")
    del linear, inp, out


def check_all_gradients_without_a_model():
    linear = torch.nn.Linear(1024, 1024).cuda()
    leaf = torch.ones(512, 1024, device="cuda", requires_grad=True)
    reporter = MemReporter()
    linear(leaf).mean().backward()
    rows, after = reported(reporter)
    equal(rows, [
        row("Parameter0", (1024, 1024), "4.00M"), row("Parameter0.grad", (1024, 1024), "4.00M"),
        row("Parameter1", (1024,), "4.00K"), row("Parameter1.grad", (1024,), "4.00K"),
        row("Tensor2", (512, 1024), "2.00M"), row("Tensor2.grad", (512, 1024), "2.00M"),
    ])
    equal(after[0], "Total Tensors: 3147776 \tUsed Memory: 12.01M")
    # Once Python has seen gradients, the garbage collector lists them as tensors: each is listed once.
    gradients = [linear.weight.grad, linear.bias.grad, leaf.grad]
    equal(reported(reporter)[0], rows)
    del gradients


def check_documented_shared_weights():
    one, two = (torch.nn.Linear(1024, 1024).cuda() for _ in range(2))
    two.weight = one.weight
    container = torch.nn.Sequential(one, two)
    gc.collect()
    container(torch.ones(512, 1024, device="cuda")).mean().backward()
    rows, after = reported(MemReporter(container), verbose=True)
    equal(rows, [
        row("0.weight", (1024, 1024), "4.00M"), row("0.weight.grad", (1024, 1024), "4.00M"),
        row("0.bias", (1024,), "4.00K"), row("0.bias.grad", (1024,), "4.00K"),
        row("1.bias", (1024,), "4.00K"), row("1.bias.grad", (1024,), "4.00K"),
    ])
    equal(after[0], "Total Tensors: 2101248 \tUsed Memory: 8.02M")
    del one, two, container


def check_whose_memory_is_shared():
    """Rows of the same memory count 0 bytes, but all their numbers; only `verbose` shows the owner."""
    whole = torch.empty(1024, 1024, device="cuda")
    part, scalar, none = whole[:2], torch.tensor(1.0, device="cuda"), torch.empty(0, device="cuda")
    small = torch.ones(10, dtype=torch.float16, device="cuda")
    reporter = MemReporter()
    rows, after = reported(reporter, verbose=True)
    equal(rows, [
        row("Tensor0", (1024, 1024), "4.00M"), row("Tensor1(->Tensor0)", (2, 1024), "0.00B"),
        row("Tensor2", (1,), "512.00B"), row("Tensor3", (10,), "512.00B"),
    ])
    equal(after, sums(1024 * 1026 + 11, "4.00M", "4.00M"))
    equal(reported(reporter)[0], [rows[0], row("Tensor1", (2, 1024), "0.00B"), *rows[2:]])
    card = torch.device("cuda", device())
    equal(list(map(tuple, reporter.device_tensor_stat[card])), [
        ("Tensor0", (1024, 1024), 2**20, 4 * MB), ("Tensor1(->Tensor0)", (2, 1024), 2048, 0),
        ("Tensor2", (1,), 1, 512), ("Tensor3", (10,), 10, 512),
    ])
    equal(reporter.device_mapping, {})
    reporter.collect_tensor()
    assert any(tensor is whole for tensor in reporter.device_mapping[card])
    reporter.get_stats()
    del whole, part, scalar, none, small


def check_sparse_tensors():
    embedding = torch.nn.Embedding(1024, 1024, sparse=True).cuda()
    embedding(torch.arange(0, 128, device="cuda")).sum().backward()
    reporter = MemReporter(embedding)
    rows, after = reported(reporter)
    equal(rows, [
        row("weight", (1024, 1024), "4.00M"),
        row("weight.grad.indices", (1, 128), "1.00K"), row("weight.grad.values", (128, 1024), "512.00K"),
    ])
    assert after[0].endswith("Used Memory: 4.50M"), after
    double = embedding.weight.grad * 2
    equal(reported(reporter)[0], [
        *rows, row("Tensor0.indices", (1, 128), "1.00K"), row("Tensor0.values", (128, 1024), "512.00K")])
    del embedding, double


def check_numbers_last():
    """A tensor keeps its number while it is there, and another that has its address later gets a new one."""
    reporter = MemReporter()
    first, second = (torch.ones(size, device="cuda") for size in (1, 2))
    equal(reported(reporter)[0], [row("Tensor0", (1,), "512.00B"), row("Tensor1", (2,), "512.00B")])
    del first
    third = torch.ones(3, device="cuda")
    equal(reported(reporter)[0], [row("Tensor1", (2,), "512.00B"), row("Tensor2", (3,), "512.00B")])
    gone = weakref.ref(third)
    del third
    equal(gone(), None)
    del second


class Adam:
    """As much of PyTorch's as counts here: making that one takes a second on PyTorch 2."""

    def __init__(self, parameters):
        self.state = {
            parameter: {"step": 1, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}
            for parameter in parameters
        }


def check_optimizers_and_buffers():
    model = torch.nn.BatchNorm1d(1024).cuda()
    model(torch.ones(4, 1024, device="cuda")).sum().backward()
    optimizer = Adam(model.parameters())
    reporter = MemReporter(model)
    reporter.add_optimizer(optimizer)
    names = [line.split()[0] for line in reported(reporter)[0]]
    equal(names, [
        "weight", "weight.grad", "bias", "bias.grad", "running_mean", "running_var", "num_batches_tracked",
        "Adam.weight.exp_avg", "Adam.weight.exp_avg_sq", "Adam.bias.exp_avg", "Adam.bias.exp_avg_sq",
    ])
    unnamed = MemReporter()
    unnamed.add_optimizer(optimizer)
    assert "Adam.Parameter0.exp_avg" in said(unnamed.report)
    del model, optimizer


def check_garbage_is_collected_first_if_asked_for():
    def left():
        cycle = [torch.ones(1024, 1024, device="cuda")]
        cycle.append(cycle)
        return weakref.ref(cycle[0])

    gc.disable()
    try:
        for collect in (False, True):
            gone = left()
            assert f"Storage on cuda:{device()}\n" in said(MemReporter(pre_collect=False).report)
            said(MemReporter(pre_collect=collect).report)
            equal(gone() is None, collect)
    finally:
        gc.enable()
        gc.collect()


def check_tensors_that_cannot_be_inspected():
    class Odd(torch.Tensor):
        """Every question is an error, as with some tensors of compilers."""

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise RuntimeError("not a tensor at all")

    plain = torch.ones(6, device="cuda")
    odd = plain.as_subclass(Odd)
    equal(reported(MemReporter())[0], [row("Tensor0", (6,), "512.00B")])
    with Courtesy():
        equal(plain.device.type, "cpu")
    equal(plain.device.type, "cuda")
    del odd, plain


def check_one_device():
    x, y = torch.ones(2, device="cuda"), torch.ones(3)
    reporter = MemReporter()
    both = said(reporter.report)
    assert "Storage on cpu\n" in both and "Storage on cuda" in both, both
    for chosen in (torch.device("cuda", device()), f"cuda:{device()}"):
        out = said(reporter.report, device=chosen)
        equal(out.count("Storage on"), 1)
        equal(out, said(reporter.print_stats, target_device=chosen))
    cpu = said(reporter.report, device=torch.device("cpu"))
    assert row("Tensor1", (3,), "512.00B") in cpu and "allocated" not in cpu, cpu
    reporter.get_stats()  # by itself it looks, too
    equal(said(reporter.print_stats, target_device="cpu"), cpu)
    try:
        MemReporter(1)
    except AssertionError:
        pass
    else:
        raise AssertionError("1 is no model")
    del x, y
