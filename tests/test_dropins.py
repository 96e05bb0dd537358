"""The drop-ins in detail: each row of docs/coming-from/coverage.md that tests/test_compat.py does not have.

The checks are in tests/workloads/compat, a process runs several modules of them. What breaks them: a name, a column
or a line that the original tool has and the drop-in has not, or has differently without a reason."""

import harness
from test_compat import PACKAGE

GAUGES = """
import gc, threading
from gpumem import _sampler
class Holder:
    def __init__(self): self.gauge, self.cycle = _sampler.Gauge(lambda: 0), self
    def __del__(self): self.gauge.close()
class Thread(threading.Thread):
    def __init__(self, *args, **kwargs):
        gc.collect()
        super().__init__(*args, **kwargs)
gc.disable()
Holder()
_sampler._thread, _sampler.threading.Thread = None, Thread
gauge = _sampler.Gauge(lambda: 5)
print(gauge.look(), _sampler._open == [gauge])
"""


def test_a_gauge_is_closed_by_garbage_collection_while_another_opens(python_env):
    done = harness.run([python_env("py312"), "-c", GAUGES], env=PACKAGE, timeout=30)
    assert done.stdout == "5 True\n"
