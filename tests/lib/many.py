"""Many command lines of gpumem-analyze in one process (analyzer/cli/examples/many.rs)."""

import json
import subprocess

import harness


class Many:
    """A process that answers command lines."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [harness.EXAMPLES / "many"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=harness.clean_environment(),
        )
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def analyze(self, *arguments):
        """The same as harness.analyze without check."""
        words = [str(word) for word in arguments]
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        code, stdout, stderr = json.loads(self.process.stdout.readline())
        return subprocess.CompletedProcess(["gpumem-analyze", *words], code, stdout, stderr)
