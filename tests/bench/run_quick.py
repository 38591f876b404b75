#!/usr/bin/env python3
"""Runs a simm-bench subcommand briefly against a real daemon and checks the form of what it prints.

usage: run_quick.py results NAME[,NAME...] COMMAND...   every name is among the JSON lines
       run_quick.py replay COMMAND...           the last line is a replay without wrong bytes
Never looks at a figure: CI machines are shared.
"""
import json
import subprocess
import sys

FIELDS = {"name", "value", "unit", "baseline", "ratio", "params", "noisy"}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def check_results(names, lines):
    results = [json.loads(line) for line in lines]
    for result in results:
        assert set(result) == FIELDS, f"fields {sorted(result)}"
        assert result["value"] >= 0, result
        assert (result["baseline"] is None) == (result["ratio"] is None), result
    printed = {result["name"] for result in results}
    missing = set(names) - printed
    assert not missing, f"missing {sorted(missing)}, printed {sorted(printed)}"


def check_replay(lines):
    total = json.loads(lines[-1])
    assert total["bytes_wrong"] == 0, total
    assert total["bytes_verified"] == total["bytes_fetched"] > 0, total
    assert total["bytes_stored"] > 0, total
    assert total["requests"] > 0, total
    assert 0 < total["hit_rate"] <= total["best_hit_rate"] < 1, total
    assert total["fetch_p99_us"] >= total["fetch_p50_us"] > 0, total


def main():
    if sys.argv[1] == "results":
        check_results(sys.argv[2].split(","), run(sys.argv[3:]))
    else:
        check_replay(run(sys.argv[2:]))


if __name__ == "__main__":
    main()
