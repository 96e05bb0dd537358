"""`ipyexperiments`: parts of a notebook as experiments whose variables and memory are taken back at their end."""

from .cell_logger import CellLogger, CellLoggerData, CellLoggerMemory
from .experiments import (
    IPyExperimentData,
    IPyExperimentMemory,
    IPyExperimentsCPU,
    IPyExperimentsPytorch,
)

__all__ = [
    "CellLogger", "CellLoggerData", "CellLoggerMemory", "IPyExperimentData", "IPyExperimentMemory",
    "IPyExperimentsCPU", "IPyExperimentsPytorch",
]
