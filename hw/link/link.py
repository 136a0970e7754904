"""Credited links: flits, their sideband, and the wires between two interfaces."""

from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from multitree.hw import codes
from multitree.hw.codes import check_integer, flit_fields, vc_width

__all__ = [
    "ControlSignature",
    "Kind",
    "LinkSignature",
    "check_num_vcs",
    "fault_record_width",
    "flit_layout",
    "unit_layout",
    "vc_unit_layout",
]

_FAULT_RECORD_WIDTH = 96
_MOST_VCS = 8


class Kind(enum.Enum, shape=3):
    """Place of a flit in its message, or what a control flit says: the codes of `hw.codes`."""

    HEAD = codes.Kind.HEAD.value
    BODY = codes.Kind.BODY.value
    TAIL = codes.Kind.TAIL.value
    SINGLE = codes.Kind.SINGLE.value
    DOWN = codes.Kind.DOWN.value
    INIT = codes.Kind.INIT.value
    UP = codes.Kind.UP.value
    FAULT = codes.Kind.FAULT.value


def fault_record_width(flit_bytes: int) -> int:
    """Bits of a control flit's payload that mean something; the others are 0."""
    return min(_FAULT_RECORD_WIDTH, 8 * flit_bytes)


def check_num_vcs(num_vcs: object, *, least: int = 1) -> int:
    """Return a number of virtual channels, at most 8, or raise."""
    return check_integer("VCs", num_vcs, least=least, most=_MOST_VCS)


def flit_layout(*, flit_bytes: int, num_vcs: int = 1) -> data.StructLayout:
    """Everything that travels with a flit; see `LinkSignature`."""
    fields = flit_fields(flit_bytes=flit_bytes, num_vcs=num_vcs)
    return data.StructLayout(fields | {"kind": Kind})


def unit_layout(*, flit_bytes: int) -> data.StructLayout:
    """A flit as the blocks at the ends of a link see it: `kind` and `payload`."""
    return data.StructLayout({"kind": Kind, "payload": 8 * flit_bytes})


def vc_unit_layout(*, flit_bytes: int, num_vcs: int) -> data.StructLayout:
    """A flit for a virtual channel: `kind`, `vc` and `payload`."""
    return data.StructLayout({"kind": Kind, "vc": vc_width(num_vcs), "payload": 8 * flit_bytes})


class LinkSignature(wiring.Signature):
    """One direction of a link between two interfaces, seen from the transmitting side.

    A flit is on the link in every cycle in which `valid` is high; there is no ready. Instead the
    receiver grants credits: one cycle of `credit` for each flit that has left its buffer. Each
    virtual channel has a buffer and credits of its own. Flits with one of the control kinds take no
    place in a buffer and need no credit.

    Wires must keep flits in order, and a credit must not come later than a flit that the same end
    sent after it: where both directions of a link are equally long it never does.

    Parameters
    ----------
    flit_bytes : int
        Bytes of a flit's payload.
    num_vcs : int
        Virtual channels, 1 to 8; one is what joins two interfaces without a switch.

    Members
    -------
    valid : Out(1)
        A flit is on the link.
    kind : Out(Kind)
        Its place in its message, or what it says.
    vc, sequence : Out(vc_width(num_vcs)), Out(3)
        Its virtual channel, and its number on this link, modulo 8; 0 on a control flit.
    epoch : Out(1)
        Of its sender: another one since it was last down.
    check : Out(32)
        CRC-32 of the message as far as it came, at the end of a sub-message; of the flit alone,
        if it is a control flit; else 0. The bytes of a flit are its payload and then one of
        `kind | vc << 3`.
    payload : Out(8 * flit_bytes)
        Its data.
    credit : In(num_vcs)
        Per virtual channel: one place of the receiver's buffer came free.
    """

    def __init__(self, *, flit_bytes: int, num_vcs: int = 1):
        check_integer("Flit bytes", flit_bytes, least=1)
        check_num_vcs(num_vcs)
        layout = flit_layout(flit_bytes=flit_bytes, num_vcs=num_vcs)
        fields = {name: Out(field.shape) for name, field in layout}
        super().__init__({"valid": Out(1), **fields, "credit": In(num_vcs)})


class ControlSignature(wiring.Signature):
    """A control flit that came in, its CRC right.

    Members
    -------
    valid : Out(1)
        Strobe.
    kind, epoch : Out(Kind), Out(1)
        DOWN, INIT, UP or FAULT; the other end's epoch.
    payload : Out(fault_record_width(flit_bytes))
        Lowest bits of its payload.
    """

    def __init__(self, *, flit_bytes: int):
        super().__init__(
            {
                "valid": Out(1),
                "kind": Out(Kind),
                "epoch": Out(1),
                "payload": Out(fault_record_width(flit_bytes)),
            }
        )
