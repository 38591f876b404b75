"""Operations as OpenTelemetry spans: a real daemon tells a receiver, which is sometimes ill."""

import asyncio
import ctypes
import http.server
import json
import re
import secrets
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import CONFIG, SIMMD, Daemon
from simm import _native, kv

PATIENCE = 60  # seconds that anything may take on a machine with other work
STAGES = {"pick up", "validate", "queue", "group", "send", "wait for owner", "complete"}


class Server(http.server.ThreadingHTTPServer):
    """With TLS where `tls` is a context. A handshake that fails ends its connection alone."""

    tls = None

    def finish_request(self, request, client_address):
        if self.tls is None:
            return super().finish_request(request, client_address)
        try:
            with self.tls.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except (ssl.SSLError, ConnectionError):
            pass  # a daemon that does not trust this receiver hangs up


class Receiver:
    """OTLP over HTTP. Keeps what it is told, and answers as `answer` says."""

    def __init__(self, answer=(200, b"{}"), certificate=None):
        self.spans, self.posts, self.answer = [], 0, answer
        self.changed = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, text = receiver.answer
                with receiver.changed:
                    receiver.posts += 1
                    if status == 200:
                        receiver.spans += receiver.read(self.path, self.headers, body)
                    receiver.changed.notify_all()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate is not None:
            self.scheme = "https"
            self.server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.server.tls.load_cert_chain(*certificate)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_address[1]}"

    @staticmethod
    def read(path, headers, body):
        """The spans of a request; whatever is not as the protocol wants it is a failure."""
        assert path == "/v1/traces"
        assert headers["Content-Type"] == "application/json"
        assert set(body) == {"resourceSpans"}
        spans = []
        for resource in body["resourceSpans"]:
            about = attributes_of(resource["resource"])
            assert about["service.name"] == "simmd"
            assert about["service.version"] == kv_version()
            for scope in resource["scopeSpans"]:
                assert scope["scope"]["name"] == "simmd"
                spans += scope["spans"]
        for span in spans:
            assert re.fullmatch("[0-9a-f]{32}", span["traceId"]), span
            assert re.fullmatch("[0-9a-f]{16}", span["spanId"]), span
            assert set(span["traceId"]) != {"0"} and set(span["spanId"]) != {"0"}
            if "parentSpanId" in span:
                assert re.fullmatch("[0-9a-f]{16}", span["parentSpanId"]), span
            assert span["kind"] in (1, 2) and span["name"]
            begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            assert begin <= end <= time.time_ns() + 10**9
            assert abs(time.time_ns() - begin) < PATIENCE * 10**9
        return spans

    def wait(self, is_so):
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE), self.spans

    def operations(self):
        return [span for span in self.spans if span["kind"] == 2]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def kv_version() -> str:
    return _native.version()


def attributes_of(of):
    values = {each["key"]: each["value"] for each in of["attributes"]}
    return {key: value.get("stringValue", value.get("intValue")) for key, value in values.items()}


def trace_parent(sampled=True):
    """A trace, its span, and the text of both."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-0{int(sampled)}"


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def daemon_to(tmp_path, monkeypatch, clean_settings):
    """Starts a daemon that tells that endpoint."""
    started = []

    def start(endpoint, **more):
        config = dict(json.loads(CONFIG), trace=dict({"endpoint": endpoint}, **more))
        started.append(Daemon(tmp_path, config=json.dumps(config)).start())
        monkeypatch.setenv("SIMM_SOCKET", started[-1].socket)
        return started[-1]

    yield start
    kv.set_trace_parent(None)
    for daemon in started:
        daemon.kill()


def wait_for(is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_request_and_its_pages_are_one_trace(receiver, daemon_to):
    daemon = daemon_to(receiver.endpoint, per_second=1000)
    store = kv.Store()
    keys = [f"page {i}" for i in range(4)]
    store.mexists(keys)  # of no trace: nobody is told
    trace, span, text = trace_parent()
    kv.set_trace_parent(text)
    assert store.mexists(keys) == [False] * 4
    store.mexists(keys[:1])
    kv.set_trace_parent(trace_parent(sampled=False)[2])
    store.mexists(keys)
    receiver.wait(lambda: len(receiver.operations()) >= 2)
    told = receiver.operations()
    assert len(told) == 2
    for each, pages in zip(told, (4, 1)):
        assert (each["traceId"], each["parentSpanId"]) == (trace, span)
        assert each["name"] == "simm exists"
        about = attributes_of(each)
        assert (about["simm.pages"], about["simm.pages_ok"]) == (str(pages), "0")
        assert (about["simm.tenant"], about["simm.peer"]) == ("default", "self")
        assert about["simm.status"] == "ok" and "status" not in each
        inside = [s for s in receiver.spans if s.get("parentSpanId") == each["spanId"]]
        assert {s["name"] for s in inside} <= STAGES and inside
        assert sum(int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"]) for s in inside) == \
            int(each["endTimeUnixNano"]) - int(each["startTimeUnixNano"])
        assert all(s["traceId"] == trace for s in inside)
    assert len({s["spanId"] for s in receiver.spans}) == len(receiver.spans)
    wait_for(lambda: daemon.stats("traces.")["traces.exported"] == 2)
    text = json.dumps(receiver.spans)
    assert "page 0" not in text  # keys are nobody's business


def test_an_asynchronous_call_has_the_trace_of_its_start(receiver, daemon_to):
    daemon_to(receiver.endpoint, per_second=1000)
    store = kv.Store()
    blocks = [store.allocate(4096) for _ in range(4)]
    views = [block.view() for block in blocks]
    keys = [f"page {i}" for i in range(4)]

    async def put_and_get():
        kv.set_trace_parent(first[2])
        putting = asyncio.ensure_future(store.mput_async(keys, views))
        await asyncio.sleep(0)  # it has begun
        kv.set_trace_parent(second[2])
        assert await putting == [0] * 4
        assert await store.mget_async(keys, views) == [4096] * 4

    first, second = trace_parent(), trace_parent()
    asyncio.run(put_and_get())
    receiver.wait(lambda: len(receiver.operations()) >= 2)
    told = {span["name"]: span for span in receiver.operations()}
    assert told["simm put"]["traceId"] == first[0]
    assert told["simm get"]["traceId"] == second[0]
    for span in told.values():
        about = attributes_of(span)
        assert (about["simm.pages_ok"], about["simm.bytes"]) == ("4", str(4 * 4096))


def test_each_thread_has_its_own_trace_and_c_the_same(receiver, daemon_to):
    daemon_to(receiver.endpoint, per_second=1000)
    store = kv.Store()
    library = ctypes.CDLL(_native.library_path())
    traces = [trace_parent() for _ in range(4)]

    def call(number):
        assert library.simm_set_trace_parent(traces[number][2].encode()) == 0
        store.mexists(["key"] * (number + 1))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.mexists(["key"])  # of this thread: no trace
    receiver.wait(lambda: len(receiver.operations()) >= 4)
    pages = {s["traceId"]: attributes_of(s)["simm.pages"] for s in receiver.operations()}
    assert pages == {traces[i][0]: str(i + 1) for i in range(4)}


def test_no_traceparent_is_refused():
    trace, span, text = trace_parent()
    for bad in (text[:-1], text.upper().replace("00-", "0X-", 1), f"00-{'0' * 32}-{span}-01",
                f"ff{text[2:]}", "nonsense", text + "\n", "00-\0"):
        with pytest.raises(ValueError, match="trace_parent = '.*hexadecimal in lower case"):
            kv.set_trace_parent(bad)
    with pytest.raises(TypeError):
        kv.set_trace_parent(7)
    kv.set_trace_parent(None)


def test_one_in_so_many_and_the_rate_of_a_tenant(receiver, daemon_to):
    daemon = daemon_to(receiver.endpoint, one_in=1, per_second=3)
    store = kv.Store()
    began = time.monotonic()
    for _ in range(500):
        store.mexists(["key"])
    seconds = time.monotonic() - began
    receiver.wait(lambda: len(receiver.operations()) >= 3)
    wait_for(lambda: sum(daemon.stats("traces.").values()) >= 500)
    assert len(receiver.operations()) <= 3 * (seconds + 2)
    assert all("parentSpanId" not in span for span in receiver.operations())
    assert len({span["traceId"] for span in receiver.operations()}) == len(receiver.operations())


@pytest.mark.parametrize("ill", ("hangs", "is gone", "answers 503", "rejects"))
def test_an_ill_receiver_delays_no_data(ill, receiver, daemon_to):
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(1)
    endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
    if ill == "is gone":
        silent.close()
    if ill == "answers 503":
        receiver.answer, endpoint = (503, b"busy"), receiver.endpoint
    if ill == "rejects":
        receiver.answer = (200, b'{"partialSuccess": {"rejectedSpans": "4"}}')
        endpoint = receiver.endpoint
    daemon = daemon_to(endpoint, per_second=10_000)
    store = kv.Store()
    kv.set_trace_parent(trace_parent()[2])
    worst = 0.0
    calls = 0
    end = time.monotonic() + PATIENCE
    # Until the receiver has had its time, and more than may wait has come.
    while daemon.stats("traces.")["traces.dropped.refused"] == 0 or calls < 6000:
        assert time.monotonic() < end
        for _ in range(500):
            began = time.monotonic()
            assert store.mexists(["key"]) == [False]
            worst = max(worst, time.monotonic() - began)
            calls += 1
    assert worst < 1  # what a post may take is two seconds
    assert daemon.stats("traces.")["traces.exported"] == 0
    began = time.monotonic()
    daemon.kill(15)
    assert time.monotonic() - began < 30
    silent.close()


# ---- a cluster ----


@pytest.fixture
def sections(receiver):
    """Every daemon of the cluster tells that receiver."""
    return {"trace": {"endpoint": receiver.endpoint, "per_second": 1000}}


def test_client_node_and_owners_are_one_trace(receiver, cluster):
    store = kv.Store()
    keys = [f"key {i}" for i in range(64)]
    views = [block.view() for block in (store.allocate(4096) for _ in keys)]
    trace, span, text = trace_parent()
    kv.set_trace_parent(text)
    assert store.mput(keys, views) == [0] * 64
    kv.set_trace_parent(trace_parent(sampled=False)[2])
    assert store.mput([f"other {key}" for key in keys], views) == [0] * 64  # of no trace
    # The node's span, and one of each of both storage daemons.
    receiver.wait(lambda: len(receiver.operations()) >= 3)
    kv.set_trace_parent(None)
    told = {each["name"]: [one for one in receiver.operations() if one["name"] == each["name"]]
            for each in receiver.operations()}
    assert {name: len(of) for name, of in told.items()} == {"simm put": 1,
                                                            "simm put at owner": 2}
    at_node, = told["simm put"]
    assert (at_node["traceId"], at_node["parentSpanId"]) == (trace, span)
    pages, begin, end = 0, int(at_node["startTimeUnixNano"]), int(at_node["endTimeUnixNano"])
    for at_owner in told["simm put at owner"]:
        assert (at_owner["traceId"], at_owner["parentSpanId"]) == (trace, at_node["spanId"])
        about = attributes_of(at_owner)
        assert about["simm.pages"] == about["simm.pages_ok"]
        assert about["simm.status"] == "ok"
        pages += int(about["simm.pages"])
        # One host, one clock: the owner's work lies inside the node's. Each daemon reads the wall
        # clock for itself.
        slack = 20_000_000
        assert begin - slack <= int(at_owner["startTimeUnixNano"])
        assert int(at_owner["endTimeUnixNano"]) <= end + slack
        inside = [s for s in receiver.spans if s.get("parentSpanId") == at_owner["spanId"]]
        assert {s["name"] for s in inside} <= {"receive", "store", "copy", "reply"} and inside
        assert all(s["traceId"] == trace for s in inside)
    assert pages == 64
    assert len({s["spanId"] for s in receiver.spans}) == len(receiver.spans)
    assert "key 0" not in json.dumps(receiver.spans)


# ---- TLS ----


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and certificates that it has signed: {name: (certificate, key)}."""
    directory = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory,
                       timeout=PATIENCE)

    def authority(name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={name}", "-days", "2", "-keyout", f"{name}.key", "-out",
                f"{name}.pem")

    def signed(name, of, subject):
        (directory / "extensions").write_text(f"subjectAltName={subject}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                "/CN=receiver", "-keyout", f"{name}.key", "-out", f"{name}.request")
        openssl("x509", "-req", "-in", f"{name}.request", "-CA", f"{of}.pem", "-CAkey",
                f"{of}.key", "-CAcreateserial", "-days", "2", "-extfile", "extensions", "-out",
                f"{name}.pem")

    for name in ("authority", "stranger"):
        authority(name)
    signed("right", "authority", "IP:127.0.0.1")
    signed("elsewhere", "authority", "DNS:collector.example.com")
    signed("forged", "stranger", "IP:127.0.0.1")
    return {name: (str(directory / f"{name}.pem"), str(directory / f"{name}.key"))
            for name in ("authority", "stranger", "right", "elsewhere", "forged")}


def call_traced():
    store = kv.Store()
    trace, _, text = trace_parent()
    kv.set_trace_parent(text)
    store.mexists(["key"])
    kv.set_trace_parent(None)
    return trace


def test_a_receiver_with_the_right_certificate_is_told_over_tls(certificates, daemon_to):
    receiver = Receiver(certificate=certificates["right"])
    try:
        daemon = daemon_to(receiver.endpoint, ca_file=certificates["authority"][0])
        trace = call_traced()
        receiver.wait(lambda: receiver.operations())
        assert receiver.operations()[0]["traceId"] == trace
        wait_for(lambda: daemon.stats("traces.")["traces.exported"] == 1)
        assert "takes none" not in (daemon.directory / "log").read_text()
    finally:
        receiver.close()


NO_VOUCH = "trace.ca_file = {ca} does not vouch for {endpoint} ("


@pytest.mark.parametrize("certificate,ca,words", (
    # Signed by somebody else; right, and the daemon knows another authority; right, and it knows
    # those of the system alone; for another host; no TLS at all.
    ("forged", "authority", (NO_VOUCH, "name the PEM file of the authority")),
    ("right", "stranger", (NO_VOUCH, "name the PEM file of the authority")),
    ("right", None, (NO_VOUCH, "name the PEM file of the authority")),
    ("elsewhere", "authority", ("trace.endpoint = {endpoint}: its certificate is another host\'s (",
                                "write a name that it has")),
    (None, "authority", ("trace.endpoint = {endpoint} (", "does not speak TLS, write http://")),
))
def test_a_receiver_with_a_wrong_certificate_is_told_nothing(certificate, ca, words, certificates,
                                                             daemon_to):
    receiver = Receiver(certificate=certificates.get(certificate))
    endpoint = receiver.endpoint.replace("http://", "https://")
    file = certificates[ca][0] if ca else ""
    try:
        daemon = daemon_to(endpoint, **({"ca_file": file} if ca else {}))
        call_traced()
        wait_for(lambda: daemon.stats("traces.")["traces.dropped.refused"] == 1)
        log = (daemon.directory / "log").read_text()
        for each in words:
            said = each.format(ca=file or "(those of the system)", endpoint=endpoint)
            assert said in log, log
        assert receiver.posts == 0
    finally:
        receiver.close()


def test_an_authority_that_comes_later_is_read(certificates, daemon_to, tmp_path):
    receiver = Receiver(certificate=certificates["right"])
    file = tmp_path / "ca.pem"
    with open(certificates["stranger"][0], "rb") as stranger:
        file.write_bytes(stranger.read())
    try:
        daemon = daemon_to(receiver.endpoint, ca_file=str(file))
        call_traced()
        wait_for(lambda: daemon.stats("traces.")["traces.dropped.refused"] == 1)
        with open(certificates["authority"][0], "rb") as right:
            file.write_bytes(right.read())
        # The next post fails with what was read before it, and has the file read again.
        wait_for(lambda: call_traced() and receiver.operations())
    finally:
        receiver.close()


def test_wrong_configuration_names_its_key(tmp_path):
    for trace, words in (
            ({"endpoint": "collector"}, "trace.endpoint: collector is no endpoint: write http://"),
            ({"endpoint": "https://host:1", "ca_file": "/none"}, "trace.ca_file: /none: "),
            ({"ca_file": "/etc/ca.pem"}, "trace.ca_file = /etc/ca.pem: set trace.endpoint"),
            ({"one_in": 5}, "trace.one_in = 5: set trace.endpoint"),
            ({"endpoint": "http://h:1", "per_second": 0}, "trace.per_second = 0")):
        file = tmp_path / "config.json"
        file.write_text(json.dumps({"run_directory": str(tmp_path), "trace": trace}))
        done = subprocess.run([SIMMD, "all", "--config", str(file)], capture_output=True,
                              text=True, timeout=PATIENCE)
        assert done.returncode != 0
        assert words in done.stderr, done.stderr
