"""simulator_names.py: prints a line for each library of the simulated card: cargo's
name, and the name that its clients look for. Used by scripts/wheel.

simulator_names.py --profile COMMAND: prints the simulated card's profile for this
command. Used by scripts/with-simulator; any Python from 3.8 on."""

import sys
import types
from pathlib import Path

# The package without its __init__, which is only for recorded programs.
package = types.ModuleType("gpumem")
package.__path__ = [str(Path(__file__).resolve().parents[2] / "python" / "gpumem")]
sys.modules["gpumem"] = package
sys.dont_write_bytecode = True

from gpumem._machine import simulator  # noqa: E402

if sys.argv[1:2] == ["--profile"]:
    print(simulator.profile(sys.argv[2]))
else:
    for libraries in (simulator.FOUND, *simulator.PRELOADED.values()):
        for built, name in libraries.items():
            print(f"{built} {name}")
