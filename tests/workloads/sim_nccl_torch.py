"""torch.distributed over the simulated libnccl.so.2: `alone` as the only rank, `lone RANK WORLD` as one rank whose
others are nowhere, `ranks` as one of several processes that torchrun starts."""

import json
import os
import sys

import torch
import torch.distributed as dist
from sim_cuda import books
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import winds_up  # noqa: F401


class NobodyElse(dist.Store):
    """A store in which everything that others would write is there."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def set(self, key, value):
        self.kept[key] = value if isinstance(value, bytes) else value.encode()

    def get(self, key):
        return self.kept.get(key, bytes(range(128)))

    def add(self, key, amount):
        self.kept[key] = str(int(self.kept.get(key, b"0")) + amount).encode()
        return int(self.kept[key])

    def check(self, keys):
        return True

    def wait(self, keys, timeout=None):
        pass

    def compare_set(self, key, expected, desired):
        self.kept[key] = desired.encode()
        return self.kept[key]


def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def layers():
    return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3))).cuda()


def collectives(rank, world):
    """All of them; what one rank can know of the others is that they hold the same."""
    mine = torch.arange(8.0).cuda()
    row = mine.tolist()
    for operation in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        dist.all_reduce(mine, operation)
    assert mine.tolist() == row
    parts = [torch.zeros(8).cuda() for _ in range(world)]
    dist.all_gather(parts, mine)
    assert [part.tolist() for part in parts] == [row] * world
    whole = torch.zeros(8 * world).cuda()
    dist.all_gather_into_tensor(whole, mine)
    assert whole.tolist() == row * world
    slice_of = torch.zeros(8).cuda()
    dist.reduce_scatter_tensor(slice_of, whole)
    assert slice_of.tolist() == row
    dist.all_to_all_single(torch.empty_like(whole), whole)
    dist.all_to_all([torch.empty(8, device="cuda") for _ in range(world)], parts)
    dist.broadcast(mine, 0)
    dist.reduce(mine, 0)
    dist.gather(mine, [torch.zeros(8).cuda() for _ in range(world)] if rank == 0 else None)
    dist.scatter(slice_of, parts if rank == 0 else None)
    assert mine.tolist() == row
    dist.barrier()
    if world > 1:
        peer = (rank + 1) % world
        work = [dist.isend(mine, peer), dist.irecv(torch.empty_like(mine), peer)]
        both = [dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, torch.empty_like(mine), peer)]
        for one in (*work, *dist.batch_isend_irecv(both)):
            one.wait()
    torch.cuda.synchronize()


def parallel():
    train(DistributedDataParallel(layers()))
    model = layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    train(model)
    torch.cuda.synchronize()


def alone():
    """One process; what lives at the end stays."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    collectives(0, 1)
    parallel()
    print("alone holds", flush=True)


def lone(rank, world):
    dist.init_process_group("nccl", store=NobodyElse(), rank=rank, world_size=world)
    collectives(rank, world)
    parallel()
    assert (dist.get_rank(), dist.get_world_size()) == (rank, world)
    print(f"rank {rank} of {world} holds", flush=True)
    # The store of nobody has no end that others would wait for.
    sys.stdout.flush()
    os._exit(0)


def tell(rank, vmm):
    """A line in one piece: two processes write to one pipe."""
    line = json.dumps({"rank": rank, "vmm": vmm})
    os.write(1, f"RANK {line}\n".encode())


def ranks():
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    collectives(dist.get_rank(), dist.get_world_size())
    parallel()
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.zeros(8, device="cuda"), group=group)
    torch.cuda.synchronize()
    vmm = books(device)["kinds"]["vmm"]["current"]
    tell(dist.get_rank(), vmm)
    dist.destroy_process_group()
    assert books(device)["kinds"]["vmm"]["current"] == 0
    tell(device, 0)


if __name__ == "__main__":
    globals()[sys.argv[1]](*map(int, sys.argv[2:]))
