"""A headless Chromium that a test drives: pages, scripts in them, pictures of them.

Speaks the DevTools protocol over two pipes, so there is no port that others on the host could use.
"""
import base64
import collections
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
ANSWER_S = 60


def program():
    """The path of the browser; None: there is none."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Browser:
    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="simm_browser_")
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()

        def give_pipes():
            # Copies above all that might be meant first: the numbers are fixed.
            source, sink = os.dup(to_browser), os.dup(from_browser)
            os.dup2(source, 3)
            os.dup2(sink, 4)

        flags = ["--headless", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
                 f"--user-data-dir={self.home.name}", "--no-first-run", "--mute-audio",
                 "--disable-background-networking", "--disable-component-update"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        with open(pathlib.Path(self.home.name, "log"), "wb") as log:
            self.process = subprocess.Popen([program(), *flags, "about:blank"], close_fds=False,
                                            preexec_fn=give_pipes, stderr=log,
                                            stdout=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.unread = b""
        self.calls = 0
        self.answers = {}
        self.events = collections.deque()

    def close(self):
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        try:
            self.home.cleanup()
        except OSError:  # a helper process of the browser may still write there
            shutil.rmtree(self.home.name, ignore_errors=True)

    def read(self, seconds):
        """Takes in what the browser says within that time, at least once."""
        if not select.select([self.from_browser], [], [], seconds)[0]:
            return
        block = os.read(self.from_browser, 1 << 20)
        if not block:
            raise AssertionError("the browser has ended: "
                                 + pathlib.Path(self.home.name, "log").read_text()[-2000:])
        *whole, self.unread = (self.unread + block).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)

    def call(self, method, session=None, **parameters):
        self.calls += 1
        number = self.calls
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + ANSWER_S
        while number not in self.answers:
            if time.monotonic() > end:
                raise AssertionError(f"no answer to {method}")
            self.read(1)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session)


class Page:
    """A tab. `answer`, when it is set, makes the text that the page gets for /status.json."""

    def __init__(self, browser, session):
        self.browser = browser
        self.session = session
        self.answer = None
        self.complaints = []  # errors and warnings of the console, and refused loads
        self.headers = []     # of each request for /status.json
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def look(self, seconds=0.0):
        """Handles what the browser has told."""
        self.browser.read(seconds)
        while self.browser.events:
            event = self.browser.events.popleft()
            if event.get("sessionId") != self.session:
                continue
            what, said = event["method"], event["params"]
            if what == "Runtime.exceptionThrown":
                self.complaints.append(said["exceptionDetails"])
            elif what == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
                self.complaints.append(said["args"])
            elif what == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                self.complaints.append(said["entry"])
            elif what == "Network.requestWillBeSent":
                if said["request"]["url"].endswith("/status.json"):
                    self.headers.append(said["request"]["headers"])
            elif what == "Fetch.requestPaused":
                self.fulfil(said["requestId"])

    def fulfil(self, request):
        self.call("Fetch.fulfillRequest", requestId=request, responseCode=200,
                  responseHeaders=[{"name": "Content-Type", "value": "application/json"}],
                  body=base64.b64encode(self.answer().encode()).decode())

    def answer_with(self, answer):
        """From now on `answer()` is what the page gets for /status.json; None: what is true."""
        self.answer = answer
        if answer is None:
            self.call("Fetch.disable")
        else:
            self.call("Fetch.enable", patterns=[{"urlPattern": "*/status.json"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def run(self, script):
        """What an expression in the page comes to, as JSON would have it."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)
        self.look()
        if "exceptionDetails" in done:
            raise AssertionError(done["exceptionDetails"])
        return done["result"].get("value")

    def run_between_pages(self, script):
        """The same; None while one page takes the place of another."""
        try:
            return self.run(script)
        except AssertionError as error:
            if "Inspected target navigated" not in str(error):
                raise
            return None

    def until(self, script, seconds=60):
        """Waits until an expression in the page is true, and returns what it is then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run_between_pages(script)
            if found:
                return found
            self.look(0.05)
        raise AssertionError(f"never true: {script}\n{self.complaints}")

    def key(self, name, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "ArrowRight": 39,
                                             "ArrowDown": 40, "End": 35}.get(name, 0), text=text)

    def picture(self, file):
        """The whole page as a PNG, whatever the height of the window."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        pathlib.Path(file).write_bytes(base64.b64decode(shot["data"]))
