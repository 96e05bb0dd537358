"""Native stacks of greenlets: their parts of the C stack are copied away and back, so that the same address holds
frames of different greenlets."""

import ctypes
import threading

import greenlet

here = ctypes.CDLL(None).unwind_check_here
here.restype = None


def deep(depth, then):
    if depth == 0:
        return then()
    if depth % 2:
        return max(map(lambda d: deep(d, then), [depth - 1]))
    return deep(depth - 1, then)


def run(number, switch):
    for i in range(40):
        here()
        deep((number * 5 + i) % 23, lambda: (here(), switch(), here()))
    return number


def turns():
    main = greenlet.getcurrent()
    all_of_them = [greenlet.greenlet(run) for _ in range(6)]
    for turn in range(400):
        one = all_of_them[(turn * 7 + turn // 5) % 6]
        if not one.dead:
            deep(turn % 13, lambda: (here(), one.switch(turn % 6, main.switch), here()))
    for one in all_of_them:
        if not one.dead:
            one.throw(greenlet.GreenletExit)


turns()
threads = [threading.Thread(target=turns) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
