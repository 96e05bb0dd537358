"""Pools and physical handles of host, NUMA-node and managed memory: each byte is at its own level and device, with
the simulator's figures after every call."""

import harness
import pytest

MIB = 1 << 20


@pytest.mark.parametrize("how", ("late", "early"))
def test_memory_is_where_its_pool_or_handle_is(how, build_c, tmp_path):
    """The program compares after each step; at its end 7 MiB of a host pool and 9 MiB of a managed one are live."""
    client = build_c("hook_places.c", "-ldl")
    alone = harness.simulate([client, how], devices=2, cwd=tmp_path)
    done = harness.simulate([client, how], devices=2, cwd=tmp_path, preload=True, env={"GPUMEM_QUIET": "1"})
    assert done.stdout == alone.stdout == "host 7 MiB, managed 9 MiB\n"
    report = tmp_path / "report.bin"
    harness.analyze("check", report)
    summary = harness.analyze_json("report", "--all", report)
    assert summary["host_of_no_device"]["live_bytes"] == 7 * MIB
    live = [harness.device_of(summary, device)["driver"]["live_bytes"] for device in range(2)]
    assert live == [MIB if how == "late" else 0, 9 * MIB]
    (ledger,) = harness.analyze_json("ledger", "--device", "1", "--at", "end", report)
    assert ledger["managed_bytes"] == 9 * MIB and ledger["host_bytes"] == 0
    assert ledger["physical_bytes"] == 0, "managed memory is not counted as the card's"
