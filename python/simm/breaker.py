"""Breaker: what stands between an engine's threads and a daemon that is away. While it is open the
caller answers misses at once, without asking anybody; a thread of its own tries whether the daemon
is back, and closes it then. No thread exists while the daemon answers."""

import os
import threading
import time
import weakref
from typing import Any, Callable, Dict, Sequence

from simm.log import logger
from simm.results import TIMEOUT, UNREACHABLE

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.25  # an attempt without a daemon costs some 20 us
# A stopped daemon neither answers nor hangs up: that many calls in a row without any answer.
TIMEOUTS_MAX = 2


class Breaker:
    """Thread: any. `attempt()` says whether the daemon answers; it may block and must not raise.

    `name`: of who asks, for the log. Starts closed: calls go through.
    """

    def __init__(self, name: str, attempt: Callable[[], bool]) -> None:
        self._name = name
        self._attempt = attempt
        self._open = False
        self._timeouts = 0
        self._trips = 0
        self._refused = 0
        self._since_s = 0.0
        self._renew()

    def _renew(self) -> None:
        # Of this process: a forked child has neither the thread nor who holds the lock.
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._working = False

    @property
    def is_open(self) -> bool:
        """True: answer a miss, do not call. Costs well below a microsecond."""
        if not self._open:
            return False
        if self._pid != os.getpid():
            self._renew()
            self._start()
        self._refused += 1
        return True

    def judge(self, codes: Sequence[int], attached: Callable[[], bool]) -> None:
        """Look at the results of a call. `attached()` is asked only when a page was unreachable:
        that may be one storage daemon of many, while this node's daemon is there."""
        if not codes:
            return
        code = min(codes)
        if code >= 0:
            self._timeouts = 0
        elif code == UNREACHABLE or UNREACHABLE in codes:
            if not attached():
                self.trip("the daemon is away")
        elif all(code == TIMEOUT for code in codes):
            self._timeouts += 1
            if self._timeouts >= TIMEOUTS_MAX:
                self.trip("the daemon does not answer")
        else:
            self._timeouts = 0

    def trip(self, why: str) -> None:
        """Open it, and look for the daemon until it is back."""
        if self._pid != os.getpid():
            self._renew()
        with self._lock:
            if self._open or self._ended.is_set():
                return
            self._open = True
            self._trips += 1
            self._since_s = time.monotonic()
        logger.warning("%s: %s: every call is a miss until it is back", self._name, why)
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._working or self._ended.is_set():
                return
            self._working = True
        threading.Thread(target=_look, args=(weakref.ref(self), self._ended), name="simm-breaker",
                         daemon=True).start()

    def _try_once(self) -> bool:
        if not self._attempt():
            return False
        away_s = time.monotonic() - self._since_s
        with self._lock:
            self._timeouts = 0
            self._working = False
            self._open = False
        logger.warning("%s: the daemon is back after %.1f s", self._name, away_s)
        return True

    def stats(self) -> Dict[str, Any]:
        """Never waits."""
        return {"open": self._open, "trips": self._trips, "calls_refused": self._refused}

    def close(self) -> None:
        """End its thread (which may be in an attempt: that is not waited for). Safe twice."""
        self._ended.set()


def _look(breaker: "weakref.ref[Breaker]", ended: threading.Event) -> None:
    """The thread: it does not keep a breaker alive that nobody else has."""
    pause_s = FIRST_PAUSE_S
    while not ended.wait(pause_s):
        alive = breaker()
        if alive is None or alive._try_once():
            return
        del alive
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
