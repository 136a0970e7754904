"""The table of parameters, and what is made from it."""

from dataclasses import MISSING, fields

import pytest

from multitree import LinkModel
from multitree.host.cli.main import COMMANDS, load_command
from multitree.host.evaluation.point import Point
from multitree.host.parameters import PARAMETERS, parameter, swept_parameters
from multitree.sim.timing.link_model import problem_with


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_options_as_the_table_has_them(command):
    for option in load_command(command).params:
        rows = [each for each in PARAMETERS if each.name == option.name]
        if rows and option.help in [each.help for each in rows]:
            assert option.help == parameter(option.name, command).help


def test_every_row_is_an_option_of_a_command():
    taken = {
        parameter(option.name, command)
        for command in COMMANDS
        for option in load_command(command).params
        if any(each.name == option.name for each in PARAMETERS)
    }
    assert set(PARAMETERS) == taken


def test_a_default_is_one_of_the_choices_and_within_the_range():
    for row in PARAMETERS:
        if row.default is not None:
            assert not row.choices or row.default in row.choices
            assert row.range is None or row.problem_with(row.default) is None


def test_without_a_key_a_sweep_takes_what_the_command_takes():
    defaults = {each.name: each.default for each in fields(Point)}
    for row in swept_parameters().values():
        default = defaults[row.key]
        if default is not MISSING and row.name != "collective":
            assert default == row.default


@pytest.mark.parametrize("name", ["clock_ghz", "flit_bytes", "buffer_flits", "adder_stages"])
def test_ranges_are_those_that_a_link_model_checks(name):
    row = parameter(name)
    for end in row.range:
        assert row.problem_with(end) is None and problem_with(name, end) is None
        beyond = end * 2 if end == row.range[1] else end / 2
        assert row.problem_with(beyond) and problem_with(name, beyond)
    field = {"adder_stages": "add_cycles"}.get(name, name)
    assert row.default == getattr(LinkModel(), field)
