#!/usr/bin/python3
"""What simm.vllm costs vLLM's scheduler, by hand, with a daemon that runs:

    SIMM_SOCKET=... PYTHONPATH=build/release/python /usr/bin/python3 tests/python/vllm_tier/cost.py

In microseconds, lower deciles and medians of what the scheduler's thread spends. "cold": a step
whose 64 requests each look for one chunk that is not there. "hits": one request of 64 chunks that
are there, in the two steps that it takes. "submit": the begin of a job of 128 chunks of 4 KiB;
"take": its end, when it is there. "again": a step without requests that asks for 32 chunks of those
that were told as stored; "answer": one that has the answer."""

import time

import vllm_interface as interface

interface.install()
from tier_lab import Engine, keys_of  # noqa: E402

ROUNDS = 300


def timed(call):
    before = time.perf_counter_ns()
    result = call()
    return (time.perf_counter_ns() - before) / 1000, result


def show(name, taken):
    taken.sort()
    print(f"{name:8} {taken[len(taken) // 10]:8.1f} {taken[len(taken) // 2]:8.1f}")


def main():
    with Engine(row_bytes=4096, step_budget_us=100, lookup_ms=1000) as engine:
        cold, first, second, submit, take = [], [], [], [], []
        keys = keys_of("cost", 128)
        assert engine.store(keys, range(128)).success
        for i in range(ROUNDS):
            absent = keys_of(f"absent{i}", 64)

            contexts = [interface.ReqContext(f"a{number}") for number in range(64)]

            def step():
                engine.take()
                for key, context in zip(absent, contexts):
                    engine.tier.lookup(key, context)
                engine.end()

            cold.append(timed(step)[0])
            engine.steps(absent)
            for number in range(64):
                engine.finish(f"a{number}")
            first.append(timed(lambda: engine.step(keys[:64]))[0])
            time.sleep(0.002)
            taken, answers = timed(lambda: engine.step(keys[:64]))
            if None not in answers:
                second.append(taken)
            engine.steps(keys[:64])
            engine.finish()
            us, number = timed(lambda: engine.submit("load", keys, range(128, 256)))
            submit.append(us)
            time.sleep(0.003)
            us, _ = timed(engine.take)
            if number in engine.finished:
                take.append(us)
            engine.wait(number)
        again, answer = [], []
        engine.tier.take_events()
        assert engine.store(keys_of("again", 32), range(32)).success
        for _ in range(ROUNDS):
            engine.tier._rounds._next_s = 0  # the next round begins
            again.append(timed(engine.take)[0])
            engine.tier._rounds._next_s = time.monotonic() + 3600
            time.sleep(0.002)
            answer.append(timed(engine.take)[0])
        assert engine.tier.stats()["rechecks"]["asked"] >= 32 * ROUNDS // 2
        print(f"{'':8} {'decile':>8} {'median':>8}")
        for name, values in (("cold", cold), ("hits 1", first), ("hits 2", second),
                             ("submit", submit), ("take", take), ("again", again),
                             ("answer", answer)):
            show(name, values)


if __name__ == "__main__":
    main()
