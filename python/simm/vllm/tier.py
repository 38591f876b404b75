"""SimmTier: SiMM as a secondary tier of vLLM's offloading connector. All of it runs in the
scheduler's thread: nothing waits beyond a budget, and nothing raises but the constructor."""

import dataclasses
import functools
import os
from typing import Any, Iterable, List

from vllm.v1.kv_offload import base as _offload
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from simm.link import Link
from simm.log import logger
from simm.vllm.batches import Batches
from simm.vllm.calm import never_raises, nothing, report
from simm.vllm.departures import Departures
from simm.vllm.figures import Figures
from simm.vllm.identity import identity_of, key_of, prefix_of
from simm.vllm.lookups import Lookups
from simm.vllm.news import News
from simm.vllm.options import Options
from simm.vllm.rounds import Rounds
from simm.vllm.rows import Rows
from simm.vllm.transfers import Transfers

# Of the versions of vLLM: earlier ones answer lookups by True, False and None, and know no part of
# a job.
_RESULT = getattr(_offload, "LookupResult", None)
_HIT: Any = True if _RESULT is None else _RESULT.HIT
_MISS: Any = False if _RESULT is None else _RESULT.MISS
_RETRY: Any = None if _RESULT is None else _RESULT.RETRY
# Of those that publish what is stored and removed.
_EVENT = getattr(_offload, "OffloadingEvent", None)
_MEDIUM: Any = getattr(getattr(_offload, "Medium", None), "STORAGE", "STORAGE")
_EVENT_FIELDS = frozenset() if _EVENT is None else frozenset(
    field.name for field in dataclasses.fields(_EVENT))
_JOB_FIELDS = frozenset(field.name for field in dataclasses.fields(JobResult))

_never_raises = functools.partial(never_raises, "SimmTier")


class SimmTier(SecondaryTierManager):
    """vLLM makes it from an entry of `secondary_tiers`; Options says what may stand in that. What
    later versions pass besides is ignored. A daemon that is not there is no error: it may come.

    ValueError, RuntimeError: an option or a setting, and the remedy; memory or a version of vLLM
    that it does not understand. Thread: one at a time, as vLLM guarantees.
    """

    medium = _MEDIUM  # by which requests may leave tiers out

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview,
                 tier_type: str = "SimmTier", **options: Any) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type)
        read = Options.read(options)
        self._figures = Figures(read.log_interval_s)
        self._rows = Rows(offloading_spec, primary_kv_view)
        identity = identity_of(offloading_spec, self._rows.row_bytes)
        prefix = prefix_of(identity)
        self._link = Link("SimmTier", read.settings, with_channel=True)
        self._departures = Departures(self._link)
        self._news = News(lambda key: self._departures.token_of(key_of(prefix, key)))
        self._batches = Batches(self._link)
        self._lookups = Lookups(self._batches, prefix, self._rows.row_bytes, read,
                                self._figures, self._news)
        self._rounds = Rounds(self._batches, self._news, self._lookups.texts_of,
                              self._rows.row_bytes, read, self._figures)
        self._look = self._lookups.look
        self._transfers = Transfers(self._batches, self._rows, self._lookups, read, self._figures)
        self._closed = False
        logger.info("SimmTier: keys of this engine begin with %s, which stands for %s",
                    prefix, identity)
        if os.environ.get("PYTHONHASHSEED", "random") == "random":
            logger.warning("SimmTier: PYTHONHASHSEED is not set: vLLM's hashes are of this process "
                           "only, and no other engine finds its chunks: set it to 0 everywhere")

    # --- of a request -----------------------------------------------------------------------------

    def lookup(self, key: bytes, req_context: Any, **_more: Any) -> Any:
        """HIT, MISS, or RETRY in the next step; after Options.lookup_ms at the latest MISS."""
        try:
            found = self._look(key, req_context.req_id)
        except Exception as error:
            report("SimmTier.lookup", error)
            return _MISS
        return _RETRY if found is None else _HIT if found else _MISS

    def on_new_request(self, req_context: Any, **_more: Any) -> Any:
        """No wishes: chunks are stored as they are made."""
        return _offload.RequestOffloadingContext()

    get_request_offloading_context = on_new_request  # its earlier name

    @_never_raises(nothing)
    def on_request_finished(self, req_context: Any, **_more: Any) -> None:
        """Its lookups are forgotten."""
        self._lookups.forget(req_context.req_id)

    request_finished = on_request_finished  # its earlier name

    # --- jobs -------------------------------------------------------------------------------------

    @_never_raises(nothing)
    def submit_store(self, job_metadata: Any, **_more: Any) -> None:
        """Put the rows' chunks, but for those that the pool has."""
        self._transfers.store(job_metadata.job_id, job_metadata.keys, _rows_of(job_metadata))

    @_never_raises(nothing)
    def submit_load(self, job_metadata: Any, **_more: Any) -> None:
        """Get chunks into the rows."""
        self._transfers.load(job_metadata.job_id, job_metadata.keys, _rows_of(job_metadata))

    @_never_raises(list)
    def get_finished_jobs(self, **_more: Any) -> Iterable[Any]:
        """Those that have ended since the last call. vLLM calls it once in each step."""
        self._lookups.end_step()
        self._batches.poll()
        self._departures.poll(self._news)
        self._rounds.poll()
        self._figures.log()
        return self._results()

    get_finished = get_finished_jobs  # its earlier name

    def _results(self) -> List[Any]:
        results = []
        for ended in self._transfers.take_ended():
            facts = {"job_id": ended.number, "success": ended.is_whole,
                     "successful_keys": None if ended.is_whole else ended.good,
                     "transfer_time": ended.seconds}
            results.append(JobResult(**{name: value for name, value in facts.items()
                                        if name in _JOB_FIELDS}))
        return results

    @_never_raises(list)
    def take_events(self, **_more: Any) -> Iterable[Any]:
        """Chunks that were stored or found, and those that were missed or have left the pool, since
        the last call. The latter where the daemon tells it (departures.py), elsewhere when their
        turn comes (rounds.py)."""
        if _EVENT is None:
            return []
        events = []
        for is_there, keys in self._news.take():
            facts = {"keys": keys, "medium": _MEDIUM, "removed": not is_there,
                     "locality": getattr(self, "locality", None)}
            events.append(_EVENT(**{name: value for name, value in facts.items()
                                    if name in _EVENT_FIELDS}))
        return events

    @_never_raises(nothing)
    def on_schedule_end(self, *_context: Any, **_more: Any) -> None:
        """The step's questions go out."""
        self._lookups.end_step()

    @_never_raises(nothing)
    def drain_jobs(self, **_more: Any) -> None:
        """Waits for all jobs, at most for their deadlines plus 100 ms, beside a stopped daemon
        until it goes on or dies: then nothing touches the rows, and get_finished_jobs() tells of
        each."""
        self._batches.finish()

    # --- about ------------------------------------------------------------------------------------

    def stats(self) -> Any:
        """Counts of lookups, loads and stores, and what Store.stats() says. Never waits."""
        return {**self._figures.facts(), **self._link.stats()}

    @_never_raises(nothing)
    def shutdown(self, **_more: Any) -> None:
        """Waits like drain_jobs(). Safe twice."""
        if self._closed:
            return
        self._closed = True
        self._departures.close()
        self._batches.close()
        self._rows.close()
        self._link.close()
        logger.info("SimmTier: closed: %s", self._figures.facts())


def _rows_of(job: Any) -> Iterable[Any]:
    rows: Iterable[Any] = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
    return rows
