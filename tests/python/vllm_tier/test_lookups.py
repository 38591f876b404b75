"""The table of lookups, with a pool that answers when the test says so, in the test's own time."""

import types

import pytest

import vllm_interface as interface
from tier_lab import key_of, keys_of


class Pool:
    """Stands in for Batches."""

    def __init__(self):
        self.asked = []
        self.at_poll = None

    def start(self, operation, keys, views, done, **options):
        self.asked.append((keys, done, options))

    def answer(self, length):
        for keys, done, _ in self.asked:
            done([length] * len(keys))
        self.asked = []

    def poll(self):
        if self.at_poll is not None:
            self.at_poll()


@pytest.fixture
def scene(monkeypatch):
    interface.install()
    from simm.vllm import figures, lookups, news
    now = types.SimpleNamespace(s=1000.0)
    monkeypatch.setattr(lookups, "time", types.SimpleNamespace(monotonic=lambda: now.s))
    pool = Pool()
    options = types.SimpleNamespace(lease_ms=10_000, lookup_ms=100, step_budget_us=200)
    figures_ = figures.Figures(0)
    table = lookups.Lookups(pool, "p/", 64, options, figures_, news.News())
    yield types.SimpleNamespace(now=now, pool=pool, table=table, figures=figures_,
                                module=lookups)
    interface.forget()


def test_the_budget_is_of_a_step_and_not_of_a_lookup(scene):
    polls = []

    def poll():
        polls.append(scene.now.s)
        scene.now.s += 0.00006

    scene.pool.at_poll = poll
    assert [scene.table.look(key_of(f"b{i}"), f"r{i}") for i in range(9)] == [None] * 9
    assert len(polls) == 4  # of 60 us each
    scene.table.end_step()
    assert scene.table.look(key_of("c"), "s") is None
    assert len(polls) == 8


def test_the_questions_of_a_step_are_one_batch(scene):
    keys = keys_of("one", 5)
    scene.pool.at_poll = lambda: setattr(scene.now, "s", scene.now.s + 0.001)
    for key in keys:
        assert scene.table.look(key, "r") is None
        assert scene.table.look(key, "r2") is None, "asked already"
    scene.table.end_step()
    sent = [text for texts, _, _ in scene.pool.asked for text in texts]
    assert sent == ["p/" + key[:-4].hex() + "_0" for key in keys]
    assert len(scene.pool.asked) <= 2
    assert all(options == {"lease_ms": 10_000, "timeout_ms": 100}
               for _, _, options in scene.pool.asked)


def test_groups_of_layers_are_told_apart_in_any_order(scene):
    from simm.vllm.identity import keys_of as texts_of
    keys = [key_of("a", 0), key_of("a", 1), key_of("b", 0), key_of("b", 70_000), key_of("a", 0)]
    texts = texts_of("p/", keys)
    assert [text.rpartition("_")[2] for text in texts] == ["0", "1", "0", "70000", "0"]
    assert texts[0] == texts[4] and len(set(texts)) == 4


def test_no_answer_is_a_miss_when_its_time_is_over(scene):
    key = key_of("late")
    scene.pool.at_poll = lambda: setattr(scene.now, "s", scene.now.s + 0.0002)
    assert scene.table.look(key, "r") is None
    scene.table.end_step()
    scene.now.s += 0.098
    assert scene.table.look(key, "r") is None
    scene.now.s += 0.003
    assert scene.table.look(key, "r") is False
    assert scene.figures.late == 1
    scene.pool.answer(64)  # too late for this request
    assert scene.table.look(key, "r") is False


def test_a_hit_is_believed_for_half_of_its_lease(scene):
    key = key_of("hit")
    scene.pool.at_poll = lambda: scene.pool.answer(64)
    assert scene.table.look(key, "r") is True
    scene.pool.at_poll = lambda: setattr(scene.now, "s", scene.now.s + 0.001)
    scene.now.s += 4.9
    assert scene.table.look(key, "r") is True and scene.pool.asked == []
    scene.now.s += 0.2
    assert scene.table.look(key, "r") is None, "asked anew, which renews the lease"
    scene.table.end_step()
    assert len(scene.pool.asked) == 1


def test_a_value_of_another_size_is_a_miss(scene):
    for length in (63, 65, 0, -4003, -1002, -2300):
        scene.pool.at_poll = lambda: scene.pool.answer(length)
        assert scene.table.look(key_of(str(length)), str(length)) is False


def test_a_failed_load_is_a_miss_for_a_while_whoever_asks(scene):
    key = key_of("failed")
    scene.pool.at_poll = lambda: scene.pool.answer(64)
    assert scene.table.look(key, "r") is True
    scene.table.note_failed([key])
    scene.table.forget("r")
    scene.now.s += 9.9
    assert scene.table.look(key, "other") is False
    scene.now.s += 0.2
    assert scene.table.look(key, "other") is True


def test_the_tables_have_a_bound(scene, monkeypatch):
    monkeypatch.setattr(scene.module, "KEYS_MAX", 10)
    keys = keys_of("bound", 20)
    scene.pool.at_poll = lambda: setattr(scene.now, "s", scene.now.s + 0.001)
    answers = [scene.table.look(key, "r") for key in keys]
    assert answers == [None] * 10 + [False] * 10 and scene.figures.refused == 10
    scene.table.forget("r")
    assert scene.table.look(keys[19], "s") is None
    monkeypatch.setattr(scene.module, "_FAILED_MAX", 10)
    for i in range(30):
        scene.table.note_failed([key_of(f"f{i}")])
    assert len(scene.table._failed) == 10
    scene.now.s += 11
    scene.table.note_failed(keys)
    assert len(scene.table._failed) == 10 and keys[0] in scene.table._failed


def test_requests_that_nobody_ends_do_not_fill_the_table(scene, monkeypatch):
    monkeypatch.setattr(scene.module, "KEYS_MAX", 10)
    scene.pool.at_poll = lambda: scene.pool.answer(64)
    for request in range(5):
        for key in keys_of(f"left{request}", 2):
            scene.table.look(key, f"left{request}")
        scene.table.end_step()
        scene.pool.answer(64)
    assert scene.table.look(key_of("new"), "new") is False and scene.figures.refused == 1
    scene.now.s += 10
    assert scene.table.look(key_of("new"), "new") is False, "they may be looked at again"
    assert scene.table.look(keys_of("left3", 2)[1], "left3") is None, "asked anew"
    scene.table.end_step()
    scene.pool.answer(64)
    scene.now.s += 60
    answers = [scene.table.look(key_of(f"new{i}"), f"new{i}") for i in range(8)]
    # Each that finds no room looks at one request; left3 was looked for a minute ago.
    assert answers.count(True) >= 7, answers
    assert len(scene.table._entries) <= 10 and "left3" in scene.table._of_request


def test_what_was_stored_is_no_miss_any_more(scene):
    key = key_of("stored")
    scene.pool.at_poll = lambda: scene.pool.answer(-4003)
    assert scene.table.look(key, "r") is False
    scene.table.note_stored([key])
    scene.pool.at_poll = lambda: scene.pool.answer(64)
    assert scene.table.look(key, "s") is True
