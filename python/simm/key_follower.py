"""KeyFollower: what becomes of the keys of a Store's namespace, as this node's daemon tells it."""

import enum
from types import TracebackType
from typing import List, NamedTuple, Optional, Tuple, Type

from simm import _native


class KeyChange(enum.IntEnum):
    """unsure and complete are of no key."""

    stored = 0  # visible now; it may have taken the place of an older one
    removed = 1  # somebody asked for that
    evicted = 2  # its room was needed
    expired = 3  # its time to live was over
    moved = 4  # it is with another daemon, or nowhere
    damaged = 5  # its bytes were not what was stored
    present = 6  # it is there, and was before it was followed
    unsure = 7  # nothing is certain any more, and tokens of before mean nothing
    complete = 8  # all keys that are there have been told since the last unsure


class KeyEvent(NamedTuple):
    """token: of the key, 16 bytes; bytes: of the object."""

    change: KeyChange
    token: bytes
    bytes: int


class KeyFollower:
    """Made by Store.follow_keys(). Who keeps an index of keys empties it for `unsure`, adds a key
    for `stored` and `present`, and removes one for all others. The daemon tells of its own part of
    a cluster's pool. Thread: one at a time."""

    def __init__(self, followed: _native.FollowedKeys) -> None:
        self._followed = followed

    def read(self, timeout_ms: int = 0) -> List[KeyEvent]:
        """The next events, at most 1,024. Waits for the first one, at most so long; 0: for nothing.
        RuntimeError: what is wrong, and the remedy: no daemon now, one of an older release, or one
        whose events.keys is off. A later call tries again."""
        return [KeyEvent(KeyChange(change), token, length)
                for change, token, length in self._followed.read(timeout_ms)]

    def read_plain(self, timeout_ms: int = 0, most: int = 1024) -> List[Tuple[int, bytes, int]]:
        """read() of at most so many (1 to 1,024), as plain tuples: names take their time."""
        return self._followed.read(timeout_ms, most)

    def token(self, key: str) -> Optional[bytes]:
        """Of a key, good until `unsure` is read. None: nothing was read yet."""
        return self._followed.token(key)

    def close(self) -> None:
        """It follows no more. Safe twice."""
        self._followed.close()

    def __enter__(self) -> "KeyFollower":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
