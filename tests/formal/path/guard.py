"""Properties of the guard: memory sees no access outside the window."""

from amaranth import Cat, Mux, Signal

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.top.port import MemoryGuard
from tests.formal.bench import holds, transfer

_CHANNELS = ("send", "fetch", "write")


@holds("guard.window", {"address_width": 4}, {"address_width": 8}, {"address_width": 24})
def window(m, *, address_width):
    """No address outside the window passes, and each is a fault a cycle later; all others pass."""
    config = Config(address_width=address_width, flit_bytes=8)
    m.submodules.block = block = MemoryGuard(config)
    base, flits = block.run.window_base, block.run.window_flits
    m.drive(base, flits)
    # A new window holds from the next cycle on: only where it stands still is it looked at.
    old_base, old_flits = m.past(base), m.past(flits)
    still = (base == old_base) & (flits == old_flits) & m.past(1)
    end = m.past((base + flits)[: address_width + 1])
    outside, errors, reached = [], [], []
    for name in _CHANNELS:
        inner, outer = getattr(block.inner, name), getattr(block.outer, name)
        asks, address, takes, error = inner.valid, inner.address, outer.ready, outer.error
        back = "ack" if name == "write" else "data_valid"
        answers = getattr(outer, back)
        m.drive(asks, address, takes, error, answers)
        inside = Signal(name=f"{name}_is_inside")
        m.d.comb += inside.eq((address >= base) & (address < end))
        m.check(~still | ~outer.valid | inside)
        m.check(~still | ~inside | (Cat(outer.valid, inner.ready) == Cat(asks, takes)))
        m.check(~(inner.ready & inner.valid) | transfer(outer))
        m.check((outer.address == address) & (getattr(inner, back) == answers))
        m.check(inner.error == error)
        # A fault now, whether or not the window that it was outside of still stands.
        outside.append(m.past(asks & ~inside))
        errors.append(error)
        reached.append(outer.valid & (address + 1 == end))
    # An error of memory goes before what is outside; of either, a write before reads.
    error, strobes = Cat(errors).any(), Mux(Cat(errors).any(), Cat(errors), Cat(outside))
    code = Mux(error, FaultCode.MEMORY_ERROR, FaultCode.OUT_OF_WINDOW)
    kind = Mux(strobes[-1], Awaited.MEMORY_WRITE, Awaited.MEMORY_READ)
    m.check(block.fault == Mux(strobes.any(), code, 0))
    m.check(~strobes.any() | (block.awaited == kind))
    m.cover("last", still & Cat(reached).all() & (flits > 3))
    m.cover("fault", ~error & block.fault.any())
    m.cover("both", error & Cat(outside).any())
