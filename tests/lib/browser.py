"""A headless browser, controlled over a pipe with the DevTools protocol. It downloads nothing: its profile is a
temporary folder, and every request of a page is counted."""

import base64
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import harness

NAMES = ("chromium", "chromium-headless-shell", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser")


def find():
    """The browser in GPUMEM_BROWSER, an installed one, or the one that scripts/lib/environment has unpacked; `None`
    without any."""
    named = os.environ.get("GPUMEM_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None) or unpacked()


def unpacked():
    """The browser in the cache."""
    command = [harness.ENVIRONMENT, "--current", "browser"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip() or None


def page_data(page):
    """What a page of `gpumem-analyze html` carries."""
    text = page.read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


class Browser:
    """One page in one browser."""

    def __init__(self, binary, width=1280, height=1600):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()

        def pipes():
            # First above the two that the browser expects, so that neither is overwritten.
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_browser, from_browser)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [
                binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--disable-background-networking", "--disable-component-update", "--no-first-run",
                "--disable-extensions", "--hide-scrollbars", f"--window-size={width},{height}",
                f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank",
            ],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Calls a method and waits for its answer; other messages are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self.rest:
            more = os.read(self.read, 1 << 16)
            assert more, "the browser has gone"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, path):
        """Opens a file and waits until it has run."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def tell(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def key(self, key, code=0, text=""):
        """Presses and releases a key."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def drag(self, start, end):
        """Drags the mouse from one place to another."""
        (x, y), (to_x, to_y) = start, end
        for kind, at, buttons in (("mousePressed", (x, y), 1), ("mouseMoved", (to_x, to_y), 1), ("mouseReleased", (to_x, to_y), 0)):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", buttons=buttons, clickCount=1)

    def move(self, x, y):
        """Moves the mouse to a place."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        """Clicks at a place."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wheel(self, x, y, by, modifiers):
        """Turns the mouse's wheel; modifiers as the protocol numbers them: 2 is Ctrl, 8 is Shift."""
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by, modifiers=modifiers)

    def resize(self, width, height):
        """As if the window had this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def wait(self, expression, seconds=300):
        """Waits until an expression is true in the page."""
        end = time.monotonic() + seconds
        while not self.tell(f"Boolean({expression})"):
            assert time.monotonic() < end, (expression, self.tell("document.body.innerText.slice(0, 2000)"), self.errors())
            time.sleep(0.02)

    def box(self, selector):
        """Where an element is once it has been scrolled to: x, y, width, height."""
        return self.tell(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            " return [b.x, b.y, b.width, b.height]; })()"
        )

    def picture(self, path, scheme="light", whole=True):
        """A screenshot in a colour scheme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def requests(self):
        """URLs that the page requested, its own included."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def errors(self):
        """Exceptions, and errors on the console."""
        found = [e["params"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        logged = [e["params"]["entry"] for e in self.events if e.get("method") == "Log.entryAdded"]
        return found + [entry for entry in logged if entry["level"] == "error"]

    def close(self):
        """Ends the browser."""
        self.process.kill()
        self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.profile.cleanup()
