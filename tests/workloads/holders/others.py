"""Cycles, native code, what the collector does not list, and odd names."""

import ctypes
import gc
import weakref

from planted import Plain, Thing, case, tensor

holder = other = None


@case
def cycles(check):
    """Nothing refers to them: a collection frees them."""

    def plant():
        one, two = Thing(), Thing()
        one.two, two.one, one.kept = two, one, tensor()

    gc.disable()
    plant()
    check.find()
    [found] = check.found.holders
    assert found[:4] == ("cycle", 1, 1, -1) and found.place == "reference cycle", found
    assert found.text in ("Thing.kept", "Thing.one.kept", "dict['kept']", "Thing.two.one.kept"), found
    check.freed(1)
    gc.enable()


@case
def objects_that_gc_freeze_has_set_aside(check):
    global holder
    holder = Plain([tensor()])
    gc.collect()
    gc.freeze()
    check.of_global("holder.attr[0]")
    gc.unfreeze()
    holder = None
    check.freed(1)


@case
def native_references(check):
    """A reference of native code that the collector does not see."""
    global holder
    holder = [[tensor()], tensor(2)]
    increase, decrease = ctypes.pythonapi.Py_IncRef, ctypes.pythonapi.Py_DecRef
    for of in holder:
        increase(ctypes.py_object(of))
    del of
    check.find()
    check.kept("holder[0][0]")
    check.kept("holder[1]", size=2, frees=0)
    kept = weakref.ref(holder[1])
    holder[0].clear()
    check.freed(1)
    del holder[1]
    check.freed(1)
    decrease(ctypes.py_object(kept()))
    decrease(ctypes.py_object(holder[0]))
    check.freed(3)


@case
def native_references_alone(check):
    """No other object refers to it."""

    def made():
        # A frame that runs may have old values in places that it does not use.
        holder = [tensor(), Thing()]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
        return id(holder)

    address = made()
    check.find()
    [found] = check.found.holders
    assert found[:2] == ("native", 1) and found.text == "list[0]", found
    # A frame may still have its old address.
    assert found.place.startswith("native code or ")
    again = ctypes.cast(address, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(again))
    del again
    check.freed(1)


@case
def names_with_control_characters(check):
    global holder
    holder = Thing()
    setattr(holder, "a\nb\tc\x1b[31m\u202ed", tensor())
    check.of_global("holder.a?b?c?[31m?d")
    holder = None
    check.freed(1)


@case
def names_that_are_no_text(check):
    """Half of a surrogate pair."""
    global holder
    holder = {"a\ud800b": tensor()}
    check.of_global("holder['a\ufffdb']")
    holder = None
    check.freed(1)


@case
def names_of_a_megabyte(check):
    global holder
    holder = {"é" * (1 << 20): {"b" * (1 << 20): tensor()}}
    check.find()
    [found] = check.found.holders
    assert len(found.text) < 260 and found.text.startswith("holder['éééé") and "…" in found.text, found
    holder = None
    check.freed(1)


@case
def functions_with_names_of_a_megabyte(check):
    global holder
    code = "def %s(x):\n    yield x\nholder = %s(tensor())\n" % (("n" * (1 << 20),) * 2)
    exec(compile(code, "/" + "f" * (1 << 20) + ".py", "exec"), globals())
    next(holder)
    check.find()
    [found] = check.found.holders
    assert len(found.text) <= 240, found
    holder.close()
    holder = None
    for name in [name for name in globals() if len(name) > 1000]:
        del globals()[name]
    check.freed(1)
