"""A transformer and a conv net trained in every way that PyTorch has: `charged_models.py CASE…`, each within a range
named after it and the model, `transformer CASE` and `convolutions CASE`. Lines of this file make all allocations;
test_e2e_charged.py defines the share that must be charged to them."""

import os
import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

# Other releases have an empty cuDNN beside them (tests/lib/other_torch.py).
torch.backends.cudnn.enabled = torch.__version__.startswith(("1.12.", "2.15."))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).contiguous()
        weights = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Convolution(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(x)))


class Model(nn.Module):
    """Layers one after the other, each called through `call`."""

    def __init__(self, first, layers, last, call=lambda layer, x: layer(x)):
        super().__init__()
        self.first, self.layers, self.last, self.call = first, nn.ModuleList(layers), last, call

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = self.call(layer, x)
        return self.last(x.flatten(2).mean(dim=2))


def transformer(**options):
    layers = [layer for _ in range(2) for layer in (Attention(128, 4), FeedForward(128))]
    return Model(nn.Linear(64, 128), layers, nn.Linear(64, 10), **options)


def convolutions(**options):
    layers = [Convolution(32) for _ in range(3)]
    return Model(nn.Conv2d(4, 32, 3, padding=1), layers, nn.Linear(32, 10), **options)


SHAPES = {transformer: (8, 64, 64), convolutions: (8, 4, 32, 32)}


def samples(make, device="cuda"):
    return torch.randn(*SHAPES[make], device=device)


def loss_of(model, x):
    return model(x).float().pow(2).mean()


def train(make, model, optimizer=None, x=None, steps=2, **backward):
    optimizer = optimizer or torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, samples(make) if x is None else x).backward(**backward)
        optimizer.step()


# The cases


def adam(make):
    train(make, make().cuda())


def sgd(make):
    model = make().cuda()
    train(make, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def lbfgs(make):
    model, x = make().cuda(), samples(make)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        return loss

    optimizer.step(closure)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * 2 + x * 0


def custom_function(make):
    train(make, make(call=lambda layer, x: Scaled.apply(layer(x))).cuda())


def reentrant_checkpoint(make):
    train(make, make(call=lambda layer, x: checkpoint(layer, x, use_reentrant=True)).cuda())


def checkpoint_without_reentry(make):
    train(make, make(call=lambda layer, x: checkpoint(layer, x, use_reentrant=False)).cuda())


def retain_graph(make):
    model, x = make().cuda(), samples(make)
    loss = loss_of(model, x)
    loss.backward(retain_graph=True)
    loss.backward()


def double_backward(make):
    model, x = make().cuda(), samples(make).requires_grad_()
    [gradient] = torch.autograd.grad(loss_of(model, x), x, create_graph=True)
    gradient.pow(2).sum().backward()


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        raise ValueError("planted")


def exception(make):
    failing = make(call=lambda layer, x: Failing.apply(layer(x))).cuda()
    try:
        train(make, failing)
    except ValueError:
        train(make, make().cuda())


def mixed_precision(make):
    model = make().cuda()
    optimizer, scaler = torch.optim.Adam(model.parameters()), torch.cuda.amp.GradScaler()
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_of(model, samples(make))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def cpu_graph_into_cuda(make):
    x = samples(make, "cpu").requires_grad_()
    train(make, make().cuda(), x=x.cuda(), retain_graph=True)


def two_gpus(make):
    def call(layer, x):
        return layer(x.to(next(layer.parameters()).device))

    model = make(call=call).cuda()
    for layer in [*model.layers[1:], model.last]:
        layer.to("cuda:1")
    train(make, model)


def in_threads(count, body):
    threads = [threading.Thread(target=body) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def four_threads(make):
    in_threads(4, lambda: train(make, make().cuda()))


def dead_forward_threads(make):
    model, losses = make().cuda(), []
    in_threads(2, lambda: losses.append(loss_of(model, samples(make))))
    sum(losses).backward()


def saved_tensors_hooks(make):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.cpu(), lambda x: x.cuda()):
        train(make, make().cuda())


def scripted(make):
    @torch.jit.script
    def gated(x):
        return x * torch.sigmoid(x)

    train(make, make(call=lambda layer, x: gated(layer(x))).cuda(), steps=3)


def vmapped_gradients(make):
    from torch.func import functional_call, grad, vmap

    model = make().cuda().eval()
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        return functional_call(model, parameters, (x[None],)).pow(2).mean()

    vmap(grad(loss), in_dims=(None, 0))(parameters, samples(make))


def compiled(make):
    """Without generated code: the simulated card cannot run any."""
    model = make().cuda()
    train(make, torch.compile(model, backend="aot_eager"), torch.optim.Adam(model.parameters()))


def compiled_autograd(make):
    model = make().cuda()
    torch._dynamo.reset()
    with torch._dynamo.config.patch(compiled_autograd=True):
        loss = torch.compile(loss_of, backend="aot_eager")
        for _ in range(2):
            loss(model, samples(make)).backward()
    torch._dynamo.reset()


def one_process(backend="gloo"):
    """A process group of this process alone."""
    import torch.distributed as distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    else:
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)


def data_parallel(make):
    one_process()
    model = nn.parallel.DistributedDataParallel(make().cuda())
    train(make, model)


def fully_sharded(make):
    from torch.distributed.fsdp import FullyShardedDataParallel

    one_process("fake")
    model = FullyShardedDataParallel(make().cuda(), device_id=0)
    train(make, model)


def fully_sharded_2(make):
    from torch.distributed.fsdp import fully_shard

    one_process("fake")
    model = make().cuda()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    train(make, model)


def main():
    torch.zeros(1, device="cuda")  # the recording begins
    for case in sys.argv[1:]:
        for make in (transformer, convolutions):
            torch.manual_seed(0)
            with torch.cuda.nvtx.range(f"{make.__name__} {case}"):
                globals()[case](make)
                torch.cuda.synchronize()
    os.write(1, b"done\n")
    os._exit(0)


if __name__ == "__main__":
    main()
