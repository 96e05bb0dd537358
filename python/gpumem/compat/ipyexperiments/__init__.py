"""`ipyexperiments`: parts of a notebook as experiments whose variables and memory are reclaimed at their end.

`from ipyexperiments import *` imports the same names as the original; `CellLogger` and the data types can be
imported from here, too."""

from . import cell_logger, ipyexperiments, version
from .cell_logger import CellLogger, CellLoggerData, CellLoggerMemory, CellLoggerTime  # noqa: F401
from .ipyexperiments import (
    IPyExperimentData,  # noqa: F401
    IPyExperimentMemory,  # noqa: F401
    IPyExperiments,
    IPyExperimentsCPU,
    IPyExperimentsGPU,
    IPyExperimentsPytorch,
)
from .version import __version__  # noqa: F401

__all__ = [
    "IPyExperiments", "IPyExperimentsCPU", "IPyExperimentsGPU", "IPyExperimentsPytorch",
    "cell_logger", "ipyexperiments", "version",
]
