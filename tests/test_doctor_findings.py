"""`gpumem doctor` on machines that cannot be set up here: WSL, MPS, containers, file systems, errors of a driver.

Each is a folder with the files that show it, or an answer of the probe. What breaks these tests: a finding without
its advice, or an error of a driver that counts as a working driver."""

import os
import shutil
import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._commands.doctor import check, driver, places, surroundings  # noqa: E402


def machine(tmp_path, files, **env):
    root = tmp_path / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return check.Machine(str(root), env)


def test_where_it_runs(tmp_path):
    bare = machine(tmp_path, {})
    assert {each.status for each in list(surroundings.checks(bare))} == {"ok"}
    assert surroundings.container(bare).found == surroundings.wsl(bare).found == surroundings.mps(bare).found == "not found"
    for files, env, kind in (
        ({"/.dockerenv": ""}, {}, "Docker"),
        ({"/run/.containerenv": ""}, {}, "Podman"),
        ({}, {"APPTAINER_CONTAINER": "x.sif"}, "Apptainer"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"),
        ({"/proc/1/cgroup": "0::/kubepods/pod1\n"}, {}, "kubepods"),
    ):
        assert surroundings.kind_of_container(machine(tmp_path, files, **env)) == kind
    assert surroundings.wsl(machine(tmp_path, {"/proc/version": "Linux 5.15 (Microsoft@x)"})).found.startswith("found")
    assert surroundings.mps(machine(tmp_path, {"/tmp/nvidia-mps/control": ""})).status == "warning"
    assert surroundings.mps(machine(tmp_path, {"/pipes/control": ""}, CUDA_MPS_PIPE_DIRECTORY="/pipes")).status == "warning"
    assert "is 2" in surroundings.ptrace(machine(tmp_path, {"/proc/sys/kernel/yama/ptrace_scope": "2\n"})).found
    preloads = surroundings.others_preloaded(machine(tmp_path, {}, LD_PRELOAD="/x/libjemalloc.so.2:/y/libgpumem.so"))
    assert preloads.found == "libjemalloc.so.2; the recorder is loaded before it"


def test_file_systems(tmp_path):
    lines = [
        "22 1 8:1 / / rw - overlay overlay rw", "23 22 0:5 / /data rw - nfs4 server:/data rw",
        r"24 22 0:6 / /with\040space rw master:1 - fuse.sshfs host: rw", "25 22 0:7 / /data rw - xfs /dev/sdb rw",
    ]  # fmt: skip
    found = machine(tmp_path, {"/proc/self/mountinfo": "\n".join(lines)})
    assert places.mount_of("/elsewhere", found).kind == "overlay"
    assert places.mount_of("/data/x", found).kind == "xfs", "a later mount covers an earlier one"
    assert places.mount_of("/database", found).kind == "overlay"
    assert places.mount_of("/with space/x", found).kind == "fuse.sshfs"
    for kind, named in (("nfs4", "a network"), ("fuse.sshfs", "a FUSE"), ("overlay", "a container's layer"), ("tmpfs", "in memory")):
        assert places.described(kind).startswith(f"{kind}, {named}")
    assert places.described("ext4") == "ext4"


CARD = {"name": "NVIDIA H100", "total": 80 << 30, "used": 1 << 30, "instances": 0, "processes": 1}
NVML = {"loads": True, "init": 0, "version": "590.48.01", "cards": [CARD]}
DRIVER = {
    "loads": True, "file": "/usr/lib/libcuda.so.590.48.01", "init": 0, "cuda": 13020,
    "devices": [{"name": "NVIDIA H100", "total": 79 << 30, "uuid": "1"}],
}  # fmt: skip


def judged(tmp_path, driver_=None, nvml=None, files=None, **env):
    said = {"driver": {**DRIVER, **(driver_ or {})}, "nvml": nvml or NVML}
    return {each.name: each for each in driver.checks(said, machine(tmp_path, files or {}, **env))}


def test_a_driver_that_works(tmp_path):
    found = judged(tmp_path)
    assert found["driver"].found == "590.48.01, CUDA 13.2, /usr/lib/libcuda.so.590.48.01"
    assert found["GPU 0"].found == "NVIDIA H100, 79.0 GiB, 1.00 GiB in use"
    assert {each.status for each in found.values()} == {"ok"}


@pytest.mark.parametrize(
    ("code", "advice"),
    [(34, "stubs"), (100, "CUDA_VISIBLE_DEVICES"), (802, "nvidia-fabricmanager"), (803, "Restart"), (804, "compat"), (999, "nvidia-smi")],
)
def test_a_driver_that_does_not_start(tmp_path, code, advice):
    found = judged(tmp_path, {"init": code, "devices": []})
    assert found["driver"].status == "error" and f"cuInit returned {code}" in found["driver"].found and advice in found["driver"].advice


def test_a_driver_that_is_not_there(tmp_path):
    missing = {"loads": False, "why": "libcuda.so.1: cannot open shared object file: No such file or directory"}
    module = {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01  Mon\n"}
    for files, advice in (
        ({}, "Install NVIDIA's driver"), ({"/.dockerenv": ""}, "--gpus all"), ({"/proc/version": "microsoft"}, "for Windows"),
        (module, "user-space libraries"),
    ):  # fmt: skip
        found = judged(tmp_path, missing, {"loads": False, "why": ""}, files)
        assert advice in found["driver"].advice and set(found) == {"driver", "NVML"}
    found = judged(tmp_path, {"loads": False, "why": "libcuda.so.1: file too short"})
    assert found["driver"].found.endswith("cannot be loaded: libcuda.so.1: file too short")


def test_nvml_that_does_not_answer(tmp_path):
    """Recording works without it."""
    found = judged(tmp_path, nvml={"loads": True, "init": 18})
    assert found["NVML"].status == "warning" and "differ in version" in found["NVML"].found and "Restart" in found["NVML"].advice
    assert found["driver"].status == "ok" and "MIG" not in found
    found = judged(tmp_path, nvml={**NVML, "cards": [{**CARD, "processes": None}]})
    assert "processes are not listed" in found["NVML"].found


def test_a_driver_that_hangs(tmp_path, monkeypatch):
    """The probe is a separate process. The doctor stops waiting for it and continues."""
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep infinity\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(driver, "SECONDS", 0.01)
    monkeypatch.setattr(driver.sys, "executable", str(hangs))
    said = driver.probe(os.environ)
    [found] = driver.checks(said, machine(tmp_path, {}))
    assert found.status == "error" and "did not answer within" in found.found
    monkeypatch.setattr(driver, "SECONDS", 300)
    monkeypatch.setattr(driver.sys, "executable", "/bin/false")
    assert driver.probe(os.environ)["failed"].startswith("asking the driver ended with 1")
