"""Counts what a call costs, where that does not vary: instructions, system calls, sleeps and heap
allocations of each thread that has to do with the call. More than 3 % above the budget is red.

usage: cost.py BIN_DIRECTORY [--write|--policies]

Client, node and storage daemon run under callgrind, and sleep whenever they can, so that each call
takes the whole way: woken, served, asleep. --write makes what was counted the budget
(tests/cost/budget.json); lower it when a cost fell. A get and a put with eviction of a store alone
are counted with the policy reuse and with least recently used: more than POLICY_MAX times as much
is red, and --policies counts nothing else. A heartbeat of one of 1,000 daemons is counted at their
manager, without its sockets. The counts hold for one compiler and one
instruction set, which the budget names; elsewhere the program says so and ends with 77.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
BUDGET = pathlib.Path(__file__).with_name("budget.json")
CALLS = ("get_4k", "put_4k", "get_128x4k", "exists_128")
PROGRAMS = ("simmd", "simmctl", "cost_client", "cost_manager", "cost_store")
TIMES = 20
ROUNDS_MAX = 15
AGREE = 0.005
SLACK = 0.03  # of instructions
COUNT_SLACK = 0.5  # of what is a few for each call, and a tenth of them
SYMBOLS = 12
POLICY_MAX = {"get": 1.05, "put": 1.25}  # of the instructions with the policy lru
POLICY_TIMES = 20_000
HEARTBEATS = 8_000  # all daemons say once what they have done
# The inclusive cost of these is what a process pays for calls; its other threads have other work.
ALLOCATORS = "malloc|calloc|realloc|memalign|posix_memalign|aligned_alloc"
ROOTS = {"client": r"measured_call\(", "node": r"AgentRunner::run\(\)",
         "storage": r"AgentRunner::run\(\)"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def instruction_set():
    flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return "avx2" if flags and "avx2" in flags[1].split() else "no avx2"


def built_with():
    """Which compiler made the daemon: its first note says so."""
    notes = run("readelf", "-p", ".comment", str(BIN / "simmd"))
    return re.search(r"GCC: \([^)]*\) (\d+)|clang version (\d+)", notes)[0]


def hurry(pid):
    """Before all others, where that may be had: who is profiled is always the slower end, so it
    finds answers before it sleeps, on a busy machine as well."""
    try:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pass


class Process:
    """One of the programs; under callgrind when it is profiled."""

    def __init__(self, role, directory, is_profiled, command, **options):
        self.role = role
        self.dumps = 0
        self.profile = directory / f"{role}.callgrind"
        self.log = open(directory / f"{role}.log", "w", encoding="utf-8")
        if is_profiled:
            only = ["--toggle-collect=*measured_call*"] if role == "client" else []
            command = ["valgrind", "--tool=callgrind", "-q", "--separate-threads=yes",
                       f"--callgrind-out-file={self.profile}", *only, *command]
        self.process = subprocess.Popen(command, stderr=self.log, **options)
        if not is_profiled:
            hurry(self.process.pid)

    def command(self, *what):
        run("callgrind_control", *what, str(self.process.pid))

    def threads(self):
        """Those that have to do with calls."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        if self.role == "client":
            return [tasks / str(self.process.pid)]
        return [task for task in tasks.iterdir()
                if (task / "comm").read_text().startswith("simm-data")]

    def sleeps(self):
        return sum(int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.MULTILINE)[1])
                   for text in ((thread / "status").read_text() for thread in self.threads()))

    def counted(self, dump_name):
        """Of the last dump: instructions under the root, allocations beside them, and the
        instructions of each function, in the threads that have the root."""
        self.dumps += 1
        self.command(f"--dump={dump_name}")
        instructions, allocated, by_function = 0, 0, {}
        for thread in self.profile.parent.glob(f"{self.profile.name}.{self.dumps}-*"):
            profile = Profile(thread.read_text())
            under_root = profile.inclusive(ROOTS[self.role])
            if under_root == 0:
                continue
            instructions += under_root
            allocated += profile.calls_of(ALLOCATORS)
            for name, cost in profile.own.items():
                by_function[name] = by_function.get(name, 0) + cost
        if instructions == 0:
            sys.exit(f"cost: the profile of the {self.role} has no {ROOTS[self.role]}")
        return instructions, allocated, by_function

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()


class Profile:
    """A file of callgrind: "fn=(id) name" opens a function, lines "position cost" are its own
    instructions; after "cfn=(id) name" and "calls=N position" the next line is what those N calls
    cost, the functions that they called included."""

    def __init__(self, text):
        names = {}
        self.own, self._called, self._calls = {}, {}, {}
        caller = callee = None
        calls = 0
        for line in text.splitlines():
            found = re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line)
            if found:
                if found[3]:
                    names[found[2]] = re.sub(r"'\d+$", "", found[3])
                if found[1]:
                    callee = names[found[2]]
                else:
                    caller = names[found[2]]
            elif line.startswith("calls="):
                calls = int(line[6:].split()[0])
            elif re.match(r"[+\-*\d]\S* \d+$", line):
                cost = int(line.split()[1])
                if calls:
                    self._called[caller] = self._called.get(caller, 0) + cost
                    self._calls[callee] = self._calls.get(callee, 0) + calls
                    calls = 0
                else:
                    self.own[caller] = self.own.get(caller, 0) + cost

    def inclusive(self, pattern):
        """Of a function that does not call itself."""
        return sum(self.own.get(name, 0) + self._called.get(name, 0)
                   for name in self.own.keys() | self._called.keys() if re.search(pattern, name))

    def calls_of(self, pattern):
        return sum(calls for name, calls in self._calls.items() if re.fullmatch(pattern, name))


class World:
    """Daemons and one client. `profiled` are the roles that run under callgrind; where all parts
    were slow, two of them would race for who sleeps first."""

    def __init__(self, profiled):
        self.profiled = profiled
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="simm_cost_"))
        self.processes = {}

    def daemon(self, part, role, config):
        home = self.directory / part
        home.mkdir()
        common = {"run_directory": str(home), "wait": {"mode": "event"},
                  "session": {"handshake_ms": 60000}}
        (home / "simmd.json").write_text(json.dumps(common | config))
        self.start(part, [str(BIN / "simmd"), role, "--config", str(home / "simmd.json")])

    def start(self, part, command, **options):
        self.processes[part] = Process(part, self.directory, part in self.profiled, command,
                                       **options)

    def start_alone(self):
        """One daemon with a pool."""
        self.daemon("node", "all", {"node": {"pool_bytes": "64MiB"}})

    def start_over_tcp(self):
        """A node without a pool, and a storage daemon."""
        secret = self.directory / "secret"
        secret.write_text("a secret of this program, nobody else's")
        secret.chmod(0o600)
        address = f"127.0.0.1:{free_port()}"
        cluster = {"manager": address, "secret_file": str(secret), "detection_ms": 60000}
        self.daemon("manager", "manager", {
            "cluster": {"secret_file": str(secret), "node_name": "m"},
            "manager": {"listen": address}})
        self.daemon("storage", "storage", {"cluster": cluster | {"node_name": "s"},
                                           "node": {"pool_bytes": "64MiB"}})
        self.daemon("node", "node", {"cluster": cluster | {"node_name": "n"},
                                     "node": {"pool_bytes": "0"}})
        admin = self.directory / "node" / "admin.sock"

        def is_connected():
            asked = subprocess.run([BIN / "simmctl", "--json", "--admin", admin, "peers"],
                                   capture_output=True, text=True, check=False)
            peers = json.loads(asked.stdout)["peers"] if asked.returncode == 0 else []
            return len(peers) == 1 and peers[0]["open"] == peers[0]["connections"]

        wait_for("the node does not reach the storage daemon", is_connected)

    def start_client(self):
        address = self.directory / "node" / "simm.sock"
        wait_for("no daemon listens", address.exists)
        self.start("client", [str(BIN / "cost_client")], stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE, text=True,
                   env=os.environ | {"SIMM_SOCKET": str(address)})

    def ask(self, call, times):
        client = self.processes["client"].process
        client.stdin.write(f"{call} {times}\n")
        client.stdin.flush()
        if client.stdout.readline().strip() != "done":
            sys.exit(f"cost: {call} failed:\n{(self.directory / 'client.log').read_text()}")

    def stop(self):
        for process in self.processes.values():
            process.stop()
        shutil.rmtree(self.directory)


def wait_for(what, is_there):
    for _ in range(1200):
        if is_there():
            return
        time.sleep(0.1)
    sys.exit(f"cost: {what}")


def profile(world, call):
    """{role: {what: per call}} of the profiled roles. A call that meets a timer, or waits longer
    for a busy machine, costs some turns more: rounds go on until the two cheapest agree."""
    world.ask(call, 20)
    rounds = {role: [] for role in world.profiled}
    while any(len(costs) < 2 or costs[1]["instructions"] > (1 + AGREE) * costs[0]["instructions"]
              for costs in rounds.values()) and len(rounds[world.profiled[0]]) < ROUNDS_MAX:
        sleeps = {role: world.processes[role].sleeps() for role in world.profiled}
        for role in world.profiled:
            world.processes[role].command("--zero")
        world.ask(call, TIMES)
        slept = {role: world.processes[role].sleeps() - sleeps[role] for role in world.profiled}
        for role in world.profiled:
            instructions, allocated, by_function = world.processes[role].counted(call)
            rounds[role].append({
                "instructions": instructions // TIMES, "sleeps": round(slept[role] / TIMES, 1),
                "allocations": round(allocated / TIMES, 1),
                "functions": {name: count // TIMES for name, count in by_function.items()
                              if count < 0.99 * instructions}})
            rounds[role].sort(key=lambda cost: cost["instructions"])
    return {role: costs[0] for role, costs in rounds.items()}


def count_system_calls(world, call):
    """{role: the least of three rounds, per call}, of programs that no profiler slows down."""
    world.ask(call, 20)
    watched = {role: ",".join(thread.name for thread in process.threads())
               for role, process in world.processes.items() if role in ROOTS}
    least = {}
    for _ in range(3):
        counters = {role: subprocess.Popen(
            ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-t", threads],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for role, threads in watched.items()}
        time.sleep(1)  # the counters are there; until then nothing happens that they could count
        world.ask(call, TIMES)
        for role, counter in counters.items():
            counter.send_signal(signal.SIGINT)
            counted = round(int(counter.communicate(timeout=60)[1].split(",")[0]) / TIMES, 1)
            least[role] = min(least.get(role, counted), counted)
    return least


def can_count_system_calls():
    tried = subprocess.run(["perf", "stat", "-e", "raw_syscalls:sys_enter", "true"],
                           capture_output=True, check=False) if shutil.which("perf") else None
    return tried is not None and tried.returncode == 0


def can_profile():
    """Whether a program under callgrind takes orders here: that needs ptrace or named pipes."""
    if not shutil.which("valgrind") or not shutil.which("callgrind_control"):
        return False
    with tempfile.TemporaryDirectory() as directory:
        program = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={directory}/out", "cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program.stdin.write(b"\n")
        program.stdin.flush()
        program.stdout.read(1)  # it runs
        # Its exit status is 0 whatever happened.
        subprocess.run(["callgrind_control", "--dump=x", str(program.pid)], capture_output=True,
                       check=False)
        program.kill()
        program.wait()
        return pathlib.Path(directory, "out.1").exists()


def count():
    """{"world call role": {what: per call}}"""
    costs = {}
    # A node that waits for another daemon makes turns meanwhile, more of them on a busy machine:
    # its share of a call over TCP is not counted.
    for start, profiled in ((World.start_alone, ("client", "node")),
                            (World.start_over_tcp, ("storage",)),
                            (World.start_alone, ()), (World.start_over_tcp, ())):
        if not profiled and not can_count_system_calls():
            print("cost: system calls SKIPPED: perf can not count them here")
            continue
        world = World(profiled)
        try:
            start(world)
            world.start_client()
            for call in CALLS:
                found = profile(world, call) if profiled else {
                    role: {"system_calls": calls}
                    for role, calls in count_system_calls(world, call).items()}
                for role, cost in found.items():
                    name = f"{start.__name__.removeprefix('start_')} {call} {role}"
                    if profiled or name in costs:
                        costs.setdefault(name, {}).update(cost)
        finally:
            world.stop()
    return costs


def count_policy(policy, call):
    """Instructions of a call of a store alone."""
    with tempfile.TemporaryDirectory() as directory:
        profile_path = pathlib.Path(directory, "profile")
        run("valgrind", "--tool=callgrind", "-q", "--toggle-collect=*measured_call*",
            f"--callgrind-out-file={profile_path}", str(BIN / "cost_store"), policy, call,
            str(POLICY_TIMES))
        return int(re.search(r"^totals: (\d+)", profile_path.read_text(), re.MULTILINE)[1]) // (
            POLICY_TIMES)


def count_heartbeat():
    """{what: per heartbeat} at a manager of 1,000 daemons: from frame to frame."""
    with tempfile.TemporaryDirectory() as directory:
        profile_path = pathlib.Path(directory, "profile")
        run("valgrind", "--tool=callgrind", "-q", "--toggle-collect=*measured_call*",
            f"--callgrind-out-file={profile_path}", str(BIN / "cost_manager"), str(HEARTBEATS))
        text = profile_path.read_text()
    return {"instructions": int(re.search(r"^totals: (\d+)", text, re.MULTILINE)[1]) // HEARTBEATS,
            "functions": {name: count // HEARTBEATS
                          for name, count in Profile(text).own.items()}}


def compare_policies():
    """What is above, in words."""
    above = []
    for call, most in POLICY_MAX.items():
        reuse, lru = count_policy("reuse", call), count_policy("lru", call)
        print(f"{'store ' + call:34}{reuse:13}  {reuse / lru:.2f} of lru's {lru}, at most {most}")
        if reuse > most * lru:
            above.append(f"store {call}: {reuse} instructions with reuse, {lru} with lru")
    return above


def too_high(name, cost, budget):
    """What is above, in words."""
    above = []
    for what, allowed in budget.items():
        if what == "functions" or what not in cost:
            continue
        slack = SLACK * allowed if what == "instructions" else COUNT_SLACK + allowed / 10
        if cost[what] > allowed + slack:
            above.append(f"{name}: {what} {cost[what]}, budget {allowed}")
            if what == "instructions":
                above += grown(cost["functions"], budget["functions"])
    return above


def grown(now, before):
    """The functions that grew the most; those that the budget does not list count as 0."""
    more = {name: count - before.get(name, 0) for name, count in now.items()}
    return [f"    +{count} {name}" for name, count in
            sorted(more.items(), key=lambda item: -item[1])[:SYMBOLS] if count > 0]


def main():
    is_short = "--policies" in sys.argv
    needed = PROGRAMS[-1:] if is_short else PROGRAMS
    missing = [program for program in needed if not (BIN / program).exists()]
    if missing:
        sys.exit(f"cost: {BIN} has no {', '.join(missing)}: build them, "
                 f"ninja -C {BIN.parent} {' '.join(needed)}")
    where = "" if is_short else f"{built_with()}, {instruction_set()}"
    is_writing = "--write" in sys.argv
    budget = json.loads(BUDGET.read_text()) if BUDGET.exists() else {"where": "", "calls": {}}
    if not is_writing and not is_short and where != budget["where"]:
        print(f"cost: SKIPPED: the budget was counted with {budget['where']}, here is {where}")
        sys.exit(77)
    if not can_profile():
        print("cost: SKIPPED: no program can be profiled here: valgrind, and ptrace or named pipes")
        sys.exit(77)
    above = compare_policies()
    if is_short:
        sys.exit("\n".join(["cost: a policy costs too much:", *above]) if above else 0)
    costs = {"heartbeat manager": count_heartbeat()} | count()
    print(f"{'per call':34}{'instructions':>13}{'budget':>9}  system calls  sleeps  allocations")
    for name, cost in costs.items():
        allowed = budget["calls"].get(name, {})
        print(f"{name:34}{cost['instructions']:13}{allowed.get('instructions', 0):9}"
              f"{cost.get('system_calls', '-'):>14}{cost.get('sleeps', '-'):>8}"
              f"{cost.get('allocations', '-'):>13}")
        above += too_high(name, cost, allowed)
        if cost["instructions"] < (1 - 3 * SLACK) * allowed.get("instructions", 0):
            print(f"    fell by more than {3 * SLACK:.0%}: lower the budget (--write)")
    if is_writing:
        for cost in costs.values():
            ranked = sorted(cost["functions"].items(), key=lambda item: -item[1])
            cost["functions"] = dict(ranked[:SYMBOLS])
        BUDGET.write_text(json.dumps({"where": where, "calls": costs}, indent=1) + "\n")
    elif above:
        sys.exit("\n".join(["cost: above the budget:", *above]))


main()
