"""Link: how HiCacheSimm talks to the daemon: one native call for a batch, misses in a microsecond
while the daemon is away, and a Store that is made as soon as there is a daemon, if there was none
at first."""

import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from simm import _native
from simm.breaker import Breaker
from simm.flags import flag_number
from simm.log import logger
from simm.results import INVALID_STATE, TIMEOUT
from simm.settings import Settings
from simm.store import Pages, Store

# Results of one exists call; a longer question is asked in pieces, and ends at the first miss.
QUESTION_MAX = 8192


class Link:
    """Thread: any. Nothing raises, except the constructor for a configuration without sense.

    lease_ms: what exists and get leave a page. on_back(): before the first call to a daemon that
    was away.
    """

    def __init__(self, overrides: Dict[str, Any], lease_ms: int,
                 on_back: Callable[[], None]) -> None:
        self._settings = Settings.read({**overrides, "exact_size": True})
        self._lease_ms = lease_ms
        self._on_back = on_back
        self._timeout_s = flag_number("clnt_sync_req_timeout_ms") / 1000
        self._closed = False
        self._store: Optional[Store] = None
        self._refusal = ""
        self._breaker = Breaker("simm.sglang", self._try)
        if not self._try():
            self._breaker.trip("there is no daemon yet")

    def _try(self) -> bool:
        if self._closed:
            return True
        store = self._store
        if store is not None:
            if store.ping() != 0:
                return False
            self._on_back()
            return True
        try:
            store = Store.with_settings(self._settings)
        except RuntimeError as error:
            if str(error) != self._refusal:
                self._refusal = str(error)
                logger.warning("simm.sglang: %s", error)
            return False
        self._store = store
        if self._closed:  # meanwhile
            store.close()
        else:
            self._on_back()
        return True

    @property
    def store(self) -> Optional[Store]:
        """None while there was no daemon yet, or the breaker is open."""
        return None if self._closed or self._breaker.is_open else self._store

    def is_away(self) -> bool:
        """Is the daemon not there just now? Then it is looked for."""
        if self._store is not None and not self._store.attached:
            self._breaker.trip("the daemon is away")
        return self._breaker.is_open

    def present(self, names: Sequence[str]) -> List[bool]:
        """Which are there, all of them leased. As many results as names."""
        store = self.store
        if store is None or not names:
            return [False] * len(names)
        began_s = time.monotonic()
        found = store.mexists(names, lease_ms=self._lease_ms)
        # The answer does not tell "absent" from "not answered".
        if any(found):
            self._judge(store, [0])
        elif not store.attached:
            self._breaker.trip("the daemon is away")
        elif time.monotonic() - began_s >= self._timeout_s:
            self._judge(store, [TIMEOUT])
        return found

    def _judge(self, store: Store, codes: Sequence[int]) -> None:
        self._breaker.judge(codes, lambda: store.attached)

    def put(self, names: Sequence[str], views: Pages) -> List[int]:
        """Codes; a page that is there already is a success, and its bytes are not moved."""
        store = self.store
        if store is None:
            return [INVALID_STATE] * len(names)
        codes: List[int] = store.mput(names, views, if_absent=True)  # type: ignore[assignment]
        self._judge(store, codes)
        return codes

    def get(self, names: Sequence[str], views: Pages, shared: bool) -> List[int]:
        """Bytes or codes."""
        store = self.store
        if store is None:
            return [INVALID_STATE] * len(names)
        codes: List[int] = store.mget(  # type: ignore[assignment]
            names, views, lease_ms=self._lease_ms, shared=shared)
        self._judge(store, codes)
        return codes

    def pin(self, names: Sequence[str]) -> None:
        """From eviction, as far as the tenant's budget allows."""
        store = self.store
        if store is not None:
            store.pin(names)

    def unpin(self, names: Sequence[str]) -> None:
        store = self.store
        if store is not None:
            store.unpin(names)

    def allocate(self, size: int) -> Optional[_native.Block]:
        """Memory that the daemon shares; None when it can not be had."""
        store = self.store
        try:
            return None if store is None else store.allocate(size)
        except RuntimeError as error:
            logger.warning("simm.sglang: %s", error)
            return None

    def stats(self) -> Dict[str, Any]:
        """Never waits."""
        store = self._store
        facts = {} if store is None else store.stats()
        return {**facts, "breaker": self._breaker.stats()}

    def close(self) -> None:
        """Safe twice."""
        self._closed = True
        self._breaker.close()
        if self._store is not None:
            self._store.close()
