"""The software bill of materials of a release, in CycloneDX 1.6 (cyclonedx-python-lib)."""

import base64
import json
import uuid
from datetime import datetime, timezone
from typing import Dict, Sequence

import shipped
from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

_LICENCES = LicenseFactory()
# SPDX has no unambiguous identifier for it: https://sqlite.org/copyright.html
_NAMED = {"blessing": "blessing"}


def document(version: str, epoch: int, parts: Sequence[shipped.Part]) -> str:
    """The document as JSON. The same sources and the same time give the same bytes."""
    bom = Bom()
    root = Component(
        type=ComponentType.APPLICATION, name="gpumem", version=version, bom_ref=f"gpumem@{version}",
        licenses=[_LICENCES.make_from_string("MIT OR Apache-2.0")],
    )  # fmt: skip
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, timezone.utc)
    components = {part.label: _component(part) for part in parts}
    for component in components.values():
        bom.components.add(component)
    used = {use for part in parts for use in part.uses}
    # Parts that no other part uses are used by the release itself: binaries, C libraries, programs of the pages.
    bom.register_dependency(root, [components[label] for label in components if label not in used])
    for part in parts:
        bom.register_dependency(components[part.label], [components[use] for use in part.uses])
    names = "\n".join(sorted(component.bom_ref.value or "" for component in components.values()))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"gpumem {version} {epoch}\n{names}")
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise SystemExit(f"release: the SBOM is not valid: {wrong}")
    return json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def _component(part: shipped.Part) -> Component:
    purl = None if part.ours else PackageURL(part.kind, *_namespace(part.name), part.version)
    component = Component(
        type=ComponentType.LIBRARY, name=part.name, version=part.version, purl=purl,
        bom_ref=str(purl) if purl else f"workspace/{part.name}@{part.version}",
        licenses=[_LICENCES.make_from_string(_NAMED.get(part.licence, part.licence))] if part.licence else [],
        hashes=_hashes(part), author=part.authors or None,
    )  # fmt: skip
    if part.source:
        component.external_references.add(ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(part.source)))
    return component


def _namespace(name: str) -> tuple:
    """`@scope/name` of npm has a namespace."""
    scope, slash, bare = name.rpartition("/")
    return (scope, bare) if slash else (None, name)


def _hashes(part: shipped.Part) -> list:
    if part.sha256:
        return [HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)]
    if part.kind == "npm":
        integrity = _locked()[f"node_modules/{part.name}"]["integrity"]
        return [HashType(alg=HashAlgorithm.SHA_512, content=base64.b64decode(integrity.partition("-")[2]).hex())]
    return []


def _locked() -> Dict[str, dict]:
    packages: Dict[str, dict] = json.loads((shipped.ROOT / "web" / "package-lock.json").read_text())["packages"]
    return packages
