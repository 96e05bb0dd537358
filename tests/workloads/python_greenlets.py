"""Stacks of greenlets, whose frames are stored and restored, compared with the interpreter's own frames: see
python_frames.py, which has the same arguments.

PYTHONPATH leads to a greenlet of this version of Python."""

import threading

import greenlet
import python_frames
from python_frames import check


def deep(depth, then):
    if depth == 0:
        return then()
    if depth % 2:
        return max(map(lambda d: deep(d, then), [depth - 1]))
    return deep(depth - 1, then)


def generator(then):
    yield then()


def run(number, switch):
    for turn in range(30):
        check()
        deep((number * 5 + turn) % 11, lambda: next(generator(switch)) or len(check()))
        check()


def turns():
    main = greenlet.getcurrent()
    all_of_them = [greenlet.greenlet(run) for _ in range(5)]
    for turn in range(120):
        one = all_of_them[(turn * 7 + turn // 5) % 5]
        if not one.dead:
            deep(turn % 7, lambda: one.switch(turn % 5, main.switch) or len(check()))
            check()
    for one in all_of_them:
        if not one.dead:
            one.throw(greenlet.GreenletExit)


def main():
    turns()
    threads = [threading.Thread(target=turns) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("checked %d frames in %d stacks" % (python_frames.frames_checked, python_frames.stacks_checked))


main()
