"""The cost of a context on a card that has not been measured.

The driver backs the local memory of every thread that can be resident. Least squares over five cards with a published
context (RTX 4060 Ti, 3090, 6000 Ada, PRO 6000, B200; drivers of 2025 and 2026) fit within 2.7 %."""

_MIB = 1 << 20
_BASE = 6 * _MIB
_PER_1024_THREADS = 2 * _MIB


def context_bytes(sms: int, threads_per_sm: int) -> int:
    """6 MiB, plus 2 MiB for each 1,024 resident threads."""
    return _BASE + _PER_1024_THREADS * sms * threads_per_sm // 1024
