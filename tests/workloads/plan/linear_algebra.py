"""Factorizations, three times each, in freed memory that holds other bytes than zeros: their error flags are read
back. With `zeros` it holds zeros, with which most succeed without values, too; the others are left out. Prints their
number, the peak, and the bytes and number of all allocations."""

import sys

import torch

A, S, B = (torch.randn(*shape, device="cuda") for shape in ((64, 32), (32, 32), (4, 16, 16)))
ZEROS = "zeros" in sys.argv
NAMES = "eigh eigvalsh cholesky qr inv slogdet lu_factor lu matrix_rank pinv svd svdvals cond" + ("" if ZEROS else " eig eigvals")


def free_what_is_not_zero():
    for size in (64, 128, 256, 512, 1024, 2048, 4096):
        kept = [torch.full((size,), -1, dtype=torch.int64).cuda() for _ in range(8)]
        del kept


def calls():
    for name in NAMES.split():
        for matrix in (S, B):
            yield lambda name=name, matrix=matrix: getattr(torch.linalg, name)(matrix @ matrix.mT if "chol" in name else matrix)
    for driver in ("gesvd", "gesvdj", "gesvda"):
        yield lambda driver=driver: torch.linalg.svd(A, driver=driver, full_matrices=False)
    yield lambda: torch.linalg.solve(S, A.T)
    yield lambda: torch.linalg.lstsq(A, A)
    yield lambda: torch.svd_lowrank(A)


done = 0
for _ in range(3):
    for call in calls():
        if not ZEROS:
            free_what_is_not_zero()
        call()
        done += 1
print("DONE", done)
stats = torch.cuda.memory_stats()
print(*(stats[f"allocated_bytes.all.{of}"] for of in ("peak", "allocated")), stats["allocation.all.allocated"])
