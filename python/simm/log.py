"""Where messages go: the logger "simm", a file if one is asked for, and failures of data calls once
each instead of once per call."""

import logging
import os
import time
from typing import Dict, Optional, Tuple

from simm import _native

logger = logging.getLogger("simm")

_REMEDIES = {
    -1002: "the deadline passed: raise clnt_sync_req_timeout_ms, or look at `simmctl status`",
    -1003: "a limit of the daemon or a quota of the tenant: see `simmctl limits` and its log",
    -1005: "the daemon closed the session: see `simmctl errors`",
    -1006: "the daemon's rules forbid it: see its configuration of tenants",
    -4006: "the pool is full of what is leased: raise node.pool_bytes, or lease less",
    -4008: "the bytes could not be moved: see `simmctl errors`",
}
_PIN_BUDGET = "the tenant's budget for pins is used up: unpin what need not stay"
# Codes whose reason libsimm knows. Others come from the daemon as a number only.
_EXPLAINED = (-1000, -1004, -1008, -1009, -2300)
_REPEAT_AFTER_S = 60.0

_TAKEN_BACK = (
    "a daemon did not run when a call's time was over: the call's pages of shared memory are "
    "private now, and copied. Other processes that map them no longer see what this one writes. "
    "These pages stay so (MrExt.pieces, stats()['taken_back']): register the memory with "
    "wait_if_stopped=True where it has to stay shared, and look why the daemon stood still "
    "(stopped, a frozen cgroup, no processor)")

_seen: Dict[Tuple[str, int], Tuple[float, int]] = {}
_file_handler = None
_warned_in = 0  # the process that was warned of memory that was taken back


def log_to_file(path: str) -> None:
    """Send messages to a file as well. Never fails: a file that can not be written is logged."""
    global _file_handler
    try:
        directory = os.path.dirname(path)
        if directory:
            os.makedirs(directory, exist_ok=True)
        handler = logging.FileHandler(path)
    except (OSError, ValueError) as error:
        logger.warning("flag clnt_log_file=%s: %s: messages go to the logger 'simm' only", path,
                       error)
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(process)d %(message)s"))
    before, _file_handler = _file_handler, handler
    logger.addHandler(handler)
    if before is not None:
        logger.removeHandler(before)
        before.close()


def set_log(to: Optional[logging.Logger]) -> None:
    """Send what libsimm has to say to a logger: that a session is lost and another one is there,
    why a daemon is not reached, that memory is copied from now on. None, as at first: nowhere.

    INFO: how things are; WARNING: what costs something until somebody does something about it.
    One for the process, also for Stores that exist. A message is logged in the thread of a call of
    the package, at its end, once and in order. 32 wait for the next call; further ones are counted.
    What a handler raises is printed (sys.unraisablehook) and ends no call. TypeError: no Logger.
    Thread: any; also after fork.
    """
    if to is None:
        _native.set_log(None)
        return
    if not isinstance(to, logging.Logger):
        raise TypeError(f"to = {to!r}: give a logging.Logger, or None")
    log = to.log
    levels = (logging.INFO, logging.WARNING)  # simm::LogLevel
    _native.set_log(lambda level, text: log(levels[level], "%s", text))


def report_failure(operation: str, code: int, pages: int, reason: str,
                   before: int = 0) -> None:
    """Log a failed data call: at once when it is new, then at most once a minute with a count.

    `pages`: how many pages of the call failed; `code`: of the first of them; `reason`: libsimm's;
    `before`: calls that failed in the same way before and were not reported.
    """
    now = time.monotonic()
    last, unsaid = _seen.get((operation, code), (None, 0))
    if last is not None and now - last < _REPEAT_AFTER_S:
        _seen[(operation, code)] = (last, unsaid + 1 + before)
        return
    _seen[(operation, code)] = (now, 0)
    text = reason if code in _EXPLAINED and reason else _REMEDIES.get(code, "see `simmctl errors`")
    if (operation, code) == ("pin", -4006):
        text = _PIN_BUDGET
    unsaid += before
    again = f" (and {unsaid} calls before)" if unsaid else ""
    logger.warning("%s: %d page(s) failed with %d: %s%s", operation, pages, code, text, again)


def warn_taken_back() -> None:
    """Shared memory of this process has become private: said once in a process."""
    global _warned_in
    if _warned_in != os.getpid():
        _warned_in = os.getpid()
        logger.warning("%s", _TAKEN_BACK)
