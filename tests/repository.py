"""The repository that the tests are of: its folder, and its files."""

import subprocess
from pathlib import Path

__all__ = ["ROOT", "listed_files"]

ROOT = Path(__file__).resolve().parents[1]


def listed_files(*patterns):
    """Plain files that git knows or does not ignore, in order; by patterns such as "*.md"."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.check_output(command, cwd=ROOT, text=True)
    paths = (ROOT / name for name in filter(None, listed.split("\0")))
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())
