"""Store.follow_keys() against real daemons."""

import threading
import time

import pytest

from conftest import Daemon
from simm.kv import KeyChange, Store

ON = ('{"node": {"pool_bytes": "16MiB"}, "session": {"handshake_ms": 60000}, '
      '"store": {"lease_default_ms": 1}, "events": {"keys": "hashes"}}')


@pytest.fixture
def on(tmp_path, monkeypatch):
    running = Daemon(tmp_path, config=ON).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    yield running
    running.kill()


def read_until(follower, is_last, timeout_s=60):
    events = []
    deadline = time.monotonic() + timeout_s
    while not events or not is_last(events[-1]):
        assert time.monotonic() < deadline, events
        for event in follower.read(100):
            events.append(event)
            if is_last(event):
                assert event == events[-1]
    return events


def is_change(change, token=None):
    return lambda event: event.change == change and token in (None, event.token)


def changes(events):
    return [(event.change, event.token) for event in events]


def test_what_is_stored_replaced_and_deleted_is_told_by_tokens(on):
    with Store() as store, store.follow_keys() as follower:
        assert follower.token("a") is None
        assert changes(read_until(follower, is_change(KeyChange.unsure))) == [
            (KeyChange.unsure, bytes(16))]
        a, b = follower.token("a"), follower.token("b")
        assert len(a) == 16 and a != b
        assert store.put("a", b"x" * 100) == 0
        assert store.put("b", b"y" * 200) == 0
        assert store.put("a", b"z" * 300) == 0
        assert store.delete("b") == 0
        told = read_until(follower, is_change(KeyChange.removed))
        assert [(event.change, event.token, event.bytes) for event in told] == [
            (KeyChange.stored, a, 100), (KeyChange.stored, b, 200), (KeyChange.stored, a, 300),
            (KeyChange.removed, b, 200)]
        assert follower.read() == []


def test_an_eviction_is_told(on):
    with Store() as store, store.follow_keys() as follower:
        read_until(follower, is_change(KeyChange.unsure))
        for number in range(24):  # of which 16 MiB hold less
            assert store.put(f"large{number}", bytes([number]) * (1 << 20)) == 0
        read_until(follower, lambda event: event.change == KeyChange.evicted and event.token in [
            follower.token(f"large{number}") for number in range(24)])


def test_present_keys_then_complete_then_events(on):
    with Store() as store:
        keys = [f"k{number}" for number in range(3000)]
        for key in keys:
            assert store.put(key, b"x" * 64) == 0
        with store.follow_keys(present=True) as follower:
            told = read_until(follower, is_change(KeyChange.complete))
            assert told[0].change == KeyChange.unsure
            assert {event.token for event in told[1:-1]} == {follower.token(key) for key in keys}
            assert {event.change for event in told[1:-1]} == {KeyChange.present}
            assert store.delete(keys[7]) == 0
            told = read_until(follower, is_change(KeyChange.removed))
            assert told[-1].token == follower.token(keys[7])


def test_an_index_that_begins_in_the_middle_of_traffic_is_what_is_there(on):
    """Keys come, go and are evicted while the present ones are told."""
    with Store() as store:
        keys = [f"k{number}" for number in range(600)]
        for key in keys[:300]:
            store.put(key, b"x" * 40_000)
        with store.follow_keys(present=True) as follower:
            index, is_complete, number = set(), False, 0
            while not is_complete or number < 2000:
                store.put(keys[number * 7 % 600], b"y" * 40_000)
                store.delete(keys[number * 13 % 600])
                number += 1
                for event in follower.read():
                    assert event.change != KeyChange.unsure or not index
                    is_complete = is_complete or event.change == KeyChange.complete
                    if event.change in (KeyChange.stored, KeyChange.present):
                        index.add(event.token)
                    elif event.change not in (KeyChange.unsure, KeyChange.complete):
                        index.discard(event.token)
            store.put("last", b"z")
            last = follower.token("last")
            for event in read_until(follower, is_change(KeyChange.stored, last)):
                if event.change == KeyChange.stored:
                    index.add(event.token)
                else:
                    index.discard(event.token)
            there = store.mexists(keys)
            assert 0 < sum(there) < 600
            assert {follower.token(key) for key, is_there in zip(keys, there) if is_there} == (
                index - {last})


def test_another_namespace_is_not_told(on, monkeypatch):
    with Store() as usual:
        monkeypatch.setenv("SIMM_NAMESPACE", "space")
        with Store() as of_space, of_space.follow_keys() as follower:
            read_until(follower, is_change(KeyChange.unsure))
            assert usual.put("a", b"1") == 0
            assert of_space.put("b", b"22") == 0
            told = read_until(follower, is_change(KeyChange.stored))
            assert changes(told) == [(KeyChange.stored, follower.token("b"))]


def test_the_next_life_of_the_daemon_is_unsure_and_has_other_tokens(on):
    with Store() as store, store.follow_keys(present=True) as follower:
        read_until(follower, is_change(KeyChange.complete))
        before = follower.token("a")
        on.kill()
        with pytest.raises(RuntimeError, match="no daemon at"):
            while True:
                follower.read(10)
        on.start()
        while not store.put("a", b"1") == 0:
            time.sleep(0.01)
        events, deadline = [], time.monotonic() + 60
        while not events or events[-1].change != KeyChange.complete:
            assert time.monotonic() < deadline
            try:
                events += follower.read(100)
            except RuntimeError:
                pass
        assert events[0].change == KeyChange.unsure
        assert follower.token("a") != before
        assert follower.token("a") in [event.token for event in events]


def test_a_daemon_that_tells_nothing_says_the_remedy(own_daemon):
    with Store() as store, store.follow_keys() as follower:
        with pytest.raises(RuntimeError, match='events.keys is "off": set'):
            while True:
                follower.read(100)
        assert store.put("a", b"1") == 0


def test_a_closed_one_and_wrong_arguments(on):
    store = Store()
    follower = store.follow_keys()
    for wrong in (-1, "1", 1.5):
        with pytest.raises((TypeError, ValueError), match="timeout_ms"):
            follower.read(wrong)
    for wrong in (0, 1025):
        with pytest.raises(ValueError, match="most"):
            follower.read_plain(0, wrong)
    store.close()
    with pytest.raises(RuntimeError, match="Store is closed"):
        store.follow_keys()
    follower.close()
    follower.close()
    with pytest.raises(RuntimeError, match="closed"):
        follower.read()


def test_other_threads_may_close_it_while_one_reads(on):
    with Store() as store:
        block = store.allocate(16)
        for number in range(20):
            follower = store.follow_keys()
            read_until(follower, is_change(KeyChange.unsure))
            told = []
            reader = threading.Thread(target=lambda: told.append(follower.read(60_000)))
            reader.start()
            deadline = time.monotonic() + 60
            while True:  # until that one waits
                assert time.monotonic() < deadline
                try:
                    follower.token("key")
                except RuntimeError as error:
                    assert "another thread reads" in str(error)
                    break
            with pytest.raises(RuntimeError, match="another thread reads"):
                follower.read()
            follower.close()
            assert store.put(f"key{number}", block.view()) == 0
            reader.join(60)
            assert [event.change for event in told[0]] == [KeyChange.stored]
            assert follower.token("key") is None
            with pytest.raises(RuntimeError, match="closed"):
                follower.read()


def test_followers_that_never_read_harm_nobody_and_are_bounded(on):
    with Store() as store, store.follow_keys() as victim:
        read_until(victim, is_change(KeyChange.unsure))
        dead = [store.follow_keys(present=True) for _ in range(40)]
        refused = 0
        for one in dead:
            try:
                for _ in range(20):
                    one.read(10)
            except RuntimeError as error:
                assert "16 of this tenant follow the events of keys already" in str(error)
                refused += 1
        assert refused == 25
        values = {f"v{number}": bytes([number]) * 4096 for number in range(40)}
        for key, value in values.items():
            assert store.put(key, value) == 0
        told = read_until(victim, is_change(KeyChange.stored, victim.token("v39")))
        assert changes(told) == [(KeyChange.stored, victim.token(key)) for key in values]
        for one in dead:
            one.close()
        victim.read()
        assert on.stats("key_events")["key_events.lost"] == 0
    # The session's end ends what it followed.
    deadline = time.monotonic() + 60
    while on.stats("key_events")["key_events.subscribers"] != 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
