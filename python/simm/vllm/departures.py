"""Departures: what the daemon tells of its own accord about chunks that leave its pool, so that
routers hear of an eviction within some steps of the scheduler, and not when somebody looks for the
chunk. The daemon's events.keys decides whether it tells anything. In a cluster this daemon tells of
its own part of the pool; chunks of other parts are asked for (rounds.py).

What a step has read is applied in the next one, when that has heard of all transfers and lookups
that had ended by then: so an eviction never comes before the store that it is about."""

import time
from typing import Dict, List, Optional

from simm.key_follower import KeyChange, KeyFollower
from simm.link import Link
from simm.log import logger
from simm.vllm.news import News

# A step reads no more: to make Python's objects of an event takes a quarter of a microsecond.
_EVENTS_PER_STEP = 512
_AGAIN_S = 10.0  # after a daemon has refused

_THERE = (KeyChange.stored, KeyChange.present)


class Departures:
    """Thread: one at a time. Nothing raises."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._follower: Optional[KeyFollower] = None
        self._was_sure = False  # ever
        self._is_unsure = False
        self._changes: Dict[bytes, bool] = {}  # that are not applied, by token: is it there?
        self._again_s = 0.0
        self._said = ""

    def token_of(self, text: str) -> Optional[bytes]:
        """Of a chunk's key in the pool. None: nobody tells what leaves it."""
        return None if self._follower is None else self._follower.token(text)

    def poll(self, news: News) -> None:
        """Once in a step, behind what has ended."""
        if not news.is_wanted:
            return self.close()
        self._apply(news)
        if self._follower is None:
            store = self._link.store()
            if store is None or time.monotonic() < self._again_s:
                return
            self._follower = store.follow_keys()
        try:
            self._read(news)
        except RuntimeError as error:  # it is away, or tells nothing
            self._say(str(error))
            self.close()
            self._again_s = time.monotonic() + _AGAIN_S
            self._is_unsure = self._was_sure

    def _apply(self, news: News) -> None:
        if self._is_unsure:
            self._is_unsure = False
            news.all_gone()
        if self._changes:
            news.left(token for token, is_there in self._changes.items() if not is_there)
            self._changes = {}

    def _read(self, news: News) -> None:
        assert self._follower is not None
        for change, token, _ in self._follower.read_plain(0, _EVENTS_PER_STEP):
            if change == KeyChange.unsure:
                self._changes = {}
                self._is_unsure = self._was_sure
                if not self._was_sure:
                    news.name_known()
                self._was_sure = True
            else:
                self._changes[token] = change in _THERE

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            logger.warning("SimmTier: routers hear of an eviction when its chunk is looked for, or "
                           "in a round (recheck_s): %s", text)

    def close(self) -> None:
        """Safe twice."""
        follower, self._follower = self._follower, None
        self._changes = {}
        if follower is not None:
            follower.close()
