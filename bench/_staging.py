"""What interfaces on shared links tell of staged contributions."""

from multitree.nic.driver.registers import ADDRESS
from multitree.sim.emulator.accesses import EmulatedBus
from multitree.sim.rtl.session import RtlSession


def num_staged(session: RtlSession) -> int:
    """Contributions staged since reset, at all ranks; a DeviceError on direct links."""
    ranks = range(session.network.topology.num_ranks)
    return sum(EmulatedBus(session.network, rank).read(ADDRESS["STAGED"]) for rank in ranks)
