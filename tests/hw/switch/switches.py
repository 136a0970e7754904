"""Messages for switches, a driver of the fabric, and what has to come out."""

from amaranth import Cat

from multitree.hw.link.link import Kind
from tests.hw.streams import go, run

FLIT_BYTES, HOPS = 6, 2
LAYOUT = {"sequence_offset": 0, "step_offset": 8, "route_offset": 24, "num_hops": HOPS}
LONGEST_STALL_CYCLES = {"never": 15, "often": 60, "seldom": 30, "bursts": 120}
ERRORS = ("route_errors", "framing_errors", "lost_messages")


def head(*hops, sequence=0, step=0, number=0):
    """A head's payload: hops are (port, class), the number is what the test knows it by."""
    route = sum((port | vc_class << 5) << 6 * k for k, (port, vc_class) in enumerate(hops))
    return sequence | step << 8 | route << 24 | number << 36


def message(payload, size):
    """A message of so many payload flits behind its head, which begin with the head's number."""
    kinds = [Kind.HEAD, *[Kind.BODY] * (size - 1), Kind.TAIL] if size else [Kind.SINGLE]
    rest = [payload >> 36 << 36 | k for k in range(1, size + 1)]
    return [*zip(kinds, [payload, *rest], strict=True)]


def message_to(port, size, vc_class=0, **fields):
    """A message of so many payload flits to a port of the next switch."""
    return message(head((port, vc_class), **fields), size)


def forwarded(flits):
    """The same message on the next link: a hop less."""
    (kind, payload), *rest = flits
    route = payload >> 24 & 0xFFF
    return [(kind, payload & ~(0xFFF << 24) | route >> 6 << 24), *rest]


def traffic(rng, num_ports, num_vcs, count=6):
    """Messages per input (port, vc) at random, each with a route to another port."""
    queues, number = {}, 0
    for port in range(num_ports):
        for vc in range(num_vcs):
            queues[port, vc] = []
            for _ in range(count):
                to = rng.choice([other for other in range(num_ports) if other != port])
                hops = (to, rng.randrange(num_vcs // 2)), (rng.randrange(32), rng.randrange(2))
                age = {"sequence": rng.randrange(2), "step": rng.randrange(4)}
                payload = head(*hops, number=number, **age)
                queues[port, vc].append(message(payload, rng.choice([0, 1, 2, 5])))
                number += 1
    return queues


def expected(queues):
    """Per output (port, vc), the messages that each input sends there, in order."""
    outputs = {}
    for (port, vc), messages in queues.items():
        for flits in messages:
            hop = flits[0][1] >> 24 & 0x3F
            out = hop & 31, 2 * (hop >> 5) + vc % 2
            outputs.setdefault(out, {}).setdefault((port, vc), []).append(forwarded(flits))
    return outputs


def flits_of(out):
    """Kind and payload of what came out, without the cycles."""
    return {place: [(kind, payload) for _, kind, payload in came] for place, came in out.items()}


def numbers_of(out, place, kinds=tuple(Kind)):
    """Numbers of the messages of flits, of some kinds, that came out of one place."""
    return [payload >> 36 for _, kind, payload in out[place] if kind in kinds]


def whole(flits):
    """Cut what came out of one virtual channel into messages; fails where two are mixed."""
    messages = []
    for kind, payload in flits:
        if kind in (Kind.HEAD, Kind.SINGLE):
            assert not messages or messages[-1][-1][0] in (Kind.TAIL, Kind.SINGLE)
            messages.append([])
        messages[-1].append((kind, payload))
    return messages


def carry(fabric, queues, *, stall_i="never", stall_o="never", cycles=600, blocked=(), events=()):
    """What comes out of a fabric, per output (port, vc): (cycle, kind, payload); and its strobes.

    It stops when nothing has moved for as long as any stall lasts. Channels of outputs that are
    blocked never have a credit; events say what `lost` and `gone` are from a cycle on.
    """
    events, num_ports, num_vcs = dict(events), fabric.num_ports, fabric.num_vcs
    places = [(port, vc) for port in range(num_ports) for vc in range(num_vcs)]
    left = {place: [f for flits in queues.get(place, []) for f in flits] for place in places}
    moves = {place: go(stall_i, f"i {place}") for place in places}
    credit = {place: go(stall_o, f"o {place}") for place in places}
    out, strobes = {}, {name: [] for name in ERRORS}
    longest = max(LONGEST_STALL_CYCLES[pattern] for pattern in (stall_i, stall_o))

    async def drive(ctx):
        offered, moved = dict.fromkeys(places, False), max(events, default=0)
        ready = Cat(i.ready for i in fabric.i)
        errors = [getattr(fabric, name) for name in ERRORS]
        for cycle in range(cycles):
            for name, value in events.get(cycle, {}).items():
                ctx.set(getattr(fabric, name), value)
            for number, place in enumerate(places):
                offered[place] = bool(left[place]) and (offered[place] or next(moves[place]))
                ctx.set(fabric.i[number].valid, offered[place])
                if offered[place]:
                    kind, payload = left[place][0]
                    ctx.set(fabric.i[number].payload, {"kind": kind, "payload": payload})
            for port in range(num_ports):
                free = [next(credit[port, vc]) for vc in range(num_vcs)]
                bits = sum(one << vc for vc, one in enumerate(free) if (port, vc) not in blocked)
                ctx.set(fabric.may_send[port], bits)
            if cycle > moved + longest:
                break
            watched = ready, fabric.take, *errors, *fabric.flits
            _, _, taken, take, *now = await ctx.tick().sample(*watched)
            for name, value in zip(ERRORS, now, strict=False):
                strobes[name] += [(cycle, p) for p in range(num_ports) if value >> p & 1]
            for number, place in enumerate(places):
                if offered[place] and taken >> number & 1:
                    moved = max(moved, cycle)
                    left[place].pop(0)
                    offered[place] = False
            for port, flit in enumerate(now[len(ERRORS) :]):
                if take >> port & 1:
                    out.setdefault((port, flit.vc), []).append((cycle, flit.kind, flit.payload))

    run(fabric, drive, keep=True)
    return out, strobes, {place: flits for place, flits in left.items() if flits}
