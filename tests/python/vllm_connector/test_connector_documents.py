"""What python/README.md says of the connector: its launch line, by vLLM's rules, and options."""

import importlib
import json
import pathlib
import re

import pytest

import connector_interface as interface
from connector_lab import Engine

README = pathlib.Path(__file__).parent.parent.parent.parent / "python" / "README.md"


def section():
    text = README.read_text(encoding="utf-8")
    return text[text.index("## vLLM, a connector"):text.index("## NIXL")]


@pytest.fixture(autouse=True)
def vllm(monkeypatch, daemon):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    interface.install()
    yield
    interface.forget()


def test_the_launch_line_names_what_is_there():
    config = json.loads(re.search(r"--kv-transfer-config '(.*?)'", section(), re.DOTALL)[1])
    module = importlib.import_module(config["kv_connector_module_path"])
    assert issubclass(getattr(module, config["kv_connector"]), interface.KVConnectorBase_V1)
    home, _, name = re.search(r"--worker-cls (\S+)", section())[1].rpartition(".")
    assert issubclass(getattr(importlib.import_module(home), name), interface.Worker)
    with Engine(role=config["kv_role"]) as one, Engine(role=config["kv_role"]) as other:
        assert one.run("a", range(41)) == 0 and other.run("b", range(41)) == 40


def test_the_list_has_all_options():
    from simm.vllm import options
    said = section()[section().index("Options, in"):]
    said = set(re.findall(r"`(\w+)`", said[:said.index("\n\n")])) - {"kv_connector_extra_config"}
    assert said == {"layered", *options._TEXTS, *(row[0] for row in options._CONNECTOR_NUMBERS)}
