"""clang-tidy over each file of a build directory: clang_tidy.py BUILD_DIRECTORY JOBS.

A file that passed is not checked again. What counts is the preprocessed text with its comments, so
a change of a header, of an option or of .clang-tidy checks anew whatever includes it. The names of
what passed lie in ~/.cache/simm-clang-tidy for a month after their last use: what one clone has
checked serves the next one, wherever it lies.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

KEPT_S = 30 * 24 * 3600
ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSED = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "simm-clang-tidy"
# A unity file includes sources: that is what it is for.
CHECKS = "--checks=-bugprone-suspicious-include"


def version():
    return subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout


def preprocessed(entry):
    """The text that clang-tidy will read; None where there is none."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    words = [word for word in words[:at] + words[at + 2:] if not word.endswith("ccache")]
    run = subprocess.run(words + ["-E", "-C"], cwd=entry["directory"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    return run.stdout if run.returncode == 0 else None


def check(entry, build, rules):
    """None when the file passes, else what clang-tidy says of it."""
    text = preprocessed(entry)
    stamp = None
    if text is not None:
        known = b"\0".join((entry["command"].encode(), text)).replace(str(ROOT).encode(), b".")
        stamp = PASSED / hashlib.sha256(rules + known).hexdigest()
        if stamp.exists():
            stamp.touch()
            return None
    run = subprocess.run(["clang-tidy", "--quiet", CHECKS, "-p", str(build), entry["file"]],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if run.returncode != 0:
        return run.stdout or f"{entry['file']}: clang-tidy ended with {run.returncode}"
    if stamp is not None:
        stamp.touch()
    return None


def main():
    build, jobs = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    rules = version() + (ROOT / ".clang-tidy").read_bytes()
    PASSED.mkdir(parents=True, exist_ok=True)
    for old in PASSED.iterdir():
        if time.time() - old.stat().st_mtime > KEPT_S:
            old.unlink()
    entries = json.loads((build / "compile_commands.json").read_text())
    entries = {entry["file"]: entry for entry in entries
               if entry["file"].endswith((".cpp", ".cxx"))}.values()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        complaints = list(pool.map(lambda entry: check(entry, build, rules), entries))
    for complaint in filter(None, complaints):
        print(complaint)
    return 1 if any(complaints) else 0


if __name__ == "__main__":
    sys.exit(main())
