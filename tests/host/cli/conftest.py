"""Every test of a command runs in a folder of its own."""

import pytest

from tests.host.cli.commands import Commands


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys):
    return Commands(capsys)
