#!/usr/bin/python3
"""Every mutant has to be caught, for the right reason; every control has to stay clean.

usage: check_mutants.py MUTANTS.json PROGRAM_DIR SEEDS [FIRST]

FIRST is the first seed of each (1). A mutant that needs rare luck names its own number of seeds.
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


def verdict(mutant, program, seeds, first):
    """None when all is as it should be, else what is not."""
    try:
        count = max(int(seeds), mutant.get("seeds", 0))
        run = subprocess.run([program, "--seeds", str(count), "--first", first],
                             capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    found = re.search(r"^violation of (\w+): (.*)$", run.stderr, re.MULTILINE)
    seed = re.search(r"--seed (\d+)", run.stderr)
    what = f"seed {seed.group(1)}: {found.group(1)}: {found.group(2)}" if found and seed else ""
    if not mutant["promises"]:
        return (None if run.returncode == 0 else "a control is not clean"), what
    if run.returncode == 0:
        return "survives", what
    if not found:
        return f"ends with {run.returncode} and no violation", run.stderr[-500:]
    if found.group(1) not in mutant["promises"]:
        return f"caught, but not by {' or '.join(mutant['promises'])}", what
    return None, what


def main():
    mutants_file, programs, seeds = sys.argv[1:4]
    first = sys.argv[4] if len(sys.argv) > 4 else "1"
    mutants = json.loads(pathlib.Path(mutants_file).read_text())
    failures = 0

    def judge(mutant):
        start = time.monotonic()
        wrong, what = verdict(mutant, f"{programs}/sim_mutant_{mutant['name']}", seeds, first)
        return wrong, what, time.monotonic() - start

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, (wrong, what, seconds) in zip(mutants, pool.map(judge, mutants)):
            failures += wrong is not None
            print(f"{'FAIL' if wrong else 'ok  '} {seconds:5.1f} s  "
                  f"{mutant['name']:28} {wrong or ''} {what[:160]}", flush=True)
    if failures:
        sys.exit(f"{failures} mutants are not as they should be")


main()
