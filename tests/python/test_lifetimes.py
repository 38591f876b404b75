"""lifetimes.py in a process of its own: its short form, and the end of the interpreter at several
of its steps. `lifetimes.py --long` is the long form."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("lifetimes.py")
SEED = re.compile(r"seed \d+: .*")


def run(directory, *arguments):
    """Its exit status and all that it says. The file outlives a child that is still there."""
    path = [os.environ.get("PYTHONPATH", ""), str(PROGRAM.parent)]
    with open(directory / "said", "w+", encoding="utf-8") as said:
        ended = subprocess.run([sys.executable, str(PROGRAM), *arguments],
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                               stdout=said, stderr=said, timeout=300, check=False)
        said.seek(0)
        text = said.read()
    print(text)  # shown when the test fails
    print("again:", SEED.findall(text))
    return ended.returncode, text


def test_lifetimes_in_any_order(tmp_path):
    status, text = run(tmp_path, "--steps", "6000")
    compared = re.search(r"flat, (\d+) pages compared", text)
    assert status == 0 and int(compared[1]) > 600


@pytest.mark.parametrize("step", [1, 3, 10, 30, 100, 200, 300, 400])
def test_the_interpreter_ends_in_the_middle(tmp_path, step):
    status, text = run(tmp_path, "--exit-at", str(step))
    assert status == 0 and "leaving\n" in text
