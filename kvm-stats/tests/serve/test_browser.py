# SPDX-License-Identifier: GPL-2.0-only
"""The HTML pages in a browser."""

import os
import signal
import unittest

import browser
from pages import MODES, Pages, Table
from serving import DEADLINE, wait_for


@unittest.skipUnless(browser.PROGRAM, browser.MISSING)
class InBrowser(Pages):
    """The pages as people see them."""

    def setUp(self):
        super().setUp()
        self.browser = browser.Browser(self.folder, DEADLINE)
        self.addCleanup(self.browser.stop)

    def test_browser_shows_what_the_api_says(self):
        """The browser shows the values of /api/v1/vms, and reports no error."""
        host = self.host()
        serving = self.start("--max-age", "600", host=host)
        # A browser can be slower than samples, so this sample is the last one.
        host.write(["broken\n"])

        def both():
            before = serving.api()
            self.browser.load(serving.url + "?all=1")
            dom = self.browser.evaluate("document.documentElement.outerHTML")
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

    def test_screens(self):
        """The pages fit into 320, 390 and 1280 pixels, and are legible on light and dark screens."""
        serving = self.start("--blame", "1")
        for width in 320, 390, 1280:
            for dark in False, True:
                self.browser.screen(width, 800, dark)
                for path, rows in (("", 4), ("?all=1", 7), ("vm?vm=starved", 2)):
                    with self.subTest(f"{path} {width} {'dark' if dark else 'light'}"):
                        self.browser.load(serving.url + path)
                        page = self.browser.evaluate(LAYOUT)
                        self.assertEqual(page["rows"], rows)
                        self.assertLessEqual(page["width"], width)
                        self.assertEqual(page["outside"], [])
                        self.assertEqual(page["dark"], dark)
                        # WCAG 2.2, 1.4.3
                        self.assertGreaterEqual(min(page["contrasts"]), 4.5, page)
                        self.assertEqual(page["old"], "hidden")
                        # Each is a separate layer.
                        self.assertLess(page["animations"], 10)
        self.assertEqual([event for event in self.browser.events
                          if event["method"] == "Log.entryAdded" and "favicon" not in str(event)], [])

    def test_words_are_explained(self):
        """On a telephone, a tap explains all words of the table."""
        serving = self.start_quickly()
        self.browser.screen(390, 844)
        self.browser.load(serving.url)
        self.assertFalse(self.browser.evaluate("document.querySelector('dl').checkVisibility()"))
        self.browser.evaluate("document.querySelector('summary').click()")
        self.assertTrue(self.browser.evaluate("document.querySelector('dl').checkVisibility()"))
        words = self.browser.evaluate("[...document.querySelectorAll('dt')].map(word => word.innerText.trim())")
        self.assertLessEqual({*MODES, "starved", "stuck", "throttled", "exits/s", "busy"}, set(words))
        self.assertTrue(all(self.browser.evaluate("[...document.querySelectorAll('dd')].map(text => text.innerText)")))

    def test_refresh_keeps_the_filter(self):
        """The form filters, and the page that replaces this one has the same filter."""
        serving = self.start_quickly()
        self.browser.load(serving.url)
        self.browser.evaluate("document.querySelector('input').value = 'storm & <x>'; "
                              "document.querySelector('button').click()")
        self.browser.wait("Page.loadEventFired")
        sample = "document.querySelector('#state b').innerText"
        before = self.browser.evaluate(sample)
        self.browser.wait("Page.loadEventFired")
        self.assertNotEqual(self.browser.evaluate(sample), before)
        self.assertEqual(self.browser.evaluate("document.querySelector('input').value"), "storm & <x>")
        self.assertIn("No VM has this text", self.browser.evaluate("document.body.innerText"))

    def open_frames(self, serving, *paths):
        """Open pages in frames, because nothing can be asked in a page that is being replaced."""
        self.browser.load(serving.url + "healthz")
        frames = "".join(f"<iframe src=/{path}></iframe>" for path in paths)
        self.browser.evaluate(f"document.body.innerHTML = '{frames}'")
        self.wait_for_state(["hidden", "1"], "the pages")

    def wait_for_state(self, wanted, what):
        """Wait until all pages have this visibility of the mark that data are old and this opacity of
        the data; None: until the browser shows its error instead."""
        wait_for(lambda: all(state == wanted for state in self.browser.evaluate("""
          [...document.querySelectorAll("iframe")].map(frame => {
            const page = frame.contentDocument;
            const [old, table] = page ? [page.getElementById("old"), page.querySelector("table")] : [];
            return table ? [getComputedStyle(old).visibility, getComputedStyle(table).opacity] : null;
          })""")), what)

    def test_server_that_does_not_answer(self):
        """A page whose refresh gets no answer says that its data are old, until there is one."""
        serving = self.start()
        self.open_frames(serving, "", "vm?vm=starved")
        server = serving.server()
        os.kill(server, signal.SIGSTOP)
        try:
            self.wait_for_state(["visible", "0.4"], "the mark")
        finally:
            os.kill(server, signal.SIGCONT)
        self.wait_for_state(["hidden", "1"], "new data")

    def test_no_network(self):
        """Without a network or a server, the browser replaces the page by its error."""
        serving = self.start_quickly()
        self.open_frames(serving, "", "vm?vm=one")
        self.browser.offline(True)
        self.wait_for_state(None, "the error")
        self.browser.offline(False)
        self.open_frames(serving, "", "vm?vm=one")
        serving.stop()
        self.wait_for_state(None, "the error")


LAYOUT = """(() => {
  const page = document.documentElement;
  const visible = [...document.querySelectorAll("body *")].filter(
    e => e.checkVisibility() && !e.closest("svg, thead") && e.id != "old");
  const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const light = colour => {
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...probe.getImageData(0, 0, 1, 1).data].map(
      c => c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const canvas = document.createElement("div");
  canvas.style.color = "Canvas";
  document.body.append(canvas);
  const ground = light(getComputedStyle(canvas).color);
  return {
    width: page.scrollWidth,
    rows: document.querySelectorAll("#vms tbody tr, #vcpus tbody tr").length,
    outside: visible.filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 ||
                                 e.getBoundingClientRect().left < 0).map(e => e.outerHTML),
    dark: ground < 0.5,
    contrasts: visible.filter(e => !e.closest("input, button, .gone") && e.innerText).map(e => {
      const ink = light(getComputedStyle(e).color);
      return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    }),
    animations: document.getAnimations().length,
    old: getComputedStyle(document.getElementById("old")).visibility,
  };
})()"""
