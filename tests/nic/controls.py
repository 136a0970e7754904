"""A control beside a fetcher that takes some cycles, for tests."""

from multitree.nic.control import Control
from tests.hw.streams import run
from tests.nic.blocks import SMALL, put

CHECK_CYCLES, FETCH_CYCLES = 12, 9
COMMANDS = ("commit", "start", "acknowledge", "invalidate")


class Driver:
    """Clocks a control beside a fetcher that takes some cycles for a check and for a run."""

    def __init__(self, ctx, block, num_arrivals=0):
        self.ctx, self.block = ctx, block
        self._fetching = 0
        self.launches = self.checks = 0
        self.faults = []
        put(ctx, block, legal=1, num_arrivals=num_arrivals)

    async def tick(self, arrived=0, **values):
        """One cycle with these commands and states; the rest is quiet."""
        ctx, block = self.ctx, self.block
        put(ctx, block, **dict.fromkeys(COMMANDS, 0) | values, arrived=arrived)
        put(ctx, block, fetching=self._fetching > 0, clearing=self._fetching > 4)
        _, _, check, launch, fault = await ctx.tick().sample(block.check, block.launch, block.fault)
        assert not (check and launch)
        self.checks += check
        self.launches += launch
        self.faults += [fault] if fault else []
        self._fetching = max(self._fetching - 1, 0)
        if check or launch:
            self._fetching = CHECK_CYCLES if check else FETCH_CYCLES
        put(ctx, block, **dict.fromkeys(COMMANDS, 0), fetching=self._fetching > 0, arrived=0)

    async def idle(self, cycles=40):
        """Let cycles pass."""
        for _ in range(cycles):
            await self.tick()

    def get(self, *names):
        """Outputs by name, in the middle of a cycle."""
        values = tuple(self.ctx.get(getattr(self.block, name)) for name in names)
        return values if len(values) > 1 else values[0]


def scenario(steps, **settings):
    """Run an async function of a driver."""
    block = Control(SMALL)

    async def drive(ctx):
        await steps(Driver(ctx, block, **settings))

    run(block, drive)


async def committed(nic):
    """Commit, and wait for the check."""
    await nic.tick(commit=1)
    await nic.idle(CHECK_CYCLES + 2)
