"""News: which chunks the pool has, and which it has no more, as far as this tier has seen. vLLM
asks for news once in a step when it publishes events, and passes them on to routers.

A chunk is news when it is stored, or found where it was not known; and when it is missed where it
was known: evicted, removed, expired, or its owner is away. Where the daemon tells what leaves its
pool (departures.py), a chunk is news when it has left. Others are asked for anew (rounds.py)."""

from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

KEYS_MAX = 1 << 17  # that are known; the oldest one gives way, and is told as removed


class News:
    """Until somebody takes news for the first time there are none, and nothing is kept; nor are
    there when nobody takes them any more. Thread: one at a time. Nothing raises."""

    def __init__(self, token_of: Callable[[bytes], Optional[bytes]] = lambda key: None) -> None:
        """token_of: by which left() names the chunk; None: by nothing."""
        self._token_of = token_of
        self._is_wanted = False
        self._known: Dict[bytes, Optional[bytes]] = {}  # with its token, the oldest first
        self._by_token: Dict[bytes, bytes] = {}
        self._doubted: Set[bytes] = set()
        self._untold: Dict[bytes, bool] = {}  # the last of each: True: it is there

    def there(self, keys: Iterable[bytes]) -> None:
        """The pool has them."""
        for key in keys:
            if not self._is_wanted:
                return
            self._doubted.discard(key)
            if key in self._known:
                continue
            token = self._known[key] = self._token_of(key)
            if token is not None:
                self._by_token[token] = key
            self._tell(key, True)
            if len(self._known) > KEYS_MAX:
                self.gone([next(iter(self._known))])

    def gone(self, keys: Iterable[bytes]) -> None:
        """The pool has them no more, or nobody knows."""
        if not self._is_wanted:
            return
        for key in keys:
            if key in self._known:
                token = self._known.pop(key)
                if token is not None:
                    self._by_token.pop(token, None)
                self._tell(key, False)

    def left(self, tokens: Iterable[bytes]) -> None:
        """The pool has no more what these name. Most name no chunk that is known here."""
        by_token = self._by_token
        self.gone([by_token[token] for token in tokens if token in by_token])

    def known(self) -> List[bytes]:
        """What the pool has, as far as that is known; the oldest first."""
        return list(self._known)

    def doubt(self, keys: Iterable[bytes]) -> List[bytes]:
        """Those of them that are known: they are asked for, until settle()."""
        doubted = [key for key in keys if key in self._known]
        self._doubted = set(doubted)
        return doubted

    def settle(self, absent: Iterable[bytes]) -> None:
        """The answer to what is doubted: these were not there. What was told as there meanwhile is
        newer than the answer."""
        self.gone([key for key in absent if key in self._doubted])
        self._doubted = set()

    def name_known(self) -> None:
        """Gives those a token that became known before there were tokens."""
        for key in [key for key, token in self._known.items() if token is None]:
            token = self._known[key] = self._token_of(key)
            if token is not None:
                self._by_token[token] = key

    def all_gone(self) -> None:
        """Nobody knows what is there."""
        self.gone(list(self._known))

    @property
    def is_wanted(self) -> bool:
        return self._is_wanted

    def _tell(self, key: bytes, is_there: bool) -> None:
        self._untold.pop(key, None)  # the order is that of the last events
        self._untold[key] = is_there
        if len(self._untold) > 2 * KEYS_MAX:  # nobody has taken any for long
            self._is_wanted = False
            self._known.clear()
            self._by_token.clear()
            self._doubted.clear()
            self._untold.clear()

    def take(self) -> List[Tuple[bool, List[bytes]]]:
        """Since the last call, in their order: chunks that are there (True), or are not (False)."""
        self._is_wanted = True
        told: List[Tuple[bool, List[bytes]]] = []
        for key, is_there in self._untold.items():
            if not told or told[-1][0] != is_there:
                told.append((is_there, []))
            told[-1][1].append(key)
        self._untold.clear()
        return told
