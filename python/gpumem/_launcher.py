"""Starting a program with libgpumem.so preloaded, and telling what it recorded."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, NoReturn, Optional, Sequence

from . import _files, _report, _rings

# As `env`, `nohup` and shells have it: ours alone, so that a program's own status is seldom mistaken.
FAILED, CANNOT_EXECUTE, NOT_FOUND = 125, 126, 127

# siginfo's si_code of a signal that the kernel sent: what is typed at a terminal goes to all of its
# foreground processes, the program among them.
_SI_KERNEL = 0x80

# Signals that stay the launcher's own: of faults, of job control (the program gets its own), and of its
# own writing.
_NOT_PASSED_ON = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN,
    signal.SIGTTOU, signal.SIGPIPE, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip


class CannotRun(Exception):
    """The program cannot be started; `status` is what the launcher ends with."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def command_of(words: Sequence[str]) -> List[str]:
    """The command that `words` stand for: a module (-m) or code (-c) for this Python, a script, or any
    program on PATH or beside this Python (torchrun of an environment that is not activated)."""
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


def environment(changes: Mapping[str, str], base: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """`base`, this process's environment, with the library preloaded before all else that is, and `changes`.
    NVTX needs nothing here: the library names itself to it when it is loaded."""
    try:
        library = _files.preloadable(_files.library())
    except _files.Missing as missing:
        raise CannotRun(FAILED, str(missing)) from None
    result = {**base, **changes}
    others = result.get("LD_PRELOAD", "")
    if not is_preloaded(others):
        result["LD_PRELOAD"] = f"{library}:{others}" if others else library
    return result


def is_preloaded(value: str) -> bool:
    """Whether LD_PRELOAD's value names a libgpumem.so already."""
    return any(os.path.basename(name) == _files.LIBRARY for name in value.replace(":", " ").split())


def become(command: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Turns this process into the program: nothing stands between it and its parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these; programs do not expect that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execve(command[0], list(command), dict(env))
    except OSError as error:
        raise _refused(command[0], error) from None


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program to its end, passing on the signals that this process gets. Its exit status, as a
    shell says it: 128 + N if signal N ended it."""
    waited_for = signal.valid_signals() - _NOT_PASSED_ON
    # Ignored, its children's ends would leave no trace.
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
        # What was meant for the program and came too late is not ours.
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
            # The program has not been waited for, so its number is still its own.
            os.kill(child, told.si_signo)


def _refused(program: str, error: OSError) -> CannotRun:
    status = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    return CannotRun(status, f"{program}: {error.strerror}")


def run_and_report(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program, then tells on stderr what each of its processes recorded. The status is the program's, whatever
    becomes of that."""
    handle, listed = tempfile.mkstemp(prefix="gpumem-captures.")
    os.close(handle)
    analyzer = _analyzer()
    status: Optional[int] = None
    captures: List[Path] = []
    try:
        with _rings.Rings(analyzer) as rings:
            status = run(command, {**env, **rings.environment, "GPUMEM_LIST": listed})
            captures = listed_captures(listed)
        _report.tell(captures, analyzer)
    except KeyboardInterrupt:
        # Enough seen.
        if status is None:
            raise
    except Exception as error:
        if status is None:
            raise
        kept = "  ".join(map(_report.short, captures))
        _report.say(f"the report failed because of an error in gpumem: {type(error).__name__}: {error}. The captures: {kept}")
    finally:
        with contextlib.suppress(OSError):
            os.unlink(listed)
    return status


def listed_captures(listed: str) -> List[Path]:
    """The captures that began during the run, in their order."""
    with open(listed, "rb") as file:
        names = file.read().split(b"\0")
    return [Path(os.fsdecode(name)) for name in names if name]


def _analyzer() -> Optional[Path]:
    try:
        return _files.analyzer()
    except _files.Missing:
        return None
