"""The configurations that python/README.md shows, by LMCache's rules: a backend for `remote_url`
and one for each of `remote_storage_plugins`. Each of them gives exactly one, which works."""

import json
import pathlib
import re

import pytest

pytest.importorskip("torch")

import lmcache_lab  # noqa: E402
from lmcache_lab import CHUNK_BYTES, OLD, Lab  # noqa: E402

README = pathlib.Path(__file__).parent.parent.parent.parent / "python" / "README.md"
PREFIX = "remote_storage_plugin."
KNOWN = {"module_path", "class_name", "manager_address", "use_sync", "namespace", "socket"}


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def configurations():
    """Of each yaml block the keys, and of its extra_config the keys: one level is all they have."""
    found = []
    text = README.read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        whole, into = {}, {}
        for line in block.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            key, _, value = line.strip().partition(": ")
            if line.endswith(":"):
                into = whole[key.rstrip(":")] = {}
            else:
                (into if line.startswith(" ") else whole)[key] = value_of(value)
        found.append(whole)
    return found


def urls_of(config):
    """Of the backends that LMCache makes."""
    urls = [config["remote_url"]] if config.get("remote_url") else []
    return urls + [f"plugin://{name}" for name in config.get("remote_storage_plugins", [])]


def test_there_are_some():
    assert [sorted({"remote_url", "remote_storage_plugins"} & set(config))
            for config in configurations()] == [["remote_storage_plugins"], ["remote_url"]]


@pytest.mark.parametrize("number", range(len(configurations())))
def test_a_configuration_makes_one_backend_and_a_chunk_is_put_once(daemon, monkeypatch, number):
    config = configurations()[number]
    urls = urls_of(config)
    assert len(urls) == 1, f"every chunk is put {len(urls)} times: {urls}"
    extra = config.get("extra_config", {})
    for key in extra:
        assert not key.startswith(PREFIX) or key.rsplit(".", 1)[1] in KNOWN, key
    if OLD and urls[0].startswith("plugin://"):
        pytest.skip("LMCache of 2025 has no plugins")
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    monkeypatch.setattr(lmcache_lab, "ADAPTER", {})  # what is shown is all that there is
    with Lab(urls[0], **extra) as lab:
        key = lab.key(0xd0c0 + number)
        lab.store([key], [lab.chunk(3)])
        assert lab.take([lab.run(lab.connector.get(key))]) == [(CHUNK_BYTES, 3)]


def test_the_native_plugin_that_is_shown(daemon, monkeypatch):
    text = README.read_text(encoding="utf-8")
    config = json.loads(re.search(r"--l2-adapter '(.*?)'", text, re.DOTALL)[1])
    assert config["type"] == "native_plugin"
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    module = __import__(config["module_path"], fromlist=[config["class_name"]])
    client = getattr(module, config["class_name"])(**config["adapter_params"])
    client.close()
