"""Renders the chart, and answers what its objects say of pods, volumes and configurations."""
import json
import os
import pathlib
import shutil
import subprocess

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "config" / "kubernetes" / "simm"
HERE = pathlib.Path(__file__).resolve().parent
RELEASE, NAMESPACE = "simm", "kv"
GO_LIBRARIES = "/usr/share/gocode"  # where Debian has sprig
UNITS = {"": 1, "m": 0.001, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


class Refused(Exception):
    """The values are refused; the text is what a user reads."""


def missing():
    """What rendering needs and this machine does not have; empty: nothing."""
    lacks = [] if shutil.which("go") else ["golang-go"]
    for path, package in (("github.com/Masterminds/sprig", "golang-github-masterminds-sprig-dev"),
                          ("sigs.k8s.io/yaml", "golang-k8s-sigs-yaml-dev")):
        if not pathlib.Path(GO_LIBRARIES, "src", path).is_dir():
            lacks.append(package)
    return lacks


def build_renderer(folder):
    """The renderer of render.go, built in `folder`, with the libraries of Debian alone."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "render"
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": GO_LIBRARIES, "GOFLAGS": "",
                   "GOCACHE": str(folder / "cache"), "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", program, HERE / "render.go"], env=environment, check=True)
    return program


def merged(base, over):
    result = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def check_values(values, chart=CHART):
    """Raises Refused with each value that the schema does not allow, by its place."""
    schema = json.loads((chart / "values.schema.json").read_text())
    everything = merged(yaml.safe_load((chart / "values.yaml").read_text()), values)
    errors = [f"{'.'.join(map(str, e.absolute_path)) or '(root)'}: {e.message}"
              for e in jsonschema.Draft7Validator(schema).iter_errors(everything)]
    if errors:
        raise Refused("\n".join(errors))
    return everything


class Renderer:
    """Ours; checks the values first, as helm does."""

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch

    def render(self, values, chart=CHART):
        check_values(values, chart)
        path = self.scratch / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return run([self.program, chart, RELEASE, NAMESPACE, path])


class Helm:
    """The real one."""

    def __init__(self, program, scratch):
        self.program, self.scratch = program, scratch

    def render(self, values, chart=CHART):
        path = self.scratch / "helm-values.yaml"
        path.write_text(yaml.safe_dump(values))
        return run([self.program, "template", RELEASE, chart, "--namespace", NAMESPACE,
                    "--values", path])


def find_helm(scratch):
    """helm, of $SIMM_HELM or of the path; None: there is none."""
    program = os.environ.get("SIMM_HELM") or shutil.which("helm")
    return Helm(program, scratch) if program else None


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          timeout=120)
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return [o for o in yaml.safe_load_all(done.stdout) if o]


def key_of(thing):
    return thing["kind"], thing["metadata"]["name"]


def quantity(text):
    """A quantity of Kubernetes as a number."""
    text = str(text)
    digits = text.rstrip("KMGTim")
    return float(digits) * UNITS[text[len(digits):]]


class Objects:
    """The rendered objects, by kind and name."""

    def __init__(self, objects):
        self.all = objects
        self.by_key = {key_of(o): o for o in objects}

    def of_kind(self, *kinds):
        return [o for o in self.all if o["kind"] in kinds]

    def pods(self):
        """(owner, metadata of the pod, spec of the pod) for each object that makes pods."""
        for thing in self.of_kind("DaemonSet", "StatefulSet"):
            template = thing["spec"]["template"]
            yield thing, template["metadata"], template["spec"]
        for thing in self.of_kind("Pod"):
            yield thing, thing["metadata"], thing["spec"]

    def pod_names(self, owner):
        """The names that the owner's pods will have; one example for a DaemonSet."""
        name = owner["metadata"]["name"]
        if owner["kind"] == "StatefulSet":
            return [f"{name}-{i}" for i in range(owner["spec"]["replicas"])]
        return [f"{name}-x7k2p" if owner["kind"] == "DaemonSet" else name]

    def files_of(self, spec):
        """{path in the container: text} of the ConfigMaps that the pod's first container mounts."""
        found, volumes = {}, {v["name"]: v for v in spec["volumes"]}
        for mount in spec["containers"][0]["volumeMounts"]:
            source = volumes.get(mount["name"], {}).get("configMap")
            if source is None:
                continue
            for name, text in self.by_key["ConfigMap", source["name"]]["data"].items():
                found[f"{mount['mountPath']}/{name}"] = text
        return found

    def configuration(self, owner, spec, pod_name):
        """(role, configuration) that the daemon of a pod reads; None: it has no daemon."""
        command = expanded(spec["containers"][0], pod_name)
        if command[0] != "simmd":
            return None
        path = command[command.index("--config") + 1]
        files = self.files_of(spec)
        if path not in files:
            raise KeyError(f"{pod_name}: {path} is in none of its ConfigMaps: {sorted(files)}")
        config = json.loads(files[path])
        if "advertise" in config["cluster"]:  # a daemon's name is that of its pod
            config["cluster"]["advertise"] = config["cluster"]["advertise"].replace(
                "{name}", pod_name)
        return command[1], config


def environment(container, pod_name):
    """The variables of a container."""
    found = {}
    for variable in container.get("env", []):
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[variable["name"]] = pod_name if field == "metadata.name" else variable["value"]
    return found


def expanded(container, pod_name):
    """The command of a container, with $(NAME) replaced as the kubelet does."""
    variables = environment(container, pod_name)
    words = []
    for word in container["command"]:
        for name, value in variables.items():
            word = word.replace(f"$({name})", value)
        words.append(word)
    return words
