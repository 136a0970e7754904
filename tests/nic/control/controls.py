"""A control with a checker and a fetcher that take some cycles, for tests."""

from functools import cache, partial

from multitree.nic.control.collective import Control
from tests.hw.streams import put, simulation_of
from tests.nic.blocks import SMALL

CHECK_CYCLES, FETCH_CYCLES = 12, 9
COMMANDS = ("commit", "start", "acknowledge")


class Driver:
    """Clocks a control with a checker and a fetcher that take some cycles."""

    def __init__(self, ctx, block, num_arrivals=0, first_sequence=0):
        self.ctx, self.block = ctx, block
        self._checking = self._fetching = 0
        self.events = []
        self.faults = []
        self.banks = []  # that were active at each launch
        self.refused = 0
        put(ctx, block, legal=1, num_arrivals=num_arrivals, first_sequence=first_sequence)

    @property
    def launches(self):
        """Collectives launched."""
        return self.events.count("launch")

    async def tick(self, arrived=0, **values):
        """One cycle with these commands and states; the rest is quiet."""
        ctx, block = self.ctx, self.block
        put(ctx, block, **dict.fromkeys(COMMANDS, 0) | values, arrived=arrived)
        # The counts are cleared while the table is checked, and may take longer.
        put(ctx, block, clearing=self._checking > 0, checking=self._checking > 4)
        put(ctx, block, fetching=self._fetching > 0, refused=self.refused)
        names = ("check", "swap", "refuse", "launch")
        _, _, fault, bank, *strobes = await ctx.tick().sample(
            block.fault, block.bank, *(getattr(block, name) for name in names)
        )
        happened = [name for name, strobe in zip(names, strobes, strict=True) if strobe]
        assert not {"swap", "refuse"} <= set(happened)
        assert not {"swap", "launch"} <= set(happened)
        self.events += happened
        self.faults += [fault] if fault else []
        self.banks += [bank] if "launch" in happened else []
        self._fetching = FETCH_CYCLES if "launch" in happened else max(self._fetching - 1, 0)
        self._checking = CHECK_CYCLES if "check" in happened else max(self._checking - 1, 0)
        put(ctx, block, clearing=self._checking > 0, fetching=self._fetching > 0, arrived=0)
        put(ctx, block, checking=self._checking > 4, **dict.fromkeys(COMMANDS, 0))

    async def idle(self, cycles=40):
        """Let cycles pass."""
        for _ in range(cycles):
            await self.tick()

    def get(self, *names):
        """Outputs by name, in the middle of a cycle."""
        values = tuple(self.ctx.get(getattr(self.block, name)) for name in names)
        return values if len(values) > 1 else values[0]


the_control = cache(Control)


def scenario(config=SMALL, **settings):
    """A test that is an async function of a driver of a control."""
    return simulation_of(lambda: the_control(config), partial(Driver, **settings))


async def committed(nic):
    """Commit, and wait for the swap."""
    await nic.tick(commit=1)
    await nic.idle(CHECK_CYCLES + 3)
