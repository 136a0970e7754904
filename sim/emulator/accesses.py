"""Register accesses to a network: waits for its links, and the bus of one rank."""

from multitree.hw.codes import PERIOD_CYCLES
from multitree.nic.driver.commands import HostOp
from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.registers import ADDRESS
from multitree.sim.emulator.network import Network

__all__ = ["EmulatedBus", "await_idle_links", "await_links"]

_READ_CYCLES = 32


def await_links(network: Network) -> None:
    """Let the network run until all links are up, its hosts doing nothing else. Raises DeviceError
    that names rank or switch, and port, if one is not after `network.link_up_cycles`.
    """
    topology, first_cycle = network.topology, network.cycle
    ranks = range(topology.num_ranks)
    wired = [sum(1 << p for p in topology.link_ports[topology.ports(rank)]) for rank in ranks]
    while True:
        for rank in ranks:
            network.set_script(rank, [HostOp.read(ADDRESS["LINKS"])])
        network.run(_READ_CYCLES)
        ups = [int(network.results(rank)["value"][0]) for rank in ranks]
        downs = [("Rank", ports & ~up) for ports, up in zip(wired, ups, strict=True)]
        downs += [("Switch", ports) for ports in network.switches_down()]
        down = [(kind, node, ports) for node, (kind, ports) in enumerate(downs) if ports]
        if not down:
            return
        kind, node, ports = down[0]
        if (cycles := network.cycle - first_cycle) > network.link_up_cycles:
            where = f"{kind} {node}, port {(ports & -ports).bit_length() - 1}"
            raise DeviceError(f"{where}: link is not up after {cycles} cycles")


def await_idle_links(network: Network) -> None:
    """Let the network run, its links up and hosts idle, until its links are free and carry nothing.
    On a link with less than a flit per period of its handshake control flits queue up.
    """
    # Ends that are up answer an INIT that comes in within a period, and an UP not at all: behind
    # the second wait nothing is left.
    for _ in range(2):
        rest = network.links_idle_from + PERIOD_CYCLES - network.cycle
        if rest <= 0:
            return
        for rank in range(network.topology.num_ranks):
            network.set_script(rank, [HostOp.wait(rest)])
        network.run(rest + 1)


ACCESS_CYCLES = 1000


class EmulatedBus:
    """A `Bus` on one rank of a network in RTL; while it is used, time passes for all ranks.
    Accesses raise DeviceError if the interface refuses them or does not answer.
    """

    def __init__(self, network: Network, rank: int) -> None:
        self._network = network
        self._rank = rank

    def write(self, address: int, value: int) -> None:
        """Write 32 bits to a byte address."""
        self._access(HostOp.write(address, value))

    def read(self, address: int) -> int:
        """Read 32 bits from a byte address."""
        return self._access(HostOp.read(address))

    def wait_interrupt(self, timeout_cycles: int) -> bool:
        """Wait until the interrupt is high; False if it is not after so many cycles."""
        return self._network.access(self._rank, HostOp.wait_irq(), timeout_cycles) is not None

    def _access(self, op: HostOp) -> int:
        value = self._network.access(self._rank, op, ACCESS_CYCLES)
        if value is None:
            raise DeviceError(f"Rank {self._rank}: no answer from register {op.address:#x}")
        if self._network.results(self._rank)["response"][0]:
            raise DeviceError(f"Rank {self._rank}: refused access to register {op.address:#x}")
        return value
