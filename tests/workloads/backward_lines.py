"""Backward passes of every kind: `backward_lines.py CASE…`, each within a range of its name. Each function that
makes nodes or allocates has a unique name, by which test_e2e_backward.py identifies the line to which an allocation
is charged."""

import os
import sys
import threading

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

# Other releases have an empty cuDNN beside them (tests/lib/other_torch.py).
torch.backends.cudnn.enabled = torch.__version__.startswith(("1.12.", "2.15."))

SIDE = 128  # a square of floats: 64 KiB


def square(requires_grad=False, device="cuda"):
    return torch.zeros(SIDE, SIDE, device=device, requires_grad=requires_grad)


def product(a, b):
    return a @ b


def rectified(x):
    return F.relu(x)


def convolved(x, w):
    return F.conv2d(x, w, padding=1)


def total(x):
    return x.sum()


def run_backward(loss, **options):
    loss.backward(**options)


def linear():
    run_backward(total(rectified(product(square(True), square(True)))))


def convolution():
    images = torch.zeros(4, 8, 32, 32, device="cuda", requires_grad=True)
    run_backward(total(convolved(images, torch.zeros(8, 8, 3, 3, device="cuda", requires_grad=True))))


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return doubled_forward(x)

    @staticmethod
    def backward(context, gradient):
        return doubled_backward(gradient)


def doubled_forward(x):
    return x * 2


def doubled_backward(gradient):
    return gradient * 2


def custom():
    run_backward(total(product(Doubling.apply(square(True)), square())))


def recomputed(x):
    return rectified(product(x, x))


def reentrant():
    x = square(True)
    run_backward(total(checkpoint(recomputed, x, use_reentrant=True)))


def not_reentrant():
    x = square(True)
    run_backward(total(checkpoint(recomputed, x, use_reentrant=False)))


def nested_checkpoints():
    def inner(x):
        return checkpoint(recomputed, x, use_reentrant=False)

    run_backward(total(checkpoint(inner, square(True), use_reentrant=False)))


def retained():
    loss = total(product(square(True), square()))
    run_backward(loss, retain_graph=True)
    run_backward(loss)


def cubed(x):
    return x * x * x


def first_gradient(y, x):
    return torch.autograd.grad(y, x, create_graph=True)[0]


def double_backward():
    x = square(True)
    run_backward(total(first_gradient(total(cubed(x)), x)))


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        raise ValueError("planted")


def exception():
    for _ in range(3):
        try:
            run_backward(total(product(Failing.apply(product(square(True), square())), square())))
        except ValueError:
            pass
    after_exception()
    run_backward(total(product(square(True), square())))


def after_exception():
    return square()


def hooked_gradient(gradient):
    return gradient + 1


def tensor_hooks():
    x = square(True)
    y = product(x, square())
    y.register_hook(hooked_gradient)
    run_backward(total(product(y, square())))


def training_thread(products):
    for _ in range(20):
        x = square(True)
        for make in products:
            x = make(x)
        run_backward(total(x))


def product_0(x):
    return x @ x


def product_1(x):
    return x @ x


def product_2(x):
    return x @ x


def product_3(x):
    return x @ x


def four_threads():
    products = (product_0, product_1, product_2, product_3)
    threads = [threading.Thread(target=training_thread, args=((make,),)) for make in products]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def dead_threads():
    made = []
    for make in (product_0, product_1, product_2, product_3):
        thread = threading.Thread(target=lambda: made.append(make(square(True))))
        thread.start()
        thread.join()
    run_backward(sum(total(x) for x in made))


def packed(x):
    return x.cpu()


def unpacked(x):
    return x.cuda()


def saved_tensors_hooks():
    with torch.autograd.graph.saved_tensors_hooks(packed, unpacked):
        y = product(square(True), square())
    run_backward(total(y))


def parameter():
    return square(True)


def parameters():
    """The gradient of a sum is one element seen from everywhere: AccumulateGrad copies it."""
    run_backward(total(parameter()))


def optimizer_step(optimizer, closure=None):
    optimizer.step(closure) if closure else optimizer.step()


def lbfgs():
    w = parameter()
    x = square()
    optimizer = torch.optim.LBFGS([w], max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = total(product(x, w))
        run_backward(loss)
        return loss

    for _ in range(2):
        optimizer_step(optimizer, closure)


def mixed_precision():
    w = parameter()
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = total(product(square(), w))
        run_backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()


def cpu_graph():
    x = square(True, "cpu")
    run_backward(total(product(x.cuda(), square())))


def two_gpus():
    x = square(True, "cuda:0")
    y = product(x, square(device="cuda:0")).to("cuda:1")
    run_backward(total(product(y, square(device="cuda:1"))))


def scripted():
    @torch.jit.script
    def gelu(x):
        return x * torch.sigmoid(x)

    for _ in range(3):
        run_backward(total(gelu(square(True))))


def vmapped():
    from torch.func import grad, vmap

    vmap(grad(lambda x: total(product(x, x))))(torch.zeros(4, SIDE, SIDE, device="cuda"))


def deep_graph():
    """More nodes than a new ring has places, alive at once."""
    x = square(True)
    y = product(x, square())
    for _ in range(30_000):
        y = y.view(SIDE, SIDE)
    run_backward(total(y))


def lost():
    """A node that outlives more others than the largest ring has places."""
    y = product(square(True), square())
    x = square(True, "cpu")
    for _ in range((1 << 20) + 10):
        x.view(-1)
    run_backward(total(y))


def short_threads():
    """Many more threads make nodes, one after the other, than there is room for: the first one's is lost."""
    made = []

    def short(make, *operands):
        thread = threading.Thread(target=lambda: made.append(make(*operands)))
        thread.start()
        thread.join()

    short(product_0, square(True))
    x = square(True, "cpu")
    for _ in range(5000):
        short(x.view, -1)
        made.pop()
    short(product_1, square(True))
    for y in made:
        run_backward(total(y))


def forked():
    """A child makes nodes in the middle of its parent's recording, and records nothing. PyTorch's engine does
    not run in a child of a process that has used CUDA."""
    child = os.fork()
    if child == 0:
        total(product(square(True, "cpu"), square(device="cpu")))
        os._exit(7)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
    run_backward(total(product(square(True), square())))


def compiled():
    """Without generated code: the simulated card cannot run any."""
    run_backward(total(torch.compile(product, backend="aot_eager")(square(True), square())))


def main():
    square()  # the recording begins
    for case in sys.argv[1:]:
        with torch.cuda.nvtx.range(case):
            globals()[case]()
            torch.cuda.synchronize()
    os.write(1, b"done\n")
    os._exit(0)


if __name__ == "__main__":
    main()
