"""A page in headless Chromium, and what it shows."""

import json
import shutil
from contextlib import contextmanager

import pytest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = Service = Keys = None

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
NEEDED = {"selenium": webdriver, "chromium": BROWSER, "chromedriver": DRIVER}
MISSING = [name for name, found in NEEDED.items() if found is None]
needs_chromium = pytest.mark.skipif(
    bool(MISSING), reason=f"no browser to play a page in: {', '.join(MISSING)} missing"
)
PATIENCE_MS, SENT = 60_000, "Network.requestWillBeSent"
PIXELS = """
const canvas = document.getElementById('network');
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
"""


@contextmanager
def browser():
    """A driver of headless Chromium that logs what pages say and what they ask the network for."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    arguments = "headless=new no-sandbox disable-dev-shm-usage disable-gpu hide-scrollbars"
    for argument in (*arguments.split(), "force-color-profile=srgb"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(PATIENCE_MS / 1000)
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """A page that is open, read and used as people do: by what is written, by keys and clicks."""

    def __init__(self, driver, path, address="", *, dark=False, calm=False, size=(1440, 900)):
        self.driver, self.path = driver, path
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"},
        ]
        self._command("Emulation.setEmulatedMedia", features=features)
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", **metrics)
        self.logs()
        driver.get("about:blank")
        driver.get(path.as_uri() + (f"#{address}" if address else ""))
        self.until(
            "document.documentElement.dataset.ready || !document.getElementById('problem').hidden"
        )

    def _command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, condition):
        """Wait for a condition, an expression in the page, and for the picture after it."""
        done = self.driver.execute_async_script(
            f"""
            const [most, done] = arguments, begin = performance.now();
            (function look() {{
              if ({condition}) requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
              else if (performance.now() - begin > most) done(false);
              else setTimeout(look, 20);
            }})();
            """,
            PATIENCE_MS,
        )
        assert done, f"never came true: {condition}"

    def settle(self):
        """Wait until what was asked for is drawn."""
        self.until("true")

    def text(self, name):
        """What an element says, all spaces as one."""
        found = self.run("return document.getElementById(arguments[0]).textContent", name)
        return " ".join(found.split())

    def value(self, name, what="value"):
        return self.run("return document.getElementById(arguments[0])[arguments[1]]", name, what)

    def press(self, *keys, on=None):
        """Type keys, at an element that takes the focus first or where it is."""
        if on is not None:
            self.run("document.getElementById(arguments[0]).focus()", on)
        self.driver.switch_to.active_element.send_keys(*keys)
        self.settle()

    def click(self, name):
        self.run("document.getElementById(arguments[0]).click()", name)
        self.settle()

    def choose(self, name, value):
        """Choose from a list, or put a slider somewhere, as people do."""
        self.run(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change'));",
            name,
            value,
        )
        self.settle()

    def picture(self):
        """The drawing as an encoded picture: equal drawings are equal texts."""
        return self.run("return document.getElementById('network').toDataURL()")

    def painted(self):
        """How many pixels of the drawing have a colour, and how many colours there are."""
        return self.run(
            PIXELS
            + """
            const words = new Uint32Array(pixels.data.buffer), found = new Set();
            let count = 0;
            for (const word of words) if (word >>> 24) { count++; found.add(word); }
            return [count, found.size];
            """
        )

    def pixels_of(self, name):
        """How many pixels of the drawing have a colour of the style sheet, by its name there."""
        return self.run(
            PIXELS
            + """
            const style = getComputedStyle(document.documentElement);
            const text = style.getPropertyValue('--' + arguments[0]).trim();
            const wanted = [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16));
            let count = 0;
            for (let i = 0; i < pixels.data.length; i += 4) {
              count += wanted.every((part, k) => pixels.data[i + k] === part);
            }
            return count;
            """,
            name,
        )

    def table(self, name):
        """Head and visible rows of a table."""
        return self.run(
            """
            const table = document.getElementById(arguments[0]);
            const cells = (row) => Array.from(row.cells, (cell) => cell.textContent);
            const rows = Array.from(table.tBodies[0].rows).filter((row) => row.offsetHeight > 0);
            return [cells(table.tHead.rows[0]), rows.map(cells)];
            """,
            name,
        )

    def names(self):
        """Role and name of everything that screen readers can reach by the keyboard."""
        reached = []
        for node in self._command("Accessibility.getFullAXTree")["nodes"]:
            has = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
            if has.get("focusable"):
                reached.append((node["role"]["value"], node.get("name", {}).get("value", "")))
        return reached

    def logs(self):
        """What the page said to the console, and addresses it asked for, since the last time."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        messages = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [each["params"] for each in messages if each["method"] == SENT]
        asked = [parameters["request"]["url"] for parameters in sent]
        return said, [url for url in asked if url != "about:blank"]
