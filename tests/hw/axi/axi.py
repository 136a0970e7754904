"""AXI4 slaves with seeded stalls that check every burst they get."""

from collections import deque

from tests.hw.streams import go, hand_over, process, put

SLVERR, DECERR = 2, 3
PAGE_BYTES = 4096


def flits_of(address, length, size, kind, flit_bytes):
    """Addresses of the flits of a burst, which has to be one that the standard allows."""
    assert (1 << size, kind) == (flit_bytes, 1)
    assert address % flit_bytes == 0 and length < 16
    last = address + length * flit_bytes
    assert address // PAGE_BYTES == last // PAGE_BYTES, f"{address:#x} reaches over a page"
    return list(range(address // flit_bytes, last // flit_bytes + 1))


class Offer:
    """Asserts that what is offered stays until it is taken."""

    def __init__(self, what):
        self._what, self._held = what, None

    def taken(self, valid, ready, values):
        """True if it is taken at this edge."""
        if self._held is not None:
            assert valid and values == self._held, f"{self._what} changed before it was taken"
        self._held = values if valid and not ready else None
        return valid and ready


@process
async def client(ctx, channel, requests, *, stall, seed, taken):
    """A process that makes requests, members by their names; `taken` gets each that is taken."""
    moves = go(stall, f"{seed} client")
    for request in requests:
        await hand_over(ctx, channel, moves, **request)
        taken.append(request)


@process
async def read_slave(
    ctx, bus, memory, *, flit_bytes, latency=3, stall="never", seed=0, wrong=(), bursts=None
):
    """A background process that reads; `wrong` maps flits to responses that are not OKAY.

    `bursts` gets (cycle, flits) of each burst.
    """
    beats, offer, cycle, due = deque(), Offer("AR"), 0, 0
    ar, r = go(stall, f"{seed} ar"), go(stall, f"{seed} r")
    while True:
        ready, answers = next(ar), bool(beats) and beats[0][0] <= cycle and next(r)
        flit, last = beats.popleft()[1:] if answers else (None, 0)
        put(ctx, bus, arready=ready, rvalid=answers)
        # Without valid it means nothing.
        ctx.set(bus.rdata, memory[flit] if answers else 0xDEAD)
        put(ctx, bus, rresp=dict(wrong).get(flit, 0) if answers else DECERR, rlast=last)
        values = bus.arvalid, bus.rready, bus.araddr, bus.arlen, bus.arsize, bus.arburst
        _, _, valid, r_ready, *burst = await ctx.tick().sample(*values)
        assert r_ready
        if offer.taken(valid, ready, burst):
            flits = flits_of(*burst, flit_bytes)
            for flit in flits:
                due = max(cycle + latency, due + 1)
                beats.append((due, flit, flit == flits[-1]))
            if bursts is not None:
                bursts.append((cycle, flits))
        cycle += 1


@process
async def write_slave(
    ctx,
    bus,
    memory,
    *,
    flit_bytes,
    latency=3,
    stall="never",
    seed=0,
    wrong=(),
    waits_for=None,
    bursts=None,
    beats=None,
):
    """A background process that writes; `wrong` maps first flits of bursts to responses.

    Data are in memory from the response on, and not before. With `waits_for` "aw" it takes data
    only when an address was taken for them, with "w" an address only when data are on offer.
    `bursts` gets (cycle, flits) of each burst, `beats` the cycle of each beat.
    """
    addresses, data, answers = deque(), [[]], deque()
    aw_offer, w_offer, cycle, due, ahead = Offer("AW"), Offer("W"), 0, 0, 0
    aw, w = go(stall, f"{seed} aw"), go(stall, f"{seed} w")
    while True:
        aw_ready = next(aw) and (waits_for != "w" or ahead > 0 or ctx.get(bus.wvalid))
        w_ready = next(w) and (waits_for != "aw" or ahead < 0)
        put(ctx, bus, awready=aw_ready, wready=w_ready)
        answer = bool(answers) and answers[0][0] <= cycle
        response, flits, values = answers.popleft()[1:] if answer else (DECERR, (), ())
        memory.update(zip(flits, values, strict=True) if response == 0 else ())
        put(ctx, bus, bvalid=answer, bresp=response)
        sampled = bus.awvalid, bus.wvalid, bus.bready, bus.wdata, bus.wstrb, bus.wlast
        burst = bus.awaddr, bus.awlen, bus.awsize, bus.awburst
        _, _, aw_valid, w_valid, b_ready, *rest = await ctx.tick().sample(*sampled, *burst)
        (word, strobe, last), burst = rest[:3], rest[3:]
        assert b_ready
        if aw_offer.taken(aw_valid, aw_ready, burst):
            addresses.append(flits_of(*burst, flit_bytes))
            ahead -= 1
            if bursts is not None:
                bursts.append((cycle, addresses[-1]))
        if w_offer.taken(w_valid, w_ready, (word, strobe, last)):
            assert strobe == (1 << flit_bytes) - 1
            data[-1].append(word)
            ahead += last
            if last:
                data.append([])
            if beats is not None:
                beats.append(cycle)
        while addresses and len(data) > 1:
            flits, words = addresses.popleft(), data.pop(0)
            assert len(flits) == len(words), "WLAST must end the burst"
            due = max(cycle + latency, due + 1)
            answers.append((due, dict(wrong).get(flits[0], 0), flits, words))
        cycle += 1
