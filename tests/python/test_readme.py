"""What python/README.md shows is run, and is what happens."""

import os
import pathlib
import re
import subprocess
import sys

import simm
from conftest import run_python
from simm import flags, kv

README = pathlib.Path(__file__).parent.parent.parent / "python" / "README.md"


def blocks(language: str) -> list:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_are_one_program_that_runs(daemon):
    code = blocks("python")
    assert len(code) >= 5
    slow = "from simm.kv import set_flag\nset_flag('clnt_sync_req_timeout_ms', '60000')\n"
    ended = run_python(slow + "\n".join(code), SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stderr) == (0, "get: 2 page(s) failed with -1000: keys: 2, "
                                                   "views: 1: give one for each key\n"
                                                   "put: 1 page(s) failed with -1004: the Store is "
                                                   "closed: make another\n"
                                                   "exists: 1 page(s) failed with -1004: the Store "
                                                   "is closed: make another\n")


def test_what_python_m_simm_says(daemon):
    shown = [line for block in blocks("console") for line in block.splitlines()]
    assert shown.pop(0).endswith("python3 -m simm")
    environment = {**os.environ, "SIMM_SOCKET": daemon.socket}
    said = subprocess.run([sys.executable, "-m", "simm"], capture_output=True, text=True,
                          check=True, env=environment, timeout=120).stdout
    shown = [line.replace("/run/simm/simm.sock", daemon.socket) for line in shown]
    shown[0] = f"simm {simm.__version__}"
    assert said.splitlines() == shown


def test_every_name_flag_variable_and_counter_is_in_it(store):
    text = README.read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text))
    calls = [name for name in vars(kv.Store) if not name.startswith("_")]
    variables = ["SIMM_SOCKET", "SIMM_NAMESPACE", "SIMM_EXACT_SIZE", "SIMM_CLUSTER_MANAGER"]
    wanted = [*kv.__all__, *calls, *flags.EFFECTIVE, *variables, *store.stats()]
    assert [name for name in wanted if name not in words] == []
    assert [value for value in flags.EFFECTIVE.values() if value and value not in words] == []
