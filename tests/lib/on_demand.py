"""A recorded program on the simulator that allocates on command."""

import json
import subprocess

import harness

PROGRAM = harness.WORKLOADS / "on_demand.py"
TORCH = harness.WORKLOADS / "on_demand_torch.py"


class Program:
    """A recorded program that allocates on command."""

    def __init__(self, folder, python, script=PROGRAM, **variables):
        command = harness.simulator_command([python, script])
        env = harness.clean_environment(harness.preloaded({"GPUMEM_QUIET": "1", "GPUMEM_OUTPUT": "report.bin", **variables}))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=folder
        )
        self.report = folder / "report.bin"

    def allocate(self, mib):
        """Has it allocate so much; what it holds then, in MiB."""
        return self.tell(mib)

    def tell(self, line):
        """Sends the program a command and returns its answer."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()
