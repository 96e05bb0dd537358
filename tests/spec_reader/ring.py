"""Section "Ring": what is committed there, and step 3 of "What a reader does"."""

from . import checks


class Image:
    """The ring's slots, from `at` on in `data`. Of a journal that is behind its ring, `limit` is what is known."""

    def __init__(self, data, at, slots, limit=None):
        self.at, self.slots, self.limit = at, slots, limit
        self.bytes = data[at : at + 64 * slots]
        # What was never written of such a journal is not there.
        if limit is not None:
            self.bytes = self.bytes.ljust(64 * slots, b"\0")

    def place(self, seq):
        return self.at + 64 * (seq % self.slots)

    def has(self, seq):
        return 64 * (seq % self.slots) + 64 <= len(self.bytes)

    def words(self, seq):
        return checks.words(self.bytes, 64 * (seq % self.slots), 8)


class Ring:
    def __init__(self, image, nonce):
        self.image, self.slots, self.nonce = image, image.slots, nonce
        self.words = image.words

    def matches(self, start):
        """How many slots hold the tag of the seq that the lap from `start` puts there."""
        commits = ((seq, self.words(seq)[0]) for seq in range(start, start + self.slots))
        return sum(c != 0 and c & 0xFFFFFFFF == checks.tag(seq, self.nonce) for seq, c in commits)

    def record(self, seq, words, end):
        """The number of slots of the record that starts here; `None` if no record does."""
        kind, size = words[6] >> 32 & 0xFF, words[3]
        count = words[7] >> 32 if kind >= 128 else 1
        if words[0] & 0xFFFFFFFF != checks.tag(seq, self.nonce):
            return None
        if count != (1 if kind < 128 else 1 + -(-size // 64)) or seq + count > end:
            return None
        slots = [words] + [self.words(seq + n) for n in range(1, count)]
        return count if checks.commit(seq, self.nonce, slots) == words[0] else None

    def start(self, expected, dynamic):
        """Where the lap starts: where pages ended, or where more slots hold their seq's tag."""
        known = dynamic.known
        starts = [dynamic.tail, None if known is None else max(known - self.slots, 0)]
        starts = [start for start in starts if start is not None and start > expected]
        best = max(starts, key=self.matches, default=expected)
        return best if self.matches(best) > self.matches(expected) else expected

    def read(self, order, dynamic):
        """Gives the ring's records to `order`."""
        image = self.image
        if len(image.bytes) < 64 * self.slots:
            order.bad("ring cut off", image.at + len(image.bytes))
        seq = self.start(order.expected, dynamic)
        tail = dynamic.tail
        first = seq if tail is None or tail > seq + self.slots else min(tail, seq)
        lap = max(seq, first + self.slots)
        end = lap if image.limit is None else min(lap, image.limit)
        is_after_empty = False
        while seq < end:
            words, place = self.words(seq), image.place(seq)
            count = self.record(seq, words, lap) if image.has(seq) else None
            if count is not None:
                if is_after_empty:
                    order.in_flight += 1
                    order.passed(seq)
                order.good(seq, place)
                self.give(order, seq, words, count, place)
                seq, is_after_empty = seq + count, False
            elif not image.has(seq) or words[0] != 0:
                order.bad("slot", place)
                seq, is_after_empty = seq + 1, False
            elif seq < dynamic.committed:
                order.bad("gone", place)
                seq, is_after_empty = seq + 1, False
            elif not any(words):
                seq, is_after_empty = seq + 1, True
            elif dynamic.ended is not None:
                order.bad("slot", place)
                seq, is_after_empty = seq + 1, False
            else:
                order.in_flight += 1 + is_after_empty
                seq, is_after_empty = seq + self.unfinished(words), False
                order.passed(seq)
        if seq < dynamic.committed and (image.limit is None or seq < image.limit):
            order.bad("gone", image.at)
        order.end()

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
            who >> 48 & 0xFF, what & 0xFFFF, what >> 16 & 0xFFFF, who >> 56, (what >> 32) - 1 & low,
        ])
