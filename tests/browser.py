"""A headless Chromium, driven through chromedriver with nothing but the standard library (W3C WebDriver)."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
import zlib

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = "no Chromium with chromedriver is installed" if not (CHROMIUM and DRIVER) else None
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-quic",  # nothing here needs a network
]


class Browser:
    """One window; `close` ends it."""

    def __init__(self):
        self.profile = tempfile.mkdtemp()
        self.process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        line = next(line for line in self.process.stdout if "successfully on port" in line)
        self.url = f"http://127.0.0.1:{int(''.join(filter(str.isdigit, line.split('on port')[1])))}"
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={self.profile}"]}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.url += f"/session/{session['sessionId']}"

    def _call(self, method, path, body=None):
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, sent, {"Content-Type": "application/json"}, method=method)
        with DIRECT.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path, width=1280, height=900):
        """Show a file, or an address, at a width in pixels and wait until it is drawn."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **screen)
        self._call("POST", "/url", {"url": path if isinstance(path, str) else path.resolve().as_uri()})
        self.wait("return document.documentElement.dataset.ready === 'yes'")

    def tab(self):
        """A new tab, which is then the one in use."""
        handle = self._call("POST", "/window/new", {"type": "tab"})["handle"]
        self.use(handle)
        return handle

    def tabs(self):
        """Handles of all tabs."""
        return self._call("GET", "/window/handles")

    def use(self, handle):
        """Go to a tab."""
        self._call("POST", "/window", {"handle": handle})

    def close_tab(self):
        """Close the tab in use; another one must be used next."""
        self._call("DELETE", "/window")

    def command(self, name, **parameters):
        """One command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def run(self, script):
        """Run JavaScript; what it returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def wait(self, script, seconds=10.0):
        """Wait until JavaScript returns something true, and return it."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"{script} is {found!r} after {seconds} s"
            time.sleep(0.05)
        return found

    def drag(self, points):
        """Press the mouse at the first of points (pixels of the window), move over the others, release."""
        moves = [{"type": "pointerMove", "duration": 30, "x": int(x), "y": int(y)} for x, y in points]
        self._mouse([moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}])

    def hover(self, x, y):
        """Move the mouse to a place."""
        near = {"type": "pointerMove", "duration": 10, "x": int(x) - 3, "y": int(y)}
        self._mouse([near, {**near, "x": round(x), "y": round(y)}])

    def _mouse(self, actions):
        source = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self._call("POST", "/actions", {"actions": [source]})

    def keys(self, text):
        """Type into whatever has the focus."""
        actions = [{"type": way, "value": key} for key in text for way in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def errors(self):
        """Severe messages of the console since the last call."""
        return [entry for entry in self._call("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def screenshot(self, path):
        """The whole page as a PNG."""
        found = self.command("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self):
        """End the window and its driver."""
        self._call("DELETE", "")
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.profile, ignore_errors=True)


def contents(page):
    """The JSON of a page, read as a browser would find it."""
    packed = re.search(r'<script type="text/plain" id="data">(.*?)</script>', page, re.S)[1]
    return json.loads(zlib.decompress(base64.b85decode(packed.replace(",", "<"))))
