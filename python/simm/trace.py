"""The trace that calls are part of, so that a request of an engine and its pages are one trace."""

from typing import Optional

from simm import _native


def set_trace_parent(trace_parent: Optional[str]) -> None:
    """Name the span that this thread's calls are part of from now on, of all Stores.

    trace_parent: what a tracing library says as `traceparent` (W3C Trace Context),
    "00-<32 digits>-<16 digits>-<2 digits>". None, or one that is not sampled: no span. The daemon
    sends spans where its configuration says (trace.endpoint); elsewhere nothing happens. An
    asynchronous call has the one that was set when it was called. ValueError: no traceparent; what
    was set before stays. Thread: any; each has its own.
    """
    _native.set_trace_parent("" if trace_parent is None else trace_parent)
