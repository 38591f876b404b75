"""What every rendered object has to keep to, whatever the values are.

Each policy is a function of the objects and the values; it yields what is wrong, with its place.
mutants.json has a way to break each of them.
"""
import re

from chart import environment, expanded, quantity

MIB = 1 << 20
# What a container may have besides nothing.
CAPABILITIES = {"directories": {"CHOWN"}}
WITH_RDMA = {"IPC_LOCK"}
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
PORTS = {"manager": ("manager", "listen"), "storage": ("cluster", "listen")}
POLICIES = {}


def policy(function):
    POLICIES[function.__name__.replace("_", " ")] = function
    return function


def containers(objects):
    """(words for its place, container, spec of its pod) for each container."""
    for owner, _, spec in objects.pods():
        for container in spec.get("initContainers", []) + spec["containers"]:
            name = f"{owner['kind']} {owner['metadata']['name']}, container {container['name']}"
            yield name, container, spec


def daemons(objects):
    """(owner, spec, name of the pod, role, configuration) for each daemon that will run."""
    for owner, _, spec in objects.pods():
        for pod in objects.pod_names(owner):
            found = objects.configuration(owner, spec, pod)
            if found is not None:
                yield (owner, spec, pod, *found)


def selects(selector, labels):
    return all(labels.get(k) == v for k, v in selector.items())


@policy
def nothing_is_privileged(objects, _):
    for where, container, _spec in containers(objects):
        context = container["securityContext"]
        wanted = {"privileged": False, "allowPrivilegeEscalation": False,
                  "readOnlyRootFilesystem": True}
        for key, value in wanted.items():
            if context.get(key) is not value:
                yield f"{where}: securityContext.{key} is {context.get(key)}"


@policy
def capabilities_are_named(objects, values):
    for where, container, _spec in containers(objects):
        given = container["securityContext"].get("capabilities", {})
        if given.get("drop") != ["ALL"]:
            yield f"{where}: drops {given.get('drop')}, and not ALL"
        allowed = set(CAPABILITIES.get(container["name"], set()))
        if values["rdma"]["enabled"] and container["name"] == "simmd":
            allowed |= WITH_RDMA
        for name in set(given.get("add", [])) - allowed:
            yield f"{where}: adds {name}"


@policy
def nothing_of_the_host_is_shared(objects, values):
    base = values["node"]["hostPath"]
    for owner, _, spec in objects.pods():
        name = f"{owner['kind']} {owner['metadata']['name']}"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(key) is not False:
                yield f"{name}: {key} is {spec.get(key)}"
        for key, value in (("automountServiceAccountToken", False), ("enableServiceLinks", False)):
            if spec.get(key) is not value:
                yield f"{name}: {key} is {spec.get(key)}"
        for container in spec["containers"]:
            if any("hostPort" in port for port in container.get("ports", [])):
                yield f"{name}: takes a port of the host"
        for volume in spec["volumes"]:
            path = volume.get("hostPath", {}).get("path")
            tenants = [f"{base}/{t['name']}" for t in values["tenants"]]
            allowed = [base] if owner["kind"] == "DaemonSet" else []
            if is_plugin(spec):
                allowed += kubelet_directories(values)
            if path is not None and path not in (tenants if owner["kind"] == "Pod" else allowed):
                yield f"{name}: mounts {path} of the host"


def is_plugin(spec):
    return spec["containers"][0]["command"][0] == "simm-device-plugin"


def kubelet_directories(values):
    """Where the device plugin makes its sockets, and where it asks."""
    base = values["devicePlugin"]["kubeletDirectory"]
    return [f"{base}/device-plugins", f"{base}/pod-resources"]


def resources_of_tenants(container, values):
    """The tenants whose resource a container asks for."""
    domain = values["devicePlugin"]["domain"] + "/"
    return [name[len(domain):] for name in container["resources"]["limits"]
            if name.startswith(domain)]


@policy
def clients_see_one_tenant_and_write_nothing(objects, values):
    pods = objects.of_kind("Pod")
    if len(pods) != len(values["tenants"]):
        yield f"{len(pods)} pods of helm test for {len(values['tenants'])} tenants"
    for pod in pods:
        name = pod["metadata"]["name"]
        volumes = [v for v in pod["spec"]["volumes"] if "hostPath" in v]
        if not volumes and resources_of_tenants(pod["spec"]["containers"][0], values):
            continue  # see the policy of namespaces
        if len(volumes) != 1:
            yield f"{name}: {len(volumes)} directories of the host"
        for mount in pod["spec"]["containers"][0]["volumeMounts"]:
            if mount["name"] == volumes[0]["name"] and mount.get("readOnly") is not True:
                yield f"{name}: its tenant's directory is not read-only"
        if volumes[0]["hostPath"]["path"].rsplit("/", 1)[1] not in name:
            yield f"{name}: mounts the directory of another tenant"


@policy
def users_are_numbers(objects, values):
    for where, container, _spec in containers(objects):
        context = container["securityContext"]
        uid = context.get("runAsUser")
        may_be_root = container["name"] in ("directories", "device-plugin") or (
            values["rdma"]["enabled"] and container["name"] == "simmd")
        if not isinstance(uid, int) or (uid == 0 and not may_be_root):
            yield f"{where}: runs as user {uid}"
        if context.get("runAsNonRoot") is not (uid != 0):
            yield f"{where}: runAsNonRoot is {context.get('runAsNonRoot')} with user {uid}"
        if not context.get("runAsGroup"):
            yield f"{where}: runs as group {context.get('runAsGroup')}"


@policy
def system_calls_are_filtered(objects, values):
    for owner, _, spec in objects.pods():
        profile = spec.get("securityContext", {}).get("seccompProfile", {})
        wanted = {"type": values["seccomp"]["type"]}
        if wanted["type"] == "Localhost":
            wanted["localhostProfile"] = values["seccomp"]["localhostProfile"]
        if profile != wanted:
            yield f"{owner['metadata']['name']}: the profile of seccomp is {profile}"


@policy
def daemons_are_probed(objects, _):
    for _, spec, pod, _, config in daemons(objects):
        container = spec["containers"][0]
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        shown_at = int(config["metrics"]["listen"].rsplit(":", 1)[1])
        for name, path in PROBES.items():
            asked = container.get(name, {}).get("httpGet", {})
            if asked.get("path") != path:
                yield f"{pod}: {name} asks {asked.get('path')}, and not {path}"
            if ports.get(asked.get("port")) != shown_at:
                yield f"{pod}: {name} asks another port than metrics.listen, {shown_at}"
        for probe in (container[name] for name in PROBES if name in container):
            if probe["timeoutSeconds"] > probe["periodSeconds"]:
                yield f"{pod}: a probe begins before the one before it has ended"


@policy
def everything_has_limits(objects, _):
    for where, container, _spec in containers(objects):
        wants = container.get("resources", {}).get("requests", {})
        limits = container.get("resources", {}).get("limits", {})
        for name in ("memory", "ephemeral-storage"):
            if name not in limits or wants.get(name) != limits[name]:
                yield f"{where}: {name} is {wants.get(name)} asked and {limits.get(name)} at most"
        if "cpu" not in wants:
            yield f"{where}: asks for no CPU"
        for name in set(wants) | set(limits):
            if name not in ("cpu", "memory", "ephemeral-storage") and (
                    wants.get(name) != limits.get(name)):
                yield f"{where}: {name} is asked for and limited differently"


@policy
def memory_is_enough_for_the_pool(objects, _):
    for _, spec, pod, _, config in daemons(objects):
        node = config.get("node", {})
        pool = mib(node.get("pool_bytes", 0)) + mib(node.get("cache_bytes", 0))
        limits = spec["containers"][0]["resources"]["limits"]
        memory = quantity(limits["memory"]) / MIB
        volumes = {v["name"]: v["emptyDir"] for v in spec["volumes"] if "emptyDir" in v}
        if node.get("hugepages") == "require":
            huge = quantity(limits.get("hugepages-2Mi", "0")) / MIB
            if huge < pool:
                yield f"{pod}: a pool of {pool} MiB in huge pages, of which it has {huge} MiB"
            pool = 0
        if memory < pool * 1.01 + 64:
            yield f"{pod}: {memory} MiB of memory for a pool of {pool} MiB"
        if "pool_path" in node:
            size = quantity(volumes["pool"]["sizeLimit"]) / MIB
            if size < pool * 1.005:
                yield f"{pod}: a volume of {size} MiB for a pool of {pool} MiB"
        if any(v.get("medium") != "Memory" or "sizeLimit" not in v for v in volumes.values()):
            yield f"{pod}: has a volume that is not in memory, or has no limit"


def mib(size):
    text = str(size)
    return int(text[:-3]) if text.endswith("MiB") else int(text) / MIB


@policy
def ends_wait_for_the_drain(objects, values):
    for _, spec, pod, role, config in daemons(objects):
        drain_s = config.get("drain_ms", 5000) / 1000
        hooks = [c["lifecycle"]["preStop"]["exec"]["command"] for c in spec["containers"]
                 if "lifecycle" in c]
        hand_over_s = values["storage"]["handOverSeconds"] if role == "storage" else 0
        if len(hooks) != (1 if hand_over_s else 0):
            yield f"{pod}: has {len(hooks)} hooks before its end, for {hand_over_s} s"
        for hook in hooks:
            if hook != ["simmctl", "drain", "--deadline", f"{hand_over_s}s", "--wait"]:
                yield f"{pod}: ends with {' '.join(hook)}"
        if spec.get("terminationGracePeriodSeconds", 30) < hand_over_s + drain_s + 5:
            yield f"{pod}: is killed while it drains for {hand_over_s} and {drain_s} s"


@policy
def storage_changes_one_pod_at_a_time(objects, _):
    """An object makes one hop: daemons that leave at once would lose what they send each other."""
    for owner in objects.of_kind("StatefulSet"):
        spec = owner["spec"]
        if not owner["metadata"]["name"].endswith("-storage"):
            continue
        if spec.get("podManagementPolicy") != "OrderedReady":
            yield f"{owner['metadata']['name']}: its pods come and go at once"


@policy
def walls_stand_between_pods(objects, values):
    walls = objects.of_kind("NetworkPolicy")
    if not values["networkPolicy"]["enabled"]:
        if walls:
            yield "there are walls that nobody asked for"
        return
    for owner, meta, spec in objects.pods():
        around = [w["spec"] for w in walls
                  if selects(w["spec"]["podSelector"]["matchLabels"], meta["labels"])]
        if len(around) != 1 or around[0]["policyTypes"] != ["Ingress", "Egress"]:
            yield f"{owner['metadata']['name']}: not walled in both directions"
            continue
        if is_plugin(spec) and (around[0]["ingress"] or around[0]["egress"]):
            yield f"{owner['metadata']['name']}: needs no network, and has one"
        for rule in around[0]["ingress"]:
            if not rule.get("from") or not rule.get("ports"):
                yield f"{owner['metadata']['name']}: lets everybody or every port in"
        for rule in around[0]["egress"]:
            if not rule.get("ports"):
                yield f"{owner['metadata']['name']}: lets itself out to every port"
    yield from paths_are_open(objects, walls)


def paths_are_open(objects, walls):
    """Each daemon gets to each address that it will dial."""
    reached = {"manager": ["manager"], "storage": ["manager", "storage"],
               "node": ["manager", "storage"]}
    labels = {meta["labels"]["app.kubernetes.io/component"]: meta["labels"]
              for _, meta, _ in objects.pods()}
    ports = {c: next(p["containerPort"] for p in spec["containers"][0]["ports"]
                     if p["name"] == "cluster")
             for owner, meta, spec in objects.pods()
             for c in [meta["labels"]["app.kubernetes.io/component"]] if c in PORTS}
    wall_of = {c: next(w["spec"] for w in walls
                       if selects(w["spec"]["podSelector"]["matchLabels"], labels[c]))
               for c in reached}
    for source, targets in reached.items():
        for target in targets:
            leaves = any(r["ports"][0]["port"] == ports[target] and lets(r["to"], labels[target])
                         for r in wall_of[source]["egress"] if "to" in r)
            enters = any(r["ports"][0]["port"] == "cluster" and lets(r["from"], labels[source])
                         for r in wall_of[target]["ingress"])
            if not (leaves and enters):
                yield f"{source} does not get to {target}"


def lets(peers, labels):
    return any(selects(p.get("podSelector", {}).get("matchLabels", {"": ""}), labels)
               for p in peers)


@policy
def disruptions_have_a_budget(objects, values):
    if not values["podDisruptionBudget"]["enabled"]:
        return
    for owner in objects.of_kind("StatefulSet"):
        labels = owner["spec"]["template"]["metadata"]["labels"]
        budgets = [b for b in objects.of_kind("PodDisruptionBudget")
                   if selects(b["spec"]["selector"]["matchLabels"], labels)]
        if [b["spec"].get("maxUnavailable") for b in budgets] != [
                values["podDisruptionBudget"]["maxUnavailable"]]:
            yield f"{owner['metadata']['name']}: has {len(budgets)} budgets of its own"


@policy
def the_secret_stays_one(objects, values):
    for thing in objects.of_kind("Secret"):
        yield f"the chart makes a secret, {thing['metadata']['name']}"
    for owner, spec, pod, _, config in daemons(objects):
        if config["cluster"]["secret_file"] != "@cluster.secret":
            yield f"{pod}: reads {config['cluster']['secret_file']}"
        directory = environment(spec["containers"][0], pod).get("CREDENTIALS_DIRECTORY")
        mounts = {m["mountPath"]: m for m in spec["containers"][0]["volumeMounts"]}
        volumes = {v["name"]: v.get("secret") for v in spec["volumes"]}
        mounted = volumes.get(mounts.get(directory, {}).get("name"))
        if mounted is None or mounted["secretName"] != values["cluster"]["secretName"]:
            yield f"{pod}: no secret lies in CREDENTIALS_DIRECTORY, {directory}"
        # simmd wants a file of root that its group may read, and nobody else.
        for secret in filter(None, volumes.values()):
            if secret.get("defaultMode") != 0o440:
                yield f"{owner['metadata']['name']}: the mode of a secret's files is not 0440"
        if spec["securityContext"].get("fsGroup") != spec["containers"][0]["securityContext"][
                "runAsGroup"]:
            yield f"{pod}: fsGroup is not the daemon's group, which reads the secret"


@policy
def names_lead_somewhere(objects, _):
    for owner, meta, spec in objects.pods():
        name = owner["metadata"]["name"]
        volumes = [v["name"] for v in spec["volumes"]]
        mounted = set()
        claims = [c["metadata"]["name"]
                  for c in owner["spec"].get("volumeClaimTemplates", [])]
        for container in spec.get("initContainers", []) + spec["containers"]:
            mounted |= {m["name"] for m in container["volumeMounts"]}
            paths = [m["mountPath"] for m in container["volumeMounts"]]
            if len(set(paths)) != len(paths):
                yield f"{name}: two volumes at one place: {paths}"
        if mounted != set(volumes) | set(claims):
            yield f"{name}: mounts {sorted(mounted)} of {sorted(volumes + claims)}"
        for word in expanded(spec["containers"][0], objects.pod_names(owner)[0]):
            if re.search(r"\$\([A-Z_]+\)", word) and owner["kind"] != "Pod":
                yield f"{name}: nothing gives {word} a value"
        if owner["kind"] != "Pod" and not selects(owner["spec"]["selector"]["matchLabels"],
                                                  meta["labels"]):
            yield f"{name}: does not select its own pods"
    addresses = set(service_addresses(objects))
    for _, _, pod, role, config in daemons(objects):
        for address in config["cluster"].get("manager", []):
            if address not in addresses:
                yield f"{pod}: looks for a manager at {address}; there are {sorted(addresses)}"
        if role == "storage":
            port = config["cluster"]["listen"].rsplit(":", 1)[1]
            if f"{config['cluster']['advertise']}:{port}" not in addresses or (
                    config["cluster"]["advertise"].split(".")[0] != pod):
                yield f"{pod}: says that it is {config['cluster']['advertise']}"


def service_addresses(objects):
    """host:port of each pod of a StatefulSet, by the name that its headless service gives it."""
    domain = {c["cluster"]["advertise"].split(".svc.", 1)[1]
              for _, _, _, role, c in daemons(objects) if role == "storage"}.pop()
    for owner in objects.of_kind("StatefulSet"):
        service = objects.by_key.get(("Service", owner["spec"]["serviceName"]))
        if service is None or service["spec"].get("clusterIP") != "None":
            continue
        meta, spec = owner["spec"]["template"]["metadata"], owner["spec"]["template"]["spec"]
        if not selects(service["spec"]["selector"], meta["labels"]):
            continue
        if service["spec"].get("publishNotReadyAddresses") is not True:
            continue
        ports = {p["name"]: p["containerPort"] for p in spec["containers"][0]["ports"]}
        for port in service["spec"]["ports"]:
            for pod in objects.pod_names(owner):
                yield (f"{pod}.{service['metadata']['name']}.{service['metadata']['namespace']}"
                       f".svc.{domain}:{ports[port['targetPort']]}")


@policy
def sockets_belong_to_tenants(objects, values):
    for _, spec, pod, role, config in daemons(objects):
        if role != "manager":
            known = [t["name"] for t in config["tenants"]]
            if known != [t["name"] for t in values["tenants"]]:
                yield f"{pod}: knows the tenants {known}"
        if role != "node":
            continue
        mounted = [m["mountPath"] for m in spec["containers"][0]["volumeMounts"]]
        init = spec["initContainers"][0]
        made = environment(init, pod)["TENANTS"].split()
        for tenant, socket in zip(values["tenants"], config["sockets"]):
            if socket["path"] != f"/run/simm/{tenant['name']}/simm.sock" or (
                    socket["tenant"] != tenant["name"] or socket["mode"] != "0666"):
                yield f"{pod}: {socket} is no socket of {tenant['name']}"
        if "/run/simm" not in mounted or made != [t["name"] for t in values["tenants"]]:
            yield f"{pod}: directories of {made} are made"


@policy
def namespaces_decide_who_is_a_tenant(objects, values):
    wanted = values["devicePlugin"]
    plugins = [(o, spec) for o, _, spec in objects.pods() if is_plugin(spec)]
    if [o["kind"] for o, _ in plugins] != (["DaemonSet"] if wanted["enabled"] else []):
        yield f"{len(plugins)} device plugins"
    for _, spec in plugins:
        yield from plugin_is_right(spec, values)
    for pod in objects.of_kind("Pod"):
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        here = pod["metadata"]["namespace"]
        by_plugin = [t["name"] for t in values["tenants"] if name.endswith("-" + t["name"])
                     and wanted["enabled"] and here in t.get("namespaces", [])]
        if resources_of_tenants(container, values) != by_plugin:
            yield f"{name}: asks for {resources_of_tenants(container, values)}"
        if by_plugin and any("hostPath" in v for v in pod["spec"]["volumes"]):
            yield f"{name}: has a directory of the host besides its resource"


def plugin_is_right(spec, values):
    container = spec["containers"][0]
    tenants = [w for t in values["tenants"]
               for w in ("--tenant", f"{t['name']}={','.join(t.get('namespaces', []))}")]
    command = ["simm-device-plugin", "--domain", values["devicePlugin"]["domain"], "--host-path",
               values["node"]["hostPath"], "--engines", str(values["devicePlugin"]["enginesMax"])]
    if container["command"] != command + tenants:
        yield f"the device plugin is {container['command']}"
    for probe in ("readinessProbe", "livenessProbe"):
        asked = container.get(probe, {}).get("exec", {}).get("command")
        if asked != command + tenants + ["--check"]:
            yield f"the device plugin: {probe} asks something else"
    for key in ("nodeSelector", "tolerations", "affinity"):
        if spec.get(key) != (values["node"][key] or None):
            yield f"the device plugin is on other nodes than the node daemons: {key}"
    paths = {v["name"]: v.get("hostPath", {}).get("path") for v in spec["volumes"]}
    mounts = {m["mountPath"]: (paths[m["name"]], m.get("readOnly", False))
              for m in container["volumeMounts"]}
    plugins, pods = kubelet_directories(values)
    if mounts != {"/var/lib/kubelet/device-plugins": (plugins, False),
                  "/var/lib/kubelet/pod-resources": (pods, True),
                  "/run/simm": (values["node"]["hostPath"], True)}:
        yield f"the device plugin mounts {mounts}"


@policy
def images_are_of_one_version(objects, _):
    for where, container, _spec in containers(objects):
        if not re.search(r"(:[0-9][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$", container["image"]):
            yield f"{where}: the image is {container['image']}"


@policy
def metrics_are_found(objects, values):
    monitors = objects.of_kind("PodMonitor")
    if bool(monitors) != values["metrics"]["podMonitor"]["enabled"]:
        yield f"{len(monitors)} PodMonitors"
    for monitor in monitors:
        spec = monitor["spec"]
        for owner, meta, pod in objects.pods():
            if owner["kind"] == "Pod" or is_plugin(pod):
                continue
            names = [p["name"] for p in pod["containers"][0]["ports"]]
            if not selects(spec["selector"]["matchLabels"], meta["labels"]) or (
                    spec["podMetricsEndpoints"][0]["port"] not in names):
                yield f"{owner['metadata']['name']}: its numbers are not read"
