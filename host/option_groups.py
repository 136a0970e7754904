"""Options that several commands share, as one parameter of each command."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

__all__ = ["with_groups"]

Result = TypeVar("Result")


def with_groups(command: Callable[..., Result]) -> Callable[..., Result]:
    """A command whose parameters that are dataclasses are options of their own, one per field.

    Parameters
    ----------
    command : callable
        What a command line calls with one argument per parameter. A parameter whose type is a
        dataclass has no default; fields are annotated as the command's options are, and have one.

    Returns
    -------
    callable
        The same with the fields in the place of each such parameter.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Clock:
    ...     ghz: float = 1.0
    >>> def period(cycles: int, clock: Clock) -> float:
    ...     return cycles / clock.ghz
    >>> with_groups(period)(8, ghz=2.0), str(inspect.signature(with_groups(period)))
    (4.0, '(cycles: int, ghz: float = 1.0) -> float')
    """
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            parameters.append(parameter.replace(annotation=group))
            continue
        types = get_type_hints(group, include_extras=True)
        members = [field for field in fields(group) if field.init]
        groups[name] = group, [field.name for field in members]
        parameters += (
            parameter.replace(name=field.name, default=field.default, annotation=types[field.name])
            for field in members
        )
    expanded = signature.replace(parameters=parameters)

    @functools.wraps(command)
    def run(*values: Any, **named: Any) -> Result:
        bound = expanded.bind(*values, **named)
        bound.apply_defaults()
        given = bound.arguments
        for name, (group, members) in groups.items():
            given[name] = group(**{member: given.pop(member) for member in members})
        return command(**given)

    del run.__wrapped__
    changes = {parameter.name: parameter.annotation for parameter in parameters}
    run.__annotations__ = changes | {"return": hints.get("return", Any)}
    run.__signature__ = expanded  # type: ignore[attr-defined]
    return run
