"""Section "Definitions": payloads by kind, as lists of their fields."""

import struct


class Short(Exception):
    """The payload is shorter than its fields."""


class Fields:
    def __init__(self, payload):
        self.payload, self.at = payload, 0

    def raw(self, count):
        if count > len(self.payload) - self.at:
            raise Short
        self.at += count
        return self.payload[self.at - count : self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.raw(struct.calcsize("<" + code)))[0]

    def bytes(self):
        return self.raw(self.number("I"))

    def text(self):
        return self.bytes().decode("utf-8", "replace")

    def frames(self, code):
        count = self.number("I")
        size = struct.calcsize("<" + code)
        return list(struct.iter_unpack("<" + code, self.raw(count * size)))

    def take(self, layout):
        """One field for each letter: B H I Q numbers, s text, b bytes (in hex)."""
        of = {"s": self.text, "b": lambda: self.bytes().hex()}
        return [of[letter]() if letter in of else self.number(letter) for letter in layout]


API, CODE, PY_STACK, NATIVE_STACK, DEVICE, BACKWARD, SYMBOL = 128, 129, 130, 131, 135, 140, 142
LAYOUTS = {
    API: "Hs", 132: "IQQQsb", 133: "I", 134: "Is", 136: "ss", 137: "sss", 138: "IQQ", 139: "s",
    141: "Is", 143: "IQs", 144: "Is", 145: "BBQQQQ",
}


def fields(kind, payload):
    """The fields of a definition; None of a kind that is not known. Raises Short."""
    of = Fields(payload)
    if kind in LAYOUTS:
        return of.take(LAYOUTS[kind])
    if kind == CODE:
        number, first, _, file, name, table = of.take("IIIssb")
        return [number, first, file, name, table]
    if kind == PY_STACK:
        number, flags = of.take("II")
        frames = of.frames("II")
        frames = [[c, (w & 0x7FFFFFFF) - 16, w >> 31] for c, w in frames]
        calls = [list(call) for call in of.frames("II")] if flags & 2 else []
        return [number, flags & 1, frames] + ([calls] if calls else [])
    if kind == NATIVE_STACK:
        number, flags = of.take("II")
        return [number, flags & 1, [address for (address,) in of.frames("Q")]]
    if kind == DEVICE:
        taken = of.take("BQb")
        if len(taken[2]) != 2 * 16:
            raise Short
        return taken + of.take("ss")
    if kind == BACKWARD:
        number, flags, *rest = of.take("IIIIIs")
        return [number, flags & 1, *rest]
    if kind == SYMBOL:
        module, address, count = of.take("IQI")
        functions = []
        for _ in range(count):  # ends at the payload's end, whatever the count says
            functions.append(of.take("ssI"))
        return [module, address, functions]
    return None
