"""Section "Ring": what is committed there, and step 3 of "What a reader does"."""

from . import checks

OFFSET = 24576


class Ring:
    def __init__(self, data, slots, nonce, version):
        self.data, self.slots, self.nonce = data, slots, nonce
        self.commit, _ = checks.of(version)

    def place(self, seq):
        return OFFSET + 64 * (seq % self.slots)

    def words(self, seq):
        return checks.words(self.data, self.place(seq), 8)

    def is_blank(self, seq):
        return self.place(seq) + 64 <= len(self.data) and not any(self.words(seq))

    def matches(self, start):
        """How many slots hold the tag of the seq that the lap from `start` puts there."""
        commits = ((seq, self.words(seq)[0]) for seq in range(start, start + self.slots))
        return sum(c != 0 and c & 0xFFFFFFFF == checks.tag(seq, self.nonce) for seq, c in commits)

    def record(self, seq, words, end):
        """How many slots the record has that starts here; None: there is none."""
        count, kind, size = words[7] >> 32, words[6] >> 32 & 0xFF, words[3]
        if words[0] & 0xFFFFFFFF != checks.tag(seq, self.nonce):
            return None
        if count != (1 if kind < 128 else 1 + -(-size // 64)) or seq + count > end:
            return None
        slots = [words] + [self.words(seq + n) for n in range(1, count)]
        return count if self.commit(seq, self.nonce, slots) == words[0] else None

    def read(self, order, head, tail, committed, defining):
        """Gives the ring's records to `order`. Those before `committed` were, says a clean exit; of definitions
        nobody has touched `defining` slots at most."""
        size = len(self.data) - OFFSET
        if size < 64 * self.slots:
            order.bad("ring cut off", OFFSET + size)
        expected = order.expected
        starts = [tail, None if head is None else head - self.slots]
        starts = [start for start in starts if start is not None and start > expected]
        if head is not None and (head < expected or tail is not None and not 0 <= head - tail <= self.slots):
            order.damaged("indexes", 4096)
            head = tail = None
        best = max(starts, key=self.matches, default=expected)
        seq = best if self.matches(best) > self.matches(expected) else expected
        end = max(seq, (seq if tail is None else min(tail, seq)) + self.slots)
        blank = 0
        while seq < end:
            words, place = self.words(seq), self.place(seq)
            there = place + 64 <= len(self.data)
            count = self.record(seq, words, end) if there else None
            if count is not None:
                order.good(seq, place)
                if head is not None and seq >= head:
                    order.damaged("past head", 4096)
                self.give(order, seq, words, count, place)
                seq, blank = seq + count, 0
            elif not there or words[0] != 0:
                order.bad("slot", place)
                seq, blank = seq + 1, 0
            elif head is None or seq >= head:
                if any(words):
                    order.bad("slot", place)
                seq += 1
            else:
                count = self.unfinished(words)
                if tail is not None and seq < tail:
                    order.bad("left ring", place)
                else:
                    order.in_flight += 1
                    length = 0
                    while length < defining and seq + length < min(head, end) and self.is_blank(seq + length):
                        length += 1
                    if length >= 3 and seq >= committed:
                        count, blank = length, 0
                        defining -= length
                    else:
                        blank = 0 if any(words) else blank + 1
                    if blank == (1 if seq < committed else 3):
                        order.damaged("blank", place)
                    order.passed(seq + count)
                seq += count
        order.end(head)

    def unfinished(self, words):
        count, kind, size = words[7] >> 32, words[6] >> 32 & 0xFF, words[3]
        states = kind >= 128 and count == 1 + -(-size // 64) and count <= self.slots
        return count if states else 1

    def give(self, order, seq, words, count, place):
        kind = words[6] >> 32 & 0xFF
        if kind >= 128:
            body = b"".join(
                word.to_bytes(8, "little") for n in range(1, count) for word in self.words(seq + n)
            )
            order.definition(seq, kind, body[: words[3]], place)
            return
        _, time, ptr, size, aux, stacks, who, what = words
        low = 0xFFFFFFFF
        order.event(seq, [
            time, ptr, size, aux, stacks & low, stacks >> 32, who & low, kind, who >> 40 & 0xFF,
            who >> 48 & 0xFF, what & 0xFFFF, what >> 16 & 0xFFFF,
        ])
