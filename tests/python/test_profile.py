"""Profile mode: each call that moves bytes says in the log how fast it was."""

import asyncio
import json
import logging
import re

import numpy
import pytest

from simm.kv import BlockView, Store, Views, register_mr
from simm.settings import Settings

LINE = re.compile(r"profile: (\w+): (\d+) of (\d+) pages, ([\d.]+) MB in [\d.]+ ms: [\d.]+ GB/s$")


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="simm")

    def read():
        found = [LINE.match(one.getMessage()) for one in caplog.records
                 if one.getMessage().startswith("profile")]
        caplog.clear()
        return [(one[1], int(one[2]), int(one[3]), float(one[4])) for one in found]

    return read


def test_puts_and_gets_say_pages_and_megabytes(daemon, monkeypatch, lines, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    monkeypatch.setenv("SIMM_PROFILE", "1")
    memory = numpy.zeros(4 * 50_000, numpy.uint8)
    mr = register_mr(memory)
    at = [memory.ctypes.data + i * 50_000 for i in range(4)]
    views = [BlockView.from_buffer(one, 50_000, mr) for one in at]
    keys = [f"{key}{i}" for i in range(4)]
    with Store() as store:
        assert store.mput(keys[:3], views[:3]) == [0, 0, 0]
        assert lines() == [("put", 3, 3, 0.15)]
        assert store.mget(keys, Views(at, [50_000] * 4, mr))[:3] == [50_000] * 3
        assert lines() == [("get", 3, 4, 0.15)]
        assert store.mput(keys[:2], Views(at[:2], [50_000, 20_000], mr)) == [0, 0]
        assert store.get(keys[1], views[1]) == 20_000
        assert lines() == [("put", 2, 2, 0.07), ("get", 1, 1, 0.02)]
        assert store.mput(keys, views[:1]) == [-1000] * 4 and lines() == [("put", 0, 4, 0.0)]
        assert store.mput([keys[0], "x" * 2000], views[:2]) == [0, -1000]
        assert lines() == [("put", 1, 2, 0.05)]
        assert store.mget([], []) == [] and store.mexists(keys)[0] and lines() == []
        asyncio.run(store.put_async(keys[3], views[3]))
        assert lines() == [("put", 1, 1, 0.05)]


def test_it_is_off_unless_it_is_asked_for(daemon, monkeypatch, tmp_path, lines):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with Store() as store:
        block = store.allocate(100)
        assert store.put("quiet", block.view()) == 0
    assert lines() == []
    file = tmp_path / "s.json"
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", str(file))
    for wanted in (True, False):
        file.write_text(json.dumps({"enable_profile": wanted}))
        assert Settings.read().enable_profile is wanted
    monkeypatch.setenv("SIMM_PROFILE", "1")
    assert Settings.read().enable_profile is True
    monkeypatch.setenv("SIMM_PROFILE", "yes")
    with pytest.raises(RuntimeError, match="SIMM_PROFILE=yes: 0 or 1"):
        Settings.read()
