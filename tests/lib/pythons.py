"""The CPythons of tests. In the default lane a test runs on those that differ in what it tests; in the slow one on all."""

import pytest

VERSIONS = ("py38", "py39", "py310", "py311", "py312", "py313", "py314")


def versions(*default):
    """Parameters of a test: all versions, those that are not named in the slow lane alone."""
    return [version if version in default else pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS]
