"""Containers and what is in them."""

import collections
import queue
import typing
import weakref

from planted import Plain, Thing, case, tensor

holder = other = None


@case
def lists(check):
    global holder
    holder = [None, 1.5, [tensor(), tensor(), tensor()]]
    check.of_global("holder[2][0…2]", size=3, blocks=3)
    holder[2].clear()
    check.freed(3)


@case
def one_element(check):
    global holder
    holder = [0, tensor()]
    check.of_global("holder[1]")
    del holder[1]
    check.freed(1)


@case
def one_hundred_thousand_elements(check):
    global holder
    holder = [tensor() for _ in range(100000)]
    check.of_global("holder[0…99999]", size=100000, blocks=100000)
    holder.clear()
    check.freed(100000)


@case
def a_list_of_two_variables(check):
    """Emptying the list frees what it has; a single element only if it is removed."""
    global holder, other
    holder = other = [tensor(), tensor()]
    check.find()
    [found] = check.found.holders
    assert found.text in ("holder[0…1]", "other[0…1]"), found
    assert found[:4] == ("object", 2, 2, 2)
    other.clear()
    check.freed(2)


@case
def an_element_that_is_there_twice(check):
    global holder
    holder = [tensor()] * 2
    check.of_global("holder[0]", frees=0)
    del holder[0]
    check.freed(0)


@case
def an_element_that_is_a_variable(check):
    """The variable soon has another value."""
    value = tensor()
    results = [value]
    check.find()
    found = check.kept("results[0]", "local of an_element_that_is_a_variable", frees=0)
    assert found.also == "", found
    del value, results[0]
    check.freed(1)


@case
def two_containers(check):
    """Both must release them."""
    first = [tensor(), tensor()]
    second = {"one": first[0], "two": first[1], "other": None}
    check.find()
    found = check.kept("first[0…1]", "local of two_containers", size=2, blocks=2, frees=0)
    assert found.also.startswith("second, local of two_containers (containers.py:"), found
    first.clear()
    check.freed(0)
    second.clear()
    check.freed(2)


@case
def dictionaries(check):
    global holder
    holder = {"key": tensor(), "it's": {"a b": tensor(2)}}
    check.find()
    check.kept("holder['key']", "global")
    check.kept("holder['it's']['a b']", "global", size=2)
    del holder["key"]
    check.freed(1)


@case
def dictionaries_with_many_names(check):
    """A few are named one by one, more of them together."""
    global holder
    names = ["body", "head", "norm", "scale", "bias"]
    holder = {"step": 3, "model": {name: tensor() for name in names}, "seen": {"first": tensor(16), "last": tensor(32)}}
    check.find()
    check.kept("holder['model'][…]", "global", size=5, blocks=5)
    check.kept("holder['seen']['first']", "global", size=16)
    check.kept("holder['seen']['last']", "global", size=32)
    holder["model"].clear()
    check.freed(5)


@case
def dictionaries_with_numbers(check):
    global holder
    holder = {number: tensor() for number in (5, -3, 4)}
    holder[True] = tensor(7)
    holder[1 << 70] = tensor(9)
    check.find()
    check.kept("holder[-3…5]", size=3, blocks=3)
    check.kept("holder[…]", size=16, blocks=2)
    holder.clear()
    check.freed(19)


@case
def a_tensor_as_a_key(check):
    global holder
    holder = {tensor(): 1}
    check.of_global("holder[…]")
    holder.clear()
    check.freed(1)


class Registry(dict):
    pass


@case
def subclasses_of_dict(check):
    global holder
    holder = [Registry(a=tensor()), collections.OrderedDict(b=tensor(2)), collections.defaultdict(list)]
    holder[0].attr = tensor(4)
    holder[2]["c"].append(tensor(8))
    check.find()
    check.kept("holder[0]['a']")
    check.kept("holder[1]['b']", size=2)
    check.kept("holder[0].attr", size=4)
    check.kept("holder[2]['c'][0]", size=8)
    del holder[2]["c"]
    check.freed(8)


class Names(set):
    pass


@case
def sets(check):
    global holder
    holder = Thing(plain={tensor(), tensor()}, frozen=frozenset([tensor(3)]), own=Names([tensor(4)]))
    holder.own.attr = tensor(5)
    check.find()
    check.kept("holder.plain[…]", size=2, blocks=2)
    check.kept("holder.frozen[…]", size=3)
    check.kept("holder.own[…]", size=4)
    check.kept("holder.own.attr", size=5)
    holder.plain.clear()
    check.freed(2)


@case
def deques(check):
    global holder
    holder = collections.deque([tensor(), tensor()], maxlen=5)
    check.of_global("holder[…]", size=2, blocks=2)
    holder.clear()
    check.freed(2)


class Point(typing.NamedTuple):
    x: object
    y: object


class Named(tuple):
    pass


@case
def tuples(check):
    global holder
    holder = Thing(plain=(1, (2, tensor())), point=Point(1, tensor(2)), own=Named([tensor(3)]))
    holder.own.attr = tensor(4)
    check.find()
    check.kept("holder.plain[1][1]")
    check.kept("holder.point[1]", size=2)
    check.kept("holder.own[0]", size=3)
    check.kept("holder.own.attr", size=4)
    holder.plain = None
    check.freed(1)


@case
def weak_references(check):
    """They do not count: one strong reference is the only holder."""
    global holder, other
    holder = [tensor()]
    other = [weakref.ref(holder[0]), weakref.WeakValueDictionary(a=holder[0]), weakref.WeakSet(holder)]
    proxy = weakref.proxy(holder[0])
    check.of_global("holder[0]")
    assert len(check.found.holders) == 1
    holder.clear()
    check.freed(1)
    del proxy
    other = None


@case
def values_of_weak_keys(check):
    global holder, other
    other = Thing()
    holder = weakref.WeakKeyDictionary()
    holder[other] = tensor()
    check.of_global("holder.data[…]")
    other = None
    check.freed(1)


@case
def queues(check):
    global holder
    holder = queue.Queue()
    holder.put(("name", tensor()))
    check.of_global("holder.queue[…][1]")
    holder.get()
    check.freed(1)


@case
def a_long_list_of_links(check):
    """A path of any length has a name."""
    global holder
    holder = None
    for number in range(3000):
        link = Plain(tensor())
        link.next = holder
        holder = link
    del link
    check.find()
    assert sum(found.bytes for found in check.found.holders) == 3000, check.found.holders
    texts = [found.text for found in check.found.holders]
    assert len(texts) < 10 and "holder.attr" in texts and "holder.next.attr" in texts, texts
    assert any(text.startswith("holder.next (×3…") for text in texts), texts
    assert any(text.startswith("holder….next") for text in texts), texts
    while holder is not None:
        holder = holder.next
    check.freed(3000)
