"""CPU seconds that commands take to start, best of three.

python bench/startup.py
"""

import argparse
import json
import os
import subprocess
import sys

COMMANDS = [
    ["--help"],
    ["--version"],
    ["compare", "--help"],
    ["compare", "torus:4x4", "--engine", "analytic"],
    ["verilog", "--help"],
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


def main() -> None:
    """Print a line per command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args()
    found = {
        " ".join(arguments): min(cpu_seconds(arguments) for _ in range(options.runs))
        for arguments in COMMANDS
    }
    if options.json:
        print(json.dumps({"cpu_seconds": found}, indent=2))
        return
    for name, seconds in found.items():
        print(f"{seconds:6.3f} s  multitree {name}")


if __name__ == "__main__":
    main()
