"""The examples of docs/commands/live.md and the dashboard, checked with the validators of the programs that read
them.

What breaks these tests: a manifest that Kubernetes' schema refuses, a unit that systemd refuses, a key of the
dashboard that Grafana does not have, and a query of it that has no answer."""

import json
import re
import shutil
import subprocess

import harness
import kubernetes_validate
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from jsonschema import ValidationError

PAGE = harness.ROOT / "docs" / "commands" / "live.md"
DASHBOARD = harness.ROOT / "analyzer" / "live" / "share" / "grafana-dashboard.json"
# Of an export for others; Grafana's importer reads them, the dashboard has them not.
OF_THE_EXPORT = {"__inputs", "__requires"}


def block(kind, containing):
    """The only block of code of the page with this text."""
    (found,) = [code for code in re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL) if containing in code]
    return found


def pod():
    """The page's part of a manifest, as a pod; what it leaves to its reader is added."""
    spec = yaml.safe_load(block("yaml", "shareProcessNamespace"))["spec"]
    for container in spec["containers"]:
        container["image"] = "example"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": spec}


def daemonset():
    spec = pod()["spec"]
    spec["hostPID"] = True
    spec["volumes"] = [{"name": "gpumem", "hostPath": {"path": "/run/gpumem"}}]
    spec["containers"] = spec["containers"][1:]
    template = {"metadata": {"labels": {"app": "gpumem"}}, "spec": spec}
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "gpumem-exporter"},
        "spec": {"selector": {"matchLabels": {"app": "gpumem"}}, "template": template},
    }  # fmt: skip


@pytest.mark.parametrize("manifest", [pod(), daemonset()], ids=["pod", "daemonset"])
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_kubernetes_takes_the_manifests(manifest, version):
    kubernetes_validate.validate(manifest, version, strict=True)


def test_kubernetes_refuses_a_manifest_with_a_fault():
    manifest = pod()
    manifest["spec"]["containers"][0]["env"][1]["valueFrom"]["fieldRef"]["path"] = "metadata.name"
    with pytest.raises((kubernetes_validate.ValidationError, ValidationError)):
        kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_systemd_takes_the_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze on this machine")
    unit = block("ini", "[Service]").replace("/usr/local/bin/gpumem-analyze", str(harness.ANALYZER))

    def verify(text):
        path = tmp_path / "gpumem-exporter.service"
        path.write_text(text)
        return harness.run(["systemd-analyze", "verify", "--man=no", path], check=False)

    done = verify(unit)
    assert (done.returncode, "gpumem-exporter" in done.stderr) == (0, False), harness.described(done)
    assert "ProtectHom" in verify(unit.replace("ProtectHome", "ProtectHom")).stderr


def kept(ours, theirs, where=""):
    """The fields that differ between ours and theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from kept(value, theirs[key], f"{where}.{key}") if key in theirs else [f"{where}.{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (one, other) in enumerate(zip(ours, theirs)):
            yield from kept(one, other, f"{where}[{at}]")
    elif ours != theirs:
        yield where


def test_grafana_s_models_know_each_key_of_the_dashboard():
    """A key that the models do not know is gone after them."""
    register_default_plugins()

    def lost(dashboard):
        ours = {key: value for key, value in dashboard.items() if key not in OF_THE_EXPORT}
        return list(kept(ours, json.loads(json.dumps(Dashboard.from_json(ours), cls=JSONEncoder))))

    dashboard = json.loads(DASHBOARD.read_text())
    assert lost(dashboard) == []
    dashboard["panels"][0]["fieldConfig"]["defaults"]["units"] = "bytes"
    dashboard["panels"][1]["targets"][0]["expression"] = "up"
    assert lost(dashboard) == [".panels[0].fieldConfig.defaults.units", ".panels[1].targets[0].expression"]
