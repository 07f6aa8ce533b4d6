"""Exceptions in other threads, as CPython raises them: PyThreadState_SetAsyncExc."""

import gc
import threading
from collections.abc import Callable
from functools import cache


@cache
def exceptions_in_threads() -> tuple[Callable[[int, type[BaseException]], int], Callable[[int, None], int]]:
    """How to raise an exception in a thread, and how to take one back that has not been delivered."""
    import ctypes  # not needed by a program that only schedules functions

    raise_in = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
    take_back = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)  # a py_object cannot be NULL
    source = ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
    return raise_in(source), take_back(source)


class _Delivered(BaseException):
    """Raised in the watching thread by itself."""


def lower_flag() -> None:
    """Let the interpreter deliver an exception, here where it does no harm.

    Until 3.12 CPython has one flag for all threads that says "an exception is to be delivered". Taking one back raises
    the flag, too, and only a delivery lowers it. As long as it is up, all Python code is slower, and on 3.11 a function
    that is called under `sys.setprofile` or `sys.settrace` never begins.

    The garbage collector stands still meanwhile: a finalizer that it runs in this thread would get the exception, be
    cut off by it, and swallow it. Should one get it all the same, another is raised: the thread that calls this watches
    the time limits of all others.
    """
    raise_in, me = exceptions_in_threads()[0], threading.get_ident()
    collects = gc.isenabled()
    gc.disable()
    try:
        while True:
            raise_in(me, _Delivered)
    except _Delivered:
        pass
    finally:
        if collects:
            gc.enable()
