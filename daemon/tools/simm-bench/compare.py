#!/usr/bin/python3
"""What users get beside what the machine can do: simm.kv with the default configuration, and the
same bytes over bare connections, by turns in one run.

    simm-bench compare [--placement free|split] [--rounds N] [--cells WORD] [--quick] [--json]

It starts a manager, a storage daemon and a node as processes, and calls the Python API with memory
that the daemon shares, one batch at a time. Beside each cell of TCP it moves as many bytes over as
many bare connections, through as much memory (a process at each end, blocking calls). A cell is
measured in rounds: ours and bare by turns in each, medians of all rounds in the table. CPU time is
that of all processes that take part, kernel and spinning included. Each page that was fetched is
compared with what was stored, 4 KiB of each 64. Manual: BENCHMARKS.md.
"""

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

HERE = pathlib.Path(__file__).resolve().parent
if (HERE.parent / "python" / "simm").is_dir():  # in a build tree
    sys.path.insert(0, str(HERE.parent / "python"))
from simm import kv  # noqa: E402 (the path comes first)
from simm.settings import Settings  # noqa: E402

MIB = 1 << 20
DEEPSEEK_BYTES = 4_497_408  # a page of 64 tokens of DeepSeek-R1, all layers
PATIENCE_S = 60
KINDS = ("put", "get")


class Cell(NamedTuple):
    """One row of the table."""

    name: str
    kind: str  # put, get, latency
    pages: int
    page_bytes: int
    path: str  # tcp or local

    @property
    def bytes(self) -> int:
        return self.pages * self.page_bytes


class Sample(NamedTuple):
    """One bout: seconds of a call, CPU seconds of all processes for it."""

    seconds: float
    cpu: float


def cells_of(path: str, shapes: Tuple[Tuple[int, int], ...]) -> List[Cell]:
    return [Cell(f"{path} {kind} {pages} x {page_bytes / MIB:.3g} MiB", kind, pages, page_bytes,
                 path)
            for kind in KINDS for pages, page_bytes in shapes]


CELLS = tuple(
    cells_of("tcp", ((16, MIB), (8, DEEPSEEK_BYTES), (128, MIB), (128, DEEPSEEK_BYTES)))
    + [Cell("tcp get 4 KiB", "latency", 1, 4096, "tcp"),
       Cell("tcp exists 128", "latency", 128, 0, "tcp")]
    + cells_of("local", ((128, 5 * MIB // 4), (128, DEEPSEEK_BYTES)))
    + [Cell("local get 4 KiB", "latency", 1, 4096, "local"),
       Cell("local exists 128", "latency", 128, 0, "local")])


def cpu_seconds_of(pid: int) -> float:
    """CPU time of all threads of a process so far, in ns as the scheduler counts it."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except OSError:
            continue  # it has ended
    return total / 1e9


def pin(pid: int, cpu: Optional[int]) -> None:
    if cpu is not None:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {cpu})


class Cluster:
    """A manager, a storage daemon with the pool, a node; or a node with a pool of its own."""

    def __init__(self, directory: str, path: str, pool_bytes: int,
                 cpus: Tuple[Optional[int], Optional[int]]) -> None:
        self.directory = directory
        self.socket = f"{directory}/node/simm.sock"
        self.pids: List[int] = []
        self.connections = 0  # of the node to the storage daemon
        self._daemons: List[Tuple[str, subprocess.Popen[bytes]]] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            manager = "127.0.0.1:%d" % probe.getsockname()[1]
        secret = f"{directory}/secret"
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32).hex().encode())
        cluster = {"manager": manager, "secret_file": secret}
        try:
            if path == "tcp":
                self._start("manager", {"cluster": cluster, "manager": {"listen": manager}})
                self._start("storage", {"cluster": cluster, "node": {"pool_bytes": pool_bytes}},
                            cpus[0])
                self._start("node", {"cluster": cluster, "node": {"pool_bytes": 0}}, cpus[1])
            else:
                self._start("node", {"node": {"pool_bytes": pool_bytes}}, cpus[1])
            self._await(path)
        except BaseException:
            self.stop()
            raise

    def _start(self, role: str, more: Dict[str, Any], cpu: Optional[int] = None) -> None:
        home = f"{self.directory}/{role}"
        os.mkdir(home)
        if "cluster" in more:
            more = dict(more, cluster=dict(more["cluster"], node_name=role))
        with open(f"{home}/simmd.json", "w", encoding="utf-8") as file:
            json.dump({"run_directory": home, **more}, file)
        with open(f"{home}/log", "wb") as log:
            daemon = subprocess.Popen([HERE / "simmd", role, "--config", f"{home}/simmd.json"],
                                      stdout=log, stderr=log)
        if cpu is not None:
            os.sched_setaffinity(daemon.pid, {cpu})
        self._daemons.append((role, daemon))
        self.pids.append(daemon.pid)

    def _await(self, path: str) -> None:
        """Until the node has all its connections."""
        told = ""
        for _ in range(PATIENCE_S * 10):
            for role, daemon in self._daemons:
                if daemon.poll() is not None:
                    raise RuntimeError(f"the {role} ended by itself: {self.last_words()}")
            answer = subprocess.run([HERE / "simmctl", "--json", "--admin",
                                     f"{self.directory}/node/admin.sock",
                                     "peers" if path == "tcp" else "stats"],
                                    capture_output=True, text=True, check=False)
            told = answer.stdout + answer.stderr
            if answer.returncode == 0:
                if path == "local":
                    return
                peers = json.loads(answer.stdout)["peers"]
                if len(peers) == 1 and peers[0]["connections"] == peers[0]["open"] > 0:
                    self.connections = int(peers[0]["connections"])
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the cluster did not come together in {PATIENCE_S} s: {told}")

    def last_words(self) -> str:
        logs = pathlib.Path(self.directory).glob("*/log")
        return " ".join(log.read_text(encoding="utf-8")[-300:] for log in logs)

    def stop(self) -> None:
        for _, daemon in self._daemons:
            daemon.send_signal(signal.SIGTERM)
        for _, daemon in self._daemons:
            try:
                daemon.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def pattern_of(index: int) -> bytes:
    """Of a page: 4 KiB that no other page has."""
    return struct.pack("<Q", index * 0x9E3779B97F4A7C15 & (1 << 64) - 1) * 512


class Ours:
    """The calls of one cluster through simm.kv."""

    def __init__(self, cluster: Cluster, most_bytes: int) -> None:
        self.store = kv.Store.with_settings(Settings.read({"socket": cluster.socket}))
        self.memory = self.store.allocate(most_bytes)
        self.mr = kv.register_mr(self.memory)
        self.pids = cluster.pids

    def call(self, cell: Cell) -> Callable[[], None]:
        pages = max(1, cell.pages)
        size = cell.page_bytes or 4096
        keys = [f"compare-{size}-{i}" for i in range(pages)]
        views = [kv.BlockView.from_buffer(self.memory.ptr + i * size, size, self.mr)
                 for i in range(pages)]
        for i in range(pages):
            self._fill(i, size, pattern_of(i))
        if self.store.mput(keys, views, timeout_ms=PATIENCE_S * 1000) != [0] * pages:
            raise RuntimeError("the first put failed")
        if cell.kind != "put":
            for i in range(pages):
                self._fill(i, size, b"\0" * 4096)

        def check(answers: List[Any], expected: Any) -> None:
            if answers != [expected] * pages:
                raise RuntimeError(f"{cell.name}: a call failed: {answers[:4]}")

        if cell.kind == "put":
            return lambda: check(self.store.mput(keys, views, timeout_ms=PATIENCE_S * 1000), 0)
        if cell.page_bytes == 0:
            return lambda: check(self.store.mexists(keys), True)
        return lambda: check(self.store.mget(keys, views, timeout_ms=PATIENCE_S * 1000), size)

    def _fill(self, page: int, size: int, pattern: bytes) -> None:
        for at in range(0, size, 64 << 10):  # the first 4 KiB of each 64 KiB
            ctypes.memmove(self.memory.ptr + page * size + at, pattern, min(4096, size - at))

    def compare(self, cell: Cell) -> None:
        """What a get left in the memory is what was put."""
        if cell.kind == "put" or cell.page_bytes == 0:
            return
        for i in range(cell.pages):
            for at in range(0, cell.page_bytes, 64 << 10):
                bytes_here = min(4096, cell.page_bytes - at)
                if ctypes.string_at(self.memory.ptr + i * cell.page_bytes + at,
                                    bytes_here) != pattern_of(i)[:bytes_here]:
                    raise RuntimeError(f"{cell.name}: page {i} has wrong bytes at {at}")


class Bare:
    """As many connections between two processes, an equal part of the bytes on each."""

    ORDER = struct.Struct("<QQ")  # is_put, bytes

    def __init__(self, connections: int, most_bytes: int,
                 cpus: Tuple[Optional[int], Optional[int]]) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self._far = os.fork()
        if self._far == 0:
            try:
                pin(os.getpid(), cpus[0])
                self._serve(listener, connections, most_bytes)
            finally:
                os._exit(0)
        self._memory = filled(most_bytes)
        self._ends = [socket.create_connection(listener.getsockname()) for _ in range(connections)]
        for end in self._ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.close()
        self.pids = [self._far]

    @classmethod
    def _serve(cls, listener: socket.socket, connections: int, most_bytes: int) -> None:
        memory = filled(most_bytes)
        threads = []
        for i in range(connections):
            end, _ = listener.accept()
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            part = memory[i * (most_bytes // connections):]
            threads.append(threading.Thread(target=cls._answer, args=(end, part)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    @classmethod
    def _answer(cls, end: socket.socket, memory: memoryview) -> None:
        order = bytearray(cls.ORDER.size)
        while receive(end, memoryview(order)):
            is_put, size = cls.ORDER.unpack(order)
            if is_put:
                receive(end, memory[:size])
                end.sendall(b"!")
            else:
                end.sendall(memory[:size])

    def _one(self, index: int, is_put: bool, size: int) -> None:
        end = self._ends[index]
        memory = self._memory[index * size:(index + 1) * size]
        end.sendall(self.ORDER.pack(is_put, size))
        if is_put:
            end.sendall(memory)
            receive(end, memoryview(bytearray(1)))
        else:
            receive(end, memory)

    def call(self, cell: Cell) -> Callable[[], None]:
        if cell.kind == "latency":
            return lambda: self._one(0, False, max(cell.page_bytes, 1))
        part = cell.bytes // len(self._ends)

        def run() -> None:
            others = [threading.Thread(target=self._one, args=(i, cell.kind == "put", part))
                      for i in range(1, len(self._ends))]
            for other in others:
                other.start()
            self._one(0, cell.kind == "put", part)
            for other in others:
                other.join()
        return run

    def stop(self) -> None:
        for end in self._ends:
            end.close()
        os.waitpid(self._far, 0)


def receive(end: socket.socket, memory: memoryview) -> bool:
    while memory:
        now = end.recv_into(memory)
        if now == 0:
            return False
        memory = memory[now:]
    return True


def filled(size: int) -> memoryview:
    """Memory that has pages of its own."""
    memory = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        memory[at] = 1
    return memoryview(memory)


def bout(call: Callable[[], None], pids: List[int], seconds: float) -> Sample:
    """Calls for so long; the mean of one."""
    cpu = [time.process_time() + sum(cpu_seconds_of(pid) for pid in pids)]
    calls = 0
    begin = now = time.perf_counter()
    while calls < 3 or now - begin < seconds:
        call()
        calls += 1
        now = time.perf_counter()
    cpu.append(time.process_time() + sum(cpu_seconds_of(pid) for pid in pids))
    return Sample((now - begin) / calls, (cpu[1] - cpu[0]) / calls)


def row_of(cell: Cell, ours: List[Sample], bare: List[Sample]) -> Dict[str, Any]:
    """The figures of a cell, as the other commands print theirs."""
    def figure(sample: Sample) -> float:
        return sample.seconds * 1e6 if cell.kind == "latency" else cell.bytes / sample.seconds

    values = [figure(sample) for sample in ours]
    params = {"path": cell.path, "pages": cell.pages, "page_bytes": cell.page_bytes,
              "least": min(values), "most": max(values)}
    per = 1e6 if cell.kind == "latency" else 1e3 * MIB / cell.bytes
    unit = "cpu_us_per_call" if cell.kind == "latency" else "cpu_ms_per_mib"
    params[unit] = per * statistics.median(sample.cpu for sample in ours)
    baseline = None
    is_noisy = False
    if bare:
        bases = [figure(sample) for sample in bare]
        baseline = statistics.median(bases)
        is_noisy = max(bases) > 2 * min(bases)
        params.update({"baseline_least": min(bases), "baseline_most": max(bases),
                       "baseline_" + unit: per * statistics.median(s.cpu for s in bare)})
    value = statistics.median(values)
    return {"name": "compare." + cell.name.replace(" ", "_"), "value": value,
            "unit": "us" if cell.kind == "latency" else "B/s", "baseline": baseline,
            "ratio": value / baseline if baseline else None, "params": params, "noisy": is_noisy}


def line_of(row: Dict[str, Any]) -> str:
    params = row["params"]
    scale, unit, cpu = (1, "us", "cpu_us_per_call") if row["unit"] == "us" else \
        (1e9, "GB/s", "cpu_ms_per_mib")

    def span(value: float, least: float, most: float) -> str:
        return f"{value / scale:8.2f} [{least / scale:.2f}-{most / scale:.2f}]"

    line = f"{row['name'][8:]:26} {span(row['value'], params['least'], params['most']):24} {unit:5}"
    if row["baseline"] is None:
        return f"{line} {'':24} {'':6} {params[cpu]:8.3f}"
    bare = span(row["baseline"], params["baseline_least"], params["baseline_most"])
    bare_cpu = params["baseline_" + cpu]
    return f"{line} {bare:24} {row['ratio']:6.2f} {params[cpu]:8.3f} {bare_cpu:8.3f}"


def measure(path: str, cells: List[Cell], options: argparse.Namespace,
            cpus: Tuple[Optional[int], Optional[int]]) -> None:
    most = max(MIB, *(cell.bytes for cell in cells))
    with tempfile.TemporaryDirectory(prefix="simm-compare-") as directory:
        cluster = Cluster(directory, path, 3 * most + 256 * MIB, cpus)
        # Its other end is forked before libsimm has threads here.
        bare = Bare(cluster.connections, most, cpus) if path == "tcp" else None
        try:
            ours = Ours(cluster, most)
            for cell in cells:
                call = ours.call(cell)
                bare_call = bare.call(cell) if bare else None
                bout(call, [], 0)
                taken: Tuple[List[Sample], List[Sample]] = ([], [])
                for _ in range(options.rounds):
                    taken[0].append(bout(call, cluster.pids, options.seconds))
                    if bare and bare_call:
                        taken[1].append(bout(bare_call, bare.pids, options.seconds))
                ours.compare(cell)
                row = row_of(cell, *taken)
                print(json.dumps(row) if options.json else line_of(row), flush=True)
            ours.store.close()
        finally:
            cluster.stop()
            if bare:
                bare.stop()


def whole_number(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text}: a number of rounds, 1 to 1000")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="simm-bench compare",
                                     description="What users get beside bare connections.")
    parser.add_argument("--rounds", type=whole_number, default=5, help="of each cell (5)")
    parser.add_argument("--cells", default="", metavar="WORD", help="only those with it in their "
                        "name, as in 'tcp put' or '4 KiB'")
    parser.add_argument("--placement", choices=("free", "split"), default="free",
                        help="split: the node on the last CPU, the storage daemon on the first, "
                        "and so the ends of bare connections")
    parser.add_argument("--quick", action="store_true", help="as little as shows that it works; "
                        "figures mean nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    options.seconds = 0.01 if options.quick else 0.4
    cells = CELLS
    if options.quick:
        options.rounds = 1
        cells = tuple(cell._replace(pages=4) if cell.bytes > 16 * MIB else cell for cell in CELLS)
    cells = tuple(cell for cell in cells if options.cells in cell.name)
    if not cells:
        parser.error(f"--cells {options.cells}: no cell has that in its name; the cells are: "
                     + ", ".join(cell.name for cell in CELLS))
    is_split = options.placement == "split"
    cpus = (0, (os.cpu_count() or 1) - 1) if is_split else (None, None)
    if not options.json:
        print(f"{'':26} {'ours':24} {'':5} {'bare':24} {'ratio':>6}   CPU ms/MiB or us/call, ours "
              "and bare")
    try:
        for path in ("tcp", "local"):
            of_path = [cell for cell in cells if cell.path == path]
            if of_path:
                measure(path, of_path, options, cpus)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"simm-bench compare: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
