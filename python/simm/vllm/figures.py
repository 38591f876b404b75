"""Figures: what a tier has done, as counts and as a line of the log."""

import time
from typing import Any, Dict

from simm.log import logger


class Flow:
    """Chunks of one direction. Its busy time is the time in which at least one job was under way:
    jobs beside each other count once."""

    def __init__(self) -> None:
        self.chunks = 0
        self.failed = 0
        self.bytes = 0
        self.jobs = 0
        self._busy_s = 0.0
        self._under_way = 0
        self._since_s = 0.0

    def begin(self) -> None:
        if self._under_way == 0:
            self._since_s = time.monotonic()
        self._under_way += 1

    def end(self, good: int, failed: int, row_bytes: int) -> None:
        self.jobs += 1
        self.chunks += good
        self.failed += failed
        self.bytes += good * row_bytes
        self._under_way -= 1
        if self._under_way == 0:
            self._busy_s += time.monotonic() - self._since_s

    def facts(self) -> Dict[str, Any]:
        rate = self.bytes / self._busy_s / 1e9 if self._busy_s > 0 else 0.0
        return {"jobs": self.jobs, "chunks": self.chunks, "failed": self.failed,
                "bytes": self.bytes, "gb_per_s": round(rate, 3)}


class Figures:
    """Thread: one at a time."""

    def __init__(self, log_interval_s: int) -> None:
        self.loads = Flow()
        self.stores = Flow()
        self.hits = 0
        self.misses = 0  # `late` and `refused` among them
        self.late = 0
        self.refused = 0  # the table of lookups was full
        self.asked_again = 0  # chunks that were told as stored
        self.found_gone = 0   # and those of them that were not there
        self._log_interval_s = log_interval_s
        self._log_at_s = time.monotonic() + log_interval_s
        self._said = ""

    def facts(self) -> Dict[str, Any]:
        return {"lookups": {"hits": self.hits, "misses": self.misses, "late": self.late,
                            "refused": self.refused},
                "rechecks": {"asked": self.asked_again, "gone": self.found_gone},
                "loads": self.loads.facts(), "stores": self.stores.facts()}

    def log(self) -> None:
        """At most one line in an interval, and none when nothing has happened."""
        now_s = time.monotonic()
        if not self._log_interval_s or now_s < self._log_at_s:
            return
        self._log_at_s = now_s + self._log_interval_s
        text = self._line()
        if text != self._said:
            self._said = text
            logger.info("SimmTier: %s", text)

    def _line(self) -> str:
        asked = self.hits + self.misses
        parts = [f"{self.hits} of {asked} lookups hit"]
        for verb, flow in (("loaded", self.loads), ("stored", self.stores)):
            facts = flow.facts()
            parts.append(f"{verb} {facts['bytes'] / 1e9:.2f} GB at {facts['gb_per_s']:.2f} GB/s, "
                         f"{facts['failed']} chunks failed")
        return "; ".join(parts)
