"""The tutorials print what they show.

A tutorial is a Markdown file in docs/tutorials. Its fenced blocks are run in order, in an empty
folder, and what they print is compared with what the tutorial shows:

- ``console``: a line ``$ command``, with ``> more`` below it for a command of several lines, is run
  by bash and has to end with exit status 0. The lines up to the next command are all that it prints
  on standard output and standard error. A plain ``multitree`` runs in this process, which saves the
  two seconds that a process of its own takes to start.
- ``python``: code. All blocks of a tutorial share one namespace. The block after it, if that is
  ``text`` with only empty lines between, is what the code prints on standard output; without one
  the code has to print nothing.
- A block after a line that ends in "as `NAME`:" is written to the file NAME.
- Any other block is for people. ``text`` is an error there, since nothing would compare it.

In what is shown ``...`` stands for any text within a line, and a line ``...`` for any lines, as
where seconds, paths and versions differ between machines.

``<!-- needs: NAME -->`` in a line of its own says what all blocks after it need, a key of `NEEDS`.
Where that is missing, the blocks before it are tested, and the test is skipped from there on.

After a change of the product run `python -m tests.test_tutorials [FILE ...]`. It replaces the shown
output that differs, so that a person can read the difference.
"""

import contextlib
import difflib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from multitree.host import engines
from multitree.host.cli.main import main as multitree
from multitree.sim.cocotb.simulators import missing
from tests.refusals import refuses
from tests.repository import ROOT

pytestmark = pytest.mark.every_set

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NEEDS = {
    "rtl": lambda: engines.why_not("rtl"),
    "torch": lambda: engines.why_not("torch"),
    "cocotb": lambda: missing("icarus") or None,
    "icarus": lambda: None if shutil.which("iverilog") else "Icarus Verilog is not installed",
}
FOR_A_SHELL = re.compile(r"[|&;<>$`*?(){}~\n]")
FUNCTIONS = 'multitree() { "$PYTHON" -m multitree "$@"; }; python() { "$PYTHON" "$@"; }\n'
WIDTH, LINES = 100, range(100, 201)


class TutorialError(AssertionError):
    """A tutorial does not do what it says; the text begins with the line."""


@dataclass
class Step:
    """Something to run or to write, and what it is shown to print."""

    kind: str  # "console", "python", "file" or "needs"
    text: str  # the command, the code, the file's content or what is needed
    line: int  # of the text, from 1
    shown: list[str] = field(default_factory=list)  # lines that it prints
    place: int = 0  # number of lines before them
    fenced: bool = True  # whether they have a block, so that they can be replaced
    name: str = ""  # of the file


def steps_of(lines):
    """The steps of a tutorial, in order."""
    steps, after = [], 0
    fences = [place for place, line in enumerate(lines) if line.startswith("```")]
    if len(fences) % 2:
        raise TutorialError(f"line {fences[-1] + 1}: this block has no end")
    for first, last in zip(fences[::2], fences[1::2], strict=True):
        prose = [line for line in lines[after:first] if line]
        needs = [re.fullmatch(r"<!-- needs: (\w+) -->", line) for line in prose]
        steps += [Step("needs", found[1], first) for found in needs if found]
        steps += block_steps(steps, prose, lines[first][3:], first + 1, lines[first + 1 : last])
        after = last + 1
    return steps


def block_steps(before, prose, language, place, inside):
    """Steps of one block, whose inside has `place` lines before it."""
    named = re.search(r"as `([^`]+)`:$", prose[-1]) if prose else None
    if named:
        return [Step("file", "\n".join([*inside, ""]), place + 1, name=named[1])]
    if language == "console":
        return commands(place, inside)
    if language == "python":
        place_shown = place + len(inside) + 1
        return [Step("python", "\n".join(inside), place + 1, place=place_shown, fenced=False)]
    if language == "text":
        if prose or not before or before[-1].kind != "python" or before[-1].fenced:
            raise TutorialError(f"line {place}: there is no code right before this output")
        before[-1].shown, before[-1].place, before[-1].fenced = inside, place, True
    return []


def commands(place, inside):
    """Steps of a console block, whose inside has `place` lines before it."""
    steps = []
    for line in inside:
        place += 1
        if line.startswith("$ "):
            steps.append(Step("console", line[2:], place, place=place))
        elif not steps:
            raise TutorialError(f"line {place}: there is no command before this output")
        elif line.startswith("> ") and not steps[-1].shown:
            steps[-1].text += "\n" + line[2:]
            steps[-1].place = place
        else:
            steps[-1].shown.append(line)
    return steps


def command_output(command):
    """Exit status of a command, and what it prints."""
    if command.startswith("multitree ") and not FOR_A_SHELL.search(command):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            return multitree(shlex.split(command)[1:]), printed.getvalue()
    words = ["bash", "-o", "pipefail", "-c", FUNCTIONS + command]
    outputs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, text=True, timeout=600, **outputs)
    return done.returncode, done.stdout


def printed_by(step, namespace):
    """Run a step in the current folder; returns the lines that it prints."""
    if step.kind == "file":
        Path(step.name).write_text(step.text)
        return []
    if step.kind == "console":
        status, printed = command_output(step.text)
        if status:
            raise TutorialError(f"line {step.line}: exit status {status}\n{printed}")
    else:
        # Empty lines before it give a traceback the tutorial's numbers of lines.
        code = compile("\n" * (step.line - 1) + step.text, "tutorial", "exec")
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout):
            exec(code, namespace)
        printed = stdout.getvalue()
    return without_spaces(printed.split("\n"))


def without_spaces(lines):
    """Lines without spaces at their ends and without empty lines at the end."""
    text = "\n".join(line.rstrip() for line in lines).rstrip("\n")
    return text.split("\n") if text else []


def is_shown(printed, shown):
    """Whether lines are what is shown, where `...` stands for anything."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n"
        for line in without_spaces(shown)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def runs_of(steps):
    """Run steps one after the other in the current folder; yields each with what it prints."""
    namespace = {"__name__": "tutorial"}
    for step in steps:
        if step.kind == "needs":
            if reason := NEEDS[step.text]():
                pytest.skip(f"untested from line {step.line} on: {reason}")
        else:
            yield step, printed_by(step, namespace)


def check(text):
    """Run a tutorial in the current folder; a TutorialError says what it shows otherwise."""
    for step, printed in runs_of(steps_of(text.split("\n"))):
        if not is_shown(printed, step.shown):
            difference = "\n".join(difflib.ndiff(without_spaces(step.shown), printed))
            raise TutorialError(f"line {step.line}: prints otherwise than shown\n{difference}")


def rewritten(text):
    """The text of a tutorial with what it prints now."""
    lines, moved = text.split("\n"), 0
    for step, printed in runs_of(steps_of(lines)):
        if not is_shown(printed, step.shown):
            new = printed if step.fenced else ["", "```text", *printed, "```"]
            place = step.place + moved
            lines[place : place + len(step.shown)] = new
            moved += len(new) - len(step.shown)
    return "\n".join(lines)


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.every_set
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_it_shows(path, in_a_folder):
    check(path.read_text())


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_can_be_read(path):
    """Not long, wrapped but for output, with links that lead somewhere, and in the README."""
    lines = path.read_text().splitlines()
    assert len(lines) in LINES
    fences = [place for place, line in enumerate(lines) if line.startswith("```")]
    prose = [line for place, line in enumerate(lines) if sum(f < place for f in fences) % 2 == 0]
    assert [line for line in prose if len(line) > WIDTH] == []
    for target in re.findall(r"\]\(([^)#]+)", "\n".join(prose)):
        assert (path.parent / target).exists(), target
    assert f"(docs/tutorials/{path.name})" in (ROOT / "README.md").read_text()


RIGHT = """
Save this as `numbers.csv`:

```csv
1,2
```

```console
$ cat numbers.csv
1,2
$ printf '%s\\n' "a second line" \\
>   "at $(date +%s) s" "one" "two"
a second line
at ... s
...
```

```python
numbers = [3, 4]
```

```python
print(sum(numbers))
```

```text
7
```

```console
$ multitree verify ring:2
Proved of all_reduce by multitree on ring:2:
...
  steps ... a phase takes at least 1
...
```
"""
WRONG = {
    "another output": ("\n7\n", "\n8\n", r"line 23: prints .*\n- 8\n\+ 7"),
    "another command": ("cat numbers", "cat -n numbers", r"line 9: prints .*"),
    "other code": ("[3, 4]", "[3, 5]", r"line 23: .*\n- 7\n\+ 8"),
    "another file": ("1,2\n```\n", "1,3\n```\n", r"line 9: "),
    "another option": ("verify ring:2", "verify ring:3", r"line 31: prints"),
    "a status": ("verify ring:2\n", "verify ring:0\n", r"line 31: exit status 2"),
    "a status in a pipe": ("cat numbers.csv", "cat letters.csv | cat", r"line 9: exit status 1"),
    "no output": ("```text\n7\n```\n", "", r"line 23: prints"),
    "too much output": ("...\n```\n\n```python\nn", "```\n\n```python\nn", r"line 11: prints"),
    "output of nothing": ("```text", "So:\n\n```text", r"line 28: there is no code"),
    "output first": ("$ cat numbers.csv\n", "", r"line 9: there is no command"),
    "an open block": ('two"\n', 'two"\n```\n', r"line \d+: this block has no end"),
}


def test_what_is_shown_is_compared(in_a_folder):
    check(RIGHT)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_tutorial_that_shows_something_else_fails(wrong, in_a_folder):
    old, new, says = WRONG[wrong]
    assert RIGHT.count(old) == 1
    refuses(TutorialError, says, check, RIGHT.replace(old, new))


def test_what_differs_is_written_and_the_rest_kept(in_a_folder):
    changed = RIGHT.replace("[3, 4]", "[3, 5]").replace("\n1,2\n$", "\n1,3\n$")
    assert rewritten(changed) == RIGHT.replace("[3, 4]", "[3, 5]").replace("\n7\n", "\n8\n")
    assert rewritten(RIGHT.replace("```text\n7\n```\n\n", "")) == RIGHT


def test_what_is_missing_skips_the_rest_and_is_the_reason(in_a_folder, monkeypatch):
    monkeypatch.setitem(NEEDS, "torch", lambda: "no torch")
    needing = RIGHT.replace("So:\n", "") + "\n<!-- needs: torch -->\n\n```python\n1 / 0\n```\n"
    refuses(pytest.skip.Exception, r"untested from line \d+ on: no torch", check, needing)
    with pytest.raises(TutorialError):
        check(needing.replace("\n7\n", "\n8\n"))


def main(arguments):
    """Write what the tutorials print now."""
    for path in map(Path.resolve, map(Path, arguments)) if arguments else TUTORIALS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(rewritten(path.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
