"""A kubelet as device plugins see it: registration, allocation, starts of containers, PodResources.

It does what the real one does, in its order: empties its directory when it starts, dials a plugin
while that registers, gives devices when it admits a pod, and asks PreStartContainer before each
start. What containers get is what the plugin answered at the admission.
"""
import contextlib
import pathlib
import threading
import time
from concurrent import futures

import grpc

import wire

PATIENCE_S = 120  # for a machine that does much else
PRE_START_S = 30  # the kubelet's own
DIAL_S = 10
PLAIN = {"request_serializer": None, "response_deserializer": None}  # bytes, both ways


class Refused(Exception):
    """The plugin, or the kubelet itself, does not let a container in; with the code of gRPC."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Pod:
    """{container: {resource: count}} of a namespace."""

    def __init__(self, namespace, name, containers, inits=()):
        self.namespace, self.name, self.containers, self.inits = namespace, name, containers, inits
        self.devices = {}  # (container, resource) -> ids
        self.answers = {}  # (container, resource) -> ContainerAllocateResponse


class Endpoint:
    """A plugin that has registered."""

    def __init__(self, kubelet, request):
        self.kubelet, self.resource = kubelet, request["resource_name"]
        self.request = request
        path = kubelet.plugins / request["endpoint"]
        self.channel = grpc.insecure_channel(f"unix:{path}", options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost")])
        grpc.channel_ready_future(self.channel).result(DIAL_S)
        self.options = self.call(wire.OPTIONS, "Empty", {}, "DevicePluginOptions", DIAL_S)
        self.devices = {}
        self.is_stopped = False
        self.stream = self.channel.unary_stream(wire.LIST_AND_WATCH, **PLAIN)(
            wire.encode("Empty", {}))
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        with contextlib.suppress(grpc.RpcError):
            for data in self.stream:
                devices = wire.decode("ListAndWatchResponse", data)["devices"]
                self.devices = {d["id"]: d["health"] == "Healthy" for d in devices}
        self.devices = {id: False for id in self.devices}
        self.is_stopped = True

    def call(self, method, kind, request, answer, timeout_s):
        try:
            data = self.channel.unary_unary(method, **PLAIN)(wire.encode(kind, request),
                                                             timeout=timeout_s)
        except grpc.RpcError as failed:
            raise Refused(failed.code(), failed.details()) from None
        return wire.decode(answer, data)

    def close(self):
        self.stream.cancel()
        self.channel.close()


class Kubelet:
    """One node's, with its directory as a root of its own."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.plugins = self.root / "device-plugins"
        self.pods_directory = self.root / "pod-resources"
        self.endpoints, self.registrations, self.pods = {}, [], []
        self.refuses_registrations = False
        self.list_pods = self.pod_resources  # tests put another answer here
        self.server = self.pods_server = None

    # ---- Itself ----

    def start(self, empties=True):
        for directory in (self.plugins, self.pods_directory):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o750)
        for path in self.plugins.iterdir() if empties else ():
            path.unlink()
        self.start_pods()
        self.server = self.serve(self.plugins / "kubelet.sock", wire.REGISTER, self.register)

    def start_pods(self):
        self.pods_server = self.serve(self.pods_directory / "kubelet.sock", wire.LIST_PODS,
                                      lambda data, context: self.list_pods(data, context))

    def stop(self):
        """As at its end: plugins stay, and do not know."""
        for server in (self.server, self.pods_server):
            if server is not None:
                server.stop(None).wait(PATIENCE_S)
        for endpoint in self.endpoints.values():
            endpoint.close()
        self.endpoints = {}

    def stop_pods(self):
        self.pods_server.stop(None).wait(PATIENCE_S)

    @staticmethod
    def serve(path, method, answer):
        path.unlink(missing_ok=True)
        _, service, name = method.split("/")
        server = grpc.server(futures.ThreadPoolExecutor(16), options=[
            ("grpc.max_send_message_length", -1)])
        handler = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler(service, {name: handler}),))
        if server.add_insecure_port(f"unix:{path}") == 0:
            raise OSError(f"nothing can listen at {path}")
        server.start()
        return server

    def register(self, data, context):
        request = wire.decode("RegisterRequest", data)
        if self.refuses_registrations or request["version"] != wire.VERSION:
            context.abort(grpc.StatusCode.UNKNOWN, "the version is not supported")
        endpoint = Endpoint(self, request)
        before = self.endpoints.get(endpoint.resource)
        if before is not None:
            before.close()
        self.endpoints[endpoint.resource] = endpoint
        self.registrations.append(request)
        return wire.encode("Empty", {})

    # ---- Devices ----

    def healthy(self, resource):
        endpoint = self.endpoints.get(resource)
        return sorted(id for id, is_healthy in endpoint.devices.items() if is_healthy
                      ) if endpoint else []

    def wait_for(self, *resources, healthy=True):
        """Until these are registered, and their devices healthy or not."""
        self.until(lambda: all(
            r in self.endpoints and self.endpoints[r].devices and
            bool(self.healthy(r)) == healthy for r in resources), f"{resources} registered")

    @staticmethod
    def until(is_so, what):
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError(f"not so after {PATIENCE_S} s: {what}")
            time.sleep(0.02)

    # ---- Pods ----

    def admit(self, pod):
        """Gives devices to each container, or fails the pod for good."""
        for container, resources in pod.containers.items():
            for resource, count in resources.items():
                used = {id for p in self.pods for (_, r), ids in p.devices.items()
                        if r == resource for id in ids}
                free = [id for id in self.healthy(resource) if id not in used]
                if len(free) < count:
                    raise Refused(None, f"requested number of devices unavailable for {resource}")
                pod.devices[container, resource] = free[:count]
                answer = self.endpoints[resource].call(
                    wire.ALLOCATE, "AllocateRequest",
                    {"container_requests": [{"devices_ids": free[:count]}]}, "AllocateResponse",
                    PRE_START_S)
                pod.answers[container, resource] = answer["container_responses"][0]
        self.pods.append(pod)
        return pod

    def run(self, pod, container=None):
        """The mounts of a container that starts. A kubelet tries again what is refused."""
        container = container or next(iter(pod.containers))
        for resource in pod.containers[container]:
            endpoint = self.endpoints.get(resource)
            if endpoint is None or endpoint.is_stopped:
                raise Refused(None, f"endpoint not found in cache for {resource}")
            if endpoint.options.get("pre_start_required"):
                endpoint.call(wire.PRE_START, "PreStartContainerRequest",
                              {"devices_ids": pod.devices[container, resource]},
                              "PreStartContainerResponse", PRE_START_S)
        return [mount for resource in pod.containers[container]
                for mount in pod.answers[container, resource]["mounts"]]

    def admit_and_run(self, pod):
        return self.run(self.admit(pod))

    def pod_resources(self, _data, _context):
        return wire.encode("ListPodResourcesResponse", {"pod_resources": [
            self.resources_of(pod) for pod in self.pods]})

    @staticmethod
    def resources_of(pod):
        """Of the containers that run beside each other; not of those before them."""
        return {"name": pod.name, "namespace": pod.namespace, "containers": [
            {"name": container, "cpu_ids": [2, 3], "devices": [
                {"resource_name": resource, "device_ids": [id],
                 "topology": {"nodes": [{"id": 0}]}}
                for (holder, resource), ids in pod.devices.items() if holder == container
                for id in ids]}
            for container in pod.containers if container not in pod.inits]}
