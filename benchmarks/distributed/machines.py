"""Machines made of network namespaces of this one: joined by links of limited bandwidth, latency and loss, as root.

Each machine is a namespace with an interface, whose other end is a port of a bridge in a namespace of its own. Ranks
that run in them can only talk over these links: they see neither each other's memory, as MPI is told, nor a loopback
that they share. ``with Machines(...)`` removes all of it, whatever ended the block; what a killed process left behind
is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "eth0"
_PREFIX = "hbm"
_SUBNET = "10.77.0"
_NAMESPACES = Path("/run/netns")
_RELAY = Path(__file__).with_name("delayed_links.py")
_PACKET = 1 << 14  # bytes that the kernel hands to an interface as one, to be cut into frames

# By the transport of MPICH: what makes ranks of one machine talk over its interface.
TRANSPORTS: dict[str, dict[str, str]] = {
    "ucx": {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": INTERFACE},
    "ofi": {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": INTERFACE},
}
# A rank's shell: in a namespace for names, too, it takes that of its machine, and goes there. When a rank has failed it
# stays for a while: mpiexec kills the others when the shell ends, before they have said why they end. For mpiexec all
# are on one machine, where each is alone.
_INSIDE = """echo "$0$PMI_RANK" > /proc/sys/kernel/hostname || exit
export MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0
trap "" USR1
ip netns exec "$0$PMI_RANK" "$@"
status=$?
[ $status = 0 ] || sleep 2
exit $status"""


@dataclass(frozen=True)
class Links:
    """What each link is limited to in each direction: 0 means no limit.

    ``gigabits`` per second, ``latency`` in microseconds, ``loss`` as a share of packets. A message crosses two links.
    """

    gigabits: float = 0.0
    latency: float = 0.0
    loss: float = 0.0


class Machines:
    """So many machines; a context manager. Machine ``k`` is the namespace ``prefix + str(k)``."""

    def __init__(self, count: int, links: Links) -> None:
        self.count, self.links = count, links
        self.prefix = f"{_PREFIX}{os.getpid()}-"
        self._bridge = f"{self.prefix}bridge"
        self._made: list[str] = []
        self._relay: subprocess.Popen[str] | None = None  # carries frames that take a while

    def __enter__(self) -> Machines:
        check()
        remove_left_behind()
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._relay is not None:
            self._relay.kill()
            self._relay.communicate()
        for name in self._made:  # interfaces and queues go with their namespaces
            _run("ip", "netns", "del", name, check=False)

    def _make(self) -> None:
        self._add(self._bridge)
        _run("ip", "-n", self._bridge, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", self._bridge, "link", "set", "br0", "up")
        if self.links.latency:
            self._start_relay()
        for k in range(self.count):
            name, port = f"{self.prefix}{k}", f"near{k}"
            self._add(name)
            if self._relay is None:
                _run("ip", "-n", self._bridge, "link", "add", port, "type", "veth", "peer", "name", f"far{k}")
            _run("ip", "-n", self._bridge, "link", "set", f"far{k}", "netns", name, "name", INTERFACE)
            _run("ip", "-n", self._bridge, "link", "set", port, "master", "br0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "address", "add", f"{self.address(k)}/24", "dev", INTERFACE)
            _run("ip", "-n", name, "link", "set", INTERFACE, "gso_max_size", str(_PACKET), "up")
            self._limit(name, INTERFACE)
            self._limit(self._bridge, port)

    def _add(self, name: str) -> None:
        self._made.append(name)
        _run("ip", "netns", "add", name)

    def _limit(self, namespace: str, interface: str) -> None:
        """Limit what an interface sends."""
        links, tc = self.links, ("tc", "-n", namespace)
        if links.gigabits:
            rate = links.gigabits * 1e9
            # What may be sent at once after a pause: a packet of the kernel's until it is cut, or 20 µs.
            burst = max(_PACKET + (1 << 12), round(rate / 8 * 20e-6))
            limits = ("tbf", "rate", f"{rate:.0f}bit", "burst", f"{burst}b", "latency", "50ms")
            _run(*tc, "qdisc", "add", "dev", interface, "root", *limits)
        if links.loss:
            self._lose(namespace, interface)

    def _start_relay(self) -> None:
        # Each message crosses two links; half of the latency is of each.
        arguments = str(self.count), f"{self.links.latency / 2 * 1e-6:g}"
        command = ("ip", "netns", "exec", self._bridge, sys.executable, str(_RELAY), *arguments)
        self._relay = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not (self._relay.stdout and self._relay.stdout.readline()):
            raise RuntimeError(f"{' '.join(command)}: {self._relay.communicate()[1].strip()}")

    def _lose(self, namespace: str, interface: str) -> None:
        """A filter on what comes in drops packets by a random number."""
        most = min(round(self.links.loss / 2 * 2**32), 2**32 - 1)
        # Load a random number; jump by one if it is at least `most`; 2 drops the packet, 0 lets it pass.
        program = f"4,32 0 0 {0xFFFFF000 + 56},53 1 0 {most},6 0 0 2,6 0 0 0"
        # Packets as they are on a wire: by default the kernel hands over up to 64 KiB as one.
        _run("ip", "-n", namespace, "link", "set", interface, "gso_max_segs", "1")
        _run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "clsact")
        bpf = ("bpf", "direct-action", "bytecode", program)
        _run("tc", "-n", namespace, "filter", "add", "dev", interface, "ingress", *bpf)

    @staticmethod
    def address(k: int) -> str:
        """The address of a machine."""
        return f"{_SUBNET}.{k + 1}"

    def set_link(self, k: int, state: str) -> None:
        """Take the link of a machine ``down``, or ``up`` again."""
        _run("ip", "-n", f"{self.prefix}{k}", "link", "set", INTERFACE, state)

    def on(self, k: int, *command: str) -> list[str]:
        """A command that runs on machine ``k``."""
        return ["ip", "netns", "exec", f"{self.prefix}{k}", *command]

    def ranks(self, interpreter: Path, *arguments: str, watched: bool = True) -> list[str]:
        """A command that runs a Python program as ranks, each on a machine of its own, by the interpreter's MPI.

        Those of hybridc's communicator are ``watched``: when one fails they end themselves. Others mpiexec ends.
        """
        mpiexec = interpreter.parent / "mpiexec"
        if not mpiexec.exists():
            raise FileNotFoundError(f"{mpiexec} is not there: install the package mpich for {interpreter}")
        begin = [str(mpiexec), *["-disable-auto-cleanup"] * watched, "-n", str(self.count)]
        return [*begin, "unshare", "--uts", "sh", "-c", _INSIDE, self.prefix, str(interpreter), *arguments]

    def environment(self, transport: str = "ucx", more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables with which ranks talk over the machines' links, by MPI and by Gloo."""
        gloo = {"GLOO_SOCKET_IFNAME": INTERFACE, "MASTER_ADDR": self.address(0), "MASTER_PORT": "29511"}
        mpi = {"MPIR_CVAR_NOLOCAL": "1", **TRANSPORTS[transport]}
        return {**os.environ, **gloo, **mpi, **(more or {})}


@contextlib.contextmanager
def started(command: Sequence[str], environment: Mapping[str, str]) -> Generator[subprocess.Popen[str]]:
    """A process in a group of its own, which is killed with all of its group at the end."""
    process = subprocess.Popen(
        command, env={**environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for k in _left(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(k, signal.SIGKILL)


def _left(session: int) -> list[int]:
    """The processes of a session: mpiexec gives its ranks groups of their own."""
    done = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def check() -> None:
    """RuntimeError if machines cannot be made here."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise RuntimeError("network namespaces need Linux, and to be root")
    if missing := [tool for tool in ("ip", "tc", "unshare", "ps") if shutil.which(tool) is None]:
        raise RuntimeError(f"network namespaces need the commands {', '.join(missing)} (packages iproute2, procps)")


def remove_left_behind() -> None:
    """Remove the namespaces of processes that ended without doing so."""
    for path in _NAMESPACES.glob(f"{_PREFIX}*-*"):
        process = path.name[len(_PREFIX) :].partition("-")[0]
        if process.isdigit() and not Path("/proc", process).exists():
            _run("ip", "netns", "del", path.name, check=False)


def _run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done
