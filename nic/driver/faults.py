"""Why an interface stopped: fault codes, what was awaited, the error raised."""

import enum

__all__ = ["Awaited", "DeviceError", "FaultCode"]


class FaultCode(enum.IntEnum):
    """Sticky cause of a fault, as read from the FAULT register."""

    NONE = 0
    ROW_ILLEGAL = 1
    FLOW_ILLEGAL = 2
    ITERATIONS = 3
    WATCHDOG = 4
    FIRST_ARRIVAL = 5
    FRAMING = 6
    UNEXPECTED_MESSAGE = 7
    STALE_SEQUENCE = 8
    LINK_SEQUENCE = 9
    BUFFER_OVERFLOW = 10
    CREDIT_OVERFLOW = 11
    NOT_COMMITTED = 12
    SETTINGS_ILLEGAL = 13
    MEMORY_ERROR = 14
    OUT_OF_WINDOW = 15
    TABLE_CRC = 16
    TABLE_PARITY = 17
    DUPLICATE_MESSAGE = 18
    STATE_PARITY = 19
    LINK_CHECK = 20
    LENGTH = 21
    LINK_EPOCH = 22
    PEER_RESET = 23
    PEER_FAULT = 24
    ROUTE = 25

    @property
    def sentence(self) -> str:
        """What the code means, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    FaultCode.NONE: "no fault",
    FaultCode.ROW_ILLEGAL: "a table row is illegal (op, port, flow, reserved bits or step order)",
    FaultCode.FLOW_ILLEGAL: "a flow is illegal (out of the window, a wrong port, a wave stride "
    "where tables are not repeated)",
    FaultCode.ITERATIONS: "more waves or stages than the interface can repeat a table for",
    FaultCode.WATCHDOG: "nothing progressed for the watchdog's time",
    FaultCode.FIRST_ARRIVAL: "no first arrival of the collective within its limit",
    FaultCode.FRAMING: "a message was shorter or longer than its flow's size, or had no head",
    FaultCode.UNEXPECTED_MESSAGE: "a message came that the flow memory does not expect there",
    FaultCode.STALE_SEQUENCE: "a message of an earlier collective came",
    FaultCode.LINK_SEQUENCE: "a flit was lost, doubled or reordered on the link",
    FaultCode.BUFFER_OVERFLOW: "a flit came without a credit",
    FaultCode.CREDIT_OVERFLOW: "more credits came back than were spent",
    FaultCode.NOT_COMMITTED: "start was written without a committed table",
    FaultCode.SETTINGS_ILLEGAL: "start was written with a mode, type or window that does not "
    "exist, or another length of the window than was committed",
    FaultCode.MEMORY_ERROR: "memory answered a read or a write with an error",
    FaultCode.OUT_OF_WINDOW: "a read or a write reached out of the window and was held back",
    FaultCode.TABLE_CRC: "the table in memory is not the one whose CRC-32 the host wrote",
    FaultCode.TABLE_PARITY: "bits of the table or flow memory have flipped",
    FaultCode.DUPLICATE_MESSAGE: "a message came a second time in one collective",
    FaultCode.STATE_PARITY: "bits of a queue, link buffer, count, mark or register have flipped",
    FaultCode.LINK_CHECK: "what came over the link has another CRC than what was sent",
    FaultCode.LENGTH: "a message came whose length is not that of its flow",
    FaultCode.LINK_EPOCH: "a flit came from before the link was last up",
    FaultCode.PEER_FAULT: "another interface or a switch stopped, and sent its fault",
    FaultCode.PEER_RESET: "the other end of the link was reset while a collective ran",
    FaultCode.ROUTE: "a head came to a switch with a route that leads nowhere",
}


class Awaited(enum.IntEnum):
    """What a port waited for when its fault was taken, as read from FAULT."""

    NOTHING = 0
    DEPENDENCY = 1
    CREDIT = 2
    MEMORY_READ = 3
    SIBLING = 4
    FLIT = 5
    ARRIVALS = 6
    MEMORY_WRITE = 7

    @property
    def sentence(self) -> str:
        """What is awaited, for people."""
        return self.name.lower().replace("_", " ")


class DeviceError(RuntimeError):
    """An interface faulted, or cannot be built, loaded or reached.

    The text names rank, port, flow and what was awaited wherever they are known.
    """
