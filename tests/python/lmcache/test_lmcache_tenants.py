"""Two tenants, each with a socket of its own, and two models on one node: the same keys are other
chunks to each of them, whatever the others do meanwhile."""

import itertools
import json
import random
import signal
import threading

import pytest

pytest.importorskip("torch")

from conftest import CONFIG, Daemon
from lmcache_lab import CHUNK_BYTES, OLD, Lab

TENANTS, MODELS = ("red", "blue"), ("org/small", "org/large")
WHO = list(itertools.product(TENANTS, MODELS))
ROUNDS, COUNT = 30, 8

pytestmark = pytest.mark.skipif(OLD, reason="LMCache of 2025 has one setting: the environment's")


@pytest.fixture(scope="module")
def sockets(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tenants")
    paths = {tenant: str(directory / f"{tenant}.sock") for tenant in TENANTS}
    listed = [{"path": str(directory / "simm.sock")}] + [
        {"path": path, "tenant": tenant} for tenant, path in paths.items()]
    tenants = [{"name": tenant} for tenant in TENANTS]
    running = Daemon(directory, config=CONFIG[:-1] + f', "sockets": {json.dumps(listed)}, '
                     f'"tenants": {json.dumps(tenants)}}}').start()
    yield paths
    running.kill(signal.SIGTERM)


@pytest.fixture(params=["by-key", "by-namespace"])
def labs(request, sockets):
    """{(tenant, model): its engine}. by-namespace: the engines' own keys name no model."""
    opened = {}
    try:
        for tenant, model in WHO:
            by_key = request.param == "by-key"
            space = "" if by_key else "&namespace=" + model.replace("/", ".")
            opened[tenant, model] = Lab(
                f"simm://127.0.0.1:30001/?use_sync={int(model == MODELS[0])}"
                f"&socket={sockets[tenant]}{space}",
                model=model if by_key else "the/same", save_chunk_meta=False)
        yield opened
    finally:
        for lab in opened.values():
            lab.close()


def test_what_one_stores_and_removes_is_no_other_ones(labs):
    first = labs[WHO[0]]
    first.store(first.keys(*range(4)), [first.chunk(1) for _ in range(4)])
    assert [lab.connector.batched_contains(lab.keys(*range(4)))
            for lab in labs.values()] == [4, 0, 0, 0]
    for byte, lab in enumerate(labs.values(), 1):
        lab.store(lab.keys(*range(4)), [lab.chunk(byte) for _ in range(4)])
    for byte, lab in enumerate(labs.values(), 1):
        assert lab.take(lab.run(lab.connector.batched_get(lab.keys(*range(4))))) == [
            (CHUNK_BYTES, byte)] * 4
    for gone, lab in enumerate(labs.values(), 1):
        assert all(lab.connector.remove_sync(key) for key in lab.keys(*range(4)))
        assert [one.connector.batched_contains(one.keys(*range(4)))
                for one in labs.values()] == [0] * gone + [4] * (4 - gone)


def test_all_at_once_nobody_sees_the_others_bytes(labs):
    """Keys are few, so all of them put, remove and get the same ones all the time."""
    wrong, hits = [], [0] * len(WHO)

    def use(i, lab):
        random_of = random.Random(i)
        for _ in range(ROUNDS):
            keys = lab.keys(*(1000 + n for n in random_of.sample(range(2 * COUNT), COUNT)))
            lab.store(keys, [lab.chunk(i + 1) for _ in keys])
            got = lab.take(lab.run(lab.connector.batched_get(keys)))
            wrong.extend((WHO[i], one) for one in got if one not in (None, (CHUNK_BYTES, i + 1)))
            hits[i] += sum(one is not None for one in got)
            for key in keys[:2]:
                lab.connector.remove_sync(key)

    threads = [threading.Thread(target=use, args=(i, lab)) for i, lab in enumerate(labs.values())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert hits == [ROUNDS * COUNT] * len(WHO), "nobody removes another one's chunks"
