"""TCP ports of loopback that are free now, and that no outgoing connection will take: below the
ports that the kernel gives to those. For servers that are told their port before they start."""
import pathlib
import random
import socket

LEAST = 10_000


def free_ports(count):
    """Different ones: each is held until the last one is found."""
    outgoing = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    above = int(outgoing.split()[0])
    assert above > LEAST + 1000, f"ip_local_port_range begins at {above}: no room below"
    held = []
    try:
        while len(held) < count:
            probe = socket.socket()
            try:
                probe.bind(("127.0.0.1", random.SystemRandom().randrange(LEAST, above)))
                held.append(probe)
            except OSError:
                probe.close()
        return [probe.getsockname()[1] for probe in held]
    finally:
        for probe in held:
            probe.close()


def free_port():
    return free_ports(1)[0]
