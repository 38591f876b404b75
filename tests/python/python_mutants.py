#!/usr/bin/python3
"""Bugs in the Python package that a test has to see.

usage: python_mutants.py --check                each `from` of mutants.json occurs once in its file
       python_mutants.py BUILD_TREE [NAME...]   all mutants, or those named: the test of each has to
                                                fail with it, and to pass without

A mutant changes a copy of the built package in a directory of its own.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MUTANTS = json.loads((HERE / "mutants.json").read_text(encoding="utf-8"))
TIMEOUT_S = 300  # a mutant may also hang; that counts as seen by nobody
FAILED = 1  # pytest's code: tests were run, and some have failed


def mutated(mutant):
    """The mutated text of its file; ends the program when the code has changed meanwhile."""
    text = (ROOT / "python/simm" / mutant["file"]).read_text(encoding="utf-8")
    if text.count(mutant["from"]) != 1:
        sys.exit(f"mutant '{mutant['name']}' no longer applies to {mutant['file']}: its text "
                 f"occurs {text.count(mutant['from'])} times:\n{mutant['from']}")
    return text.replace(mutant["from"], mutant["to"])


def code_of(test, package, build):
    """Of pytest, with that package."""
    path, half = [str(package)], "torch"
    if not test.startswith(("lmcache/", "hicache/", "flexkv/")):
        path, half = [str(HERE / "without_torch"), *path], "no-torch"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path),
                   "PYTHONDONTWRITEBYTECODE": "1", "SIMM_TEST_SIMMD": str(build / "bin/simmd")}
    done = subprocess.run(["/usr/bin/python3", str(HERE / "run_pytest.py"), half,
                           str(HERE / test)], env=environment, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout[-2000:]


def verdict(mutant, package, build):
    """None when its test sees it, else what is wrong."""
    target = package / "simm" / mutant["file"]
    before = target.read_text(encoding="utf-8")
    target.write_text(mutated(mutant), encoding="utf-8")
    try:
        code, told = code_of(mutant["test"], package, build)
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        target.write_text(before, encoding="utf-8")
    if code == FAILED:
        return None
    return "survives" if code == 0 else f"pytest ends with {code}:\n{told}"


def main():
    for mutant in MUTANTS:
        mutated(mutant)
    if sys.argv[1:] == ["--check"]:
        return
    build, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    chosen = [mutant for mutant in MUTANTS if not names or mutant["name"] in names]
    with tempfile.TemporaryDirectory() as directory:
        package = pathlib.Path(directory)
        shutil.copytree(build / "python/simm", package / "simm")
        # The sources as they are, which the build tree may not have yet.
        shutil.copytree(ROOT / "python/simm", package / "simm", dirs_exist_ok=True)
        failures = 0
        for test in sorted({mutant["test"] for mutant in chosen}):
            code, told = code_of(test, package, build)
            if code != 0:
                failures += 1
                print(f"FAIL {test} without a mutant: pytest ends with {code}\n{told}", flush=True)
        for mutant in chosen:
            wrong = verdict(mutant, package, build)
            failures += wrong is not None
            print(f"{'FAIL' if wrong else 'ok  '} {mutant['name']:28} {wrong or ''}", flush=True)
    if failures:
        sys.exit(f"{failures} mutants or tests are not as they should be")


if __name__ == "__main__":
    main()
