"""Engine: vLLM's side of a tier: its memory of rows, a file in /dev/shm without a name, and the
calls that its scheduler makes in a step."""

import gc
import hashlib
import mmap
import os
import tempfile
import time

import numpy

import vllm_interface as interface

ROWS, ROW_BYTES = 256, 8192


def key_of(text, group=0):
    return interface.make_offload_key(hashlib.sha256(text.encode()).digest(), group)


def keys_of(prefix, count):
    return [key_of(f"{prefix}/{i}") for i in range(count)]


class Engine:
    def __init__(self, new=True, spec=None, rows=ROWS, row_bytes=ROW_BYTES, **options):
        self._new = new
        file, path = tempfile.mkstemp(dir="/dev/shm", prefix="vllm_offload_")
        os.unlink(path)
        os.ftruncate(file, rows * row_bytes)
        self._file = file
        # The scheduler has its own mapping, and so has each worker, whose bytes count.
        self._maps = [mmap.mmap(file, rows * row_bytes) for _ in range(2)]
        self.view, self.rows = (numpy.frombuffer(of, numpy.int8).reshape(rows, row_bytes)
                                for of in self._maps)
        self.view = memoryview(self.view)
        make = interface.new_spec if new else interface.old_spec
        entry = {"type": "SimmTier", "module_path": "simm.vllm", "step_budget_us": 100_000,
                 "lookup_ms": 20_000, **options}
        try:
            self.tier = interface.SecondaryTierFactory.create_secondary_tier(
                entry, self.view, spec or make(fd=file))
        except BaseException:
            self._end()
            raise
        self.finished = {}
        self._jobs = 0

    # --- a step, in parts -------------------------------------------------------------------------

    def take(self):
        """The ended jobs: once at a step's begin."""
        tier = self.tier
        for result in (tier.get_finished_jobs() if self._new else tier.get_finished()):
            assert result.job_id not in self.finished, "ended twice"
            self.finished[result.job_id] = result

    def end(self):
        if self._new:
            self.tier.on_schedule_end(None)

    def look(self, key, request="r"):
        """True, False, None."""
        found = self.tier.lookup(key, interface.ReqContext(request))
        if not self._new:
            assert found is None or isinstance(found, bool)
            return found
        return {interface.LookupResult.HIT: True, interface.LookupResult.MISS: False,
                interface.LookupResult.RETRY: None}[found]

    def step(self, keys, request="r"):
        """One step's answers, by key."""
        self.take()
        answers = [self.look(key, request) for key in keys]
        self.end()
        return answers

    def steps(self, keys, request="r", timeout_s=60):
        """The answers, as many steps as they need."""
        deadline = time.monotonic() + timeout_s
        while None in (answers := self.step(keys, request)):
            assert time.monotonic() < deadline, "RETRY for ever"
            time.sleep(0.001)
        return answers

    def finish(self, request="r"):
        name = "on_request_finished" if self._new else "request_finished"
        getattr(self.tier, name)(interface.ReqContext(request))

    # --- jobs -------------------------------------------------------------------------------------

    def submit(self, what, keys, rows):
        self._jobs += 1
        kind = interface.NewJob if self._new else interface.OldJob
        job = kind(self._jobs, keys, numpy.array(rows), what == "load",
                   interface.ReqContext("r"))
        getattr(self.tier, f"submit_{what}")(job)
        return self._jobs

    def wait(self, number, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while number not in self.finished:
            assert time.monotonic() < deadline, "no end of the job"
            self.take()
            self.end()
            time.sleep(0.0005)
        return self.finished[number]

    def store(self, keys, rows):
        return self.wait(self.submit("store", keys, rows))

    def load(self, keys, rows):
        return self.wait(self.submit("load", keys, rows))

    def fill(self, rows, seed):
        """Bytes that no other seed makes."""
        dice = numpy.random.default_rng(seed)
        for row in rows:
            self.rows[row] = dice.integers(-128, 128, self.rows.shape[1], numpy.int8)

    # --- its end ----------------------------------------------------------------------------------

    def close(self):
        """As vLLM ends: the tier, the view, the memory."""
        self.tier.shutdown()
        self._end()

    def _end(self):
        self.view.release()
        del self.view, self.rows
        gc.collect()
        for each in self._maps:
            each.close()  # BufferError: somebody holds on to it
        os.close(self._file)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
