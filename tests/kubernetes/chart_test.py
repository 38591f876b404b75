#!/usr/bin/env python3
"""The chart, rendered with several sets of values: types of the API, policies, configurations.

  chart_test.py --bin DIR --scratch DIR

Renders by render.go, and by helm as well where it is installed (SIMM_HELM names another one).
Exit status 77: something that is needed is not installed.
"""
import argparse
import functools
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LACKS = [package for module, package in (("jsonschema", "python3-jsonschema"),
                                         ("kubernetes", "python3-kubernetes"),
                                         ("yaml", "python3-yaml"))
         if importlib.util.find_spec(module) is None]
if not LACKS:
    import jsonschema
    import yaml

    import api_types
    import chart
    import policies
    from chart import CHART, ROOT, Objects, Refused

    LACKS = chart.missing()
    MUTANTS = json.loads((HERE / "mutants.json").read_text())
    SETS = {"defaults": {}, **{path.stem: yaml.safe_load(path.read_text())
                               for path in sorted((HERE / "values").glob("*.yaml"))}}
BIN = SCRATCH = RENDERER = HELM = None


@functools.lru_cache(maxsize=None)
def rendered(name):
    return Objects(RENDERER.render(SETS[name]))


def broken(objects, values):
    """{policy: what it says} of those that are not kept."""
    said = {}
    for name, check in policies.POLICIES.items():
        try:
            said[name] = list(check(objects, values))
        except (LookupError, StopIteration) as absent:  # what every object of the chart has
            said[name] = [f"there is no {absent!r}"]
    return {name: lines for name, lines in said.items() if lines}


class Rendered(unittest.TestCase):
    def test_every_object_is_of_its_api_type(self):
        for name in SETS:
            for thing in rendered(name).all:
                self.assertEqual(list(api_types.check(thing)), [], name)

    def test_every_policy_is_kept(self):
        for name, given in SETS.items():
            self.assertEqual(broken(rendered(name), chart.check_values(given)), {}, name)

    def test_no_two_objects_have_one_name(self):
        for name in SETS:
            keys = [chart.key_of(o) for o in rendered(name).all]
            self.assertEqual(len(keys), len(set(keys)), name)

    def test_simmd_and_the_schema_take_every_configuration(self):
        schema = json.loads((ROOT / "config" / "simm.schema.json").read_text())
        validator = jsonschema.Draft202012Validator(schema)
        checked = 0
        for name in SETS:
            for _, _, pod, role, config in policies.daemons(rendered(name)):
                self.assertEqual([e.message for e in validator.iter_errors(config)], [], pod)
                if role == "storage" and not pod.endswith("-0"):
                    continue  # differs by its own name alone
                path = SCRATCH / "config.json"
                path.write_text(json.dumps(config))
                done = subprocess.run([BIN / "simmd", role, "--check-config", "--config", path],
                                      capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""), f"{name}: {pod}")
                checked += 1
        self.assertGreaterEqual(checked, 3 * len(SETS))

    def test_gpus_are_asked_for_only_when_wanted(self):
        for name in SETS:
            text = json.dumps(rendered(name).all)
            self.assertEqual("NVIDIA" in text and "runtimeClassName" in text, name == "gpu", name)

    def test_nothing_but_a_number_depends_on_how_many_storage_daemons_there_are(self):
        """So kubectl scale does what another value does, and restarts no daemon."""
        def without_number(replicas):
            found = Objects(RENDERER.render({"storage": {"replicas": replicas}}))
            self.assertEqual(found.by_key["StatefulSet", "simm-storage"]["spec"].pop("replicas"),
                             replicas)
            return found.all
        self.assertEqual(without_number(3), without_number(40))

    def test_a_changed_configuration_restarts_its_pods(self):
        for component, kind in (("storage", "StatefulSet"), ("node", "DaemonSet"),
                                ("manager", "StatefulSet")):
            def template(level, component=component, kind=kind):
                values = {component: {"extra": {"log": {"level": level}}}}
                found = Objects(RENDERER.render(values)).by_key[kind, f"simm-{component}"]
                return found["spec"]["template"]
            self.assertNotEqual(template("info"), template("debug"), component)

    def test_helm_renders_the_same(self):
        if HELM is None:
            self.skipTest("helm is not installed")
        for name, given in SETS.items():
            ours, real = rendered(name).by_key, Objects(HELM.render(given)).by_key
            self.assertEqual(ours, real, name)
        linted = subprocess.run([HELM.program, "lint", "--strict", CHART], capture_output=True,
                                text=True, check=False)
        self.assertEqual(linted.returncode, 0, linted.stdout)


# Values, and a word of the refusal that names the place.
REFUSED = (
    ({"storage": {"poolMiB": 3}}, "storage.poolMiB"),
    ({"storage": {"poolMB": 4096}}, "poolMB"),
    ({"storage": {"replicas": 0}}, "storage.replicas"),
    ({"storage": {"cpu": "many"}}, "storage.cpu"),
    ({"storage": {"memoryMiB": 8200}}, "storage.memoryMiB = 8200: .* need [0-9]+; write at least"),
    ({"node": {"memoryMiB": 1024}}, "node.memoryMiB = 1024"),
    ({"storage": {"hugePages": True}}, "storage.hugePages with storage.keepPool"),
    ({"storage": {"extra": {"node": {"pool_bytes": 1}}}},
     "storage.extra.node.pool_bytes: the chart writes this key"),
    ({"node": {"extra": {"sockets": []}}}, "node.extra.sockets: the chart writes this key"),
    ({"node": {"extra": {"nodes": {}}}}, "node.extra"),
    ({"manager": {"replicas": 3}}, "manager.replicas = 3: several managers need manager.etcd"),
    ({"manager": {"replicas": 6}}, "manager.replicas"),
    ({"manager": {"etcd": {"endpoints": ["etcd:2379"]}}}, "manager.etcd.endpoints.0"),
    ({"manager": {"etcd": {"endpoints": ["http://e:1"], "user": "u"}}}, "manager.etcd.secretName"),
    ({"manager": {"etcd": {"endpoints": ["http://e:1"], "files": ["ca.crt"]}}},
     "manager.etcd.files: name the Secret"),
    ({"tenants": []}, "tenants"),
    ({"tenants": [{"name": "Blue"}]}, "tenants.0.name"),
    ({"tenants": [{"name": "../blue"}]}, "tenants.0.name"),
    ({"tenants": [{"name": "blue", "quotaPercent": 101}]}, "tenants.0.quotaPercent"),
    ({"tenants": [{"name": "blue", "namespaces": ["team_a"]}], "devicePlugin": {"enabled": True}},
     "tenants.0.namespaces.0"),
    ({"tenants": [{"name": "blue", "namespaces": ["a,b"]}], "devicePlugin": {"enabled": True}},
     "tenants.0.namespaces.0"),
    ({"tenants": [{"name": "blue", "namespaces": ["team-a"]}]},
     "blue has namespaces, which nothing checks: set devicePlugin.enabled"),
    ({"devicePlugin": {"domain": "Simm.io"}}, "devicePlugin.domain"),
    ({"devicePlugin": {"domain": "simm.kubernetes.io"}}, "devicePlugin.domain"),
    ({"devicePlugin": {"domain": "a..b"}}, "devicePlugin.domain"),
    ({"devicePlugin": {"enginesMax": 0}}, "devicePlugin.enginesMax"),
    ({"devicePlugin": {"kubeletDirectory": "/var/../x"}}, "devicePlugin.kubeletDirectory"),
    ({"node": {"hostPath": "/run/../etc"}}, "node.hostPath"),
    ({"node": {"hostPath": "run/simm"}}, "node.hostPath"),
    ({"cluster": {"secretName": ""}}, "cluster.secretName"),
    ({"cluster": {"name": "a b"}}, "cluster.name"),
    ({"rdma": {"mode": "off"}}, "rdma.mode"),
    ({"seccomp": {"type": "Unconfined"}}, "seccomp.type"),
    ({"seccomp": {"localhostProfile": "../../x.json"}}, "seccomp.localhostProfile"),
    ({"metrics": {"port": 80}}, "metrics.port"),
    ({"image": {"digest": "sha256:12"}}, "image.digest"),
    ({"replicas": 3}, "replicas"),
)


class Values(unittest.TestCase):
    def test_what_is_outside_the_schema_is_refused_with_its_place(self):
        for renderer in filter(None, (RENDERER, HELM)):
            for values, words in REFUSED:
                with self.assertRaises(Refused, msg=str(values)) as refused:
                    renderer.render(values)
                self.assertRegex(str(refused.exception), words)

    def test_the_schema_describes_every_value(self):
        """A default that the schema does not know, or the other way round, is a forgotten one."""
        def walk(schema, values, where):
            known = schema["properties"]
            for key in set(known) ^ set(values):
                if (where, key) != ("", "global"):
                    self.fail(f"{where}{key} is only in one of values.yaml and its schema")
            for key, value in values.items():
                if isinstance(value, dict) and "properties" in known[key]:
                    walk(known[key], value, f"{where}{key}.")
        walk(json.loads((CHART / "values.schema.json").read_text()),
             yaml.safe_load((CHART / "values.yaml").read_text()), "")

    def test_further_keys_are_those_of_simmd(self):
        known = json.loads((ROOT / "config" / "simm.schema.json").read_text())["properties"]
        schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
        for component in ("manager", "storage", "node"):
            extra = schema[component]["properties"]["extra"]
            self.assertEqual(extra["propertyNames"]["enum"], sorted(known), component)


class Chart(unittest.TestCase):
    def test_it_has_the_version_of_simm(self):
        header = (ROOT / "ipc" / "include" / "simm" / "version.h").read_text()
        version = re.search(r'SIMM_VERSION_STRING "(.*)"', header).group(1)
        about = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((about["appVersion"], about["version"]), (version, version))

    def test_the_profile_of_seccomp_allows_and_refuses(self):
        profile = json.loads((CHART / "files" / "seccomp.json").read_text())
        self.assertEqual(profile["defaultAction"], "SCMP_ACT_ERRNO")
        allowed = [name for rule in profile["syscalls"] for name in rule["names"]]
        self.assertEqual(allowed, sorted(set(allowed)))
        for name in ("io_uring_setup", "memfd_create", "futex"):
            self.assertIn(name, allowed)
        for name in ("ptrace", "mount", "setns", "unshare", "bpf", "kexec_load", "init_module",
                     "process_vm_readv", "perf_event_open", "keyctl", "open_by_handle_at"):
            self.assertNotIn(name, allowed)


class Mutants(unittest.TestCase):
    """The chart, broken once for each policy: the policy has to see it."""

    def test_each_policy_has_one(self):
        self.assertEqual({m["policy"] for m in MUTANTS}, set(policies.POLICIES))

    def test_each_is_seen(self):
        for number, mutant in enumerate(MUTANTS):
            folder = SCRATCH / "mutant"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(CHART, folder)
            path = folder / mutant["file"]
            text = path.read_text()
            self.assertIn(mutant["old"], text, f"mutant {number} does not apply any more")
            path.write_text(text.replace(mutant["old"], mutant["new"]))
            given = SETS[mutant.get("values", "defaults")]
            found = broken(Objects(RENDERER.render(given, folder)),
                           chart.check_values(given, folder))
            self.assertIn(mutant["policy"], found, f"mutant {number}, {mutant}, is not seen")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if LACKS:
        print(f"SKIPPED: not installed: {', '.join(LACKS)} (scripts/install_packages.sh)")
        sys.exit(77)
    BIN, SCRATCH = arguments.bin, arguments.scratch
    RENDERER = chart.Renderer(chart.build_renderer(SCRATCH), SCRATCH)
    HELM = chart.find_helm(SCRATCH)
    if HELM is None:
        print("helm SKIPPED: it is not installed; the chart was rendered by render.go alone")
    unittest.main(argv=sys.argv[:1])
