"""sim_cudnn_sizes.py CASES: the sizes that cuDNN requests, in bytes, as one line of JSON for each case, in a fork of
this process. CASES is a JSON list; a case is `[arguments, environment]`, the first argument convolutions, recurrent or
training. Runs on PyTorch 1.12 (NVIDIA's cuDNN 7) and on PyTorch 2.15 (the simulated one)."""

import json
import os
import sys

import torch
import torch.nn.functional as F

# Input, filter, stride, padding, whether channels are last, data type.
CONVOLUTIONS = {
    "nchw": ((4, 8, 32, 32), (16, 8, 3, 3), 1, 1, False, "float32"),
    "nchw half": ((4, 8, 32, 32), (16, 8, 3, 3), 2, 1, False, "float16"),
    "nhwc": ((4, 8, 32, 32), (16, 8, 3, 3), 1, 1, True, "float32"),
    "nhwc half": ((4, 8, 32, 32), (16, 8, 1, 1), 1, 0, True, "float16"),
    "one dimension": ((4, 8, 64), (16, 8, 3), 1, 1, False, "float32"),
    "three dimensions": ((2, 4, 8, 8, 8), (8, 4, 3, 3, 3), 1, 1, False, "float32"),
}

# Kind, hidden size of the projection, layers, directions, dropout, data type, lengths of the sequences.
EQUAL, UNEQUAL = [10] * 8, [10, 9, 8, 7, 6, 5, 4, 3]
RECURRENT = [
    ("LSTM", 0, 1, 1, 0.0, "float32", EQUAL), ("LSTM", 0, 2, 1, 0.0, "float32", EQUAL),
    ("LSTM", 0, 1, 2, 0.0, "float32", EQUAL), ("LSTM", 0, 2, 1, 0.0, "float16", EQUAL),
    ("LSTM", 32, 1, 1, 0.0, "float32", EQUAL), ("LSTM", 32, 2, 1, 0.0, "float32", EQUAL),
    ("LSTM", 0, 3, 1, 0.5, "float32", EQUAL), ("LSTM", 0, 2, 1, 0.0, "float32", UNEQUAL),
    ("GRU", 0, 1, 1, 0.0, "float32", EQUAL), ("GRU", 0, 2, 1, 0.0, "float32", EQUAL),
    ("GRU", 0, 1, 2, 0.0, "float32", EQUAL), ("GRU", 0, 2, 1, 0.0, "float32", UNEQUAL),
    ("RNN", 0, 1, 1, 0.0, "float32", EQUAL), ("RNN", 0, 2, 1, 0.0, "float32", EQUAL),
]


def extra(call):
    """The bytes that a call requested beyond those that stay, the bytes that stay, and the result."""
    statistic = "requested_bytes" if "requested_bytes.all.peak" in torch.cuda.memory_stats() else "allocated_bytes"
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()[f"{statistic}.all.current"]
    result = call()
    after = torch.cuda.memory_stats()
    current = after[f"{statistic}.all.current"]
    return after[f"{statistic}.all.peak"] - current, current - before, result


def convolution(x, w, stride, padding, last, dtype):
    """The workspaces of the three passes, after the bytes of input, filter and output."""
    options = {"device": "cuda", "dtype": getattr(torch, dtype)}
    x, w = torch.zeros(x, **options), torch.zeros(w, **options)
    if last:
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    forward = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    space = [1] * (x.dim() - 2)
    strides, paddings = [stride] * len(space), [padding] * len(space)

    def gradient(wanted):
        return torch.ops.aten.convolution_backward(
            y, x, w, None, strides, paddings, space, False, [0] * len(space), 1, wanted
        )

    with torch.no_grad():
        y = forward(x, w, None, stride, padding)
        calls = [
            lambda: forward(x, w, None, stride, padding),
            lambda: gradient([True, False, False]),
            lambda: gradient([False, True, False]),
        ]
        passes = [extra(call)[0] for call in calls]
    return [t.numel() * t.element_size() for t in (x, w, y)] + passes


def recurrent(kind, projection, layers, directions, dropout, dtype, lengths):
    """Reserve and workspace of a forward in training."""
    options = {"device": "cuda", "dtype": getattr(torch, dtype)}
    more = {"proj_size": projection} if projection else {}
    net = getattr(torch.nn, kind)(64, 128, layers, bidirectional=directions == 2, dropout=dropout, **more)
    net = net.to(**options)
    x = torch.zeros(max(lengths), len(lengths), 64, **options)
    if len(set(lengths)) > 1:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
    width = layers * directions, len(lengths)
    state = torch.zeros(*width, projection or 128, **options)
    if kind == "LSTM":
        state = (state, torch.zeros(*width, 128, **options))
    net(x, state)  # the dropout's states are made once
    scratch, kept, (output, last) = extra(lambda: net(x, state))
    output = output.data if isinstance(output, torch.nn.utils.rnn.PackedSequence) else output
    given = [output, *(last if kind == "LSTM" else [last])]
    return [kept - sum(-(-t.numel() * t.element_size() // 512) * 512 for t in given), scratch]


def training():
    """The peak of a training step with convolutions."""
    torch.backends.cudnn.benchmark = "--benchmark" in sys.argv
    net = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))).cuda()
    x = torch.zeros(4, 8, 64, 64, device="cuda")
    return extra(lambda: net(x).sum().backward())[0]


def tell(what):
    if what == "convolutions":
        torch.backends.cudnn.benchmark = "--benchmark" in sys.argv
        told = {name: convolution(*case) for name, case in CONVOLUTIONS.items()}
    elif what == "recurrent":
        told = [recurrent(*case) for case in RECURRENT]
    else:
        told = training()
    print(json.dumps(told), flush=True)
    os._exit(0)  # PyTorch's thread of backward may still be at work


if __name__ == "__main__":
    for arguments, environment in json.loads(sys.argv[1]):
        if os.fork() == 0:
            os.environ.update(environment)
            sys.argv[1:] = arguments
            tell(arguments[0])
        if os.wait()[1]:
            sys.exit(f"failed: {arguments} {environment}")
