"""Exceptions and the frames that they keep."""

import os
import threading

from planted import Thing, case, line_of, tensor

FILE = os.path.basename(__file__)

holder = other = None


def fail(value, then=None):
    kept = value
    del value
    if then is not None:
        then()
    raise ValueError(kept is None)


@case
def tracebacks(check):
    global holder
    try:
        fail(tensor())
    except ValueError as error:
        holder = Thing(error=error)
    line = line_of(fail, "raise ValueError")
    check.of_global("holder.error → traceback → fail (%s:%d) kept" % (FILE, line), kind="traceback")
    holder = None
    check.freed(1)


@case
def tracebacks_of_chained_exceptions(check):
    global holder

    def again():
        try:
            fail(tensor())
        except ValueError:
            raise KeyError(1)

    try:
        try:
            again()
        except KeyError as error:
            raise OSError(2) from error
    except OSError as error:
        holder = error
    line = line_of(fail, "raise ValueError")
    text = "holder → KeyError → ValueError → traceback → fail (%s:%d) kept" % (FILE, line)
    check.of_global(text, kind="traceback")
    holder.__cause__.__context__ = holder.__context__.__context__ = None
    check.freed(1)


@case
def arguments_of_exceptions(check):
    global holder
    holder = ValueError("text", tensor())
    holder.attr = tensor(2)
    check.find()
    check.kept("holder.args[1]")
    check.kept("holder.attr", size=2)
    holder.args = ()
    check.freed(1)


@case
def exceptions_that_are_handled(check):
    try:
        fail(tensor())
    except ValueError:
        check.find()
    line = line_of(fail, "raise ValueError")
    text = "ValueError → traceback → fail (%s:%d) kept" % (FILE, line)
    check.kept(text, "exception that is being handled", kind="traceback")
    check.freed(1)


@case
def exceptions_that_callers_handle(check):
    def inner():
        try:
            raise KeyError
        except KeyError:
            check.find()

    try:
        fail(tensor())
    except ValueError:
        inner()
    line = line_of(fail, "raise ValueError")
    text = "→ traceback → fail (%s:%d) kept" % (FILE, line)
    [found] = check.found.holders
    assert found.text in ("ValueError %s" % text, "KeyError → ValueError %s" % text), found
    assert found.place == "exception that is being handled", found
    check.freed(1)


@case
def exceptions_that_other_threads_handle(check):
    def work():
        try:
            fail(tensor())
        except ValueError:
            begun.set()
            end.wait()

    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    check.find()
    line = line_of(fail, "raise ValueError")
    text = "ValueError → traceback → fail (%s:%d) kept" % (FILE, line)
    check.kept(text, "exception that is being handled", kind="traceback")
    end.set()
    thread.join()
    check.freed(1)
