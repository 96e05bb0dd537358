"""`with-simulator --card`: programs and NVML see the card, and its memory figures are those of the card's file."""

import json
import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._machine import cards  # noqa: E402

LOOKS = harness.WORKLOADS / "sim_looks.py"
MIB = 1 << 20
PAGE = 2 * MIB


def looks(*options, env=None, check=True):
    """What sim_looks.py saw, by index of the GPU."""
    done = harness.run([harness.WITH_SIMULATOR, *options, sys.executable, LOOKS], env=env, check=check)
    return {int(bus) - 1: seen for bus, seen in json.loads(done.stdout).items()}


def must_be(seen, card, total=None):
    """A device is the card, by CUDA, by NVML and by what it costs."""
    total = total or card.cuda_total.likely
    context = -(-card.context.likely // PAGE) * PAGE
    reserve = card.nvml_total.likely - card.cuda_total.likely
    capability = list(card.compute_capability)
    assert (seen["name"], seen["sms"], seen["threads_per_sm"]) == (card.device_names[0], card.sms, card.threads_per_sm)
    assert ([seen["major"], seen["minor"]], seen["total"], seen["context"]) == (capability, total, context)
    assert seen["nvml"] == {
        "name": card.device_names[0], "total": total + reserve, "used": context + reserve, "capability": capability,
    }  # fmt: skip
    assert seen["stack"] == -(-1024 * card.sms * card.threads_per_sm // PAGE) * PAGE
    assert seen["threads_by_occupancy"] == card.threads_per_sm


@pytest.mark.parametrize("name", ["t4", "b200", "rtx-4090", "NVIDIA A100-SXM4-40GB"])
def test_a_card(name):
    seen = looks("--card", name)
    assert list(seen) == [0]
    must_be(seen[0], cards.find(name))


def test_a_card_from_a_file(tmp_path):
    data = json.loads((harness.ROOT / "python/gpumem/_machine/cards/known/l4.json").read_text())
    data["context"]["bytes"] = [150 * MIB, 151 * MIB, 190 * MIB]
    data["device_names"] = ["A card of mine"]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    seen = looks("--card", path)
    must_be(seen[0], cards.find(str(path)))
    assert (seen[0]["name"], seen[0]["context"]) == ("A card of mine", 152 * MIB)


def test_every_gpu_may_be_another_card():
    seen = looks("--card", "0=t4,1=h100")
    assert sorted(seen) == [0, 1]
    must_be(seen[0], cards.find("t4"))
    must_be(seen[1], cards.find("h100"))


def test_options_and_environment_beside_a_card():
    seen = looks("--devices", "2", "--memory", "8GiB", "--card", "l4")
    for device in (0, 1):
        must_be(seen[device], cards.find("l4"), total=8 << 30)
    # The card overrides the environment, as options do.
    seen = looks("--card", "l4", env={"GPUMEM_SIM_MEMORY": "1GiB", "GPUMEM_SIM_CONTEXT_BYTES": "0"})
    must_be(seen[0], cards.find("l4"))


def test_single_settings():
    env = {
        "GPUMEM_SIM_NAME": "Something", "GPUMEM_SIM_SMS": "10,1=20", "GPUMEM_SIM_THREADS_PER_SM": "1536",
        "GPUMEM_SIM_CONTEXT_BYTES": "64MiB,1=128MiB", "GPUMEM_SIM_RESERVED_BYTES": "1=300MiB",
    }  # fmt: skip
    seen = looks("--devices", "2", env=env)
    assert [seen[device]["name"] for device in (0, 1)] == ["Something"] * 2
    assert [seen[device]["sms"] for device in (0, 1)] == [10, 20]
    assert [seen[device]["stack"] for device in (0, 1)] == [16 * MIB, 30 * MIB]
    assert [seen[device]["context"] for device in (0, 1)] == [64 * MIB, 128 * MIB]
    assert [seen[device]["nvml"]["total"] - seen[device]["total"] for device in (0, 1)] == [0, 300 * MIB]


def test_without_a_card_nothing_has_changed():
    seen = looks()[0]
    assert (seen["name"], seen["sms"], seen["threads_per_sm"]) == ("gpumem simulated GPU", 132, 2048)
    assert (seen["total"], seen["context"], seen["stack"]) == (16 << 30, 512 * MIB, 264 * MIB)
    assert seen["nvml"]["total"] == 16 << 30


@pytest.mark.parametrize(
    ("card", "told"),
    [("a100", "no card 'a100'; near are a100-40"), ("t4,l4", "two cards for all GPUs"), ("./none.json", "No such file")],
)
def test_a_card_that_is_none(card, told):
    done = harness.run([harness.WITH_SIMULATOR, "--card", card, "true"], check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("with-simulator: ") and told in done.stderr and done.stderr.count("\n") == 1


def test_pytorch_sees_the_card(python_env):
    script = (
        "import torch; p = torch.cuda.get_device_properties(0); "
        "print([p.name, p.major, p.minor, p.total_memory, p.multi_processor_count, p.max_threads_per_multi_processor])"
    )
    done = harness.run([harness.WITH_SIMULATOR, "--card", "l40s", python_env("torch215"), "-c", script])
    l40s = cards.find("l40s")
    assert done.stdout.strip() == str(["NVIDIA L40S", 8, 9, l40s.cuda_total.likely, 142, 1536])
