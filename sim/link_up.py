"""Waits until every link of a network in RTL is up at both ends."""

from multitree.nic.faults import DeviceError
from multitree.nic.registers import ADDRESS
from multitree.sim.host_op import HostOp
from multitree.sim.network import Network

__all__ = ["await_links"]

_READ_CYCLES = 32


def await_links(network: Network) -> None:
    """Let the network run until all links are up; a rank's links are its lowest ports.

    Parameters
    ----------
    network : Network
        Its hosts do nothing else in the meantime.

    Raises
    ------
    DeviceError
        If a link is not up after `network.link_up_cycles`; names rank and port.
    """
    first_cycle, ranks = network.cycle, range(network.topology.num_ranks)
    while True:
        for rank in ranks:
            network.set_script(rank, [HostOp.read(ADDRESS["LINKS"])])
        network.run(_READ_CYCLES)
        down = [
            (rank, port)
            for rank in ranks
            for port in range(int(network.topology.degree[rank]))
            if not int(network.results(rank)["value"][0]) >> port & 1
        ]
        if not down:
            return
        cycles = network.cycle - first_cycle
        if cycles > network.link_up_cycles:
            rank, port = down[0]
            raise DeviceError(f"Rank {rank}, port {port}: link is not up after {cycles} cycles")
