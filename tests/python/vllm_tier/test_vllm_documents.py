"""The launch lines that python/README.md shows, by vLLM's rules: each makes a tier that works, and
the table of options has all of them, with their defaults."""

import json
import pathlib
import re

import pytest

import vllm_interface as interface
from tier_lab import Engine, keys_of

README = pathlib.Path(__file__).parent.parent.parent.parent / "python" / "README.md"


FIRST_DOOR = README.parent.parent / "README.md"


def section():
    text = README.read_text(encoding="utf-8")
    return text[text.index("## vLLM, a tier"):text.index("## vLLM, a connector")]


@pytest.fixture(autouse=True)
def vllm(monkeypatch, daemon):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    interface.install()
    yield
    interface.forget()


def test_the_launch_line_makes_a_tier_that_works():
    line = re.search(r"--kv-transfer-config '(.*?)'", section(), re.DOTALL)
    extra = json.loads(line[1])["kv_connector_extra_config"]
    assert extra["spec_name"] == "TieringOffloadingSpec"
    [tier] = extra["secondary_tiers"]
    keys = keys_of("document", 4)
    assert line[0] in FIRST_DOOR.read_text(encoding="utf-8"), "both documents show the same one"
    with Engine(**tier) as engine:
        assert engine.store(keys, range(4)).success
        assert engine.steps(keys) == [True] * 4


def test_the_line_for_an_older_vllm_names_what_is_there():
    import simm.vllm
    names = dict(re.findall(r'"(spec_name|spec_module_path)": "(\w+(?:\.\w+)*)"',
                            section()[section().index("A vLLM that knows no"):]))
    assert names["spec_module_path"] == "simm.vllm"
    assert issubclass(getattr(simm.vllm, names["spec_name"]), interface.TieringOffloadingSpec)
    assert "type `simm`" in section() and "simm" in interface.SecondaryTierFactory.registry


def test_the_table_has_all_options_with_their_defaults():
    from simm.vllm import options
    said = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", section(), re.MULTILINE))
    assert said == {name: str(default) for name, default, _, _ in options._NUMBERS}
    texts = re.findall(r"`(\w+)`", re.search(r"^\| (`manager_address`.*?) \|", section(),
                                             re.MULTILINE)[1])
    assert tuple(texts) == options._TEXTS
