"""Link: the Store of one connector, which may be missing: the daemon may start after the engine,
and be away later. Until there is one every call is a miss at once, and a thread looks for it.

A connector whose calls may not wait asks for the Store's channel as well. To open one may attach
anew, which takes 5 s beside a daemon that was just stopped: so it is opened where the Store is
made, in the constructor or in that thread."""

import threading
from typing import Any, Dict, List, Optional, Sequence

from simm import _native
from simm.breaker import Breaker
from simm.log import logger
from simm.settings import Settings
from simm.store import Store

_LOOK_MS = 500


class Link:
    """Thread: any. channel: of the Store, where it was asked for and there is a Store."""

    def __init__(self, name: str, settings: Settings, with_channel: bool = False) -> None:
        self._name = name
        self._settings = settings
        self._with_channel = with_channel
        self.channel: Optional[_native.Channel] = None
        self._lock = threading.Lock()
        self._store: Optional[Store] = None
        self._closed = False
        self._said = ""
        self._breaker = Breaker(name, self._attempt)
        if not self._attempt():
            self._breaker.trip("there is no daemon yet")

    def _attempt(self) -> bool:
        if self._store is not None:
            return bool(self._store.ping(_LOOK_MS))
        try:
            store = Store.with_settings(self._settings)
            channel = store.open_channel() if self._with_channel else None
        except RuntimeError as error:
            if str(error) != self._said:
                self._said = str(error)
                logger.error("%s: not connected: %s", self._name, error)
            return False
        with self._lock:
            if not self._closed:
                self.channel = channel
                self._store = store
                return True
        if channel is not None:
            channel.close()
        store.close()
        return False

    def store(self) -> Optional[Store]:
        """The Store, or None: answer a miss. Well below a microsecond."""
        return None if self._closed or self._breaker.is_open else self._store

    def judge(self, results: Sequence[int]) -> None:
        """Tell of a call's results: codes, lengths."""
        store = self._store
        self._breaker.judge(results, lambda: store is not None and store.attached)

    def judge_missing(self, found: List[bool]) -> None:
        """Tell of an exists: that all are missing may be the daemon's being away."""
        store = self._store
        if store is not None and not any(found) and not store.attached:
            self._breaker.trip("the daemon is away")

    def stats(self) -> Dict[str, Any]:
        """Never waits."""
        store = self._store
        return {**({} if store is None else store.stats()), "breaker": self._breaker.stats()}

    def close(self) -> None:
        """In the event loop's thread, if there are asynchronous calls. Safe twice."""
        with self._lock:
            self._closed = True
            store = self._store
        self._breaker.close()
        if self.channel is not None:
            self.channel.close()
        if store is not None:
            store.close()
