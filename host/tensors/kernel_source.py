"""The text of a Triton kernel that runs one program on all flows that have it."""

from textwrap import dedent, indent

from multitree.host.tensors.programs import Program

__all__ = ["kernel_source"]

_ROUND = """
    # To nearest even; not a cast, since that of the interpreter truncates. The NaN of a GPU,
    # 0x7FFFFFFF, would overflow to -0.
    bits = result.to(tl.uint32, bitcast=True)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    bits = tl.where(result != result, CANONICAL, bits)
    result = bits.to(tl.float32, bitcast=True)
"""
_EXTREMUM = """
    # The maximum or minimum of IEEE 754-2019: a NaN propagates, and +0 is above -0.
    result = tl.where((value {sign} contribution) | (value != value), value, contribution)
    # Equal numbers differ at most in the sign of zero.
    bits = value.to(tl.uint32, bitcast=True)
    merged = (bits {merge} contribution.to(tl.uint32, bitcast=True)).to(tl.float32, bitcast=True)
    result = tl.where(value == contribution, merged, result)
"""
_COMBINE = {
    "sum": "value + contribution",
    "product": "value * contribution",
    "max": "tl.where(value > contribution, value, contribution)",
    "min": "tl.where(value < contribution, value, contribution)",
    "bitwise_and": "value & contribution",
    "bitwise_or": "value | contribution",
    "bitwise_xor": "value ^ contribution",
}
_LOADED = {
    "float32": "bits.to(tl.float32, bitcast=True)",
    "bfloat16": "(bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)",
    "int32": "bits",
}
_STORED = {
    "float32": "bits",
    "bfloat16": "(bits >> 16).to(tl.int16)",
    "int32": "value",
}
_KERNEL = '''
@triton.jit
def load(memory, ranks, place, stride, where, inside):
    """The element of the rank at a place, of 64-bit row number and address."""
    rank = tl.load(ranks + place).to(tl.int64)
    bits = tl.load(memory + rank * stride + where, mask=inside, other=0)
    return {loaded}


@triton.jit
def combine(value, contribution):
    """What `operators.combine` gives, rounded to the type of the buffers."""
{combined}
    return result


@triton.jit
def finished(value):
    """The bits to store of a value that additions made: divided, its NaN canonical."""
{finished}
    return {stored}


@triton.jit
def kept(value):
    """The bits to store of an input."""
{kept}
    return {stored}


@triton.jit
def store(result, ranks, place, stride, where, inside, bits):
    """Write to the row of the rank at a place."""
    rank = tl.load(ranks + place).to(tl.int64)
    tl.store(result + rank * stride + where, bits, mask=inside)


@triton.jit
def run(memory, result, flows, ranks, stride, n, wave, blocks,
        ALIGN: tl.constexpr, ONE_WAVE: tl.constexpr, BLOCK: tl.constexpr):
    """One block of one flow: its chunks' elements of all waves, one behind the other."""
    pid = tl.program_id(0)
    flow = flows + pid // blocks * 3
    begin = tl.multiple_of(tl.load(flow), ALIGN)
    length = tl.multiple_of(tl.load(flow + 1), ALIGN)
    place = (pid % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < length
    if ONE_WAVE:
        where = begin + place
    else:
        chunk = tl.load(flow + 2)
        where = place // chunk * wave + begin + place % chunk
        inside = inside & (where < n)
    ranks += pid // blocks * {num_ranks}
{body}
'''


def kernel_source(program: Program, dtype: str, op: str) -> str:
    """Python text for Triton, of O(num_ranks) lines, whose function `run` is the kernel.

    It takes memory and results as integers of the elements' size, adds in the program's order and
    loads each input once. Nothing can be contracted to a fused multiply-add: no operator multiplies
    and adds.
    """
    # bfloat16 is computed in float32 and rounded by integer operations, so that the interpreter and
    # every GPU give the same bits.
    combined = [f"result = {_COMBINE['sum' if op == 'average' else op]}"]
    if dtype != "int32" and op in ("max", "min"):
        sign, merge = (">", "&") if op == "max" else ("<", "|")
        combined = [_EXTREMUM.format(sign=sign, merge=merge)]
    if dtype == "bfloat16" and op in ("sum", "average", "product"):
        combined.append(_ROUND)
    floats = dtype != "int32"
    ending = []
    if op == "average":
        # Not `/`, which is approximate on a GPU.
        divisor = f"tl.full(value.shape, {float(program.num_ranks)}, tl.float32)"
        ending = [f"result = tl.div_rn(value, {divisor})", "value = result"]
        if dtype == "bfloat16":
            ending = [ending[0], _ROUND, ending[1]]
    to_bits = ["bits = value.to(tl.uint32, bitcast=True)"] if floats else []
    canonical = ["bits = tl.where(value != value, CANONICAL, bits)"] if floats else []
    kernel = _KERNEL.format(
        loaded=_LOADED[dtype],
        stored=_STORED[dtype],
        combined=_lines(combined),
        finished=_lines([*ending, *to_bits, *canonical]),
        kept=_lines([*ending, *to_bits, *(canonical if op == "average" else [])]),
        num_ranks=program.num_ranks,
        body=_lines(_body(program)),
    )
    return f"CANONICAL = tl.constexpr(0x7FC00000)\n\n{kernel}"


def _lines(parts: list[str]) -> str:
    """Statements as the body of a function."""
    return indent("\n".join(dedent(part).strip("\n") for part in parts), "    ")


def _body(program: Program) -> list[str]:
    """Loads, additions and stores, each value's as soon as it is there: few wait in registers."""
    lines = []
    holders = program.holders()

    def store(value: int) -> None:
        end = "finished" if program.is_sum(value) else "kept"
        places = holders.pop(value, [])
        if places:
            lines.append(f"bits = {end}(x{value})")
        for place in places:
            lines.append(f"store(result, ranks, {place}, n, where, inside, bits)")

    def load(value: int) -> None:
        lines.append(f"x{value} = load(memory, ranks, {value}, stride, where, inside)")
        loaded.add(value)

    loaded: set[int] = set()
    for value, operands in enumerate(program.additions, start=program.num_ranks):
        for operand in operands:
            if not program.is_sum(operand) and operand not in loaded:
                load(operand)
                store(operand)
        lines.append(f"x{value} = combine(x{operands[0]}, x{operands[1]})")
        store(value)
    for value in list(holders):
        load(value)
        store(value)
    return lines
