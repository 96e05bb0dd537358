"""Operations on the device and on the CPU: a program must read back the same results."""

import threading

import torch

torch.manual_seed(1)
base = torch.randn(6, 8)
whole = torch.arange(48).view(6, 8)
mask = base > 0.3
checked = 0


def same(one, other):
    """Whether the device's memory, as copied, is the CPU's."""
    global checked
    one, other = (list(each) if isinstance(each, (tuple, list)) else [each] for each in (one, other))
    assert len(one) == len(other)
    for a, b in zip(one, other):
        if isinstance(b, torch.Tensor):
            assert a.device.type == "cuda" and a.shape == b.shape and a.dtype == b.dtype, (a, b)
            assert torch.equal(a.cpu(), b) or torch.allclose(a.cpu().to(torch.complex128), b.to(torch.complex128), rtol=1e-3, atol=1e-5), (a, b)
        else:
            assert a == b
    checked += 1


def changed(x, change):
    copy = x.clone()
    change(copy)
    return copy


def into(x, function):
    out = torch.zeros(0, device=x.device)
    function(out)
    return out


def strided(x):
    return torch.as_strided(x, (3, 4), (1, 6))


EACH = [
    lambda x, w, m: x + 1, lambda x, w, m: x.t() * 2, lambda x, w, m: x[:, ::2].exp(), lambda x, w, m: x[1:4, 2:5].contiguous(),
    lambda x, w, m: x.t().reshape(-1), lambda x, w, m: x.expand(3, 6, 8).sum(0), lambda x, w, m: x.half().float(), lambda x, w, m: x.bfloat16() * 3,
    lambda x, w, m: x.double().cumsum(1), lambda x, w, m: x.long(), lambda x, w, m: w.float() / 7, lambda x, w, m: x.to(torch.complex64).conj() * 2j,
    lambda x, w, m: torch.view_as_real(x.to(torch.complex64)), lambda x, w, m: x[m], lambda x, w, m: x[m.any(1)], lambda x, w, m: x[w[0] % 6, 3],
    lambda x, w, m: x.masked_select(m), lambda x, w, m: m.nonzero(), lambda x, w, m: torch.where(m), lambda x, w, m: torch.where(m, x, -x),
    lambda x, w, m: x.masked_fill(m, 9.0), lambda x, w, m: changed(x, lambda c: c.__setitem__(m, 5.0)),
    lambda x, w, m: changed(x, lambda c: c.__setitem__(m, x[m] * 2)), lambda x, w, m: changed(x, lambda c: c[:, 1:7:2].mul_(3)),
    lambda x, w, m: changed(x, lambda c: c.t()[2:5].zero_()), lambda x, w, m: changed(x, lambda c: c[2].copy_(x[3].double())),
    lambda x, w, m: changed(x, lambda c: c.t().copy_(w.t())), lambda x, w, m: changed(x, lambda c: c.index_put_((w[0, :3], w[1, :3] % 8), x[0, :3])),
    lambda x, w, m: changed(x, lambda c: c.scatter_(1, w % 8, x.abs())), lambda x, w, m: changed(x, lambda c: torch._foreach_mul_([c[0], c[3]], 2.0)),
    lambda x, w, m: torch._foreach_add([x, x.t()], 1), lambda x, w, m: torch._foreach_norm([x, w.float()]), lambda x, w, m: into(x, lambda o: torch.add(x, 2, out=o)),
    lambda x, w, m: into(x, lambda o: torch.masked_select(x, m, out=o)), lambda x, w, m: torch.unique(w % 5, return_inverse=True, return_counts=True),
    lambda x, w, m: torch.unique_consecutive(w // 3), lambda x, w, m: torch.unique(w % 3, dim=0), lambda x, w, m: torch.bincount(w.view(-1) % 7),
    lambda x, w, m: torch.repeat_interleave(x, w[:, 0] % 3, dim=0), lambda x, w, m: torch.histc(x, 4), lambda x, w, m: x.sort(1),
    lambda x, w, m: x.topk(3), lambda x, w, m: x.max(0), lambda x, w, m: x.argmax().item(), lambda x, w, m: x.std(), lambda x, w, m: x @ x.t(),
    lambda x, w, m: torch.cdist(x, x[:2]), lambda x, w, m: torch.einsum("ij,kj->ik", x, x), lambda x, w, m: torch.cat([x, x], 1)[:, 5:9],
    lambda x, w, m: torch.stack([x, x]).permute(2, 0, 1), lambda x, w, m: x.tolist() == x.cpu().tolist(), lambda x, w, m: torch.equal(x, x.clone()),
    lambda x, w, m: torch.allclose(x, x + 1e-9), lambda x, w, m: bool((x > 100).any()), lambda x, w, m: torch.nn.functional.one_hot(w[0]),
    lambda x, w, m: torch.nn.functional.interpolate(x[None, None], scale_factor=2.0), lambda x, w, m: strided(x) + 1, lambda x, w, m: torch.isin(w, w[0]),
    lambda x, w, m: torch.linspace(0, 1, 5, device=x.device),
]  # fmt: skip

for each in EACH:
    same(each(base.cuda(), whole.cuda(), mask.cuda()), each(base, whole, mask))

with torch.inference_mode():
    same(base.cuda().mul(2).add_(1), base.mul(2).add_(1))
thread = threading.Thread(target=lambda: same(base.cuda() - 1, base - 1))
thread.start()
thread.join()
state = torch.get_rng_state()
torch.rand(5, device="cuda"), torch.nn.functional.dropout(base.cuda()), torch.randperm(5, device="cuda"), base.cuda().normal_()
assert torch.equal(state, torch.get_rng_state()), "the host's generator moved"
print("EQUAL", checked)
