"""CPU seconds that commands take to start, best of three.

python bench/startup.py
"""

import os
import subprocess
import sys

from _bench import ended, options, reported

COMMANDS = [
    *(["--help"], ["--version"], ["compare", "--help"]),
    *(["compare", "torus:4x4", "--engine", "analytic"], ["verilog", "--help"]),
]


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one process of `multitree`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "multitree", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"multitree {' '.join(arguments)}: status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    given = options(
        __doc__, runs={"type": int, "default": 3, "help": "runs of each; the best counts"}
    )
    rows = (
        {
            "command": " ".join(arguments),
            "cpu_seconds": min(cpu_seconds(arguments) for _ in range(given.runs)),
        }
        for arguments in COMMANDS
    )
    found = reported(given, rows, "cpu_seconds", "command")
    by_command = {row["command"]: row["cpu_seconds"] for row in found}
    return ended(given, True, {"cpu_seconds": by_command})


if __name__ == "__main__":
    sys.exit(main())
