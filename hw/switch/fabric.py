"""The middle of a switch: messages from its inputs to its outputs."""

from functools import partial

from amaranth import Cat, Const, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw.arbiter import AGE, Ages
from multitree.hw.codes import PORT_WIDTH, check_integer
from multitree.hw.component import add_instances
from multitree.hw.link.link import unit_layout, vc_unit_layout
from multitree.hw.switch.input import SwitchInput
from multitree.hw.switch.output import SwitchOutput
from multitree.hw.twins import Twins

__all__ = ["SwitchFabric"]


class SwitchFabric(wiring.Component):
    """Joins an input per port and virtual channel with an output per port.

    A route is a list of hops of 6 bits, output port (5) and virtual channel class (1), the next one
    lowest; the fabric takes one off. A message leaves on twice the class plus the parity of the
    channel it came on, and holds that from head to tail (`SwitchInput`); channels share the output
    flit by flit, the one with the oldest message first. What waits holds up what comes behind it on
    its own channel, and nothing else. Heads that ask for one channel get it by age (`OldestFirst`).

    Latency 1 cycle from `i` to `flits`; one flit per cycle, input and output. Messages on one
    channel of an input are at least a cycle apart, which other channels can use.

    Parameters
    ----------
    num_ports, num_vcs, flit_bytes, route_offset, num_hops, sequence_offset, step_offset : int
        As of `Switch`.
    has_twins : bool
        Registers of inputs and outputs have twins (`hw.twins`).

    Members
    -------
    i : In(stream.Signature(StructLayout)), one per port and virtual channel, port by port
        Flits that came in: `kind` and `payload`.
    lost : In(num_ports)
        Strobe per port: its link goes down, or is at fault; what came in over it ends.
    gone : In(num_ports)
        Per port: its link was up and is not; what is to leave there ends.
    may_send : In(num_vcs), one per port
        Per virtual channel: a flit of it may leave.
    take : Out(num_ports)
        Per port: a flit leaves.
    flits : Out(StructLayout), one per port
        That flit: `kind`, `vc` and `payload`.
    route_errors, framing_errors : Out(num_ports)
        Strobe per port: a head came in whose route leads nowhere, a flit out of place.
    lost_messages : Out(num_ports)
        Strobe per port: a message ended since this port's link is lost.
    state_errors : Out(num_ports)
        Strobe per port: bits of its input's or its output's registers have flipped.

    References
    ----------
    W. J. Dally, C. L. Seitz, "Deadlock-Free Message Routing in Multiprocessor Interconnection
    Networks", IEEE Transactions on Computers C-36(5), 1987.
    """

    def __init__(
        self,
        *,
        num_ports: int,
        num_vcs: int,
        flit_bytes: int,
        route_offset: int,
        num_hops: int,
        sequence_offset: int,
        step_offset: int,
        has_twins: bool = False,
    ):
        self.num_ports = check_integer("Ports", num_ports, least=2, most=1 << PORT_WIDTH)
        if num_vcs not in (2, 4):
            raise ValueError(f"VCs of a switch must be 2 or 4, not {num_vcs!r}")
        self.num_vcs = num_vcs
        self._age_offsets = {"sequence": sequence_offset, "step": step_offset}
        for name, offset in self._age_offsets.items():
            most = 8 * flit_bytes - AGE[name].width
            check_integer(f"{name.capitalize()} offset", offset, least=0, most=most)
        route = {"route_offset": route_offset, "num_hops": num_hops}
        sizes = {"num_vcs": num_vcs, "flit_bytes": flit_bytes}
        self._inputs = [
            SwitchInput(num_ports=num_ports, port=port, vc=vc, **sizes, **route)
            for port in range(num_ports)
            for vc in range(num_vcs)
        ]
        others = (num_ports - 1) * num_vcs
        self._new_output = partial(SwitchOutput, num_inputs=others, **sizes, has_twins=has_twins)
        flits = stream.Signature(unit_layout(flit_bytes=flit_bytes))
        self.flit_bytes, self.route_offset, self.num_hops, self.sequence_offset = (
            flit_bytes,
            route_offset,
            num_hops,
            sequence_offset,
        )
        self.step_offset, self.has_twins = step_offset, has_twins
        super().__init__(
            {
                "i": In(flits).array(num_ports * num_vcs),
                "lost": In(num_ports),
                "gone": In(num_ports),
                "may_send": In(num_vcs).array(num_ports),
                "take": Out(num_ports),
                "flits": Out(vc_unit_layout(**sizes)).array(num_ports),
                "route_errors": Out(num_ports),
                "framing_errors": Out(num_ports),
                "lost_messages": Out(num_ports),
                "state_errors": Out(num_ports),
            }
        )

    def elaborate(self, platform):
        m = Module()
        older, ages = self._compare_ages(m)
        flipped: list[list] = [[] for _ in range(self.num_ports)]
        for number, end in enumerate(self._inputs):
            port, vc = divmod(number, self.num_vcs)
            flipped[port].append(end.state_error)
            block = Twins(end) if self.has_twins else end
            flipped[port] += [block.state_error] * self.has_twins
            m.submodules[f"input_{port}_{vc}"] = block
            wiring.connect(m, wiring.flipped(self.i[number]), end.i)
            m.d.comb += [end.gone.eq(self.gone), end.lost.eq(self.lost[port])]
            with m.If(end.message_lost):
                m.d.comb += self.lost_messages.bit_select(end.lost_port, 1).eq(1)
        outputs = add_instances(m, platform, "output", self.num_ports, self._new_output)
        for number, output in enumerate(outputs):
            ends = self._inputs[number * self.num_vcs : (number + 1) * self.num_vcs]
            m.d.comb += [
                output.gone.eq(self.gone[number]),
                output.may_send.eq(self.may_send[number]),
                self.take[number].eq(output.take),
                self.flits[number].eq(output.flit),
                self.state_errors[number].eq(Cat(*flipped[number], output.state_error).any()),
                self.route_errors[number].eq(Cat(end.route_error for end in ends).any()),
                self.framing_errors[number].eq(Cat(end.framing_error for end in ends).any()),
            ]
            self._cross(m, number, output, older, ages)
        return m

    def _compare_ages(self, m):
        """Per input: the inputs of its parity with older heads, a bit for each; and its age."""
        # A message keeps its parity: heads of different ones never ask for the same channel.
        count = len(self._inputs) // 2
        parities = [Ages(count=count) for _ in range(2)]
        m.submodules.ages_even, m.submodules.ages_odd = parities
        older, ages = [], []
        for number, end in enumerate(self._inputs):
            compared = parities[number % 2]
            head = end.i.payload.payload
            ages.append(compared.ages[number // 2])
            for name, offset in self._age_offsets.items():
                field = ages[-1][name]
                m.d.comb += field.eq(head[offset : offset + len(field)])
            mine = compared.older[number // 2]
            bits = range(len(self._inputs))
            older.append([mine[k // 2] if k % 2 == number % 2 else Const(0) for k in bits])
        return older, ages

    def _cross(self, m, number, output, older, ages):
        """Join an output with the inputs of all other ports."""
        # Leaving out a whole port keeps even places for even channels, as `SwitchOutput` has them.
        others = [k for k in range(len(self._inputs)) if k // self.num_vcs != number]
        for place, k in enumerate(others):
            end = self._inputs[k]
            asks = end.request & (end.to_port == number)
            m.d.comb += [
                output.requests[place].eq(Mux(asks, 1 << end.to_vc, 0)),
                output.older[place].eq(Cat(older[k][other] for other in others)),
                output.ages[place].eq(ages[k]),
                output.valid[place].eq(end.o.valid),
                output.flits[place].eq(end.o.payload),
                output.drops[place].eq(end.drops),
            ]
            with m.If(output.granted[place]):
                m.d.comb += end.granted.eq(1)
            with m.If(output.taken[place]):
                m.d.comb += end.o.ready.eq(1)
