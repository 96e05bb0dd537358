"""GPUtil's tables, to the byte, of made-up cards; and which of those are free."""

import contextlib
import math

from checking import equal, said

import gpumem.compat

gpumem.compat.install()

import GPUtil  # noqa: E402
import GPUtil.GPUtil as module  # noqa: E402


@contextlib.contextmanager
def cards(number):
    made_up = [
        GPUtil.GPU(0, "GPU-0a", 0.0, 16384.0, 1024.0, 15360.0, "550", "Simulated GPU", "[N/A]", "Disabled", "Enabled",
                   math.nan),
        GPUtil.GPU(11, "GPU-1", 0.555, 100.0, 99.0, 1.0, "550", "A", "123456", "Enabled", "[N/A]", 41.0),
        GPUtil.GPU(2, "GPU-2", math.nan, 8.0, 4.0, 4.0, "550", "B", "1", "Enabled", "[N/A]", 7.0),
    ]
    found, module.getGPUs = module.getGPUs, lambda: made_up[:number]
    try:
        yield
    finally:
        module.getGPUs = found


def shown(number, **options):
    with cards(number):
        return said(GPUtil.showUtilization, **options).splitlines()


def check_the_short_table():
    equal(shown(3), ["| ID | GPU  | MEM |", "-------------------", "|  0 |   0% |  6% |", "| 11 |  56% | 99% |",
                     "|  2 | nan% | 50% |"])
    equal(shown(0), ["| ID | GPU | MEM |", "------------------"])


def check_the_whole_table():
    head = ("| ID | Name          | Serial | UUID   || GPU temp. | GPU util. | Memory util. "
            "|| Memory total | Memory used | Memory free || Display mode | Display active |")
    equal(shown(2, all=True), [
        head,
        "-" * len(head),
        "|  0 | Simulated GPU | [N/A]  | GPU-0a ||      nanC |        0% |           6% "
        "||      16384MB |      1024MB |     15360MB || Disabled     | Enabled        |",
        "| 11 | A             | 123456 | GPU-1  ||       41C |       56% |          99% "
        "||        100MB |        99MB |         1MB || Enabled      | [N/A]          |",
    ])
    equal(shown(2, all=True, attrList=[[{"attr": "id", "name": "ID"}]])[0], head)


def check_tables_of_gputil_1_2():
    equal(shown(3, useOldCode=True), [" ID  GPU  MEM", "--------------", "  0   0%   6%", " 11  56%  99%", "  2 nan%  50%"])
    equal(shown(2, all=True, useOldCode=True), [
        " ID | Name | Serial | UUID || GPU util. | Memory util. || Memory total | Memory used | Memory free "
        "|| Display mode | Display active |",
        "-" * 126,
        "  0 | Simulated GPU  | [N/A] | GPU-0a ||   0% |   6% || 16384MB | 1024MB | 15360MB || Disabled | Enabled",
        " 11 | A  | 123456 | GPU-1 ||  56% |  99% || 100MB | 99MB | 1MB || Enabled | [N/A]",
    ])


def check_columns_of_ones_own():
    columns = [[{"attr": "id", "name": "ID"}], [{"attr": "driver", "name": "Driver"},
                                                {"attr": "memoryUtil", "name": "Part", "precision": 2}]]
    equal(shown(1, attrList=columns), ["| ID || Driver | Part |", "-----------------------", "|  0 || 550    | 0.06 |"])
    try:
        shown(1, attrList=[[{"attr": "id", "name": "Odd", "transform": lambda value: [value]}]])
    except TypeError as error:
        equal(str(error), "Unhandled object type (<class 'list'>) for attribute 'Odd'")
    else:
        raise AssertionError("a list is no cell")


def check_which_are_free():
    with cards(3):
        equal(GPUtil.getAvailable(limit=9), [0])
        equal(GPUtil.getAvailable(limit=9, maxLoad=0.6, maxMemory=1), [0, 11])
        equal(GPUtil.getAvailable(order="load", limit=9, maxLoad=1, maxMemory=1, includeNan=True), [0, 11, 2])
        equal(GPUtil.getAvailable(order="memory", limit=9, maxLoad=1, maxMemory=1, includeNan=True), [0, 2, 11])
        equal(sorted(GPUtil.getAvailable(order="random", limit=9, maxLoad=1, maxMemory=1)), [0, 11])
        equal(GPUtil.getAvailable(memoryFree=20000), [])
        equal(GPUtil.getAvailability(module.getGPUs(), maxLoad=1, maxMemory=1, excludeUUID=["GPU-1"]), [1, 0, 0])
        equal(GPUtil.getAvailability(module.getGPUs(), maxLoad=1, maxMemory=1, excludeID=[0]), [0, 1, 0])
        out = said(lambda: equal(GPUtil.getFirstAvailable(verbose=True), [0]))
    equal(out, "Attempting (1/1) to locate available GPU.\nGPU [0] located!\n")


def check_names():
    equal((GPUtil.__version__, GPUtil.GPUtil, module.GPU), ("1.4.0", module, GPUtil.GPU))
    equal((module.safeFloatCast("41"), math.isnan(module.safeFloatCast("[N/A]"))), (41.0, True))
