"""Generation as libraries implement it: `generate.py greedy|sample|beam`. Each loop ends on a flag of the device."""

import sys

import torch
from torch import nn

KIND, WORDS, END, MOST = sys.argv[1], 50, 3, 12

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(WORDS, 16), nn.Linear(16, WORDS)).cuda()
beams = 3 if KIND == "beam" else 1
tokens = torch.randint(4, WORDS, (2, 4), device="cuda").repeat_interleave(beams, dim=0)
unfinished = torch.ones(tokens.shape[0], dtype=torch.long, device="cuda")
scores = torch.zeros(tokens.shape[0], device="cuda")
steps = 0
with torch.no_grad():
    while True:
        logits = model(tokens)[:, -1, :].float()
        if KIND == "sample":
            logits = logits / 0.7
            best = torch.topk(logits, 10)[0][..., -1, None]
            logits = logits.masked_fill(logits < best, -float("inf"))
            ordered, order = torch.sort(logits, descending=True)
            removed = ordered.softmax(-1).cumsum(-1) > 0.9
            removed[..., 1:] = removed[..., :-1].clone()
            removed[..., 0] = False
            logits = logits.masked_fill(removed.scatter(1, order, removed), -float("inf"))
            following = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        elif KIND == "beam":
            total = scores[:, None] + logits.log_softmax(-1)
            scores, chosen = total.view(2, -1).topk(beams)
            scores = scores.view(-1)
            origin = (chosen // WORDS + torch.arange(2, device="cuda")[:, None] * beams).view(-1)
            tokens, unfinished = tokens[origin], unfinished[origin]
            following = (chosen % WORDS).view(-1)
        else:
            following = logits.argmax(-1)
        following = following * unfinished + END * (1 - unfinished)
        tokens = torch.cat([tokens, following[:, None]], dim=-1)
        done = torch.full((tokens.shape[0],), tokens.shape[1] >= MOST, device="cuda", dtype=torch.bool)
        done = done | torch.isin(tokens[:, -1], torch.tensor([END], device="cuda"))
        unfinished = unfinished & ~done.long().bool()
        steps += 1
        if unfinished.max() == 0:  # read: item
            break
print("STEPS", steps, list(tokens.shape))
