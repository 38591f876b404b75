"""Which prefixes of a request can be restored: the lengths that are legal for every pool at once. A
pool with windows (Mamba, sliding window) may allow 5 pages where it allows neither 4 nor 3, so the
least of what the pools allow at most would be wrong."""

from typing import List, Sequence


def leading(present: Sequence[bool]) -> int:
    """How many of them there are before the first that is missing."""
    try:
        return present.index(False)
    except ValueError:
        return len(present)


def legal_lengths(present: Sequence[bool], window: int) -> List[bool]:
    """[i]: may a prefix of i + 1 pages be restored? window: only so many pages at its end have to
    be there; 0: all of them."""
    legal = []
    run = 0
    for i, there in enumerate(present):
        run = run + 1 if there else 0
        legal.append(run > i if window == 0 else run >= min(window, i + 1))
    return legal


def longest(legal: Sequence[bool]) -> int:
    """The greatest legal length, or 0."""
    for i in range(len(legal) - 1, -1, -1):
        if legal[i]:
            return i + 1
    return 0


def common(lists: Sequence[Sequence[bool]], pages: int) -> List[int]:
    """The lengths of at most `pages` that every list allows, ascending."""
    return [i + 1 for i in range(pages) if all(legal[i] for legal in lists)]
