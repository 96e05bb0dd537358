"""card_environment.py CARDS: prints the variables that give simulated GPUs the properties of these cards (h100,
24GiB, 0=h100,1=t4, ./mine.json), as NAME=VALUE lines. Used by scripts/with-simulator; any Python from 3.8 on."""

import sys
import types
from pathlib import Path

# The package without its __init__, which is only for recorded programs.
package = types.ModuleType("gpumem")
package.__path__ = [str(Path(__file__).resolve().parents[2] / "python" / "gpumem")]
sys.modules["gpumem"] = package
sys.dont_write_bytecode = True

from gpumem._machine.cards import simulated  # noqa: E402

try:
    for name, value in simulated.environment_of(simulated.parse(sys.argv[1])).items():
        print(f"{name}={value}")
except (LookupError, ValueError) as error:
    sys.exit(f"with-simulator: {error}")
