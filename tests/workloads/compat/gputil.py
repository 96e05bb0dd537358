"""GPUtil: the machine's cards."""

import math

from checking import MB, equal, said

import gpumem.compat

gpumem.compat.install()

import GPUtil  # noqa: E402
import simulator  # noqa: E402

from gpumem._machine import driver  # noqa: E402


def check_cards():
    hold = driver.Allocation(1024 * MB)
    books = simulator.books()["devices"]
    cards = GPUtil.getGPUs()
    equal([card.id for card in cards], list(range(len(books))))
    for card, book in zip(cards, books):
        used, total = book["physical"]["current"] // MB, book["total_bytes"] // MB
        equal((card.memoryTotal, card.memoryUsed, card.memoryFree), (total, used, total - used))
        equal((card.memoryUtil, card.load, card.uuid), (used / total, 0.0, book["uuid"]))
        equal((card.name, math.isnan(card.temperature)), ("gpumem simulated GPU", True))
    part = f"{cards[0].memoryUtil * 100:.0f}%"
    rows = [f"| {card.id:2} | {'0%':>3} | {f'{card.memoryUtil * 100:.0f}%':>{max(3, len(part))}} |" for card in cards]
    equal(said(GPUtil.showUtilization), "\n".join(["| ID | GPU | MEM |", "-" * 18, *rows, ""]))
    everything = said(GPUtil.showUtilization, all=True).splitlines()
    for name in ("ID", "Name", "UUID", "GPU temp.", "Memory util.", "Memory free", "Display active"):
        assert f"| {name} " in everything[0], everything[0]
    assert "gpumem simulated GPU" in everything[2]
    hold.free()


def check_what_is_free():
    several = len(GPUtil.getGPUs()) > 1
    hold = driver.Allocation(6144 * MB)
    equal(GPUtil.getAvailable(order="memory", limit=1), [1 if several else 0])
    equal(GPUtil.getAvailable(limit=8, maxMemory=0.25), [1] if several else [])
    equal(GPUtil.getAvailable(limit=8, excludeID=[0]), [1] if several else [])
    equal(GPUtil.getAvailable(order="last"), [1 if several else 0])
    equal(GPUtil.getAvailability(GPUtil.getGPUs(), memoryFree=10**9), [0] * (1 + several))
    equal(GPUtil.getFirstAvailable(), [0])
    out = said(GPUtil.getFirstAvailable, verbose=True)
    equal(out, "Attempting (1/1) to locate available GPU.\nGPU [0] located!\n")
    try:
        GPUtil.getFirstAvailable(maxMemory=0, attempts=2, interval=0)
    except RuntimeError as error:
        equal(str(error), "Could not find an available GPU after 2 attempts with 0 seconds interval.")
    else:
        raise AssertionError("none is free")
    hold.free()
