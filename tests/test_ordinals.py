"""Devices in the forms that users have: the values that `gpumem.scope(device=...)` and similar functions accept."""

import sys
from types import SimpleNamespace

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))
from gpumem._machine import devices  # noqa: E402
from gpumem._machine import ordinals  # noqa: E402

IS_CURRENT = 5


@pytest.fixture(autouse=True)
def current(monkeypatch):
    monkeypatch.setattr(devices, "current", lambda: IS_CURRENT)


class Number:
    def __index__(self):
        return 3


@pytest.mark.parametrize(
    "device, number",
    [
        (0, 0),
        (2, 2),
        (Number(), 3),
        ("1", 1),
        ("cuda:1", 1),
        ("cuda", IS_CURRENT),
        (" gpu:4", 4),
        (SimpleNamespace(type="cuda", index=2), 2),
        (SimpleNamespace(type="cuda", index=None), IS_CURRENT),
        (SimpleNamespace(id=1), 1),
        (SimpleNamespace(id=9, local_hardware_id=1, platform="gpu"), 1),
    ],
)
def test_devices_have_ordinals(device, number):
    assert ordinals.ordinal(device) == number
    assert ordinals.ordinal_or_none(device) == number


def test_none_stays_none():
    assert ordinals.ordinal_or_none(None) is None


@pytest.mark.parametrize(
    "device, error, said",
    [
        (-1, ValueError, "no such device: -1"),
        (255, ValueError, "no such device: 255"),
        ("cuda:x", ValueError, "no such device: cuda:x"),
        ("cpu", ValueError, "not a GPU: cpu"),
        (SimpleNamespace(type="cpu", index=None), ValueError, "not a GPU: "),
        (SimpleNamespace(id=0, platform="cpu"), ValueError, "not a GPU: "),
        (True, TypeError, "a device is a number"),
        (1.5, TypeError, "a device is a number"),
    ],
)
def test_others_are_refused(device, error, said):
    with pytest.raises(error, match=said):
        ordinals.ordinal(device)


def test_a_real_device_of_pytorch(python_env, tmp_path):
    script = (
        "import torch, gpumem\n"
        "s = gpumem.scope('a', device=torch.device('cuda', 1))\n"
        "print(s._asked, gpumem.scope('b', device='cuda:2')._asked, sum(s.device(torch.device('cuda:1')).tensor))\n"
        "print(gpumem.counters(torch.device('cuda:0')).tensor.live_bytes)\n"
    )
    env = {"PYTHONPATH": str(harness.ROOT / "python")}
    done = harness.run([python_env("torch215"), "-c", script], env=env, cwd=tmp_path)
    assert done.stdout == "1 2 0\n0\n"
