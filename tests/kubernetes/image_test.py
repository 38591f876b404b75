#!/usr/bin/env python3
"""The image, and the pods of the chart that run in it: users, mounts, limits, probes, bytes.

  image_test.py --scratch DIR IMAGE.oci.tar

Starts managers, storage daemons, a node daemon and its device plugin with podman as the rendered
chart says, and clients that see the directory of one tenant only. Once as the small values say, and
once with RDMA and the chart's own filter of system calls. Exit status 77: this machine can not run
containers.
"""
import argparse
import copy
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import yaml

import chart
import policies
from chart import CHART, HERE, Objects

if importlib.util.find_spec("grpc") is not None:
    import kubelet
    from pods import NETWORK, Failed, Machine, Pod, call
    from stateful_set import StatefulSet

INSIDE = "--inside"  # of the namespaces
SECRET = "0123456789abcdef" * 4
IPC_LOCK = 1 << 14
MIB = 1 << 20
PACKAGE = chart.ROOT / "build" / "release" / "python"  # simm for Python, of scripts/package.sh


def step(text):
    print(f"image: {text} ({time.monotonic() - STARTED:.0f} s)", flush=True)


def check(is_right, text):
    if not is_right:
        raise Failed(text)


class Cluster:
    """All pods of the chart with one set of values."""

    def __init__(self, machine, renderer, values):
        self.machine, self.values = machine, values
        self.objects = Objects(renderer.render(values))
        broken = {name: list(rule(self.objects, chart.check_values(values)))
                  for name, rule in policies.POLICIES.items()}
        check(not any(broken.values()), str(broken))
        self.secrets = {"simm-cluster-secret": {"cluster.secret": SECRET + "\n"}}
        self.pods, self.clients = {}, {}
        for owner, _, spec in self.objects.pods():
            for name in self.objects.pod_names(owner):
                of_kind = self.clients if owner["kind"] == "Pod" else self.pods
                of_kind[name] = Pod(machine, owner, spec, name, self.objects,
                                    CHART / "files" / "seccomp.json")
        self.hosts = {address.rsplit(":", 1)[0]: self.pods[address.split(".", 1)[0]].address
                      for address in policies.service_addresses(self.objects)}
        self.node = next(p for n, p in self.pods.items() if "-node-" in n)
        self.plugin = next((p for n, p in self.pods.items() if "-device-plugin-" in n), None)
        self.storage = [p for n, p in sorted(self.pods.items()) if "-storage-" in n]
        self.manager = next(p for n, p in self.pods.items() if "-manager-" in n)

    def start(self):
        # The order does not matter: a daemon that is early waits.
        for pod in filter(None, [self.plugin, *self.storage, self.node]):
            pod.start(self.hosts, self.secrets)
        for pod in [*self.storage, self.node]:
            pod.wait_until("startupProbe")
            why = pod.probe("readinessProbe")
            check(why is not None and "map" in why, f"{pod.name} is ready without a map: {why}")
        for name, pod in self.pods.items():
            if "-manager-" in name:
                pod.start(self.hosts, self.secrets)
        for pod in self.pods.values():
            pod.wait_until("readinessProbe")
            pod.wait_until("livenessProbe")
        if self.plugin is not None:
            self.machine.kubelet.wait_for(*self.resources())

    def resources(self):
        values = chart.check_values(self.values)
        return [f"{values['devicePlugin']['domain']}/{t['name']}" for t in values["tenants"]]

    def engine(self, namespace, resource):
        """A pod of a user: nothing of the host, and the resource of a tenant."""
        owner = copy.deepcopy(self.clients["simm-test-blue"].owner)
        owner["metadata"].update(namespace=namespace, name="engine")
        owner["spec"]["volumes"] = [v for v in owner["spec"]["volumes"] if "hostPath" not in v]
        names = {v["name"] for v in owner["spec"]["volumes"]}
        container = owner["spec"]["containers"][0]
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] in names]
        for limits in container["resources"].values():
            for name in self.resources():
                limits.pop(name, None)
            limits[resource] = "1"
        name = f"engine-{namespace}-{resource.rsplit('/', 1)[1]}"
        return Pod(self.machine, owner, owner["spec"], name, self.objects, None)

    def client(self, tenant, command, status=0, **options):
        """simmctl in a container of its own, which has the directory of one tenant."""
        pod = self.clients[f"simm-test-{tenant}"]
        return pod.run_to_its_end(self.hosts, command, status, **options).stdout

    def put(self, tenant, key, data):
        """Storage daemons may have joined a moment after they were ready."""
        deadline = time.monotonic() + 60
        command = ["simmctl", "put", "--replace", key]
        while True:
            try:
                return self.client(tenant, command, input=data)
            except Failed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def get(self, tenant, key):
        return self.client(tenant, ["simmctl", "get", key])

    def counter(self, pod, name):
        """Of a daemon, as an administrator asks for it in its pod."""
        for line in pod.execute("simmctl", "stats", name).splitlines():
            words = line.split()
            if words[:1] == [name]:
                return int(words[1])
        raise Failed(f"{pod.name} has no counter {name}")


def confinement(cluster):
    """What the kernel says of each daemon is what the chart says."""
    for pod in cluster.pods.values():
        container = pod.spec["containers"][0]
        context = container["securityContext"]
        said = dict(line.split(":\t", 1) for line in
                    pathlib.Path(f"/proc/{pod.process()}/status").read_text().splitlines())
        allowed = IPC_LOCK if context["capabilities"].get("add") == ["IPC_LOCK"] else 0
        check(said["Uid"].split() == [str(context["runAsUser"])] * 4, f"{pod.name}: {said['Uid']}")
        check(said["Gid"].split()[0] == "10001", f"{pod.name}: group {said['Gid']}")
        for name in ("CapEff", "CapPrm", "CapBnd"):
            check(int(said[name], 16) == allowed if name != "CapBnd" else
                  int(said[name], 16) & ~allowed == 0, f"{pod.name}: {name} {said[name]}")
        check(said["NoNewPrivs"] == "1", f"{pod.name}: may gain privileges")
        check(said["Seccomp"] == "2", f"{pod.name}: no filter of system calls")
        limit = int(pod.control_group("memory", "memory.limit_in_bytes"))
        wanted = chart.quantity(container["resources"]["limits"]["memory"])
        check(limit == wanted, f"{pod.name}: {limit} bytes of memory, and not {wanted}")
        for path in ("/usr/bin/x", "/etc/simm/x", "/run/x", "/run/credentials/simm/x"):
            pod.execute("/bin/sh", "-c", f"! touch {path} 2>/dev/null")
        if pod is cluster.plugin:
            pod.execute("/bin/sh", "-c", "! touch /run/simm/x && ! touch /run/simm/blue/x && "
                        "! touch /var/lib/kubelet/pod-resources/x && ! [ -e /run/credentials ]")
        for space in ("pid", "net", "ipc", "mnt", "uts"):
            check(os.readlink(f"/proc/{pod.process()}/ns/{space}") !=
                  os.readlink(f"/proc/self/ns/{space}"), f"{pod.name} shares {space} with the host")
        if pod is not cluster.plugin:
            pod.execute("simmctl", "secret", "check", "/run/credentials/simm/cluster.secret")


def namespaces(cluster):
    """The plugin's pod lets engines of a tenant's namespaces in, and nobody else."""
    page = os.urandom(100_000)
    own = cluster.engine("team-b", "simm.io/red")
    own.run_to_its_end(cluster.hosts, ["simmctl", "put", "--replace", "mine"], input=page)
    got = own.run_to_its_end(cluster.hosts, ["simmctl", "get", "mine"]).stdout
    check(got == page, "the engine of team-b got other bytes")
    check(cluster.get("red", "mine") == page, "the engine of team-b is another tenant than red")
    own.run_to_its_end(cluster.hosts, ["/bin/sh", "-c", "! touch /run/simm/x"])
    for namespace, resource in (("team-b", "simm.io/blue"), ("default", "simm.io/red")):
        stranger = cluster.engine(namespace, resource)
        for _ in range(2):  # the kubelet tries again
            try:
                stranger.run_to_its_end(cluster.hosts, ["ls", "/run/simm"])
            except kubelet.Refused as refused:
                check(f"namespace {namespace} may not be" in str(refused), str(refused))
            else:
                raise Failed(f"{namespace} got {resource}")
    step(f"another namespace is refused: {cluster.plugin.log().splitlines()[-1]}")
    killed = cluster.plugin
    os.kill(killed.process(), signal.SIGKILL)
    cluster.machine.podman("wait", killed.running)
    cluster.machine.kubelet.until(
        lambda: all(e.is_stopped for e in cluster.machine.kubelet.endpoints.values()), "it is gone")
    killed.start_container()
    cluster.machine.kubelet.wait_for(*cluster.resources())
    own.run_to_its_end(cluster.hosts, ["simmctl", "exists", "mine"])
    step("a plugin that was killed lets engines in again")


def tenants(cluster):
    """Each client sees the socket of its tenant, and its tenant's objects."""
    for name, client in cluster.clients.items():
        client.run_to_its_end(cluster.hosts)
        step(f"helm test {name} passed")
    page = os.urandom(3 * MIB + 17)
    cluster.put("blue", "page", page)
    check(cluster.get("blue", "page") == page, "other bytes came back")
    other = cluster.client("red", ["simmctl", "get", "page"], status=1)
    check(other == b"", "red got an object of blue")
    listed = cluster.client("blue", ["find", "/run/simm"]).decode().split()
    socket = "/run/simm/simm.sock"
    check(listed == ["/run/simm", socket, f"{socket}.lock"], f"blue sees {listed}")
    cluster.client("blue", ["/bin/sh", "-c", f"! rm {socket}; ! touch /run/simm/x; "
                            f"! cat {socket}.lock && ! [ -e {socket}.lock -a -r {socket}.lock ]"])
    base = cluster.machine.host / chart.check_values(cluster.values)["node"]["hostPath"].lstrip("/")
    check(oct(base.stat().st_mode & 0o7777) == "0o710", f"{base} has mode {base.stat().st_mode:o}")
    for path in (base.parent, *base.parent.parents):
        if path.is_relative_to(cluster.machine.folder):
            path.chmod(0o755)
    stranger = call("setpriv", "--reuid", 65534, "--regid", 65534, "--clear-groups",
                    "ls", base / "blue", status=None)
    check(b"Permission denied" in stranger.stderr, f"a user of the host sees {stranger}")
    reached = cluster.counter(cluster.storage[0], "server.0.put_pages") + cluster.counter(
        cluster.storage[1], "server.0.put_pages")
    check(reached > 0, "no page came to a storage daemon")


def killed_containers(cluster):
    """A container that is killed comes back, and the pool of its pod is still there."""
    pages = {f"kept-{i}": os.urandom(64 << 10) for i in range(24)}
    for key, data in pages.items():
        cluster.put("blue", key, data)
    for pod in cluster.storage:
        os.kill(pod.process(), signal.SIGKILL)
        cluster.machine.podman("wait", pod.running)
        pod.start_container()
    for pod in cluster.storage:
        pod.wait_until("readinessProbe")
        said = pod.execute("simmctl", "status")
        check("kept" in said, f"{pod.name} came back without its pool: {said}")
    deadline = time.monotonic() + 60
    lost = dict(pages)
    while lost and time.monotonic() < deadline:  # until all links are there again
        for key in list(lost):
            try:
                check(cluster.get("blue", key) == pages[key], f"{key} has other bytes")
                del lost[key]
            except Failed as failed:
                if "other bytes" in str(failed):
                    raise
    check(not lost, f"{len(lost)} of {len(pages)} objects are lost: {sorted(lost)}")
    os.kill(cluster.node.process(), signal.SIGKILL)
    cluster.machine.podman("wait", cluster.node.running)
    cluster.node.start(cluster.hosts)
    cluster.node.wait_until("readinessProbe")
    check(cluster.get("blue", "kept-0") == pages["kept-0"], "other bytes after the node's restart")


def full_pools(cluster):
    """A pool that is filled more than once stays within the memory that the chart gives it."""
    data = os.urandom(16 * MIB)
    for number in range(40):
        cluster.put("blue" if number % 2 else "red", f"fill-{number}", data)
    for pod in cluster.storage:
        check(pod.inspect("{{.State.OOMKilled}} {{.State.Running}}") == "false true",
              f"{pod.name}: {pod.inspect('{{json .State}}')}")
        evicted = cluster.counter(pod, "store.0.evicted")
        check(evicted > 0, f"{pod.name} never was full")
        most = int(pod.control_group("memory", "memory.max_usage_in_bytes"))
        step(f"{pod.name}: at most {most / MIB:.0f} MiB of "
             f"{int(pod.control_group('memory', 'memory.limit_in_bytes')) / MIB:.0f} in use")
    check(cluster.get("blue", "fill-39") == data, "other bytes from a full pool")


def hung_daemon(cluster):
    """A daemon that is stopped fails the probe that restarts it."""
    pod = cluster.node
    os.kill(pod.process(), signal.SIGSTOP)
    said = pod.wait_until("livenessProbe", passes=False)
    os.kill(pod.process(), signal.SIGCONT)
    pod.wait_until("livenessProbe")
    step(f"a stopped daemon fails its probe: {said}")


def ended_pods(cluster):
    """SIGTERM ends every daemon by itself, before the grace period is over."""
    for pod in filter(None, [cluster.node, *cluster.storage, cluster.manager, cluster.plugin]):
        grace_s = pod.spec["terminationGracePeriodSeconds"]
        began = time.monotonic()
        cluster.machine.podman("stop", "--time", grace_s, pod.running)
        took_s = time.monotonic() - began
        check(pod.inspect("{{.State.ExitCode}}") == "0",
              f"{pod.name} ended with {pod.inspect('{{.State.ExitCode}}')}\n{pod.log()[-2000:]}")
        step(f"{pod.name} ended after {took_s:.1f} s of {grace_s} s")


class Load:
    """load.py as an engine of a tenant, beside the pods."""

    def __init__(self, cluster, tenant, objects, size):
        base = cluster.machine.host / chart.check_values(cluster.values)["node"][
            "hostPath"].lstrip("/")
        self.process = subprocess.Popen(
            [sys.executable, "-B", HERE / "load.py", str(objects), str(size)],
            env={**os.environ, "SIMM_SOCKET": f"/run/host/{base.relative_to(cluster.machine.host)}"
                 f"/{tenant}/simm.sock", "PYTHONPATH": str(PACKAGE)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(self.process.stdout.readline() == "stored\n", "nothing could be stored")
        self.bad, self.hits = [], 0

    def look(self, what):
        """What it has seen since the last look: nothing may be wrong or missing, and few late."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        check(said, "the load has ended")
        seen = json.loads(said)
        step(f"{what}, under load: {said.strip()}")
        self.bad += [f"{what}: {name}: {seen[name]}" for name in ("wrong", "failed", "misses")
                     if seen[name]]
        self.bad += [f"{what}: late: {seen['late']}"] if seen["late"] * 50 > seen["gets"] else []
        self.hits += seen["hits"]

    def end(self):
        self.process.communicate(timeout=300)
        check(self.process.returncode == 0, "the load has failed")
        check(not self.bad and self.hits > 100, f"under load: {self.hits} hits, {self.bad}")


def hooks(said):
    for status, text, took_s in said:
        check(status == 0, f"the hook of a pod that ends says {status}: {text}")
        step(f"a storage pod ended after {took_s:.1f} s: {' '.join(text.split())[-160:]}")


def owns_slots(pod):
    """Waits until a storage daemon has its share of the slots."""
    end = time.monotonic() + 120
    while json.loads(pod.execute("simmctl", "--json", "moves"))["slots"] == 0:
        check(time.monotonic() < end, f"{pod.name} owns no slots")
        time.sleep(0.1)


def changes(machine, renderer, small):
    """Storage pods come, go, and are replaced, while an engine looks at every byte."""
    cluster = Cluster(machine, renderer, small)
    cluster.start()
    storage = StatefulSet(cluster, "simm-storage")
    load = Load(cluster, "blue", 400, 64 << 10)
    storage.scale(4)
    for pod in storage.pods:
        owns_slots(pod)
    load.look("kubectl scale to 4")
    hooks(storage.scale(2))
    load.look("kubectl scale to 2")
    changed = chart.merged(small, {"storage": {"extra": {"log": {"level": "debug"}}}})
    hooks(storage.update(Objects(renderer.render(changed))))
    load.look("each storage pod replaced by one at another address")
    load.end()
    fresh_node(cluster)


def fresh_node(cluster):
    """How long it takes from the start of a node's pod to the first page that is found."""
    page = os.urandom(64 << 10)
    cluster.put("blue", "first", page)
    cluster.node.end()
    began = time.monotonic()
    cluster.node = Pod(cluster.machine, cluster.node.owner, cluster.node.spec, cluster.node.name,
                       cluster.objects, None)
    cluster.node.start(cluster.hosts, cluster.secrets)
    started_s = time.monotonic() - began
    while True:
        try:
            got = cluster.get("blue", "first")
            break
        except (Failed, kubelet.Refused) as failed:
            check(time.monotonic() - began < 60, f"no hit in a fresh container: {failed}")
    took_s = time.monotonic() - began
    check(got == page, "other bytes in a fresh container")
    again = time.monotonic()
    check(cluster.get("blue", "first") == page, "other bytes in another fresh container")
    step(f"first hit of a fresh node daemon's pod after {took_s:.1f} s, of which its containers "
         f"took {started_s:.1f} s to start; of a fresh engine's {time.monotonic() - again:.1f} s")


def default_cluster(machine, renderer, small):
    cluster = Cluster(machine, renderer, small)
    cluster.start()
    step("every pod is ready")
    confinement(cluster)
    step("users, capabilities, filters, limits and mounts are the chart's")
    tenants(cluster)
    namespaces(cluster)
    full_pools(cluster)
    killed_containers(cluster)
    step("killed containers came back with their pools")
    hung_daemon(cluster)
    ended_pods(cluster)


def other_cluster(machine, renderer, small):
    """As root with IPC_LOCK, and under the filter of the chart, which leaves io_uring."""
    values = chart.merged(small, {"rdma": {"enabled": True}, "seccomp": {"type": "Localhost"},
                                  "node": {"hostPath": "/run/other"}})
    cluster = Cluster(machine, renderer, values)
    cluster.start()
    confinement(cluster)
    tenants(cluster)
    for pod in (*cluster.storage, cluster.node):
        check("by=io_uring" in pod.log(), f"{pod.name} has no io_uring:\n{pod.log()}")
    ended_pods(cluster)
    step("with RDMA's user and the chart's own filter it works, too")


def etcd_cluster(machine, renderer, small):
    """Three managers with an etcd that wants a user; the one that leads is killed."""
    endpoint, password = f"http://{NETWORK}1:2379", "a password of etcd"
    etcd = subprocess.Popen(
        ["etcd", "--data-dir", machine.folder / "etcd", "--log-level", "error",
         "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
         "--listen-peer-urls", f"http://{NETWORK}1:2380"], stderr=subprocess.DEVNULL)
    try:
        etcdctl = ["etcdctl", "--endpoints", endpoint]
        deadline = time.monotonic() + 60
        while call(*etcdctl, "endpoint", "health", status=None).returncode != 0:
            check(time.monotonic() < deadline, "etcd does not start")
        for command in (["user", "add", "root:r"], ["user", "grant-role", "root", "root"],
                        ["role", "add", "simm"], ["user", "add", f"simm:{password}"],
                        ["role", "grant-permission", "simm", "--prefix", "readwrite", "/simm/"],
                        ["user", "grant-role", "simm", "simm"], ["auth", "enable"]):
            call(*etcdctl, *command)
        cluster = Cluster(machine, renderer, chart.merged(small, {
            "manager": {"replicas": 3, "etcd": {"endpoints": [endpoint], "user": "simm",
                                                "secretName": "etcd-client"}}}))
        cluster.secrets["etcd-client"] = {"password": password + "\n"}
        cluster.start()
        page = os.urandom(100_000)
        cluster.put("blue", "page", page)
        managers = [p for n, p in sorted(cluster.pods.items()) if "-manager-" in n]
        leader = leader_of(managers)
        os.kill(leader.process(), signal.SIGKILL)
        successor = leader_of([m for m in managers if m is not leader])
        check(cluster.get("blue", "page") == page, "other bytes under another manager")
        step(f"{successor.name} leads after the death of {leader.name}")
    finally:
        etcd.terminate()
        etcd.wait()


def leader_of(managers):
    """The manager that leads, as soon as one of them does."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pod in managers:
            for line in pod.execute("simmctl", "status").splitlines():
                if line.split()[:2] in (["leads", "yes"], ["leads", "true"]):
                    return pod
        time.sleep(0.1)
    raise Failed("no manager leads: " + managers[0].execute("simmctl", "status"))


def inside(arguments):
    """In namespaces of its own: nothing stays behind."""
    for command in (["mount", "-t", "tmpfs", "tmpfs", "/run"], ["ip", "link", "set", "lo", "up"]):
        subprocess.run(command, check=True)
    # crun does not know the hybrid of both versions of control groups; the old one limits here.
    if pathlib.Path("/sys/fs/cgroup/unified").is_dir():
        subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=True)
    folder = arguments.scratch / "machine"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g,mode=755", "tmpfs", folder], check=True)
    machine = Machine(folder, "")
    machine.podman("load", "--input", arguments.image)
    machine.image = machine.podman("images", "--format", "{{.Repository}}:{{.Tag}}"
                                   ).stdout.decode().split()[0]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    check(machine.image == f"localhost/simm:{version}", f"the image is called {machine.image}")
    step(f"{machine.image} is loaded")
    renderer = chart.Renderer(chart.build_renderer(arguments.scratch), arguments.scratch)
    small = yaml.safe_load((HERE / "values" / "small.yaml").read_text())
    small = chart.merged(small, {
        "image": {"repository": "localhost/simm"}, "devicePlugin": {"enabled": True},
        "tenants": [{"name": "blue", "namespaces": [chart.NAMESPACE, "team-a"]},
                    {"name": "red", "weight": 2, "namespaces": [chart.NAMESPACE, "team-b"]}]})
    try:
        default_cluster(machine, renderer, small)
        machine.remove_all()
        other_cluster(machine, renderer, small)
        machine.remove_all()
        changes(machine, renderer, small)
        machine.remove_all()
        etcd_cluster(machine, renderer, small)
    finally:
        machine.remove_all()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument(INSIDE, action="store_true")
    arguments = parser.parse_args()
    lacks = [p for p in ("podman", "crun", "ip", "etcd", "etcdctl") if shutil.which(p) is None]
    lacks += [] if importlib.util.find_spec("grpc") else ["python3-grpcio"]
    if os.geteuid() != 0 or lacks:
        print(f"image: SKIPPED: containers take root and {', '.join(lacks) or 'nothing else'}")
        return 77
    arguments.scratch = arguments.scratch.resolve()
    if not arguments.inside:
        own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.run([*own, sys.executable, *sys.argv, INSIDE], check=False).returncode
    inside(arguments)
    step("passed")
    return 0


if __name__ == "__main__":
    STARTED = time.monotonic()
    sys.exit(main())
