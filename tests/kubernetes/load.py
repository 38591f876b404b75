"""An engine that looks at every byte, until nobody wants it any more.

  load.py OBJECTS BYTES

$SIMM_SOCKET is the socket of its tenant. Stores OBJECTS of BYTES, says "stored", then reads and
replaces them by chance. For each line of its standard input it reads all of them, says as JSON what
it has seen since the line before, and ends with the input. An object that is on its way for longer
than a get waits is late; one that is not there after LATE_S is a miss, and is stored again. Needs
the package simm.
"""
import json
import os
import random
import select
import sys
import time

from simm.kv import Store

NOT_FOUND = -4003
LATE_S = 10
COUNTS = ("gets", "hits", "late", "misses", "failed", "wrong", "puts", "puts_failed")


class Load:
    def __init__(self, objects, size):
        self.seed = int(os.environ.get("SIMM_SEED", time.time_ns() % 1_000_000))
        self.draw = random.Random(self.seed)
        self.size = size
        self.store = Store()
        self.block = self.store.allocate(size)
        # What each object may be: one version, or two when a put had no answer.
        self.versions = {f"object-{number}": [0] for number in range(objects)}
        self.clear()

    def clear(self):
        self.seen = dict.fromkeys(COUNTS, 0)
        self.codes, self.slowest_s = {}, 0.0

    def content(self, key, version):
        return random.Random(f"{self.seed}/{key}/{version}").randbytes(self.size)

    def put(self, key):
        version = self.versions[key][-1] + 1
        memoryview(self.block)[:] = self.content(key, version)
        code = int(self.store.put(key, self.block.view()))
        self.seen["puts"] += 1
        if code == 0:
            self.versions[key] = [version]
            return True
        self.seen["puts_failed"] += 1
        self.codes[f"put {code}"] = self.codes.get(f"put {code}", 0) + 1
        self.versions[key].append(version)
        return False

    def get(self, key):
        began = time.monotonic()
        code = int(self.store.get(key, self.block.view()))
        if code == NOT_FOUND:
            while code == NOT_FOUND and time.monotonic() - began < LATE_S:
                code = int(self.store.get(key, self.block.view()))
            self.seen["late"] += 1 if code == self.size else 0
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.seen["gets"] += 1
        if code == self.size:
            self.seen["hits"] += 1
            got = bytes(memoryview(self.block))
            if got not in [self.content(key, version) for version in self.versions[key]]:
                self.seen["wrong"] += 1
        elif code == NOT_FOUND:
            self.seen["misses"] += 1
            self.put(key)
        else:
            self.seen["failed"] += 1
            self.codes[f"get {code}"] = self.codes.get(f"get {code}", 0) + 1

    def run(self):
        for key in self.versions:  # a cluster that has just begun may need a moment
            end = time.monotonic() + 60
            while not self.put(key):
                if time.monotonic() > end:
                    sys.exit(f"{key} can not be stored: {self.codes}")
                time.sleep(0.05)
        self.clear()
        print("stored", flush=True)
        keys = list(self.versions)
        while True:
            self.get(self.draw.choice(keys))
            if self.draw.random() < 0.1:
                self.put(self.draw.choice(keys))
            if select.select([sys.stdin], [], [], 0)[0]:
                if not sys.stdin.readline():
                    return
                for key in keys:
                    self.get(key)
                print(json.dumps({**self.seen, "codes": self.codes, "seed": self.seed,
                                  "slowest_ms": round(self.slowest_s * 1000)}), flush=True)
                self.clear()


Load(int(sys.argv[1]), int(sys.argv[2])).run()
