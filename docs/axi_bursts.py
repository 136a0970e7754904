"""What the AXI4 managers of the memory side put on their buses, in simulation."""

from amaranth.sim import Simulator

from multitree.hw.axi.bursts import AxiReader, AxiWriter

SIZES = {"address_width": 12, "flit_bytes": 16, "depth": 32}
NUM_CYCLES = 26
FIRST_FLIT, NUM_FLITS = 16, 6
LATENCY_CYCLES = 4
# The subordinate pauses in these cycles, to show who waits.
ADDRESS_PAUSES, DATA_PAUSES = (8, 9), (13, 14)


def simulate(manager, host, subordinate):
    """Run a manager between a host and a subordinate; returns every port's values by cycle.

    `host` and `subordinate` are called in each cycle with the values of the cycle before, and
    return what to set for it: a dict of port and value.
    """
    ports = {"_".join(map(str, path)): port for path, _, port in manager.signature.flatten(manager)}
    values = {name: [] for name in ports}

    async def bench(ctx):
        seen = dict.fromkeys(ports, 0)
        for cycle in range(NUM_CYCLES):
            for name, value in (host(cycle, seen) | subordinate(cycle, seen)).items():
                ctx.set(ports[name], value)
            _, _, *sampled = await ctx.tick().sample(*ports.values())
            seen = dict(zip(ports, sampled, strict=True))
            for name, value in seen.items():
                values[name].append(value)

    simulator = Simulator(manager)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return values


class Host:
    """Asks for consecutive flits, one per cycle."""

    def __init__(self, *, writes):
        self._writes = writes
        self._next = 0

    def __call__(self, cycle, seen):
        """The channel's request; a flit is taken when valid met ready."""
        self._next += bool(seen["channel_valid"] and seen["channel_ready"])
        asks = cycle >= 2 and self._next < NUM_FLITS
        values = {"channel_valid": int(asks), "channel_address": FIRST_FLIT + self._next}
        return values | ({"channel_data": 0x100 + self._next} if self._writes else {})


class ReadSubordinate:
    """Takes a burst, and sends its beats some cycles later."""

    def __init__(self):
        self._beats = []

    def __call__(self, cycle, seen):
        """AR ready but for a pause; R valid but for another."""
        if seen["bus_arvalid"] and seen["bus_arready"]:
            first, count = seen["bus_araddr"] // SIZES["flit_bytes"], seen["bus_arlen"] + 1
            beats = [(first + k, k == count - 1) for k in range(count)]
            self._beats += [(cycle + LATENCY_CYCLES, *beat) for beat in beats]
        values = {"bus_arready": int(cycle not in ADDRESS_PAUSES), "bus_rvalid": 0}
        if self._beats and self._beats[0][0] <= cycle and cycle not in DATA_PAUSES:
            _, flit, last = self._beats.pop(0)
            values |= {"bus_rvalid": 1, "bus_rdata": 0x100 + flit - FIRST_FLIT, "bus_rlast": last}
        else:
            values |= {"bus_rdata": 0, "bus_rlast": 0}
        return values


class WriteSubordinate:
    """Takes bursts, and answers each some cycles after its last beat."""

    def __init__(self):
        self._due = []

    def __call__(self, cycle, seen):
        """AW and W ready but for their pauses; B once per burst."""
        if seen["bus_wvalid"] and seen["bus_wready"] and seen["bus_wlast"]:
            self._due.append(cycle + LATENCY_CYCLES)
        if seen["bus_bvalid"] and seen["bus_bready"]:
            self._due.pop(0)
        return {
            "bus_awready": int(cycle not in ADDRESS_PAUSES),
            "bus_wready": int(cycle not in DATA_PAUSES),
            "bus_bvalid": int(bool(self._due) and self._due[0] <= cycle),
        }


def bus(values):
    """The bus alone, under the names of the standard."""
    mark = "bus_"
    return {n.removeprefix(mark): shown for n, shown in values.items() if n.startswith(mark)}


def read_burst():
    """Bus of a manager that reads six flits."""
    return bus(simulate(AxiReader(**SIZES), Host(writes=False), ReadSubordinate()))


def write_burst():
    """Bus of a manager that writes six flits."""
    return bus(simulate(AxiWriter(**SIZES), Host(writes=True), WriteSubordinate()))
