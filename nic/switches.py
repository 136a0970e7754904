"""The switch between interfaces on shared links."""

from multitree.hw.switch import Switch
from multitree.nic.config import Config
from multitree.nic.message import NUM_HOPS, head_layout

__all__ = ["SWITCH_MODULE_NAME", "switch_for"]

SWITCH_MODULE_NAME = "multitree_switch"
"""Name of the Verilog module."""


def switch_for(config: Config, num_ports: int) -> Switch:
    """A switch that reads the heads of such interfaces, with link buffers like theirs.

    Parameters
    ----------
    config : Config
        Of interfaces on shared links.
    num_ports : int
        Ports, 2 to 32.
    """
    head = head_layout(config)
    return Switch(
        num_ports=num_ports,
        num_vcs=config.num_vcs,
        flit_bytes=config.flit_bytes,
        depth=config.buffer_flits,
        submessage_flits=config.submessage_flits,
        route_offset=head["route"].offset,
        num_hops=NUM_HOPS,
        sequence_offset=head["sequence"].offset,
        step_offset=head["step"].offset,
    )
