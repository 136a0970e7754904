"""One HTML file that plays a recording, and needs nothing else."""

import base64
import hashlib
import re
from html import escape
from pathlib import Path

from multitree.host.view.columns import packed
from multitree.host.view.recording import Recording

__all__ = ["page_of"]

FOLDER = Path(__file__).with_name("page")
SCRIPTS = ("data", "moment", "paths", "drawing", "panel", "player", "controls")
"""In the order in which they stand in the page."""


def page_of(recording: Recording) -> str:
    """An HTML document of a recording; its policy lets the browser load nothing."""
    schedule = recording.schedule
    title = f"{schedule.collective} by {schedule.algorithm} on {schedule.topology.name}"
    style = _read("page.css")
    scripts = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{scripts}}})();\n'
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_fingerprint(style)}'",
            f"script-src '{_fingerprint(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    data = base64.b64encode(packed(recording.header(), recording.columns())).decode()
    parts = {"TITLE": escape(title), "POLICY": policy, "STYLE": style, "SCRIPT": script}
    parts["DATA"] = data
    # In one pass: what has been put in is not searched for marks again.
    return re.sub(r"@([A-Z]+)@", lambda mark: parts[mark[1]], _read("page.html"))


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    """What a policy names an inline style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
