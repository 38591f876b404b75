"""What the controller of a StatefulSet does with its pods: more of them, fewer, others one by one.

By the policy OrderedReady pods come and go one after the other, and one has to be ready, or gone,
before the next one. By Parallel they do that at once. An update is always ordered, the highest
number first.
"""
from concurrent import futures

from chart import CHART
from pods import Pod


class StatefulSet:
    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.pods = [pod for _, pod in sorted(cluster.pods.items())
                     if pod.owner["metadata"]["name"] == name]
        host = next(h for h in cluster.hosts if h.startswith(f"{name}-0."))
        self.domain = host.split(".", 1)[1]

    def make(self, number):
        """A new pod, with an address that no pod had before."""
        owner = self.cluster.objects.by_key["StatefulSet", self.name]
        name = f"{self.name}-{number}"
        pod = Pod(self.cluster.machine, owner, owner["spec"]["template"]["spec"], name,
                  self.cluster.objects, CHART / "files" / "seccomp.json")
        self.cluster.pods[name] = pod
        self.cluster.hosts[f"{name}.{self.domain}"] = pod.address
        for other in self.cluster.pods.values():
            if other.running is not None:
                other.update_hosts(self.cluster.hosts)
        pod.start(self.cluster.hosts, self.cluster.secrets)
        return pod

    def scale(self, count):
        """As kubectl scale does; what end() says of each pod that goes."""
        owner = self.cluster.objects.by_key["StatefulSet", self.name]
        is_ordered = owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        going = self.pods[:count - len(self.pods) - 1:-1] if count < len(self.pods) else []
        with futures.ThreadPoolExecutor(1 if is_ordered else len(self.pods)) as pool:
            said = list(pool.map(lambda pod: pod.end(), going))
        for pod in going:
            del self.cluster.pods[pod.name]
        self.pods = self.pods[:count]
        for number in range(len(self.pods), count):
            self.pods.append(self.make(number))
            if is_ordered:
                self.wait_until_ready()
        self.wait_until_ready()
        return said

    def update(self, objects):
        """As helm upgrade does with another template."""
        self.cluster.objects = objects
        said = []
        for number in reversed(range(len(self.pods))):
            said.append(self.pods[number].end())
            self.pods[number] = self.make(number)
            self.wait_until_ready()
        return said

    def wait_until_ready(self):
        for pod in self.pods:
            pod.wait_until("readinessProbe")
