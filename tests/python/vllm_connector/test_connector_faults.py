"""Engines whose connectors are on a cluster, while storage daemons, the node's and the manager are
killed, stopped and started again. SIMM_FAULT_S: for how many seconds (4); minutes by hand."""

import os
import random
import threading
import traceback

import pytest

import connector_interface as interface
from connector_lab import Engine
from unrest import unrest

FAULT_S = float(os.environ.get("SIMM_FAULT_S", "4"))
PROMPTS, TAILS = 12, 3  # so few that engines find what others have computed

pytestmark = pytest.mark.usefixtures("vllm")


def prompt(dice):
    """Tokens, the first 16 of which, or all, are those of other requests too."""
    number, count = dice.randrange(PROMPTS), dice.choice([17, 25, 41])
    common, tail = dice.choice([count, 16]), dice.randrange(TAILS)
    return [(number, i) if i < common else (number, tail, i) for i in range(count)]


class Requests(threading.Thread):
    """One engine, and a request after the other. Every block of each is compared."""

    def __init__(self, name, seed, layered):
        super().__init__()
        self._name = name
        self._dice = random.Random(f"{seed}{name}")
        self._layered = layered
        self.hits = 0
        self.failed = 0
        self.trouble = ""
        self.stop = threading.Event()

    def run(self):
        extra = {"layered": self._layered, "timeout_ms": 800, "lookup_ms": 200}
        try:
            with Engine(extra=extra) as engine:
                number = 0
                while not self.stop.is_set() and not self.trouble:
                    number += 1
                    found = engine.run(f"{self._name}{number}", prompt(self._dice),
                                       generates=self._dice.choice([0, 4]))
                    self.hits += found > 0
                    self.failed += bool(engine.failed)
                    engine.failed.clear()
                    if not engine.whole(engine.ended):
                        self.trouble = f"wrong bytes in request {number}"
        except BaseException:  # would end vLLM
            self.trouble = traceback.format_exc()


def test_killed_and_stopped_again_and_again_while_blocks_move(cluster):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    engines = [Requests(name, seed, layered) for name, layered in (("a", False), ("b", True))]
    for engine in engines:
        engine.start()
    faults = 0
    try:
        faults = unrest(cluster, dice, FAULT_S, lambda: [engine.hits for engine in engines],
                        lambda: any(engine.trouble for engine in engines), stopped_s=2)
    finally:
        for engine in engines:
            engine.stop.set()
        for engine in engines:
            engine.join(120)
    print("faults", faults, "hits", [engine.hits for engine in engines], "failed",
          [engine.failed for engine in engines])
    assert [engine.trouble for engine in engines] == ["", ""]
    assert not any(engine.is_alive() for engine in engines)
