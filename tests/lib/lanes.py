"""Parameters of which only some are in the default lane."""

import pytest


def slow(*values):
    """`values` as parameters of the slow lane, a tuple as several."""
    return [pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow) for value in values]


def lanes(values, default=None):
    """`values` as parameters, a tuple as several. Those that are not in `default`, or after the first one, are in the
    slow lane."""
    values = list(values)
    default = values[:1] if default is None else list(default)
    assert all(value in values for value in default), "a default that is no value"
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=() if value in default else pytest.mark.slow)
        for value in values
    ]
