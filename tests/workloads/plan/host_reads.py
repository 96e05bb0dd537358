"""Reads values from a file on the host, which a plan without weights does not know. `make FILE` writes it."""

import sys

import torch

if sys.argv[1] == "make":
    torch.save({"tokens": torch.arange(20_000), "sparse": torch.eye(300).to_sparse(), "large": torch.arange(4_000_000)}, sys.argv[2])
    sys.exit()

# Memory that was used before, and is not zeros.
used = [torch.full((20_000,), 7) for _ in range(64)]
del used
read = torch.load(sys.argv[2])
tokens, large = read["tokens"], read["large"]
print(int(tokens.max()))
print(tokens.numpy().sum())
print(large[:3].tolist())
print(tuple(tokens[tokens > 3].shape))
print(tuple((large > 3).nonzero().shape))
print(tuple(torch.masked_select(tokens, tokens > 5).shape))
print(tuple(tokens.unique().shape))
print(tuple(tokens[:50].bincount().shape))
print(tuple(tokens[:2].repeat_interleave(tokens[:2]).shape))
print(torch.equal(tokens, tokens.clone()))
print(tuple(torch.nonzero(tokens, out=torch.empty(0, dtype=torch.int64)).shape))
print(tuple(tokens.to_sparse().shape))
print(tuple(tokens[torch.arange(5)].shape), tuple(large[torch.arange(3_000_000)].shape))
tokens[tokens > 3] = 1
print(tuple(read["sparse"].cuda().shape))
known = torch.arange(100)
print(tuple(known[known > 3].shape), known.numpy().sum(), known.tolist()[-1])
