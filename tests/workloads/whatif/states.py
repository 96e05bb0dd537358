"""Private pools whose states are saved and restored, as by trees of CUDA graphs."""

import torch


def loses():
    """With a max_split_size, a private pool gives segments back when it has no room. A state that has them cannot be set any more."""
    pool = torch.cuda.graph_pool_handle()

    def block(size):
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool)
        try:
            return torch.empty(size << 20, dtype=torch.uint8, device="cuda")
        finally:
            torch._C._cuda_endAllocateToPool(0, pool)

    block(100)
    state = torch._C._cuda_getCheckpointState(0, pool)
    # A free of it after the failure would end the process.
    never_freed.append(block(400).untyped_storage())
    torch._C._cuda_setCheckpointPoolState(0, state, [never_freed[-1]._cdata], [])


never_freed = []
ALL = {"loses": loses}


class Pool:
    """A private pool, its blocks, and its states with what was live in them. Decisions and sizes are those of `program`."""

    def __init__(self, program):
        self.program, self.random = program, program.random
        self.handle = torch.cuda.graph_pool_handle()
        self.streams = [torch.cuda.Stream() for _ in range(self.random.randrange(1, 3))]
        self.held, self.states = [], []
        self.grow(0)

    def step(self):
        which = self.random.random()
        if which < 0.5:
            self.grow(self.random.randrange(1, 12))
        elif which < 0.7:
            self.shrink()
        elif which < 0.85 or not self.states:
            self.take()
        else:
            self.restore()

    def grow(self, blocks):
        """From here on this thread allocates from the pool, also what it frees at once."""
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, self.handle)
        try:
            for _ in range(blocks):
                with torch.cuda.stream(self.random.choice(self.streams)):
                    block = self.program.block(self.program.size())
                if self.random.random() < 0.7:
                    self.held.append(block.untyped_storage())
                del block
        finally:
            torch._C._cuda_endAllocateToPool(0, self.handle)

    def shrink(self):
        most = self.random.randrange(0, len(self.held) + 1)
        while len(self.held) > most:
            self.held.pop(self.random.randrange(len(self.held)))

    def take(self):
        live = [(storage.data_ptr(), storage.nbytes()) for storage in self.held]
        self.states.append((torch._C._cuda_getCheckpointState(0, self.handle), live))
        if len(self.states) > 4:
            # Its address may be the next one's.
            self.states.pop(self.random.randrange(4))

    def restore(self):
        state, live = self.random.choice(self.states)
        card = torch.device("cuda", 0)
        back = [torch._C._construct_storage_from_data_pointer(address, card, size) for address, size in live]
        stale = [storage._cdata for storage in self.held]
        try:
            torch._C._cuda_setCheckpointPoolState(0, state, stale, [storage._cdata for storage in back])
        except RuntimeError as error:
            # Memory ran out, and a segment went back to CUDA: with a max_split_size private pools lose segments, too.
            assert "could not find" in str(error)
            self.program.fail()
        self.held = back
