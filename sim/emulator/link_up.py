"""Waits until every link of a network in RTL is up at both ends."""

from multitree.nic.faults import DeviceError
from multitree.nic.registers import ADDRESS
from multitree.sim.emulator.network import HostOp, Network

__all__ = ["await_links"]

_READ_CYCLES = 32


def await_links(network: Network) -> None:
    """Let the network run until all links are up.

    Parameters
    ----------
    network : Network
        Its hosts do nothing else in the meantime.

    Raises
    ------
    DeviceError
        If a link is not up after `network.link_up_cycles`; names rank or switch, and port.
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
        cycles = network.cycle - first_cycle
        if cycles > network.link_up_cycles:
            kind, node, ports = down[0]
            where = f"{kind} {node}, port {(ports & -ports).bit_length() - 1}"
            raise DeviceError(f"{where}: link is not up after {cycles} cycles")
