"""Blocks from a capture's events, computed from tests/spec_reader alone, without code of the analyzer.

A block's owner is the name of the newest function of the user's code, for workloads whose functions each allocate in
one line. For tests; it holds a whole capture in memory."""

from collections import namedtuple

import spec_reader

ALLOC, FREE, CANCEL, STEP = 1, 2, 3, 13
TENSOR, DRIVER = 0, 1
CODE, PY_STACK, BACKWARD = 129, 130, 140

Event = namedtuple("Event", "seq time ptr bytes aux py native thread kind level device api flags placement slack")


class Oracle:
    """A capture's events, and whose they are."""

    def __init__(self, path):
        records = list(spec_reader.read(path).lines())
        records = [record for record in records if isinstance(record, list)]
        self.events = [Event(*record[1:]) for record in records if record[0] == "event"]
        definitions = [record[2:] for record in records if record[0] == "definition"]
        self.codes = {fields[0]: fields for kind, *fields in definitions if kind == CODE}
        self.stacks = {fields[0]: fields[2] for kind, *fields in definitions if kind == PY_STACK}
        self.nodes = {fields[0]: fields for kind, *fields in definitions if kind == BACKWARD}

    def function(self, stack):
        """The newest function of the user's; of a node of autograd's, that of its forward."""
        if stack in self.nodes:
            return self.function(self.nodes[stack][2])
        for code, _, _ in self.stacks.get(stack, []):
            _, _, file, name, _ = self.codes[code]
            if "site-packages" not in file and "/lib/python" not in file and not file.startswith("<"):
                return name.rsplit(".", 1)[-1]
        return None

    def of_level(self, level):
        """Events of a level and marks of steps, in order."""
        return [event for event in self.events if event.kind == STEP or event.level == level]
