"""Checks objects against the types of the Kubernetes API, as its Python client has them.

The client's classes are generated from the API's own description. Each knows the names, the types
and the required fields of a kind. The client itself ignores names that it does not know; this is
strict about them.
"""
import re

from kubernetes.client import models

KINDS = {
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "Service"): "V1Service",
    ("v1", "Pod"): "V1Pod",
    ("apps/v1", "DaemonSet"): "V1DaemonSet",
    ("apps/v1", "StatefulSet"): "V1StatefulSet",
    ("policy/v1", "PodDisruptionBudget"): "V1PodDisruptionBudget",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
}
# Kinds of others than Kubernetes itself: the policies look at their fields.
FOREIGN = {("monitoring.coreos.com/v1", "PodMonitor")}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}
NAME = re.compile(r"^[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$")
LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


def check(thing):
    """Yields what is wrong with an object, each with its place."""
    kind = thing.get("apiVersion"), thing.get("kind")
    where = f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
    if kind in FOREIGN:
        return
    if kind not in KINDS:
        yield f"{where}: no kind {kind} is known here"
        return
    if not NAME.match(thing["metadata"]["name"]):
        yield f"{where}: metadata.name is no name of an object"
    for name, value in thing["metadata"].get("labels", {}).items():
        if not LABEL_VALUE.match(str(value)):
            yield f"{where}: metadata.labels.{name} = {value!r} is no value of a label"
    yield from of_type(thing, KINDS[kind], where)


def of_type(value, wanted, where):
    """Yields where `value` is not of the type that the client's classes name."""
    if value is None:
        yield f"{where}: is empty"
    elif wanted == "object":  # an integer or a string, as of ports
        if not isinstance(value, (int, str)):
            yield f"{where}: {value!r} is neither a number nor a text"
    elif wanted in PLAIN:
        is_bool = isinstance(value, bool)
        if not isinstance(value, PLAIN[wanted]) or is_bool != (wanted == "bool"):
            yield f"{where}: {value!r} is no {wanted}"
    elif wanted.startswith("list["):
        if not isinstance(value, list):
            yield f"{where}: is no list"
            return
        for index, item in enumerate(value):
            yield from of_type(item, wanted[5:-1], f"{where}[{index}]")
    elif wanted.startswith("dict("):
        if not isinstance(value, dict):
            yield f"{where}: is no map"
            return
        for key, item in value.items():
            yield from of_type(item, wanted[5:-1].split(", ", 1)[1], f"{where}.{key}")
    else:
        yield from of_class(value, getattr(models, wanted), where)




def of_class(value, kind, where):
    if not isinstance(value, dict):
        yield f"{where}: is no map"
        return
    names = {given: attribute for attribute, given in kind.attribute_map.items()}
    for given, item in value.items():
        if given not in names:
            yield f"{where}.{given}: {kind.__name__} has no such field"
            continue
        yield from of_type(item, kind.openapi_types[names[given]], f"{where}.{given}")
    try:
        kind(**{names[given]: item for given, item in value.items() if given in names})
    except ValueError as missing:
        yield f"{where}: {missing}"
