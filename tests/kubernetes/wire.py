"""Messages of the kubelet's interfaces as bytes: a second statement of their fields.

simm-device-plugin has .proto files of its own. A wrong number there would be right for itself; here
the numbers stand once more, with those fields that real kubelets and plugins use as well.
"""
VERSION = "v1beta1"
REGISTER = "/v1beta1.Registration/Register"
OPTIONS = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
LIST_AND_WATCH = "/v1beta1.DevicePlugin/ListAndWatch"
ALLOCATE = "/v1beta1.DevicePlugin/Allocate"
PRE_START = "/v1beta1.DevicePlugin/PreStartContainer"
LIST_PODS = "/v1.PodResourcesLister/List"

# {message: {number: (name, type)}}; a list is a repeated field.
MESSAGES = {
    "Empty": {},
    "DevicePluginOptions": {1: ("pre_start_required", bool),
                            2: ("get_preferred_allocation_available", bool)},
    "RegisterRequest": {1: ("version", str), 2: ("endpoint", str), 3: ("resource_name", str),
                        4: ("options", "DevicePluginOptions")},
    "NUMANode": {1: ("id", int)},
    "TopologyInfo": {1: ("nodes", ["NUMANode"])},
    "Device": {1: ("id", str), 2: ("health", str), 3: ("topology", "TopologyInfo")},
    "ListAndWatchResponse": {1: ("devices", ["Device"])},
    "ContainerAllocateRequest": {1: ("devices_ids", [str])},
    "AllocateRequest": {1: ("container_requests", ["ContainerAllocateRequest"])},
    "Mount": {1: ("container_path", str), 2: ("host_path", str), 3: ("read_only", bool)},
    "DeviceSpec": {1: ("container_path", str), 2: ("host_path", str), 3: ("permissions", str)},
    "ContainerAllocateResponse": {2: ("mounts", ["Mount"]), 3: ("devices", ["DeviceSpec"])},
    "AllocateResponse": {1: ("container_responses", ["ContainerAllocateResponse"])},
    "PreStartContainerRequest": {1: ("devices_ids", [str])},
    "PreStartContainerResponse": {},
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {1: ("pod_resources", ["PodResources"])},
    "PodResources": {1: ("name", str), 2: ("namespace", str), 3: ("containers",
                                                                  ["ContainerResources"]),
                     4: ("cpu_ids", [int])},
    "ContainerResources": {1: ("name", str), 2: ("devices", ["ContainerDevices"]),
                           3: ("cpu_ids", [int])},
    "ContainerDevices": {1: ("resource_name", str), 2: ("device_ids", [str]),
                         3: ("topology", "TopologyInfo")},
}


def varint(number):
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(kind, value):
    """The bytes of a message that is given as a dict."""
    numbers = {name: (number, of) for number, (name, of) in MESSAGES[kind].items()}
    out = bytearray()
    for name, item in value.items():
        number, of = numbers[name]
        for one in item if isinstance(of, list) else [item]:
            out += field(number, of[0] if isinstance(of, list) else of, one)
    return bytes(out)


def field(number, of, value):
    if of in (int, bool):
        return varint(number << 3) + varint(int(value))
    data = value if isinstance(value, bytes) else (
        value.encode() if of is str else encode(of, value))
    return varint(number << 3 | 2) + varint(len(data)) + data


def read_varint(data, at):
    number, shift = 0, 0
    while True:
        number |= (data[at] & 0x7f) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
        shift += 7


def decode(kind, data):
    """The dict of a message; a field that the message does not have is an error."""
    value = {name: [] for name, of in MESSAGES[kind].values() if isinstance(of, list)}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        name, of = MESSAGES[kind][tag >> 3]
        inner = of[0] if isinstance(of, list) else of
        if tag & 7 == 0:
            item, at = read_varint(data, at)
            item = inner(item)
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            item, at = data[at:at + size], at + size
            item = item.decode() if inner is str else decode(inner, item)
        else:
            raise ValueError(f"{kind}.{name} has the wire type {tag & 7}")
        if isinstance(of, list):
            value[name].append(item)
        else:
            value[name] = item
    return value
