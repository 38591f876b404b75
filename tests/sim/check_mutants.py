#!/usr/bin/python3
"""Every mutant has to be caught, for the right reason; every control has to stay clean.

usage: check_mutants.py MUTANTS.json PROGRAM_DIR SEEDS [FIRST | --note]

Seeds run from 1 to SEEDS, those of a control to a quarter of that: it passes each. What caught a
mutant last time is tried first: mutant_seeds.json beside MUTANTS.json has the seed of each. --note
writes that file; without it the program says which seeds are not true any more, and looks for
others, which takes minutes.
FIRST is the first seed of each: drawn seeds. A mutant may name how many drawn ones it needs.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

TIMEOUT_S = 120  # a mutant may also hang; that counts as not caught
SEED_TIMEOUT_S = 1


def verdict(mutant, program, first, count):
    """(what is wrong or None, the seed that caught it or None, what was found)."""
    try:
        run = subprocess.run([program, "--seeds", str(count), "--first", str(first)],
                             capture_output=True, text=True, check=False,
                             timeout=max(TIMEOUT_S, SEED_TIMEOUT_S * count))
    except subprocess.TimeoutExpired:
        return "hangs", None, ""
    found = re.search(r"^violation of (\w+): (.*)$", run.stderr, re.MULTILINE)
    seed = re.search(r"--seed (\d+)", run.stderr)
    what = f"seed {seed.group(1)}: {found.group(1)}: {found.group(2)}" if found and seed else ""
    if not mutant["promises"]:
        return (None if run.returncode == 0 else "a control is not clean"), None, what
    if run.returncode == 0:
        return "survives", None, what
    if not found:
        return f"ends with {run.returncode} and no violation", None, run.stderr[-500:]
    if found.group(1) not in mutant["promises"]:
        return f"caught, but not by {' or '.join(mutant['promises'])}", None, what
    return None, int(seed.group(1)), what


def main():
    mutants_file, programs, seeds = sys.argv[1:4]
    notes = sys.argv[4:] == ["--note"]
    first = int(sys.argv[4]) if len(sys.argv) > 4 and not notes else None
    mutants = json.loads(pathlib.Path(mutants_file).read_text())
    noted_file = pathlib.Path(mutants_file).with_name("mutant_seeds.json")
    noted = json.loads(noted_file.read_text()) if noted_file.exists() else {}
    failures, caught_by = 0, {}

    def judge(mutant):
        start = time.monotonic()
        program = f"{programs}/sim_mutant_{mutant['name']}"
        if first is not None:
            found = verdict(mutant, program, first, max(int(seeds), mutant.get("seeds", 0)))
            return *found, time.monotonic() - start
        if not mutant["promises"]:
            return *verdict(mutant, program, 1, max(1, int(seeds) // 4)), time.monotonic() - start
        known = noted.get(mutant["name"])
        found = verdict(mutant, program, known, 1) if known and known <= int(seeds) else None
        if found is None or found[0] is not None:
            found = verdict(mutant, program, 1, int(seeds))
        return *found, time.monotonic() - start

    # Controls have to pass every seed: the longest come first.
    mutants.sort(key=lambda mutant: bool(mutant["promises"]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, (wrong, seed, what, seconds) in zip(mutants, pool.map(judge, mutants)):
            failures += wrong is not None
            if seed is not None:
                caught_by[mutant["name"]] = seed
            print(f"{'FAIL' if wrong else 'ok  '} {seconds:5.1f} s  "
                  f"{mutant['name']:28} {wrong or ''} {what[:160]}", flush=True)
    stale = sorted(name for name, seed in caught_by.items() if noted.get(name) != seed)
    if notes:
        noted_file.write_text(json.dumps(caught_by, indent=2) + "\n", encoding="utf-8")
    elif first is None and stale:
        print(f"other seeds than noted caught {', '.join(stale)}: --note writes them")
    if failures:
        sys.exit(f"{failures} mutants are not as they should be")


main()
