"""A situation for python_frames.py: the same calls until the interpreter runs them with specialized code. Some make
frames for the interpreter itself, which must not appear."""


def calls(check, held):
    """`check` takes the stack and compares it; with `held` it does so without releasing the GIL."""

    class Made:
        def __init__(self, value=1):
            self.value = check() and value

        def __getitem__(self, key):
            return check()

        def __eq__(self, other):
            return bool(check())

        @property
        def attribute(self):
            return check()

        def method(self):
            return check()

    class Child(Made):
        def __init__(self):
            super().__init__(2)
            check()

    class Other:
        def __getattribute__(self, name):
            return check()

    def numbers():
        yield check()
        yield check(held)

    async def answer():
        return check()

    async def awaits():
        return await answer()

    def drive(coroutine):
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError

    made, other = Made(), Other()
    for _ in range(40):
        Made()
        Made(value=3)
        Child()
        made[0]
        made == other
        made.attribute
        made.method()
        other.anything
        for _ in numbers():
            pass
        sum(1 for _ in numbers())
        assert [name for name, _ in drive(awaits())[:3]] == ["answer", "awaits", "drive"]
