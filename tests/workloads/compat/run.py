"""Runs the checks of the modules that are named."""

import importlib
import sys
import traceback

failed = 0
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for check, function in list(vars(module).items()):
        if check.startswith("check_"):
            try:
                function()
            except Exception:
                failed += 1
                print(f"FAILED {name}.{check}")
                traceback.print_exc()
            else:
                print(f"passed {name}.{check}", flush=True)
sys.exit(failed != 0)
