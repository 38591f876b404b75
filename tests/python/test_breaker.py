"""Breaker: opens when the daemon is away or stopped, not when a page failed; closes by itself."""

import gc
import os
import threading
import time
import weakref

from simm.breaker import TIMEOUTS_MAX, Breaker, _look
from simm.results import NO_SPACE, NOT_FOUND, TIMEOUT, UNREACHABLE


def wait_until(true) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def breaker_with(answers: list) -> Breaker:
    """Each attempt takes an answer; the last one stays."""
    return Breaker("test", lambda: answers.pop(0) if len(answers) > 1 else answers[0])


def threads() -> list:
    return [thread for thread in threading.enumerate() if thread.name == "simm-breaker"]


def test_it_opens_when_the_daemon_is_away_and_closes_when_an_attempt_succeeds():
    breaker = breaker_with([False, False, True])
    assert not breaker.is_open and not threads()
    breaker.judge([0, UNREACHABLE], lambda: False)
    assert breaker.is_open and len(threads()) == 1
    wait_until(lambda: not breaker.is_open)
    wait_until(lambda: not threads())
    stats = breaker.stats()
    assert stats["trips"] == 1 and stats["calls_refused"] >= 1 and stats["open"] is False


def test_it_looks_often_enough_to_be_back_soon():
    """However long the daemon was away. Time is what the thread asks for."""
    class Clock:
        pauses = []

        def wait(self, pause_s):
            self.pauses.append(pause_s)
            return False

    breaker = breaker_with([False] * 40 + [True])
    breaker._open = True
    _look(weakref.ref(breaker), Clock())
    assert not breaker.is_open and max(Clock.pauses) <= 0.25 and sum(Clock.pauses) > 8


def test_one_storage_daemon_that_is_away_does_not_open_it():
    breaker = breaker_with([False])
    breaker.judge([4096, UNREACHABLE], lambda: True)
    breaker.judge([UNREACHABLE], lambda: True)
    for codes in ([NOT_FOUND], [NO_SPACE, 0], [], [0], [4096]):
        breaker.judge(codes, lambda: False)
    assert not breaker.is_open and not threads()


def test_calls_without_any_answer_open_it_when_they_are_in_a_row():
    breaker = breaker_with([False])
    for _ in range(3):
        for _ in range(TIMEOUTS_MAX - 1):
            breaker.judge([TIMEOUT, TIMEOUT], lambda: True)
        breaker.judge([0, 4096], lambda: True)
    breaker.judge([TIMEOUT, NOT_FOUND], lambda: True)
    assert not breaker.is_open
    for _ in range(TIMEOUTS_MAX):
        breaker.judge([TIMEOUT, TIMEOUT], lambda: True)
    assert breaker.is_open
    breaker.close()


def test_many_threads_open_it_once():
    breaker = breaker_with([False])
    pool = [threading.Thread(target=lambda: breaker.trip("test")) for _ in range(8)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join(30)
    assert breaker.stats()["trips"] == 1 and len(threads()) == 1
    breaker.close()
    breaker.close()
    wait_until(lambda: not threads())
    breaker.trip("after its end")
    assert breaker.stats()["trips"] == 1 and not threads()


def test_one_that_nobody_has_any_more_ends_its_thread():
    breaker = breaker_with([False])
    breaker.trip("test")
    assert len(threads()) == 1
    del breaker
    gc.collect()
    wait_until(lambda: not threads())


def test_a_forked_child_looks_for_itself():
    answers = [False]
    breaker = Breaker("test", lambda: answers[0])
    breaker.trip("test")
    child = os.fork()
    if child == 0:
        answers[0] = True
        end = time.monotonic() + 30
        while breaker.is_open and time.monotonic() < end:
            time.sleep(0.01)
        os._exit(1 if breaker.is_open else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert breaker.is_open  # ours still looks in vain
    breaker.close()
