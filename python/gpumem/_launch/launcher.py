"""Starts a program with libgpumem.so preloaded, and reports its captures."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, NoReturn, Optional, Sequence

from .._machine import installed
from .._reading import report
from .._text.messages import say, short
from . import program as _program, rings as _rings

# As in `env`, `nohup` and shells. Programs rarely use these statuses themselves.
FAILED, CANNOT_EXECUTE, NOT_FOUND = 125, 126, 127

# siginfo's si_code of a signal from the kernel: signals from the terminal go to all its foreground processes, including
# the program.
_SI_KERNEL = 0x80

# Signals that the launcher does not pass on: those of faults, of job control (the program gets separate ones), and of
# its writes.
_NOT_PASSED_ON = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN,
    signal.SIGTTOU, signal.SIGPIPE, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip


class CannotRun(Exception):
    """The program cannot be started; `status` is the launcher's exit status."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def command_of(words: Sequence[str]) -> List[str]:
    """The command for `words`: a module (-m) or code (-c) for this Python, a script, or any program on PATH or in the
    folder of this Python (torchrun in an environment that is not activated)."""
    first = words[0]
    if first in ("-m", "-c"):
        return [_python(), *words]
    if first.endswith((".py", ".pyz")) or os.path.isdir(first):
        if not os.path.exists(first):
            raise CannotRun(NOT_FOUND, f"{first}: no such file")
        return [_python(), *words]
    found = shutil.which(first) or shutil.which(first, path=os.path.dirname(_python()))
    if found:
        return [found, *words[1:]]
    if os.path.isfile(first):
        raise CannotRun(
            CANNOT_EXECUTE, f"{first}: cannot be executed (a Python script? gpumem run python {first})"
        )
    raise CannotRun(NOT_FOUND, f"{first}: no such program")


def _python() -> str:
    return sys.executable or "python3"


def environment(
    changes: Mapping[str, str], base: Mapping[str, str] = os.environ, program: Optional[str] = None
) -> Dict[str, str]:
    """`base`, this process's environment, with `changes` and with the library before other preloaded ones. Only
    AddressSanitizer's is before it, because its programs do not start otherwise. NVTX needs no variable: the library
    registers itself with it when it is loaded."""
    facts = _program.of(program) if program else None
    if facts and facts.is_of_musl:
        say(f"{program} is a program of musl, into which glibc's libraries cannot be loaded: it runs without the recorder")
        return {**base, **changes}
    try:
        library = installed.preloadable(installed.library())
    except installed.Missing as missing:
        raise CannotRun(FAILED, str(missing)) from None
    result = {**base, **changes}
    others = result.get("LD_PRELOAD", "")
    if not is_preloaded(others):
        names = others.replace(":", " ").split()
        sanitizers = [name for name in names if _program.is_sanitizer(os.path.basename(name))]
        if not sanitizers and facts and facts.sanitizer:
            sanitizers = [facts.sanitizer]
        result["LD_PRELOAD"] = ":".join([*sanitizers, library, *(name for name in names if name not in sanitizers)])
    return result


def is_preloaded(value: str) -> bool:
    """Whether LD_PRELOAD's value already contains a libgpumem.so."""
    return any(os.path.basename(name) == installed.LIBRARY for name in value.replace(":", " ").split())


def become(command: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replaces this process with the program, which then has the same parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these signals; programs expect the default.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execve(command[0], list(command), dict(env))
    except OSError as error:
        raise _refused(command[0], error) from None


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program to its end, and passes on the signals that this process gets. Returns its exit status as in a
    shell: 128 + N if signal N ended it."""
    waited_for = signal.valid_signals() - _NOT_PASSED_ON
    # If it were ignored, the exit status of children would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for | {signal.SIGCHLD})
    try:
        try:
            child = os.posix_spawn(
                command[0], list(command), dict(env),
                setsigmask=before, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )  # fmt: skip
        except OSError as error:
            raise _refused(command[0], error) from None
        status = _wait(child, waited_for | {signal.SIGCHLD})
        # Signals for the program that arrived too late are discarded.
        while signal.sigtimedwait(waited_for, 0):
            pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def _wait(child: int, signals: "set[signal.Signals]") -> int:
    while True:
        told = signal.sigwaitinfo(signals)
        if told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
        elif told.si_code != _SI_KERNEL:
            # The program has not been waited for, so its process id is still valid.
            os.kill(child, told.si_signo)


def _refused(program: str, error: OSError) -> CannotRun:
    status = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    return CannotRun(status, f"{program}: {error.strerror}")


def run_and_report(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program, then prints a report of each capture on stderr. Returns the program's status, even if the
    report fails."""
    handle, listed = tempfile.mkstemp(prefix="gpumem-captures.")
    os.close(handle)
    analyzer = _analyzer()
    status: Optional[int] = None
    captures: List[Path] = []
    try:
        with _rings.Rings(analyzer) as rings:
            status = run(command, {**env, **rings.environment, "GPUMEM_LIST": listed})
            captures = listed_captures(listed)
        report.tell(captures, analyzer)
    except KeyboardInterrupt:
        # The user has interrupted the report.
        if status is None:
            raise
    except Exception as error:
        if status is None:
            raise
        kept = "  ".join(map(short, captures))
        say(f"the report failed because of an error in gpumem: {type(error).__name__}: {error}. The captures: {kept}")
    finally:
        with contextlib.suppress(OSError):
            os.unlink(listed)
    return status


def listed_captures(listed: str) -> List[Path]:
    """The captures that began during the run, in order."""
    with open(listed, "rb") as file:
        names = file.read().split(b"\0")
    return [Path(os.fsdecode(name)) for name in names if name]


def _analyzer() -> Optional[Path]:
    try:
        return installed.analyzer()
    except installed.Missing:
        return None
