"""The launch line that python/SGLANG.md shows, by SGLang's rules for a dynamic backend: it makes
one that works. With a checkout its own factory makes it, and knows the line's arguments."""

import argparse
import importlib
import json
import pathlib
import re
import shlex

import pytest

torch = pytest.importorskip("torch", reason="SGLang's interface is made of tensors")

from harness import CHECKOUT, config, fill, hashes, indices, moved, pool  # noqa: E402

TEXT = (pathlib.Path(__file__).parent.parent.parent.parent / "python" / "SGLANG.md").read_text(
    encoding="utf-8")


def launch_line() -> list:
    [block] = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    words = shlex.split(block.replace("\\\n", ""))
    assert words[:3] == ["python3", "-m", "sglang.launch_server"]
    return words[3:]


def made_of(words: list, socket: str):
    """The pool of host memory and its backend."""
    parser = argparse.ArgumentParser()
    for name in ("--model-path", "--hicache-mem-layout", "--hicache-storage-backend",
                 "--hicache-storage-backend-extra-config"):
        parser.add_argument(name, required=True)
    parser.add_argument("--enable-hierarchical-cache", action="store_true", required=True)
    given = parser.parse_args(words)  # SystemExit: another argument, or one is missing
    assert given.hicache_storage_backend == "dynamic"
    extra = {**json.loads(given.hicache_storage_backend_extra_config), "socket": socket}
    host = pool("mha", layout=given.hicache_mem_layout, allocator=extra["allocator"])
    settings = config(extra=extra, model_name="document")
    if CHECKOUT:
        from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
        made = StorageBackendFactory.create_backend("dynamic", settings, host)
    else:
        assert extra["backend_name"]
        module = importlib.import_module(extra["module_path"])
        made = getattr(module, extra["class_name"])(settings, {})
    made.register_mem_pool_host(host)
    return host, made


def test_the_launch_line_makes_a_backend_that_works(daemon):
    host, one = made_of(launch_line(), daemon.socket)
    keys = hashes(2, "document")
    fill(host, [0, 1], 8)
    assert one.batch_set_v1(keys, indices([0, 1], host)) == [True] * 2
    assert one.batch_get_v1(keys, indices([4, 5], host)) == [True] * 2
    assert moved(host, 0, 4) and moved(host, 1, 5)
    one.close()


@pytest.mark.skipif(not CHECKOUT, reason="no checkout: SIMM_SGLANG_CHECKOUT=/path")
def test_sglang_has_the_arguments_of_the_launch_line():
    [path] = pathlib.Path(CHECKOUT).glob("python/sglang/srt/server_args.py")
    known = path.read_text(encoding="utf-8")
    names = [word[2:] for word in launch_line() if word.startswith("--")]
    assert [name for name in names if name.replace("-", "_") not in known] == []
