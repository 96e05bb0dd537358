"""PyTorch's other allocators and more than one card, byte for byte against PyTorch and the books.

What breaks these tests: counting a VMM mapping as well as its handle, taking a segment's growth for
a new allocation, charging device 1 to device 0, or missing the stream-ordered calls."""

import harness
import pytest

TRAIN = (harness.WORKLOADS / "train.py", "--steps", "3", "--batch", "8")


def run(simulate, python, tmp_path, *script, devices=1, **env):
    done = simulate(
        [python, harness.WORKLOADS / "tell.py", "--end", "hard", *script],
        devices=devices, preload=True, env=env,
    )
    return harness.figures(done), tmp_path / "report.bin"


def check_tensors(device, own):
    tensor = device["tensor"]
    assert tensor["live_bytes"] == own["allocated"]
    assert tensor["peak_bytes"] == own["max_allocated"]


def check_driver(device, books):
    driver = device["driver"]
    assert driver["live_bytes"] == books["driver"]["current"]
    assert driver["peak_bytes"] == books["driver"]["peak"]
    assert driver["allocations"] == books["driver"]["allocations"]


def test_expandable_segments(python_env, simulate, tmp_path, analyze, analyze_json):
    figures, report = run(
        simulate, python_env("torch215"), tmp_path, *TRAIN,
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
    )
    books = figures["books"]["devices"][0]
    assert books["kinds"]["vmm"]["allocations"] > 0, "the run did use expandable segments"
    summary = analyze_json("report", "--all", report)
    check_tensors(harness.device_of(summary), figures["devices"][0])
    check_driver(harness.device_of(summary), books)
    assert summary["exact"] is True
    analyze("check", report)


def test_cuda_malloc_async(python_env, simulate, tmp_path, analyze, analyze_json):
    """Each tensor is a driver event here: lines come from the driver level."""
    figures, report = run(
        simulate, python_env("torch215"), tmp_path, *TRAIN,
        PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
    )
    books = figures["books"]["devices"][0]
    assert books["kinds"]["async"]["allocations"] > 100
    summary = analyze_json("report", "--all", report)
    check_driver(harness.device_of(summary), books)
    rows = analyze_json("lines", "--level", "driver", report)
    assert sum(row["bytes"] for row in rows) == books["driver"]["peak"]
    assert any(row["file"] and row["file"].endswith("train.py") for row in rows)
    analyze("check", report)


def test_no_caching(python_env, simulate, tmp_path, analyze_json):
    figures, report = run(
        simulate, python_env("torch215"), tmp_path, *TRAIN, PYTORCH_NO_CUDA_MEMORY_CACHING="1"
    )
    books = figures["books"]["devices"][0]
    assert books["driver"]["allocations"] > 100
    check_driver(harness.device_of(analyze_json("report", "--all", report)), books)


@pytest.mark.parametrize("environment", ("torch215", "torch112"))
def test_two_devices(environment, python_env, simulate, tmp_path, analyze_json):
    figures, report = run(
        simulate, python_env(environment), tmp_path, harness.WORKLOADS / "two_devices.py",
        devices=2, **harness.SIMULATED_CARD[environment],
    )
    summary = analyze_json("report", "--all", report)
    assert len(figures["devices"]) == 2
    assert summary["exact"] is True
    for ordinal, own in enumerate(figures["devices"]):
        books = figures["books"]["devices"][ordinal]
        device = harness.device_of(summary, ordinal)
        assert device["uuid"] == books["uuid"]
        check_tensors(device, own)
        check_driver(device, books)
    peaks = [own["max_allocated"] for own in figures["devices"]]
    assert peaks == [21 * 512, (42 + 600) * 512]
    rows = analyze_json("lines", "--at", "end", report)
    by_device = [sum(row["bytes"] for row in rows if row["device"] == ordinal) for ordinal in (0, 1)]
    assert by_device == [own["allocated"] for own in figures["devices"]]


def test_out_of_memory_and_recovery(python_env, simulate, tmp_path, analyze, analyze_json):
    """A card of 1 GiB: the failures change no figure, and what comes after them is still exact."""
    script = tmp_path / "full.py"
    script.write_text(
        "import torch\n"
        "kept, failures = [], 0\n"
        "for size in (300, 400, 600, 500, 100):\n"
        "    try:\n"
        "        kept.append(torch.empty(size << 20, dtype=torch.uint8, device='cuda'))\n"
        "    except RuntimeError:\n"
        "        failures += 1\n"
        "assert failures == 2, failures\n"
        "del kept[0]\n"
        "torch.cuda.empty_cache()\n"
        "kept.append(torch.empty(250 << 20, dtype=torch.uint8, device='cuda'))\n"
    )
    done = simulate(
        [python_env("torch215"), harness.WORKLOADS / "tell.py", "--end", "hard", script],
        memory="1GiB", preload=True, env={"GPUMEM_SIM_CONTEXT_BYTES": "0"},
    )
    figures, report = harness.figures(done), tmp_path / "report.bin"
    assert figures["devices"][0]["ooms"] == 2
    summary = analyze_json("report", "--all", report)
    check_tensors(harness.device_of(summary), figures["devices"][0])
    check_driver(harness.device_of(summary), figures["books"]["devices"][0])
    assert summary["exact"] is True
    analyze("check", report)


def test_driver_clients(python_env, simulate, tmp_path, analyze_json):
    """numba-cuda: no framework, every array a driver event, compared with the books at exit."""
    books = tmp_path / "books.json"
    simulate(
        [python_env("numba"), harness.WORKLOADS / "numba_vectors.py"],
        preload=True, env={"GPUMEM_SIM_BOOKS": str(books)},
    )
    book = harness.read_books(books)["devices"][0]
    device = harness.device_of(analyze_json("report", "--all", tmp_path / "report.bin"))
    assert device["driver"]["peak_bytes"] == book["driver"]["peak"] == 800_000 + 10 * 40_000
    assert device["host"]["peak_bytes"] == book["host"]["peak"]
    rows = analyze_json("lines", "--level", "driver", tmp_path / "report.bin")
    assert sum(row["bytes"] for row in rows) == book["driver"]["peak"]


def test_a_client_of_cudart_102(build_c, cudart102, simulate, tmp_path, analyze_json):
    """Requested bytes: 5 000 000, a pitched 1000 × 300 at the pitch that came back, 700 000 managed."""
    client = build_c("cudart_client.c", cudart102 / "libcudart.so.10.2", f"-Wl,-rpath,{cudart102}")
    books = tmp_path / "books.json"
    done = simulate(
        [client, "leak"], preload=True,
        env={**harness.CUDA_10, "GPUMEM_SIM_BOOKS": str(books)},
    )
    pitch = int(done.stdout.split("pitch ")[1].split(",")[0])
    book = harness.read_books(books)["devices"][0]
    device = harness.device_of(analyze_json("report", "--all", tmp_path / "report.bin"))
    assert device["driver"]["live_bytes"] == 5_000_000 + pitch * 300 + 700_000 == book["driver"]["current"]
    assert device["driver"]["frees"] == 0
    assert device["host"]["live_bytes"] == 12_345 + 54_321 == book["host"]["current"]
