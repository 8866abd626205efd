# SPDX-License-Identifier: GPL-2.0-only
"""A browser that tests control through a pipe, by the protocol of Chromium's developer tools."""

import base64
import json
import os
import select
import shutil
import subprocess

PROGRAM = shutil.which("chromium-headless-shell")
MISSING = "there is no chromium-headless-shell"


class Browser:
    """Chromium without a screen, with one page."""

    def __init__(self, folder, seconds):
        self.seconds = seconds
        from_test, self.to = os.pipe()
        self.out, to_test = os.pipe()
        # The protocol is on descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_test} 4>&{to_test}', "bash", PROGRAM, "--no-sandbox",
             "--disable-gpu", "--no-proxy-server", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={folder}/browser", "about:blank"],
            pass_fds=(from_test, to_test), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)})
        os.close(from_test)
        os.close(to_test)
        self.received, self.number, self.events, self.session = b"", 0, [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def receive(self):
        """Return the next message; events are also kept."""
        while b"\0" not in self.received:
            if not select.select([self.out], [], [], self.seconds)[0]:
                raise AssertionError(f"the browser sent nothing for {self.seconds} s")
            data = os.read(self.out, 1 << 16)
            if not data:
                raise AssertionError("the browser has exited")
            self.received += data
        message, self.received = self.received.split(b"\0", 1)
        message = json.loads(message)
        if "method" in message:
            self.events.append(message)
        return message

    def ask(self, method, **parameters):
        """Return the result of a command."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def screen(self, width, height, dark=False):
        """Set the size of the screen; narrow ones belong to telephones."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def load(self, url):
        """Load a page with its style."""
        self.events.clear()
        failed = self.ask("Page.navigate", url=url).get("errorText")
        if failed:
            raise AssertionError(f"{url}: {failed}")
        self.wait("Page.loadEventFired")

    def wait(self, method):
        """Wait for an event that has not been waited for."""
        while method not in [event["method"] for event in self.events]:
            self.receive()
        self.events.clear()

    def evaluate(self, expression):
        """Return the value of an expression in the page."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def offline(self, offline):
        """Take the network from the page, or give it back."""
        self.ask("Network.emulateNetworkConditions", offline=offline, latency=0,
                 downloadThroughput=-1, uploadThroughput=-1)

    def screenshot(self, file, whole=False):
        """Write the screen, or the whole page, as a PNG."""
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def stop(self):
        """Stop it."""
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.out)
