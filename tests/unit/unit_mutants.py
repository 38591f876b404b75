#!/usr/bin/python3
"""Bugs that a unit test has to see: what of RDMA no simulated cluster runs through, what is too
rare there, and the rules of the status page.

usage: unit_mutants.py --check          each `from` of mutants.json occurs once in its file
       unit_mutants.py JOBS [NAME...]   all mutants, or those named: each has to fail its test case

A mutant changes a copy of the sources in build/unit_mutants, and builds the program of its test
there.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = json.loads((ROOT / "tests/unit/mutants.json").read_text(encoding="utf-8"))
COPY = ROOT / "build/unit_mutants"
TIMEOUT_S = 600  # a mutant may also hang; that counts as seen by nobody


def mutated(mutant):
    """The mutated text of its file; ends the program when the code has changed meanwhile."""
    text = (ROOT / mutant["file"]).read_text(encoding="utf-8")
    if text.count(mutant["from"]) != 1:
        sys.exit(f"mutant '{mutant['name']}' no longer applies to {mutant['file']}: its text "
                 f"occurs {text.count(mutant['from'])} times:\n{mutant['from']}")
    return text.replace(mutant["from"], mutant["to"])


def copy_sources():
    """Files that are as they were keep their time, so little is built anew."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        source, target = ROOT / name, COPY / name
        if not source.is_file():
            continue
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def build(program, jobs):
    done = subprocess.run(["ninja", "-C", "build/release", "-j", jobs, program], cwd=COPY,
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stdout[-2000:]


def failed_cases(program):
    """Names of the test cases with a failed check, or in which it died."""
    # Where there are tests of GPUs, their driver is that of the tests.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(COPY / "build/release/test_cuda_driver")}
    done = subprocess.run([COPY / "build/release/bin" / program], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False, env=environment)
    start = "TEST CASE:"
    return {line[len(start):].strip() for line in done.stdout.splitlines()
            if line.startswith(start)}


def verdict(mutant, jobs):
    """None when its test sees it, else what is wrong."""
    target = COPY / mutant["file"]
    target.write_text(mutated(mutant), encoding="utf-8")
    try:
        wrong = build(mutant["program"], jobs)
        if wrong is not None:
            return f"does not compile:\n{wrong}"
        failed = failed_cases(mutant["program"])
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        target.write_text((ROOT / mutant["file"]).read_text(encoding="utf-8"), encoding="utf-8")
    if not failed:
        return "survives"
    return None if mutant["case"] in failed else f"is seen by others alone: {sorted(failed)}"


def main():
    for mutant in MUTANTS:
        mutated(mutant)
    if sys.argv[1:] == ["--check"]:
        return
    jobs, names = sys.argv[1], sys.argv[2:]
    copy_sources()
    subprocess.run(["cmake", "--preset", "release", "-Wno-dev"], cwd=COPY, check=True,
                   stdout=subprocess.DEVNULL)
    failures = 0
    for mutant in MUTANTS:
        if names and mutant["name"] not in names:
            continue
        wrong = verdict(mutant, jobs)
        failures += wrong is not None
        print(f"{'FAIL' if wrong else 'ok  '} {mutant['name']:28} {wrong or ''}", flush=True)
    if failures:
        sys.exit(f"{failures} mutants are not as they should be")


if __name__ == "__main__":
    main()
