"""Trainings that load their weights, in all the ways that programs use.

`make FOLDER` writes the files, with random numbers. `train KIND FOLDER` loads them, trains and prints counts."""

import gc
import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

WIDTH, WORDS = 256, 1024


def model():
    """A network whose matrices are larger than what is computed on the CPU, and with some that are read."""
    torch.manual_seed(0)
    middle = (layer for _ in range(3) for layer in (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)))
    return nn.Sequential(nn.Linear(WIDTH, 8192), nn.Linear(8192, WIDTH), *middle)


def step(net, optimizer, x):
    net(x).float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def llama():
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=WIDTH, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=WORDS,
        tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def make(folder, kinds):
    folder.mkdir(exist_ok=True)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    step(net, optimizer, torch.randn(8, WIDTH))
    whole = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "generator": torch.get_rng_state(), "step": 7}
    torch.save(whole, folder / "whole.pt")
    torch.save(whole, folder / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(net, folder / "pickled.pt")
    half = {name: each.to(torch.bfloat16) if each.is_floating_point() else each for name, each in net.state_dict().items()}
    torch.save(half, folder / "half.pt")
    if "transformers" in kinds:
        from safetensors.torch import save_file

        save_file(net.state_dict(), folder / "model.safetensors")
        language = llama()
        language.save_pretrained(folder / "one")
        language.save_pretrained(folder / "sharded", max_shard_size="1MB")
        language.config.save_pretrained(folder / "config")
        language.config.save_pretrained(folder / "index")
        (folder / "index" / "model.safetensors.index.json").write_bytes((folder / "sharded" / "model.safetensors.index.json").read_bytes())
        (folder / "bin").mkdir(exist_ok=True)
        language.config.save_pretrained(folder / "bin")
        torch.save(language.state_dict(), folder / "bin" / "pytorch_model.bin")


def plain(kind, folder):
    """A network of plain PyTorch and its optimizer, loaded."""
    if kind == "pickled":
        net = torch.load(folder / "pickled.pt", map_location="cuda", weights_only=False)
        return net, torch.optim.AdamW(net.parameters())
    net = model()
    optimizer = None
    if kind == "drawn":
        net = net.to(torch.bfloat16).cuda()
    elif kind in ("half", "half-mapped"):
        # Converted on the way to the device.
        net = net.cuda()
        net.load_state_dict(torch.load(folder / "half.pt", mmap=kind == "half-mapped"))
    elif kind == "transposed":
        with torch.no_grad():
            net[1].weight = nn.Parameter(net[1].weight.cuda().t().contiguous().t())
            net[1].weight.copy_(torch.load(folder / "half.pt")["1.weight"])
            net[0].weight.copy_(torch.load(folder / "half.pt")["1.weight"].t())
        net = net.cuda()
    elif kind == "safetensors":
        from safetensors.torch import load_file

        net.load_state_dict(load_file(folder / "model.safetensors"), assign=True)
        net = net.cuda()
    elif kind == "safetensors-device":
        from safetensors import safe_open

        with safe_open(folder / "model.safetensors", framework="pt", device="cuda") as file:
            net.load_state_dict({name: file.get_tensor(name) for name in file.keys()}, assign=True)
    else:
        place = "cuda" if kind == "on-device" else "cpu"
        path = folder / ("old.pt" if kind == "old" else "whole.pt")
        read = torch.load(path, map_location=place, mmap=kind == "mapped", weights_only=kind != "unsafe")
        net = net.cuda()
        net.load_state_dict(read["model"])
        optimizer = torch.optim.AdamW(net.parameters())
        optimizer.load_state_dict(read["optimizer"])
        torch.set_rng_state(read["generator"].cpu())
        assert read["step"] == 7 and int(optimizer.state_dict()["state"][0]["step"]) == 1
        torch.save({"model": net.state_dict()}, os.devnull)
    return net, optimizer or torch.optim.AdamW(net.parameters())


def train(kind, folder):
    if kind.startswith("llama"):
        import transformers

        _, where, how = kind.split("-")
        place = {"device_map": "cuda"} if how == "device" else {}
        kinds = {"half": torch.bfloat16, "full": torch.float32}
        name = where if "/" in where else folder / where
        net = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=kinds.get(how, "auto"), **place).cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        tokens = torch.randint(0, WORDS, (2, 64), device="cuda")
        for _ in range(2):
            net(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        of = net.lm_head.weight
    else:
        net, optimizer = plain(kind, folder)
        of = net[0].weight
        x = torch.randn(8, WIDTH, device="cuda", dtype=of.dtype)
        step(net, optimizer, x)
    print("WEIGHT", tuple(of.shape), of.dtype, of.device, of.requires_grad, of.is_contiguous())
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "allocated_bytes.all.allocated", "allocation.all.allocated")
    print("FIGURES " + json.dumps({name: stats[name] for name in names}))


if sys.argv[1] == "make":
    make(Path(sys.argv[2]), sys.argv[3:])
else:
    for each in sys.argv[3:]:
        train(each, Path(sys.argv[2]))
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
