"""Access to the registers of one interface of an emulated network."""

from multitree.nic.driver.commands import HostOp
from multitree.nic.driver.faults import DeviceError
from multitree.sim.emulator.network import Network

__all__ = ["EmulatedBus"]

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
