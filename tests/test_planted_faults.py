"""What the planted faults of the slow lane replace is in the source: who changes it changes the fault."""

import faults
import harness
import pytest
import test_category_faults
import test_tracker_faults

FAULTS = {"replay": test_category_faults.FAULTS, "tracker": test_tracker_faults.FAULTS}


@pytest.mark.parametrize("crate", FAULTS)
def test_each_can_be_planted(crate):
    for name, *changes in FAULTS[crate].values():
        source = (harness.ROOT / crate / "src" / name).read_text()
        assert faults.planted(name, source, changes) != source, changes
