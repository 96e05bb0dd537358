"""Shared by the checks of gpumem.compat. Each `check_…` of a module is one check; `python run.py MODULE…` runs them
in one process, in order, and prints which passed."""

import contextlib
import io
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

MB = 2**20
PRELOADED = "libgpumem.so" in os.environ.get("LD_PRELOAD", "")
SLOW = os.environ.get("GPUMEM_SIM_ALLOCATION_US", "0") != "0"


def said(call, *args, **kwargs):
    """What a call prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        call(*args, **kwargs)
    return out.getvalue()


def equal(found, wanted):
    assert found == wanted, f"\nfound:  {found!r}\nwanted: {wanted!r}"
