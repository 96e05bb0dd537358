"""sim_cudnn.py CHECK…: real PyTorch with cuDNN on the simulated libcudnn.so.9. Each check prints that it holds."""

import ctypes
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import winds_up  # noqa: F401

CUDA = {"device": "cuda"}
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def backward(output, *leaves):
    """Runs backward from the sum, and checks that every leaf has a gradient of its shape."""
    output.float().sum().backward()
    for leaf in leaves:
        assert leaf.grad is not None and leaf.grad.shape == leaf.shape


def goes_to_cudnn(x, conv):
    """Whether PyTorch gives the convolution to cuDNN."""
    chosen = torch._C._select_conv_backend(
        x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, conv.transposed,
        conv.output_padding, conv.groups,
    )
    return chosen in (torch._C._ConvBackend.Cudnn, torch._C._ConvBackend.CudnnTranspose)


def convolutions():
    assert torch.backends.cudnn.is_available() and torch.backends.cudnn.version() == 92600
    shapes = {nn.Conv1d: (16,), nn.Conv2d: (16, 12), nn.Conv3d: (6, 7, 8)}
    transposed = {nn.ConvTranspose1d: (16,), nn.ConvTranspose2d: (16, 12), nn.ConvTranspose3d: (6, 7, 8)}
    for kind, space in {**shapes, **transposed}.items():
        for dtype in TYPES:
            for groups in (1, 2):
                conv = kind(8, 16, 3, padding=1, groups=groups, **CUDA, dtype=dtype)
                x = torch.randn(2, 8, *space, **CUDA, dtype=dtype, requires_grad=True)
                assert goes_to_cudnn(x, conv), (kind, dtype)
                backward(conv(x), x, conv.weight, conv.bias)
    strided = nn.Conv2d(8, 8, 3, stride=2, dilation=2, **CUDA)
    x = torch.randn(2, 8, 32, 32, **CUDA, requires_grad=True)
    backward(strided(x), x, strided.weight)


def channels_last():
    for dtype in (torch.float16, torch.float32):
        conv = nn.Conv2d(8, 16, 3, padding=1, **CUDA, dtype=dtype).to(memory_format=torch.channels_last)
        x = torch.randn(2, 8, 16, 16, **CUDA, dtype=dtype).to(memory_format=torch.channels_last)
        x.requires_grad_()
        output = conv(x)
        assert output.is_contiguous(memory_format=torch.channels_last)
        backward(output, x, conv.weight)


def benchmark():
    torch.backends.cudnn.benchmark = True
    convolutions()
    channels_last()
    torch.backends.cudnn.benchmark = False


def deterministic():
    torch.backends.cudnn.deterministic = True
    convolutions()
    torch.backends.cudnn.deterministic = False
    torch.use_deterministic_algorithms(True)
    channels_last()
    torch.use_deterministic_algorithms(False)


def fusions():
    w, bias = torch.randn(16, 8, 3, 3, **CUDA), torch.randn(16, **CUDA)
    x = torch.randn(2, 8, 16, 16, **CUDA)
    ones = [1, 1]
    output = torch.cudnn_convolution_relu(x, w, bias, ones, ones, ones, 1)
    added = torch.cudnn_convolution_add_relu(x, w, output, 1.0, bias, ones, ones, ones, 1)
    assert output.shape == added.shape == (2, 16, 16, 16)


def batch_norm():
    for kind, space in ((nn.BatchNorm1d, (16,)), (nn.BatchNorm2d, (16, 16)), (nn.BatchNorm3d, (4, 5, 6))):
        norm = kind(8, **CUDA)
        for dtype in (torch.float16, torch.float32):
            x = torch.randn(2, 8, *space, **CUDA, dtype=dtype, requires_grad=True)
            backward(norm.train()(x), x, norm.weight, norm.bias)
            assert norm.eval()(x).shape == x.shape
    x = torch.randn(2, 8, 16, 16, **CUDA).to(memory_format=torch.channels_last).requires_grad_()
    norm = nn.BatchNorm2d(8, **CUDA)
    backward(norm(x), x, norm.weight)
    x = torch.randn(2, 8, 16, 16, **CUDA)
    scales = [torch.randn(8, **CUDA) for _ in range(4)]
    direct = torch.cudnn_batch_norm(x, *scales, True, 0.1, 1e-5)
    assert direct[0].shape == x.shape and direct[3].numel() == 0, "no reserve"
    gradients = torch.ops.aten.cudnn_batch_norm_backward(
        x, direct[0], *scales[:1], *scales[2:], *direct[1:3], 1e-5, direct[3]
    )
    assert [gradient.shape for gradient in gradients] == [x.shape, (8,), (8,)]


def recurrent():
    from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for options in (
            {}, {"bidirectional": True}, {"num_layers": 3, "dropout": 0.5}, {"bias": False},
            {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"nonlinearity": "relu"},
        ):
            if "nonlinearity" in options and kind is not nn.RNN:
                continue
            for dtype in (torch.float16, torch.float32):
                net = kind(8, 16, **options, **CUDA, dtype=dtype)
                net.flatten_parameters()
                weights = list(net.parameters())
                assert len({p.untyped_storage().data_ptr() for p in weights}) == 1, "one buffer"
                x = torch.randn(5, 3, 8, **CUDA, dtype=dtype, requires_grad=True)
                output, _ = net(x)
                assert output.shape == (5, 3, 16 * (1 + net.bidirectional))
                backward(output, x, *weights)
                with torch.no_grad():
                    net.eval()(x)
    projected = nn.LSTM(8, 16, proj_size=4, num_layers=2, bidirectional=True, **CUDA)
    x = torch.randn(5, 3, 8, **CUDA, requires_grad=True)
    output, (hidden, cell) = projected(x)
    assert (output.shape, hidden.shape, cell.shape) == ((5, 3, 8), (4, 3, 4), (4, 3, 16))
    backward(output, x, *projected.parameters())
    packed = pack_padded_sequence(torch.randn(5, 3, 8, **CUDA), [5, 3, 1])
    net = nn.LSTM(8, 16, **CUDA)
    output, _ = net(packed)
    assert isinstance(output, PackedSequence) and pad_packed_sequence(output)[0].shape == (5, 3, 16)
    backward(output.data, *net.parameters())
    # Weights are at the places of cuDNN's layout: a copy through the buffer returns unchanged.
    state = {name: torch.randn_like(value) for name, value in net.state_dict().items()}
    net.load_state_dict(state)
    assert all(torch.equal(value.cpu(), state[name].cpu()) for name, value in net.state_dict().items())


def attention():
    for dtype in (torch.float16, torch.bfloat16):
        for width in (64, 128):
            def tensors(heads):
                return torch.randn(2, heads, 64, width, **CUDA, dtype=dtype, requires_grad=True)

            mask = torch.zeros(64, 64, **CUDA, dtype=dtype)
            for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"enable_gqa": True}):
                few = 2 if "enable_gqa" in options else 8
                q, k, v = tensors(8), tensors(few), tensors(few)
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    backward(F.scaled_dot_product_attention(q, k, v, **options), q, k, v)


def ctc():
    log_probs = torch.randn(50, 16, 20, **CUDA).log_softmax(2).requires_grad_()
    targets = torch.randint(1, 20, (160,), dtype=torch.int32, device="cuda")
    inputs, lengths = (torch.full((16,), n, dtype=torch.int32, device="cuda") for n in (50, 10))
    assert torch._use_cudnn_ctc_loss(log_probs, targets, inputs, lengths, 0)
    backward(F.ctc_loss(log_probs, targets, inputs, lengths), log_probs)


def sampler():
    x = torch.randn(2, 8, 16, 16, **CUDA, requires_grad=True)
    grid = torch.rand(2, 5, 5, 2, **CUDA, requires_grad=True)
    backward(F.grid_sample(x, grid, align_corners=True), x, grid)
    theta = torch.randn(2, 2, 3, **CUDA, requires_grad=True)
    backward(F.affine_grid(theta, [2, 3, 8, 8], align_corners=True), theta)


class Block(nn.Module):
    """The basic block of a residual network."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Residual(nn.Sequential):
    """A residual network of 18 layers, as torchvision's."""

    def __init__(self, classes=10):
        blocks, channels = [], 64
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(channels, width, stride), Block(width, width, 1)]
            channels = width
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes),
        )


def residual():
    for form in (torch.contiguous_format, torch.channels_last):
        net = Residual().cuda().to(memory_format=form)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cuda")
        images = torch.randn(4, 3, 64, 64, **CUDA).to(memory_format=form)
        target = torch.zeros(4, dtype=torch.long, device="cuda")
        for amp in (False, True, True):
            optimizer.zero_grad()
            with torch.autocast("cuda", enabled=amp):
                loss = F.cross_entropy(net(images), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert all(p.grad is not None for p in net.parameters())
        with torch.no_grad():
            assert net.eval()(images).shape == (4, 10)


def node_count(graph):
    """How many nodes a captured graph has."""
    count = ctypes.c_size_t()
    get_nodes = ctypes.CDLL("libcudart.so.13").cudaGraphGetNodes
    assert get_nodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count)) == 0
    return count.value


def captures():
    """Each execution is a kernel in the graph, also the first one of the process."""
    x, w = torch.randn(2, 8, 16, 16, **CUDA), torch.randn(8, 8, 3, 3, **CUDA)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        F.conv2d(x, w)
    one = node_count(graph)
    graph.replay()
    twice = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(twice):
        F.conv2d(F.conv2d(x, w), w)
    assert one >= 1 and node_count(twice) == 2 * one


def captured_step():
    """A training step of the residual network as a graph, replayed."""
    net = Residual().cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    images = torch.randn(2, 3, 64, 64, **CUDA)

    def step():
        optimizer.zero_grad(set_to_none=True)
        net(images).sum().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    held = torch.cuda.memory_allocated()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == held
    sample = torch.randn(2, 3, 64, 64, **CUDA, requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(Residual().cuda(), (sample,))
    backward(graphed(sample), sample)


if __name__ == "__main__":
    torch.cuda.init()
    for check in sys.argv[1:]:
        globals()[check]()
        print(check, "holds", flush=True)
