"""Properties of the guard: memory sees no access outside the window."""

from amaranth import Cat, Mux, Signal

from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import Awaited, FaultCode
from multitree.nic.top.port import MemoryGuard
from tests.formal.bench import holds

_CHANNELS = ("send", "fetch", "write")


@holds("guard.window", {"address_width": 4}, {"address_width": 8}, {"address_width": 24})
def window(bench, *, address_width):
    """No address outside the window passes, and each is a fault a cycle later; all others pass."""
    m = bench.m
    config = Config(address_width=address_width, flit_bytes=8)
    m.submodules.block = block = MemoryGuard(config)
    base = bench.free("window_base", address_width)
    flits = bench.free("window_flits", address_width)
    m.d.comb += [block.run.window_base.eq(base), block.run.window_flits.eq(flits)]
    # A new window holds from the next cycle on: only where it stands still is it looked at.
    old_base, old_flits = bench.past(base), bench.past(flits)
    still = (base == old_base) & (flits == old_flits) & bench.past(1)
    end = bench.past((base + flits)[: address_width + 1])
    outside, errors, reached = [], [], []
    for name in _CHANNELS:
        inner, outer = getattr(block.inner, name), getattr(block.outer, name)
        asks, address = bench.free(f"{name}_asks"), bench.free(f"{name}_address", address_width)
        takes, error = bench.free(f"{name}_takes"), bench.free(f"{name}_error")
        back = "ack" if name == "write" else "data_valid"
        answers = bench.free(f"{name}_answers")
        m.d.comb += [inner.valid.eq(asks), inner.address.eq(address)]
        m.d.comb += [outer.ready.eq(takes), outer.error.eq(error)]
        m.d.comb += getattr(outer, back).eq(answers)
        inside = Signal(name=f"{name}_is_inside")
        m.d.comb += inside.eq((address >= base) & (address < end))
        bench.check(~still | ~outer.valid | inside)
        bench.check(~still | ~inside | (Cat(outer.valid, inner.ready) == Cat(asks, takes)))
        bench.check(~(inner.ready & inner.valid) | (outer.valid & outer.ready))
        bench.check((outer.address == address) & (getattr(inner, back) == answers))
        bench.check(inner.error == error)
        # A fault now, whether or not the window that it was outside of still stands.
        outside.append(bench.past(asks & ~inside))
        errors.append(error)
        reached.append(outer.valid & (address + 1 == end))
    # An error of memory goes before what is outside; of either, a write before reads.
    error, strobes = Cat(errors).any(), Mux(Cat(errors).any(), Cat(errors), Cat(outside))
    code = Mux(error, FaultCode.MEMORY_ERROR, FaultCode.OUT_OF_WINDOW)
    kind = Mux(strobes[-1], Awaited.MEMORY_WRITE, Awaited.MEMORY_READ)
    bench.check(block.fault == Mux(strobes.any(), code, 0))
    bench.check(~strobes.any() | (block.awaited == kind))
    bench.cover("last", still & Cat(reached).all() & (flits > 3))
    bench.cover("fault", ~error & block.fault.any())
    bench.cover("both", error & Cat(outside).any())
