"""Starts the pods of a rendered chart on this machine, with podman, as a kubelet would.

Each pod has a network namespace with an address of its own on one bridge, and the names of the
headless services in its hosts file. Volumes are made with the owners and modes of the kubelet:
files of secrets belong to root and the pod's group, behind the symbolic links of an atomic writer.
A restarted container is a new one with the volumes of its pod. Resources of device plugins come
from the kubelet of kubelet.py. A pod ends as pods do: its hook, SIGTERM, and SIGKILL when its grace
period is over.

The caller is root, in mount, network and process namespaces of its own (image_test.py).
"""
import contextlib
import pathlib
import resource
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import kubelet
from chart import environment, expanded, quantity

NETWORK = "10.97.31."  # exists in this test's network namespace only
PATIENCE_S = 180  # for a machine that does much else


class Failed(Exception):
    """A command of the test ended in another way than it should."""


def call(*command, status=0, **options):
    """Standard output of a command, which has to end with `status` (None: any)."""
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, **options)
    if status is not None and done.returncode != status:
        raise Failed(f"{' '.join(map(str, command))}\nended with {done.returncode}: "
                     f"{done.stdout.decode(errors='replace')[-2000:]}"
                     f"{done.stderr.decode(errors='replace')[-2000:]}")
    return done


class Machine:
    """podman with a store of its own, a bridge, and the directories of a host."""

    def __init__(self, folder, image):
        self.folder, self.image = folder, image
        self.host = folder / "host"
        self.addresses = 0
        # Names of sockets are short: /run is this test's own.
        self.host.mkdir(parents=True)
        pathlib.Path("/run/host").symlink_to(self.host)
        self.kubelet = kubelet.Kubelet("/run/host/var/lib/kubelet")
        self.kubelet.start()
        # podman asks for more than this sandbox may give.
        files = min(1 << 20, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        processes = min(32768, resource.getrlimit(resource.RLIMIT_NPROC)[1])
        self.limits = [f"--ulimit=nofile={files}:{files}",
                       f"--ulimit=nproc={processes}:{processes}"]
        call("ip", "link", "add", "pods", "type", "bridge")
        call("ip", "address", "add", f"{NETWORK}1/24", "dev", "pods")
        call("ip", "link", "set", "pods", "up")

    def podman(self, *arguments, **options):
        return call("podman", "--root", self.folder / "store", "--runroot", self.folder / "run",
                    "--runtime", "crun", "--cgroup-manager", "cgroupfs", "--log-level", "error",
                    *arguments, **options)

    def address(self):
        self.addresses += 1
        return f"{NETWORK}{self.addresses + 1}"

    def remove_all(self):
        """All containers, with what their pods had: volumes, networks, devices."""
        self.kubelet.pods.clear()
        with contextlib.suppress(Failed):
            self.podman("rm", "--all", "--force", "--time", 0)
        for namespace in pathlib.Path("/run/netns").glob("*"):
            call("ip", "netns", "delete", namespace.name)
        for volume in (self.folder / "volumes").glob("*/*"):
            call("umount", volume, status=None)
        shutil.rmtree(self.folder / "volumes", ignore_errors=True)


class Pod:
    """One pod: its volumes and network outlive its containers."""

    def __init__(self, machine, owner, spec, name, objects, seccomp):
        self.machine, self.owner, self.spec, self.name = machine, owner, spec, name
        self.objects, self.seccomp = objects, seccomp
        self.group = spec["securityContext"]["fsGroup"]
        self.starts = 0
        self.running = None
        self.admitted = None  # of the kubelet, for a pod that wants devices
        self.address = machine.address()
        self.namespace = f"/run/netns/{name}"
        self.volumes = {}
        self.make_network()

    # ---- What the kubelet makes ----

    def make_network(self):
        peer = f"p{self.address.rsplit('.', 1)[1]}"
        call("ip", "netns", "add", self.name)
        call("ip", "link", "add", peer, "type", "veth", "peer", "name", "eth0",
             "netns", self.name)
        call("ip", "link", "set", peer, "master", "pods", "up")
        for words in (("address", "add", f"{self.address}/24", "dev", "eth0"),
                      ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            call("ip", "-n", self.name, *words)

    def make_volumes(self, secrets):
        for volume in self.spec["volumes"]:
            self.volumes[volume["name"]] = self.make_volume(volume, secrets)
        for claim in self.owner["spec"].get("volumeClaimTemplates", []):
            name = claim["metadata"]["name"]
            path = self.folder(name)
            path.chmod(0o2775)
            self.volumes[name] = path

    def make_volume(self, volume, secrets):
        if "hostPath" in volume:
            path = self.machine.host / volume["hostPath"]["path"].lstrip("/")
            if volume["hostPath"]["type"] == "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                raise Failed(f"{self.name}: {path} is not there, as its hostPath says")
            return path
        path = self.folder(volume["name"])
        if "emptyDir" in volume:
            size = int(quantity(volume["emptyDir"]["sizeLimit"]))
            call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)
            subprocess.run(["chown", f"0:{self.group}", path], check=True)
            path.chmod(0o2777)
        elif "configMap" in volume:
            data = self.objects.by_key["ConfigMap", volume["configMap"]["name"]]["data"]
            self.write_files(path, data, 0o644)
        else:
            data = secrets[volume["secret"]["secretName"]]
            self.write_files(path, data, volume["secret"]["defaultMode"] | 0o440)
        return path

    def folder(self, name):
        path = self.machine.folder / "volumes" / self.name / name
        path.mkdir(parents=True)
        subprocess.run(["chown", f"0:{self.group}", path], check=True)
        return path

    def write_files(self, path, data, mode):
        real = path / "..2026_11_28"
        real.mkdir()
        (path / "..data").symlink_to(real.name)
        for name, text in data.items():
            file = real / name
            file.write_text(text)
            subprocess.run(["chown", f"0:{self.group}", file], check=True)
            file.chmod(mode)
            (path / name).symlink_to(f"..data/{name}")

    # ---- Containers ----

    def arguments(self, container):
        """What `podman run` is told of a container."""
        context = container["securityContext"]
        resources = container["resources"]
        given = ["--hostname", self.name, "--network", f"ns:{self.namespace}",
                 "--user", f"{context['runAsUser']}:{context['runAsGroup']}",
                 "--group-add", str(self.group), "--pull", "never",
                 "--memory", str(int(quantity(resources["limits"]["memory"]))),
                 "--cpu-shares", str(max(2, int(quantity(resources["requests"]["cpu"]) * 1024))),
                 "--security-opt", "no-new-privileges", *self.machine.limits]
        given += [f"--cap-drop={name}" for name in context["capabilities"]["drop"]]
        given += [f"--cap-add={name}" for name in context["capabilities"].get("add", [])]
        if context["readOnlyRootFilesystem"]:
            given += ["--read-only", "--read-only-tmpfs=false"]
        if self.spec["securityContext"]["seccompProfile"]["type"] == "Localhost":
            given += ["--security-opt", f"seccomp={self.seccomp}"]
        for host, address in self.hosts.items():
            given += ["--add-host", f"{host}:{address}"]
        given += self.devices(container)
        for mount in container["volumeMounts"]:
            how = ":ro" if mount.get("readOnly") else ""
            given += ["-v", f"{self.volumes[mount['name']]}:{mount['mountPath']}{how}"]
        for name, value in environment(container, self.name).items():
            given += ["--env", f"{name}={value}"]
        return given

    def devices(self, container):
        """What device plugins give the container; raises kubelet.Refused when one refuses it."""
        wanted = {name: int(count) for name, count in container["resources"]["limits"].items()
                  if name in self.machine.kubelet.endpoints}
        if not wanted:
            return []
        if self.admitted is None:
            self.admitted = self.machine.kubelet.admit(kubelet.Pod(
                self.owner["metadata"]["namespace"], self.name, {container["name"]: wanted}))
        given = []
        for mount in self.machine.kubelet.run(self.admitted, container["name"]):
            how = ":ro" if mount.get("read_only") else ""
            source = f"{self.machine.host}{mount['host_path']}"
            given += ["-v", f"{source}:{mount['container_path']}{how}"]
        return given

    def start(self, hosts, secrets=None):
        """Init containers one after the other, then the first container, in the background."""
        self.hosts = hosts
        if not self.volumes:
            self.make_volumes(secrets or {})
        for container in self.spec.get("initContainers", []):
            self.machine.podman("run", "--rm", *self.arguments(container), self.machine.image,
                                *expanded(container, self.name))
        self.start_container()

    def start_container(self):
        container = self.spec["containers"][0]
        self.starts += 1
        self.running = f"{self.name}-{self.starts}"
        self.machine.podman("run", "--detach", "--name", self.running, *self.arguments(container),
                            self.machine.image, *expanded(container, self.name))

    def run_to_its_end(self, hosts, command=None, status=0, **options):
        """The first container with its own command, or another one; for pods of clients."""
        self.hosts = hosts
        if not self.volumes:
            self.make_volumes({})
        container = self.spec["containers"][0]
        return self.machine.podman("run", "--rm", "--interactive", *self.arguments(container),
                                   self.machine.image,
                                   *(command or expanded(container, self.name)),
                                   status=status, **options)

    def end(self):
        """As somebody deletes the pod: (status of its hook, what that said, seconds it took)."""
        began, grace_s = time.monotonic(), self.spec["terminationGracePeriodSeconds"]
        lifecycle = self.spec["containers"][0].get("lifecycle", {})
        command = lifecycle.get("preStop", {}).get("exec", {}).get("command")
        status, said = None, ""
        if command is not None:
            try:
                hook = self.machine.podman("exec", self.running, *command, status=None,
                                           timeout=grace_s)
                status, said = hook.returncode, (hook.stdout + hook.stderr).decode()
            except subprocess.TimeoutExpired:
                said = f"was not over after {grace_s} s"
        left_s = max(2, int(grace_s - (time.monotonic() - began)))
        self.machine.podman("stop", "--time", left_s, self.running)
        if self.inspect("{{.State.ExitCode}}") != "0":
            raise Failed(f"{self.name} ended with {self.inspect('{{.State.ExitCode}}')}\n"
                         f"{said}\n{self.log()[-3000:]}")
        took_s = time.monotonic() - began
        self.remove()
        return status, said, took_s

    def remove(self):
        self.machine.podman("rm", "--force", "--time", 0, self.running)
        call("ip", "netns", "delete", self.name)
        for path in (self.machine.folder / "volumes" / self.name).glob("*"):
            call("umount", path, status=None)
        shutil.rmtree(self.machine.folder / "volumes" / self.name)

    def update_hosts(self, hosts):
        """A name of the cluster leads to another address from now on."""
        self.hosts = hosts
        path = pathlib.Path(self.inspect("{{.HostsPath}}"))
        lines = [line for line in path.read_text().splitlines()
                 if not set(line.split()[1:]) & set(hosts)]
        lines += [f"{address} {host}" for host, address in hosts.items()]
        path.write_text("\n".join(lines) + "\n")

    def execute(self, *command, status=0):
        return self.machine.podman("exec", self.running, *command, status=status).stdout.decode()

    def process(self):
        """The daemon's number here."""
        return int(self.inspect("{{.State.Pid}}"))

    def inspect(self, what):
        done = self.machine.podman("inspect", "--format", what, self.running)
        return done.stdout.decode().strip()

    def log(self):
        done = self.machine.podman("logs", self.running)
        return (done.stdout + done.stderr).decode(errors="replace")

    def control_group(self, controller, name):
        """A value of the container's control group."""
        for line in pathlib.Path(f"/proc/{self.process()}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return pathlib.Path(f"/sys/fs/cgroup/{controller}{path}/{name}").read_text().strip()
            if not controllers and pathlib.Path(f"/sys/fs/cgroup{path}/{name}").exists():
                return pathlib.Path(f"/sys/fs/cgroup{path}/{name}").read_text().strip()
        raise Failed(f"{self.name} is in no control group of {controller}")

    # ---- Probes ----

    def probe(self, name):
        """None when the container passes a probe of the chart; else why not."""
        container = self.spec["containers"][0]
        if name not in container:
            return None
        if "exec" in container[name]:
            done = self.machine.podman("exec", self.running, *container[name]["exec"]["command"],
                                       status=None)
            return None if done.returncode == 0 else (done.stdout + done.stderr).decode()
        asked = container[name]["httpGet"]
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        url = f"http://{self.address}:{ports[asked['port']]}{asked['path']}"
        try:
            with urllib.request.urlopen(url, timeout=container[name]["timeoutSeconds"]):
                return None
        except urllib.error.HTTPError as answer:
            return f"{answer.code}: {answer.read().decode(errors='replace').strip()}"
        except OSError as failed:
            return str(failed)

    def wait_until(self, name, passes=True):
        deadline = time.monotonic() + PATIENCE_S
        said = self.probe(name)
        while (said is None) != passes:
            is_over = time.monotonic() > deadline or self.inspect("{{.State.Running}}") != "true"
            if is_over:
                raise Failed(f"{self.name}: {name} says: {said}\n{self.log()[-3000:]}")
            time.sleep(0.1)
            said = self.probe(name)
        return said
