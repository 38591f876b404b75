#!/usr/bin/env python3
"""simm-device-plugin beside a kubelet of the tests: who gets in, and who does not.

  plugin_test.py --bin DIR

As root the plugin runs without any capability, as its pod does. Exit status 77: gRPC for Python, or
the plugin itself, is not there.
"""
import argparse
import contextlib
import importlib.util
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

if importlib.util.find_spec("grpc") is not None:
    import grpc

    import wire
    from kubelet import PATIENCE_S, PRE_START_S, Kubelet, Pod, Refused
    CODE = grpc.StatusCode
BIN = None
BLUE, RED, NOBODY = "simm.io/blue", "simm.io/red", "simm.io/nobody"
TENANTS = ("blue=team-a,team-b", "red=team-b", "nobody=")


def program(*arguments):
    return subprocess.run([BIN / "simm-device-plugin", *arguments], capture_output=True, text=True,
                          check=False, timeout=PATIENCE_S)


class Node:
    """A kubelet, the directories of a node daemon, and the plugin between them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.kubelet = Kubelet(self.folder / "k")
        self.run = self.folder / "run"
        self.run.mkdir()
        self.run.chmod(0o710)
        self.log = self.folder / "log"
        self.sockets, self.plugin = {}, None

    def make_tenant(self, name):
        """What the node daemon's pod does."""
        directory = self.run / name
        directory.mkdir(exist_ok=True)
        self.sockets[name] = socket.socket(socket.AF_UNIX)
        self.sockets[name].bind(str(directory / "simm.sock"))

    def remove_tenant(self, name):
        self.sockets.pop(name).close()
        shutil.rmtree(self.run / name)

    def options(self, *tenants):
        given = ["--kubelet", str(self.kubelet.root), "--directory", str(self.run),
                 "--host-path", "/run/on-the-node", "--engines", "8"]
        return given + [word for tenant in tenants or TENANTS for word in ("--tenant", tenant)]

    def start_plugin(self, *tenants):
        command = [BIN / "simm-device-plugin", *self.options(*tenants)]
        if os.geteuid() == 0:
            command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
                       *command]
        with open(self.log, "ab") as log:
            self.plugin = subprocess.Popen(command, stderr=log)

    def stop_plugin(self, kill=False):
        if self.plugin is None:
            return None
        (self.plugin.kill if kill else self.plugin.terminate)()
        status = self.plugin.wait(PATIENCE_S)
        self.plugin = None
        return status

    def close(self):
        self.stop_plugin(kill=True)
        self.kubelet.stop()
        for held in self.sockets.values():
            held.close()


class Scene(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="simm_plugin_")
        self.addCleanup(folder.cleanup)
        self.node = Node(folder.name)
        self.addCleanup(self.node.close)
        self.kubelet = self.node.kubelet
        for tenant in ("blue", "red", "nobody"):
            self.node.make_tenant(tenant)

    def start(self):
        self.kubelet.start()
        self.node.start_plugin()
        self.kubelet.wait_for(BLUE, RED, NOBODY)

    def engine(self, namespace, *resources, name="engine-0"):
        return Pod(namespace, name, {"engine": {resource: 1 for resource in resources}})

    def refused(self, pod, *words, code=None, container=None):
        """The text of a pod that is admitted, and whose container does not start."""
        if pod not in self.kubelet.pods:
            self.kubelet.admit(pod)
        with self.assertRaises(Refused) as caught:
            self.kubelet.run(pod, container)
        for word in words:
            self.assertIn(word, str(caught.exception))
        if code is not None:
            self.assertEqual(caught.exception.code, code, str(caught.exception))
        return str(caught.exception)


class Namespaces(Scene):
    def setUp(self):
        super().setUp()
        self.start()

    def test_a_pod_of_the_right_namespace_gets_its_tenants_directory(self):
        for namespace, resource, tenant in (("team-a", BLUE, "blue"), ("team-b", BLUE, "blue"),
                                            ("team-b", RED, "red")):
            mounts = self.kubelet.admit_and_run(self.engine(namespace, resource))
            self.assertEqual(mounts, [{"container_path": "/run/simm", "read_only": True,
                                       "host_path": f"/run/on-the-node/{tenant}"}])

    def test_a_pod_of_another_namespace_is_refused(self):
        for namespace in ("team-a", "team", "team-b-2", "kube-system", "default"):
            self.refused(self.engine(namespace, RED), "tenant red", f"namespace {namespace} ",
                         f"{namespace}/engine-0", "tenants[].namespaces",
                         code=CODE.PERMISSION_DENIED)
        self.assertIn("why=", self.node.log.read_text())

    def test_a_tenant_without_namespaces_is_nobodys(self):
        self.refused(self.engine("team-a", NOBODY), "tenant nobody", code=CODE.PERMISSION_DENIED)

    def test_a_container_is_one_tenant(self):
        both = self.kubelet.admit(self.engine("team-b", BLUE, RED))
        self.refused(both, "team-b/engine-0", "A container is one tenant",
                     code=CODE.FAILED_PRECONDITION)
        for other in (BLUE, RED):  # whichever is asked first
            both.containers["engine"] = {other: 1}
            self.refused(both, "A container is one tenant")

    def test_containers_of_a_pod_may_be_different_tenants(self):
        pod = self.kubelet.admit(Pod("team-b", "pair", {"one": {BLUE: 1}, "other": {RED: 2}}))
        self.assertEqual(self.kubelet.run(pod, "one")[0]["host_path"], "/run/on-the-node/blue")
        self.assertEqual([m["host_path"] for m in self.kubelet.run(pod, "other")],
                         ["/run/on-the-node/red"])

    def test_resources_of_others_do_not_matter(self):
        pod = self.kubelet.admit(self.engine("team-a", BLUE))
        pod.devices["engine", "nvidia.com/gpu"] = ["GPU-1"]
        self.assertEqual(len(self.kubelet.run(pod)), 1)

    def test_a_container_before_the_others_alone_is_refused(self):
        pod = Pod("team-a", "prepared", {"prepare": {BLUE: 1}, "engine": {}}, inits=["prepare"])
        self.refused(pod, "initContainers", container="prepare", code=CODE.NOT_FOUND)

    def test_devices_that_are_not_there_are_refused(self):
        call = self.kubelet.endpoints[BLUE].call
        for ids in ([], [""], ["engine-8"], ["engine-0", "engine-x"], ["engine-\x1b[31m"]):
            with self.assertRaises(Refused) as caught:
                call(wire.ALLOCATE, "AllocateRequest",
                     {"container_requests": [{"devices_ids": ids}]}, "AllocateResponse", 10)
            self.assertEqual(caught.exception.code, CODE.INVALID_ARGUMENT)
            self.assertNotIn("\x1b", str(caught.exception))
            with self.assertRaises(Refused) as caught:
                call(wire.PRE_START, "PreStartContainerRequest", {"devices_ids": ids},
                     "PreStartContainerResponse", 10)
            self.assertEqual(caught.exception.code, CODE.INVALID_ARGUMENT)

    def test_a_device_that_no_pod_holds_is_refused(self):
        """As asked by somebody who is no kubelet, or by one that has forgotten the pod."""
        with self.assertRaises(Refused) as caught:
            self.kubelet.endpoints[BLUE].call(
                wire.PRE_START, "PreStartContainerRequest", {"devices_ids": ["engine-3"]},
                "PreStartContainerResponse", 10)
        self.assertEqual(caught.exception.code, CODE.NOT_FOUND)

    def test_as_many_engines_as_the_options_say(self):
        for number in range(8):
            self.kubelet.admit_and_run(self.engine("team-a", BLUE, name=f"engine-{number}"))
        with self.assertRaisesRegex(Refused, "devices unavailable"):
            self.kubelet.admit(self.engine("team-a", BLUE, name="engine-8"))

    def test_what_is_registered(self):
        requests = {r["resource_name"]: r for r in self.kubelet.registrations}
        self.assertEqual(requests[BLUE], {
            "version": "v1beta1", "endpoint": "simm.io_blue.sock", "resource_name": BLUE,
            "options": {"pre_start_required": True}})
        self.assertEqual(self.kubelet.endpoints[BLUE].options, {"pre_start_required": True})
        own = self.kubelet.plugins / "simm.io_blue.sock"
        self.assertEqual(own.stat().st_mode & 0o077, 0)


class Restarts(Scene):
    def test_a_kubelet_that_starts_again_is_registered_with(self):
        self.start()
        stranger = self.engine("team-a", RED, name="stranger")
        self.refused(stranger, "may not be this tenant")
        for empties in (True, False, True):  # the directory, as kubelets of today do
            self.kubelet.stop()
            self.kubelet.start(empties)
            self.kubelet.wait_for(BLUE, RED, NOBODY)
            self.kubelet.admit_and_run(self.engine("team-a", BLUE))
            self.refused(stranger, "may not be this tenant")

    def test_a_kubelet_that_comes_later_is_waited_for(self):
        self.node.start_plugin()
        time.sleep(0.5)
        self.assertIsNone(self.node.plugin.poll())
        self.kubelet.start()
        self.kubelet.wait_for(BLUE)
        self.kubelet.admit_and_run(self.engine("team-a", BLUE))

    def test_a_plugin_that_starts_again_serves_again(self):
        self.start()
        pod = self.kubelet.admit(self.engine("team-a", BLUE))
        for kill in (True, False):
            registered = len(self.kubelet.registrations)
            status = self.node.stop_plugin(kill)
            if not kill:
                self.assertEqual(status, 0, self.node.log.read_text())
            self.kubelet.until(lambda: self.kubelet.endpoints[BLUE].is_stopped, "it is gone")
            with self.assertRaises(Refused):  # without it nobody gets in
                self.kubelet.run(pod)
            self.assertEqual(self.kubelet.healthy(BLUE), [])
            self.node.start_plugin()
            self.kubelet.until(
                lambda count=registered: len(self.kubelet.registrations) == count + 3, "it is back")
            self.kubelet.wait_for(BLUE)
            self.assertEqual(len(self.kubelet.run(pod)), 1)

    def test_a_second_plugin_does_not_leave_a_hole(self):
        """As while one pod takes the place of another: the last one stays reachable."""
        self.start()
        first = self.node.plugin
        self.node.start_plugin()
        registered = len(self.kubelet.registrations)
        self.kubelet.until(lambda: len(self.kubelet.registrations) > registered, "the second is in")
        first.terminate()
        first.wait(PATIENCE_S)
        self.kubelet.until(lambda: program(*self.node.options(), "--check").returncode == 0,
                           "the second answers")
        self.kubelet.until(lambda: all(not self.kubelet.endpoints[r].is_stopped
                                       for r in (BLUE, RED, NOBODY)), "registered again")
        self.kubelet.wait_for(BLUE)
        self.kubelet.admit_and_run(self.engine("team-a", BLUE))

    def test_a_registration_that_is_refused_is_tried_again(self):
        self.kubelet.refuses_registrations = True
        self.kubelet.start()
        self.node.start_plugin()
        self.kubelet.until(lambda: "takes no registration" in self.node.log.read_text(),
                           "it says so")
        self.kubelet.refuses_registrations = False
        self.kubelet.wait_for(BLUE)

    def test_a_probe_knows_whether_it_answers(self):
        options = self.node.options()
        self.assertEqual(program(*options, "--check").returncode, 1)
        self.start()
        done = program(*options, "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.node.plugin.send_signal(19)  # stopped
        self.assertEqual(program(*options, "--check").returncode, 1)
        self.node.plugin.send_signal(18)


class Directories(Scene):
    def test_a_tenant_without_a_daemon_is_unhealthy_until_it_has_one(self):
        self.node.remove_tenant("blue")
        self.kubelet.start()
        self.node.start_plugin()
        self.kubelet.wait_for(RED)
        self.kubelet.wait_for(BLUE, healthy=False)
        with self.assertRaises(Refused) as caught:  # of a kubelet that does not care
            self.kubelet.endpoints[BLUE].call(
                wire.ALLOCATE, "AllocateRequest",
                {"container_requests": [{"devices_ids": ["engine-0"]}]}, "AllocateResponse", 10)
        self.assertEqual(caught.exception.code, CODE.UNAVAILABLE)
        self.assertIn("/run/on-the-node/blue", str(caught.exception))
        self.node.make_tenant("blue")
        self.kubelet.wait_for(BLUE)
        pod = self.kubelet.admit(self.engine("team-a", BLUE))
        self.kubelet.run(pod)
        self.node.remove_tenant("blue")
        self.kubelet.wait_for(BLUE, healthy=False)
        self.refused(pod, "no directory /run/on-the-node/blue yet", code=CODE.UNAVAILABLE)
        self.node.make_tenant("blue")
        self.kubelet.wait_for(BLUE)
        self.kubelet.run(pod)

    def test_a_link_is_no_directory_of_a_tenant(self):
        self.start()
        self.node.remove_tenant("blue")
        (self.node.run / "blue").symlink_to("red")
        self.kubelet.wait_for(BLUE, healthy=False)


class PodResources(Scene):
    """The kubelet's answer is all that the plugin knows: without a clear one nobody gets in."""

    def setUp(self):
        super().setUp()
        self.start()
        self.pod = self.kubelet.admit(self.engine("team-a", BLUE))

    def answer(self, *pods):
        """The kubelet says this of its pods."""
        data = wire.encode("ListPodResourcesResponse", {"pod_resources": list(pods)})
        self.kubelet.list_pods = lambda _data, _context: data

    def holder(self, namespace="team-a", name="engine-0", resource=BLUE, ids=None):
        ids = self.pod.devices["engine", BLUE] if ids is None else ids
        return {"name": name, "namespace": namespace, "containers": [
            {"name": "engine", "devices": [{"resource_name": resource, "device_ids": ids}]}]}

    def test_it_is_away(self):
        self.kubelet.stop_pods()
        self.refused(self.pod, "tenant blue", "PodResources API", code=CODE.UNAVAILABLE)
        self.kubelet.start_pods()
        self.kubelet.run(self.pod)  # at once: nothing waits for an old failure

    def test_it_refuses(self):
        def limited(_data, context):
            context.abort(CODE.RESOURCE_EXHAUSTED, "rejected by rate limit\n\x1b[2J")
        self.kubelet.list_pods = limited
        text = self.refused(self.pod, "rejected by rate limit", code=CODE.UNAVAILABLE)
        self.assertNotIn("\x1b", text)

    def test_it_is_slow(self):
        """Several containers wait at once: each is answered before the kubelet gives up."""
        over = threading.Event()
        self.addCleanup(over.set)
        self.kubelet.list_pods = lambda _data, _context: over.wait(PATIENCE_S) and b""
        answers = []

        def run():
            began = time.monotonic()
            with contextlib.suppress(Refused):
                self.kubelet.run(self.pod)
                answers.append("in")
            answers.append(time.monotonic() - began)
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        self.assertEqual(len(answers), 3, answers)
        self.assertNotIn("in", answers)
        self.assertLess(max(answers), PRE_START_S, answers)
        over.set()
        self.kubelet.list_pods = self.kubelet.pod_resources
        self.kubelet.run(self.pod)

    def test_it_is_huge(self):
        many = [self.holder("team-z", f"other-{number}", "example.org/x" + "y" * 1000, ["1"])
                for number in range(10_000)]
        self.answer(*many, self.holder())
        self.kubelet.run(self.pod)
        self.answer(*many, *many, self.holder())  # more than the 16 MiB of the kubelet's clients
        self.refused(self.pod, "larger than max", code=CODE.UNAVAILABLE)
        status = pathlib.Path(f"/proc/{self.node.plugin.pid}/status").read_text()
        peak_kib = int(status.split("VmHWM:")[1].split()[0])
        print(f"peak memory of the plugin: {peak_kib >> 10} MiB", flush=True)
        if "asan" not in str(BIN):
            self.assertLess(peak_kib, 160 << 10)

    def test_several_pods_hold_the_device(self):
        self.answer(self.holder(), self.holder(name="engine-1"))
        self.refused(self.pod, "2 pods hold one device", code=CODE.FAILED_PRECONDITION)
        self.answer(self.holder(), self.holder("kube-system"))
        self.refused(self.pod, "2 pods hold one device", code=CODE.FAILED_PRECONDITION)

    def test_only_some_devices_are_held(self):
        pod = self.kubelet.admit(Pod("team-a", "two", {"engine": {BLUE: 2}}))
        self.answer(self.holder(ids=pod.devices["engine", BLUE][:1]))
        self.refused(pod, code=CODE.NOT_FOUND)

    def test_answers_of_somebody_who_lies(self):
        for namespace in ("", "team-a\0", "team-a/x", " team-a", "TEAM-A", "team-a,team-b",
                          "\x1b[31mteam-a\n", "x" * 100_000):
            self.answer(self.holder(namespace))
            text = self.refused(self.pod, "may not be this tenant", code=CODE.PERMISSION_DENIED)
            self.assertLess(len(text), 1000)
            self.assertFalse({"\x1b", "\n", "\0"} & set(text), repr(text))
        for resource in ("simm.io/Blue", "simm.io/blue2", "blue", "", "example.org/blue"):
            self.answer(self.holder(resource=resource))
            self.refused(self.pod, code=CODE.NOT_FOUND)
        right = wire.encode("ListPodResourcesResponse", {"pod_resources": [self.holder()]})
        seed = random.randrange(1 << 32)
        draw = random.Random(seed)
        # The bytes of "team-a" without their last one, text that is no UTF-8, and any bytes.
        for data in (b"", right[:-1], right.replace(b"team-a", b"team-\xff"), b"\xff" * 64,
                     *(draw.randbytes(draw.randrange(200)) for _ in range(200))):
            self.kubelet.list_pods = lambda _data, _context, data=data: data
            with self.assertRaises(Refused, msg=f"seed {seed}: {data!r}"):
                self.kubelet.run(self.pod)
        self.kubelet.list_pods = lambda _data, _context: right
        self.kubelet.run(self.pod)


class Options(unittest.TestCase):
    def refused(self, words, *options):
        done = program(*options)
        self.assertNotEqual(done.returncode, 0, options)
        self.assertIn(words, done.stderr + done.stdout, options)

    def test_names_that_are_none_of_kubernetes(self):
        for name in ("", "-blue", "blue-", "..", ".", "a/b", "../blue", "b lue", "bläu", "_x",
                     "x" * 64):
            self.refused("is no name of a resource", "--tenant", f"{name}=team-a")
        for name in ("Team", "a.b", "a_b", "-a", "", "x" * 64, "*"):
            self.refused("is no name of a namespace", "--tenant", f"blue={name},team-a")
        self.refused("write NAME=NAMESPACE", "--tenant", "blue")
        self.refused("comes twice", "--tenant", "blue=a", "--tenant", "blue=b")
        self.refused("--tenant is required")
        for domain in ("kubernetes.io", "x.kubernetes.io", "Simm.io", "a..b", "a/b", "a-.b"):
            self.refused("write a DNS name", "--tenant", "blue=a", f"--domain={domain}")
        self.refused("is longer than", "--tenant", "x" * 63 + "=a", "--kubelet", "/" + "k" * 40)
        self.refused("write an absolute path", "--tenant", "blue=a", "--host-path", "run/simm")
        self.refused("--engines", "--tenant", "blue=a", "--engines", "0")

    def test_names_that_resources_of_kubernetes_may_have(self):
        """Capitals and underscores as well: here the kubelet is the only thing that is missing."""
        for name in ("b", "Blue_2", "a.b-c_D", "x" * 40):
            done = program("--tenant", f"{name}=team-a", "--kubelet", "/nowhere", "--check")
            self.assertIn(f"simm.io_{name}.sock", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    BIN = arguments.bin.resolve()
    if importlib.util.find_spec("grpc") is None:
        print("SKIPPED: not installed: python3-grpcio (scripts/install_packages.sh)")
        sys.exit(77)
    if not (BIN / "simm-device-plugin").exists():
        print("SKIPPED: simm-device-plugin is not built: CMake says what it needs")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
