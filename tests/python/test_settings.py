"""Flags, files, environment: what counts, in which order, and what is said when it is wrong."""

import json
import logging
import os
import re

import pytest

from conftest import fill
from fake_daemon import FakeDaemon, layout_version
from simm import flags, kv
from simm.results import NOT_FOUND
from simm.settings import Settings

INCOMPATIBLE = -1008


def write(path, **config):
    path.write_text(json.dumps(config))
    return str(path)


def test_known_and_unknown_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a log file is made
    for name in list(flags.EFFECTIVE) + list(flags.WITHOUT_EFFECT):
        assert kv.set_flag(name, "1") is True
    assert kv.set_flag("no_such_flag", "1") is False
    for name, value in ((1, "x"), ("clnt_log_file", 7)):
        with pytest.raises(TypeError):
            kv.set_flag(name, value)


@pytest.mark.parametrize("variable", ["SIMM_SOCKET", "SIMM_NAMESPACE", "SIMM_CLUSTER_MANAGER"])
def test_a_variable_that_is_no_utf8(monkeypatch, variable):
    monkeypatch.setenv(variable, os.fsdecode(b"/run/\xff"))
    with pytest.raises(RuntimeError, match=rf"/run/.*{variable}.*use another name"):
        kv.Store()


def test_a_socket_of_others_names_the_group(own_daemon):
    """In a child: root may use any socket."""
    os.chmod(own_daemon.socket, 0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            kv.Store()
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    assert own_daemon.socket in text and "Permission denied" in text and "simm-clients" in text


def test_a_flag_without_effect_is_logged_once(caplog):
    with caplog.at_level(logging.INFO, logger="simm"):
        kv.set_flag("clnt_thread_pool_size", "10")
        kv.set_flag("clnt_thread_pool_size", "20")
    assert len(caplog.records) == 1


def test_the_manager_comes_from_flags_then_file_then_environment(tmp_path, monkeypatch):
    assert Settings.read().manager == ""
    monkeypatch.setenv("SIMM_CLUSTER_MANAGER", "c:3")
    assert Settings.read().manager == "c:3"
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH",
                       write(tmp_path / "s.json", manager_address="b:2", clnt_threadpool_size=10))
    assert Settings.read().manager == "b:2"
    kv.set_flag("cm_primary_node_ip", "10.0.0.1")
    assert Settings.read().manager == "10.0.0.1:30001"
    kv.set_flag("cm_primary_node_port", "7")
    assert Settings.read().manager == "10.0.0.1:7"
    kv.set_flag("cm_primary_node_ip", "fd00::7")
    assert Settings.read().manager == "[fd00::7]:7"


def test_socket_and_namespace_come_from_the_environment_then_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH",
                       write(tmp_path / "s.json", socket="/b", namespace="n"))
    assert (Settings.read().socket, Settings.read().name_space) == ("/b", "n")
    monkeypatch.setenv("SIMM_SOCKET", "/a")
    monkeypatch.setenv("SIMM_NAMESPACE", "m")
    assert (Settings.read().socket, Settings.read().name_space) == ("/a", "m")


def test_sglangs_file_asks_for_exact_sizes(tmp_path, monkeypatch):
    assert Settings.read().exact_size is False
    path = write(tmp_path / "s.json", manager_address="b:2")
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", path)
    assert Settings.read().exact_size is True
    monkeypatch.setenv("SIMM_EXACT_SIZE", "0")
    assert Settings.read().exact_size is False


def test_an_immutable_namespace_has_a_name(tmp_path, monkeypatch):
    assert Settings.read().immutable is False
    path = write(tmp_path / "c.json", namespace="hashes", immutable=True)
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", path)
    assert Settings.read().immutable is True
    monkeypatch.setenv("SIMM_IMMUTABLE", "0")
    assert Settings.read().immutable is False
    monkeypatch.delenv("SGLANG_HICACHE_SIMM_CONFIG_PATH")
    monkeypatch.setenv("SIMM_IMMUTABLE", "1")
    with pytest.raises(RuntimeError, match="without a namespace: name one"):
        Settings.read()


def test_what_the_daemons_decide_is_said_and_so_is_what_nobody_knows(tmp_path, monkeypatch, caplog):
    path = write(tmp_path / "h.json", namespace="n", immutable=True, replicas=2, tier="gpu",
                 element_type="bf16", gpu=True, clnt_threadpool_size=10, imutable=True)
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", path)
    for _ in range(2):
        assert Settings.read({"tier": "gpu", "socket": "/s"}).immutable is True
    told = sorted(message.split(" in the ")[0] for message in caplog.messages)
    assert told == ["element_type = 'bf16'", "gpu = True", "imutable", "replicas = 2",
                    "tier = 'gpu'", "tier = 'gpu'"], "each once, of the file and of the overrides"
    assert "namespaces[].replicas" in caplog.text and "gpu.tier_bytes" in caplog.text
    caplog.clear()
    write(tmp_path / "h.json", namespace="n", replicas=1, gpu=False)
    Settings.read()
    assert caplog.messages == []


@pytest.mark.parametrize("hint", [{"replicas": "2"}, {"replicas": 0}, {"replicas": True},
                                  {"element_type": 16}, {"gpu": 1}, {"tier": None}])
def test_a_hint_of_another_type_is_refused(tmp_path, monkeypatch, hint):
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", write(tmp_path / "h.json", **hint))
    with pytest.raises(RuntimeError, match=f"{list(hint)[0]} = .*SGLANG_HICACHE_SIMM_CONFIG_PATH"):
        Settings.read()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"socket": 7}', '{"exact_size": "yes"}'])
def test_a_file_that_makes_no_sense(tmp_path, monkeypatch, text):
    (tmp_path / "s.json").write_text(text)
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", str(tmp_path / "s.json"))
    with pytest.raises(RuntimeError, match="SGLANG_HICACHE_SIMM_CONFIG_PATH"):
        kv.Store()


@pytest.mark.parametrize("name,value", [
    ("clnt_sync_req_timeout_ms", "soon"), ("clnt_async_req_timeout_ms", "0"),
    ("clnt_sync_req_timeout_ms", "-5"), ("clnt_floor_bytes_per_s", str(2**32)),
    ("cm_primary_node_port", "65536")])
def test_a_flag_that_makes_no_sense(name, value):
    kv.set_flag("cm_primary_node_ip", "10.0.0.1")
    assert kv.set_flag(name, value) is True
    with pytest.raises(RuntimeError, match=name):
        kv.Store()


def test_exact_size_makes_another_size_a_miss(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    monkeypatch.setenv("SIMM_EXACT_SIZE", "1")
    with kv.Store() as store:
        assert store.put(key, fill(store.allocate(100), 1).view()) == 0
        assert store.get(key, store.allocate(200).view()) == NOT_FOUND
        assert store.get(key, store.allocate(100).view()) == 100
        assert store.get_range(key, store.allocate(10).view(), 5) == 10


def test_namespaces_are_apart(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    stores = []
    for name in ("a", "b"):
        monkeypatch.setenv("SIMM_NAMESPACE", name)
        stores.append(kv.Store())
    assert stores[0].put(key, fill(stores[0].allocate(8), 1).view()) == 0
    assert [store.exists(key) for store in stores] == [True, False]


def test_a_log_file_that_can_not_be_written(tmp_path, monkeypatch, store):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for path in (str(blocked / "deeper" / "simm.log"), "/proc/no/simm.log", "", "a\0b"):
        assert kv.set_flag("clnt_log_file", path) is True
    path = tmp_path / "new" / "directory" / "simm.log"
    assert kv.set_flag("clnt_log_file", str(path)) is True
    store.put("", store.allocate(8).view())
    assert "put" in path.read_text()


def test_no_daemon(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", str(tmp_path / "none.sock"))
    with pytest.raises(RuntimeError, match="simmd"):
        kv.Store()


def test_the_manager_of_another_cluster(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    kv.set_flag("cm_primary_node_ip", "10.9.8.7")
    with pytest.raises(RuntimeError, match="10.9.8.7:30001"):
        kv.Store()


def test_a_standalone_daemon_takes_this_machine_for_its_manager(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    kv.set_flag("cm_primary_node_ip", "127.0.0.1")
    kv.set_flag("cm_primary_node_port", "30001")
    with kv.Store("ignored", also="ignored") as store:
        assert store.ping() == 0


@pytest.fixture
def fake_daemon(tmp_path, monkeypatch):
    """fake_daemon(answer, descriptors): one that a Store of this test finds."""
    made = []

    def make(answer, descriptors=0):
        path = str(tmp_path / "simm.sock")
        monkeypatch.setenv("SIMM_SOCKET", path)
        made.append(FakeDaemon(path, answer, descriptors))
        return made[-1]
    yield make
    for one in made:
        one.close()


def test_a_daemon_that_refuses_our_layout_version(fake_daemon):
    mine, other = layout_version(), layout_version() + 1
    reason = (f"client library 0.1.0 speaks session layout {mine}, daemon 9.0.0 speaks layout "
              f"{other}: upgrade the client library")
    daemon = fake_daemon(f'(refused = (status = {INCOMPATIBLE}, reason = "{reason}"))')
    with pytest.raises(RuntimeError, match=re.escape(reason)):
        kv.Store()
    assert f"layoutVersion = {mine}," in daemon.hello and "libraryVersion = " in daemon.hello


@pytest.mark.parametrize("version,features,words", [
    (7, 0, "speaks session layout 7"), ("own", 1 << 31, "feature bits 2147483648")])
def test_a_daemon_that_welcomes_with_another_version(fake_daemon, version, features, words):
    own = layout_version()
    fake_daemon(f'''(welcome = (layoutVersion = {own if version == "own" else version},
        featureBits = {features}, daemonVersion = "9.0.0", sessionId = 1, tenant = "default",
        sessionBytes = 4096, laneCount = 1, limits = (valueBytesMax = 1073741824)))''', 2)
    with pytest.raises(RuntimeError, match=words):
        kv.Store()


@pytest.mark.parametrize("answer", [b"\xff" * 64, b"x", "(opened = void)"])
def test_something_that_listens_and_does_not_speak_our_language(fake_daemon, answer):
    fake_daemon(answer)
    with pytest.raises(RuntimeError, match="packet|message|answer"):
        kv.Store()
