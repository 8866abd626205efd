# SPDX-License-Identifier: GPL-2.0-only
"""The HTML page, also in a browser."""

import html.parser
import http.server
import os
import re
import shutil
import subprocess
import threading
import unittest

from serving import DEADLINE, Case, wait_for

BROWSER = shutil.which("chromium-headless-shell")
MODES = ("run", "ready", "throttled", "halt", "poll", "other")


class Table(html.parser.HTMLParser):
    """Parser for the rows of the table and the addresses in the page."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.addresses, self.scripts, self.cell = [], [], 0, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.addresses += [attrs[name] for name in ("src", "href") if name in attrs]
        self.scripts += tag == "script" or any(name.startswith("on") for name in attrs)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.cell = self.rows[-1]

    def handle_endtag(self, tag):
        if tag in ("td", "th", "tr", "table"):
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[-1] += data.strip("\n")


class Page(Case):
    """A host with VMs that have different problems."""

    def start(self, *options, host=None):
        """Serve such a host until all VMs have rates and one has ended."""
        host = host or self.host()
        host.vm(1, "fine", run=300, halt=650, exits=2000)
        host.vm(2, "starved", run=200, ready=600, halt=200, exits=2000)
        host.vm(3, "hung")
        host.vm(4, "storm", run=900, exits=300000)
        host.vm(5, "<b>&\"x'", run=100, halt=850)
        host.vm(7, "quota", run=100, throttled=500, halt=400)
        host.vm(6, "gone", run=100, halt=850)
        serving = self.serve(host, *options)
        wait_for(lambda: all(vm["seconds"] > 4 for vm in serving.api()["vms"]), "a window")
        host.end(6).write()
        wait_for(lambda: any(vm["ended"] for vm in serving.api()["vms"]), "the end of one")
        return serving

    def browse(self, url, *options):
        """Return the output of the browser for a URL."""
        done = subprocess.run(
            [BROWSER, "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--disable-dev-shm-usage",
             f"--user-data-dir={self.folder}/browser", "--timeout=30000", *options, url],
            capture_output=True, text=True, timeout=2 * DEADLINE, check=True,
            env={**os.environ, "HOME": str(self.folder)})
        return done.stdout, done.stderr

    def test_order(self):
        """VMs are sorted by problem; ended VMs are last."""
        serving = self.start()
        rows = {vm["vm"]: vm["problem"] for vm in serving.api()["vms"]}
        self.assertEqual(list(rows)[:4], ["starved", "quota", "hung", "storm"])
        self.assertEqual(rows, {"hung": "stuck", "starved": "starved",
                                "storm": "exits", "gone": "ended", "quota": "throttled", "fine": "",
                                "<b>&\"x'": ""})
        _, _, body = serving.get("", accept="text/html")
        table = [row for row in Table(body.decode()).rows if len(row) > 2]
        self.assertEqual([row[0] for row in table[1:]], list(rows))
        self.assertIn(b"4 with problems", body)

    def test_thresholds(self):
        """Each problem begins at its threshold, which alerts have as well."""
        host = self.host()
        values = {"ready": ("starved", {"ready": 110, "run": 500}, {"ready": 90, "run": 500}),
                  "throttled": ("throttled", {"throttled": 110}, {"throttled": 90, "run": 500}),
                  # the larger one has the remedy
                  "both": ("throttled", {"throttled": 325, "ready": 300, "run": 300},
                           {"throttled": 95, "ready": 95, "run": 500}),
                  "other": ("stuck", {"run": 3}, {"run": 7}),
                  "poll": ("polling", {"poll": 210, "run": 180, "halt": 610},
                           {"poll": 190, "run": 180, "halt": 630}),
                  "less": ("polling", {"poll": 310, "run": 290, "halt": 400},
                           {"poll": 310, "run": 330, "halt": 360}),
                  "exits": ("exits", {"run": 900, "exits": 70000},
                            {"run": 900, "exits": 35000})}
        expected = {}
        for name, (problem, above, below) in values.items():
            number = 2 * len(expected)
            host.vm(number + 1, f"{name}-above", **above)
            host.vm(number + 2, f"{name}-below", **below)
            expected |= {f"{name}-above": problem, f"{name}-below": ""}
        serving = self.serve(host)
        wait_for(lambda: all(vm["seconds"] > 4 for vm in serving.api()["vms"]), "a window")
        self.assertEqual({vm["vm"]: vm["problem"] for vm in serving.api()["vms"]}, expected)

    def test_nothing_from_elsewhere(self):
        """The page has no script and loads nothing from other servers."""
        serving = self.serve(self.host())
        _, headers, body = serving.get("", accept="text/html")
        self.assertEqual(headers["Content-Security-Policy"], "default-src 'self'")
        page = Table(body.decode())
        self.assertEqual(page.scripts, 0)
        self.assertEqual(set(page.addresses), {"style.css", "metrics", "api/v1/vms", "healthz"})
        for address in page.addresses:
            serving.get(address, accept=None)
        _, headers, style = serving.get("style.css", accept=None)
        self.assertEqual(headers["Content-Type"], "text/css; charset=utf-8")
        self.assertNotIn(b"url(", style)
        self.assertNotIn(b" style=", body)

    @unittest.skipUnless(BROWSER, "there is no chromium-headless-shell")
    def test_browser_shows_what_the_api_says(self):
        """The browser shows the values of /api/v1/vms."""
        host = self.host()
        serving = self.start("--max-age", "600", host=host)
        # A browser can be slower than samples, so this sample is the last one.
        host.extra = ["broken\n"]
        host.write()

        def both():
            before = serving.api()
            dom, said = self.browse(serving.url, "--dump-dom")
            self.assertNotIn("Content Security Policy", said)
            after = serving.api()
            return before["samples"] == after["samples"] and (dom, after)

        dom, told = wait_for(both, "both of one sample")
        rows = [row for row in Table(dom).rows if len(row) > 2]
        self.assertEqual(rows[0][4:10], [mode + " %" for mode in MODES])
        self.assertEqual(len(rows) - 1, len(told["vms"]))
        for row, vm in zip(rows[1:], told["vms"]):
            self.assertEqual(row[0], vm["vm"])
            self.assertEqual(row[1], vm["problem"])
            self.assertEqual(int(row[2]), vm["vcpus"])
            self.assertEqual([float(cell) for cell in row[4:10]],
                             [vm[mode + "_percent"] for mode in MODES])
            self.assertEqual(int(row[10]), vm["exits_per_second"])

    @unittest.skipUnless(BROWSER, "there is no chromium-headless-shell")
    def test_narrow_screen(self):
        """The page fits into a width of 320 and of 1280 pixels."""
        serving = self.start()

        class Frame(http.server.BaseHTTPRequestHandler):
            """Serves the page, and a page that measures it, from one origin."""

            def do_GET(self):
                """Send one of the pages."""
                if self.path.startswith("/frame"):
                    kind, body = "text/html", FRAME
                else:
                    _, headers, body = serving.get(self.path[1:], accept=None)
                    kind = headers["Content-Type"]
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Log nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Frame)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            dom, _ = self.browse(f"http://127.0.0.1:{server.server_port}/frame", "--dump-dom",
                                 "--virtual-time-budget=3000")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        widths = re.findall(r"measured (\d+) (\d+) (\d+);", dom)
        self.assertEqual([int(width[0]) for width in widths], [320, 1280])
        for frame, page, rows in widths:
            self.assertLessEqual(int(page), int(frame))
            self.assertEqual(int(rows), 7)


FRAME = b"""<!DOCTYPE html><body><pre id=out></pre>
<iframe width=320 height=600 frameborder=0 src=/></iframe>
<iframe width=1280 height=600 frameborder=0 src=/></iframe>
<script>
onload = () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument.documentElement;
    document.getElementById("out").textContent += "measured " + frame.width + " " +
      page.scrollWidth + " " + page.querySelectorAll("tbody tr").length + ";\\n";
  }
};
</script>"""

