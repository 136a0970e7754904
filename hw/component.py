"""Equal blocks as instances of one Verilog module."""

from collections.abc import Callable

from amaranth import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.hdl import ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import Flow

__all__ = ["VerilogModules", "add_instances", "is_synthesised", "port_values"]


class VerilogModules:
    """The platform of a design that is written as Verilog. `top` is the name of the top module and
    the prefix of the others; `components` are what has a module of its own, by the module's name.
    """

    def __init__(self, top: str, *, emulated: bool = False):
        self.top = top
        self.emulated = emulated
        self.components: list[tuple[str, wiring.Component]] = []


def is_synthesised(platform) -> bool:
    """Whether what is elaborated may become a circuit; a simulation may have faster forms of it."""
    return isinstance(platform, VerilogModules) and not platform.emulated


def port_values(component) -> dict[str, tuple[Value, Flow]]:
    """Value and flow of every port by its flattened name; ports of no width are left out."""
    ports: dict[str, tuple[Value, Flow]] = {}
    for path, member, value in component.signature.flatten(component):
        name = "_".join(map(str, path))
        if name in ports:
            raise ValueError(f"Port names must be unique, not {name!r} twice")
        ports[name] = (Value.cast(value), member.flow)
    return {name: (value, flow) for name, (value, flow) in ports.items() if len(value)}


def add_instances(
    m: Module,
    platform,
    name: str,
    count: int,
    make: Callable[[], wiring.Component],
    *,
    reset: ValueLike = 0,
) -> list:
    """Add `count` equal components in clock domain `sync` as submodules `name_0`, `name_1` and so
    on.

    Written as Verilog they are instances of one module: the text, and what a simulator makes of it,
    does not grow with their number. Elsewhere each is elaborated. Returned are components, or
    interface objects with the same members.
    """
    if not isinstance(platform, VerilogModules):
        components = [make() for _ in range(count)]
        for number, component in enumerate(components):
            m.submodules[f"{name}_{number}"] = component
        return components
    # It must have registers: a module without any has no clock for its instances to connect.
    module, component = f"{platform.top}.{name}", make()
    if any(module == known for known, _ in platform.components):
        raise ValueError(f"A name of equal components must be used once, not twice: {module!r}")
    platform.components.append((module, component))
    interfaces = [component.signature.create(path=(f"{name}_{k}",)) for k in range(count)]
    for number, interface in enumerate(interfaces):
        m.submodules[f"{name}_{number}"] = Instance(
            module,
            i_clk=ClockSignal(),
            # Amaranth does not reach into instances: a `ResetInserter` around them has no effect.
            i_rst=ResetSignal() | reset,
            **{
                f"{'i' if flow == Flow.In else 'o'}_{port}": value
                for port, (value, flow) in port_values(interface).items()
            },
        )
    return interfaces
