"""Object stores, which DuckDB's extensions read."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict

_EXTENSIONS = {"s3": ("httpfs", "aws"), "gs": ("httpfs", "aws"), "az": ("azure",)}
_KINDS = {"s3": "s3", "gs": "gcs", "az": "azure"}


class Refused(Exception):
    """DuckDB is not installed or has rejected the query; the message is the reason."""


def reach(run: Callable[..., Any], dataset: str) -> None:
    """Loads the extensions for an address, which DuckDB downloads once, and names the credentials. `run` runs SQL."""
    scheme = dataset.partition("://")[0]
    if scheme not in _EXTENSIONS:
        raise Refused(f"{dataset}: name a folder, or s3://, gs:// or az://")
    for extension in _EXTENSIONS[scheme]:
        try:
            run(f"install {extension}")
            run(f"load {extension}")
        except Refused as error:
            why = str(error).partition("\n")[0]
            raise Refused(
                f"{dataset}: DuckDB's extension {extension} cannot be loaded: {why}: "
                "allow its download, or copy the dataset with `aws s3 sync` or `rclone copy` and name the copy"
            ) from None
    # Secrets that the user has stored with DuckDB come first.
    if not run("select name from which_secret(?, ?)", [dataset, _KINDS[scheme]]).fetchall():
        cells = ", ".join(f"{name} '{value.replace(chr(39), chr(39) * 2)}'" for name, value in _secret(scheme).items())
        run(f"create secret ({cells})")


def _secret(scheme: str) -> Dict[str, str]:
    """Where the credentials are: the environment, and then what the providers' own tools use."""
    variable = os.environ.get
    made = {"type": _KINDS[scheme], "provider": "credential_chain"}
    if scheme == "az":
        if variable("AZURE_STORAGE_CONNECTION_STRING"):
            return {"type": "azure", "connection_string": variable("AZURE_STORAGE_CONNECTION_STRING", "")}
        return {**made, "account_name": variable("AZURE_STORAGE_ACCOUNT", "")}
    if variable("AWS_ENDPOINT_URL"):
        protocol, _, host = variable("AWS_ENDPOINT_URL", "").rstrip("/").partition("://")
        made.update(endpoint=host, url_style="path", use_ssl=str(protocol == "https").lower())
    return made
