"""Takes the picture of a page that plays a schedule, in headless Chromium.

    python docs/view.py

writes docs/view.png. It needs the extra `test`, chromium and chromium-driver.
"""

import base64
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.host.view.chromium import Page, browser

from multitree import build, torus
from multitree.host.view.player_page import Recording, page_of

FILE = Path(__file__).resolve().parent / "view.png"
MOMENT, SIZE = "time=20.62&node=9&tree=12", (1360, 860)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        path = Path(folder) / "page.html"
        path.write_text(page_of(Recording(build(torus(8, 8), "multitree"))))
        Page(driver, path, MOMENT, size=SIZE)
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        FILE.write_bytes(base64.b64decode(shot["data"]))
    print(FILE)
