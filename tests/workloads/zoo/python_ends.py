"""python_ends.py HOW: Python programs with live memory that end, or have children that end, in every way."""

import atexit
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading

import card

how = sys.argv[1]


def churn(under_way):
    card.start()
    for round in range(1 << 40):
        card.free(card.alloc(512 + round % 7 * 512))
        if round == 50:
            under_way.release()


def churning(count):
    """Starts `count` threads that allocate until the process ends, and waits until all of them do."""
    under_way = threading.Semaphore(0)
    for _ in range(count):
        threading.Thread(target=churn, args=(under_way,), daemon=True).start()
    for _ in range(count):
        under_way.acquire()


def ends_in_a_thread():
    card.start()
    card.alloc(3000)
    card.told(how)
    os._exit(23)


def uses_the_card(size):
    card.start()
    card.alloc(size)
    return size


def adds_up(numbers):
    return sum(numbers), card.refuses()


def dies(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "abort":
        os.abort()
    os._exit(24)


def at_exit():
    card.free(card.alloc(9000))
    card.alloc(7000)
    card.told(how)


def main():
    card.start()
    kept = [card.alloc(1000 * size) for size in range(1, 6)]
    card.free(kept.pop())
    if how == "daemon threads":
        churning(4)
        sys.exit(22)
    elif how == "os._exit while threads allocate":
        churning(4)
        os._exit(22)
    elif how == "os._exit in a thread":
        ends = threading.Thread(target=ends_in_a_thread)
        ends.start()
        ends.join()
    elif how == "atexit":
        atexit.register(at_exit)
        sys.exit(22)
    elif how == "exception":
        card.told(how)
        raise ValueError("planted")
    elif how == "abort":
        faulthandler.enable()
        card.told(how)
        os.abort()
    elif how == "segv":
        faulthandler.enable()
        card.told(how)
        ctypes.string_at(0)
    elif how in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            if how == "fork":
                print(pool.map(adds_up, [[1, 2], [3, 4], [5, 6]]), flush=True)
            else:
                print(sorted(pool.map(uses_the_card, [4096, 4096], chunksize=1)), flush=True)
    elif how == "children that die":
        context = multiprocessing.get_context("fork")
        for end in ("kill", "abort", "_exit"):
            child = context.Process(target=dies, args=(end,))
            child.start()
            child.join()
            print(end, child.exitcode, flush=True)
    else:
        raise SystemExit(f"no such way: {how}")
    card.alloc(6000)
    card.told(how)
    sys.exit(22)


if __name__ == "__main__":
    main()
