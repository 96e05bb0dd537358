"""The order of records, and the entries of damage: the end of "What a reader does"."""

from . import definitions


class Order:
    def __init__(self):
        self.records, self.symbols, self.damage = [], [], []
        self.expected = 0
        self.in_flight = self.pages = 0
        self.open = None

    def damaged(self, kind, place):
        """Damage for which no record is missing."""
        self.damage.append([kind, place, None, None])

    def bad(self, kind, place):
        """Records from the expected one on may be missing."""
        if self.open is None:
            self.open = [kind, place, self.expected, None]
            self.damage.append(self.open)

    def good(self, seq, place):
        """Good records follow from `seq` on."""
        if seq > self.expected:
            self.bad("gap", place)
        if self.open is not None:
            if self.open[2] < seq:
                self.open[3] = seq
            else:
                self.open[2] = None
            self.open = None
        self.expected = seq

    def passed(self, seq):
        """What is in flight ends before `seq`."""
        if self.open is None:
            self.expected = seq

    def end(self):
        self.open = None

    def event(self, seq, fields):
        self.expected = seq + 1
        self.records.append(["event", seq, *fields])

    def definition(self, seq, kind, payload, place):
        self.expected = seq + 1 + -(-len(payload) // 64)
        fields = self.fields(kind, payload, "definition", place)
        known = fields or [payload.hex()]
        self.records.append(["definition" if fields else "unknown", seq, kind, *known])

    def symbol(self, payload, place):
        fields = self.fields(definitions.SYMBOL, payload, "names", place)
        if fields:
            self.symbols.append(["symbol", *fields])

    def fields(self, kind, payload, damage, place):
        try:
            return definitions.fields(kind, payload)
        except definitions.Short:
            self.damaged(damage, place)
            return None
