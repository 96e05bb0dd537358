"""Attributes of objects, classes and modules, and code of the program that must not run."""

import contextvars
import dataclasses
import json.decoder
import sys
import threading
import types

from planted import Plain, Thing, case, tensor

holder = other = None


@case
def attributes(check):
    global holder
    holder = Plain(tensor())
    check.of_global("holder.attr")
    holder.attr = None
    check.freed(1)


@case
def attributes_in_a_dictionary(check):
    global holder
    holder = Plain(tensor())
    vars(holder)["other"] = 1
    check.of_global("holder.attr")
    del holder.attr
    check.freed(1)


@case
def many_attributes(check):
    global holder
    holder = Plain(None)
    for number in range(100):
        setattr(holder, "a%d" % number, None)
    holder.last = tensor()
    check.of_global("holder.last")
    del holder.last
    check.freed(1)


@case
def nested_attributes(check):
    global holder
    holder = Plain(Thing(deep=Plain(tensor())))
    check.of_global("holder.attr.deep.attr")
    holder = None
    check.freed(1)


@case
def attributes_of_many_objects(check):
    """Their names are found without giving the objects dictionaries."""
    global holder
    holder = [Plain(tensor()) for _ in range(100)]
    size = sys.getsizeof(holder[0])
    check.of_global("holder[0…99].attr", size=100, blocks=100)
    assert sys.getsizeof(holder[0]) == size
    holder.clear()
    check.freed(100)


@case
def a_tensor_of_two_variables(check):
    global holder, other
    holder = other = tensor()
    check.find()
    [found] = check.found.holders
    assert (found.text, found.frees) in (("holder", 0), ("other", 0)), found
    if found.text == "holder":
        del holder
    else:
        del other
    check.freed(0)
    holder = other = None


@case
def views(check):
    """Two tensors of one block: both must go."""
    global holder, other
    holder = [tensor(4, block=1 << 40)]
    other = Plain(tensor(4, block=1 << 40))
    check.find()
    [found] = check.found.holders
    assert (found.text, found.bytes, found.frees) == ("holder[0]", 4, 0), found
    del holder[0]
    check.freed(0)
    other = None
    check.freed(4)


class Hostile:
    """None of its code may run."""

    ran = []
    attr = None

    def __init__(self, value):
        object.__setattr__(self, "kept", value)

    def record(self, *_):
        Hostile.ran.append(1)
        raise AssertionError("the walk ran code of the program")

    __getattr__ = __getattribute__ = __setattr__ = __repr__ = __str__ = __len__ = __iter__ = __bool__ = record
    __call__ = __getitem__ = __del__ = __dir__ = __sizeof__ = record
    hidden = property(record)

    def __hash__(self):
        Hostile.ran.append(1)
        return 1

    def __eq__(self, other):
        Hostile.ran.append(1)
        return self is other


@case
def code_of_the_program_does_not_run(check):
    global holder
    del Hostile.__del__
    key = Hostile(None)
    holder = {key: tensor(), "value": Hostile(tensor(2))}
    ran = len(Hostile.ran)
    check.find()
    assert len(Hostile.ran) == ran
    check.kept("holder[…]")
    check.kept("holder['value'].kept", size=2)
    holder = None
    check.freed(3)


@dataclasses.dataclass
class Record:
    value: object


@case
def dataclass_fields(check):
    global holder
    holder = Record(tensor())
    check.of_global("holder.value")
    holder = None
    check.freed(1)


class Slots:
    __slots__ = ("empty", "slot")


class MoreSlots(Slots):
    __slots__ = ("more", "__dict__")


@case
def slots(check):
    global holder
    holder = MoreSlots()
    holder.slot, holder.more, holder.attr = tensor(), tensor(2), tensor(4)
    check.find()
    check.kept("holder.slot", "global")
    check.kept("holder.more", "global", size=2)
    check.kept("holder.attr", "global", size=4)
    del holder.slot
    check.freed(1)


@case
def class_attributes(check):
    global holder

    class Local:
        cls = tensor()

    holder = Local
    del Local
    check.of_global("holder.cls")
    del holder.cls
    check.freed(1)


@case
def attributes_of_a_class_by_its_object(check):
    Thing.shared = tensor()
    check.find()
    check.kept("Thing.shared", "global of planted")
    del Thing.shared
    check.freed(1)


@case
def globals_of_other_modules(check):
    """Of one that is the program's, and of a library."""
    own = types.ModuleType("own")
    own.__file__ = "/home/me/own.py"
    sys.modules["own"] = own
    own.value, json.decoder.planted = tensor(), tensor(2)
    check.find()
    check.kept("value", "global of own")
    check.kept("planted", "global of json.decoder", size=2)
    del own.value, json.decoder.planted, sys.modules["own"], own
    check.freed(3)


@case
def objects_in_place_of_modules(check):
    sys.modules["odd"] = Plain(tensor())
    check.find()
    check.kept("attr", "global of odd")
    del sys.modules["odd"]
    check.freed(1)


@case
def a_variable_of_a_library_comes_last(check):
    """A list of the program is named, although a library's frame is nearer."""
    global holder
    holder = Thing(deep=Thing(items=[tensor()]))
    values = holder.deep.items

    def hook(pairs):
        check.find()
        return pairs

    del values
    json.loads("{}", object_pairs_hook=hook)
    check.kept("holder.deep.items[0]", "global")
    holder = None
    check.freed(1)


@case
def variables_of_threads(check):
    """`threading.local`: the interpreter's own data of the thread has it."""
    global holder
    holder = threading.local()
    holder.value = tensor()
    check.find()
    [found] = check.found.holders
    assert found.bytes == 1, found
    del holder.value
    check.freed(1)


@case
def context_variables(check):
    global holder
    holder = contextvars.ContextVar("holder")
    token = holder.set(tensor())
    check.find()
    [found] = check.found.holders
    assert found.bytes == 1, found
    holder.reset(token)
    del token
    check.freed(1)


@case
def what_hangs_on_a_parameter_is_not_its_modules(check):
    """Such as what a hook keeps."""
    global holder
    weight = Thing(hook=Thing(kept=tensor(2)))
    holder = Thing(_parameters={"w": weight, "own": tensor()}, _modules={}, _buffers={})
    del weight
    check.find()
    check.kept("holder", "global", kind="parameters", frees=-1)
    check.kept("holder.w.hook.kept", "global", size=2)
    holder = None
    check.freed(3)


@case
def many_modules_by_name(check):
    """Four of them are one holder."""
    global holder
    module = lambda: Thing(_parameters={"w": tensor()}, _modules={}, _buffers={})  # noqa: E731
    holder = {name: module() for name in ("a", "b", "c", "d")}
    check.find()
    check.kept("holder[…]", "global", size=4, blocks=4, kind="parameters", frees=-1)
    holder = None
    check.freed(4)
