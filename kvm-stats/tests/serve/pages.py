# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the HTML pages have in common."""

import html.parser

from serving import Case, wait_for

MODES = ("run", "ready", "throttled", "halt", "poll", "other")


class Table(html.parser.HTMLParser):
    """Parser for the rows of the table and the addresses in the page."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.addresses, self.scripts, self.row, self.small = [], [], 0, None, False
        # for each row, which cells have numbers at their right edge
        self.right = []
        self.feed(text if isinstance(text, str) else text.decode())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.addresses += [attrs[name] for name in ("src", "href") if name in attrs]
        self.scripts += tag == "script" or any(name.startswith("on") for name in attrs)
        self.small = tag == "small"
        if tag == "tr":
            self.row = []
            self.rows.append(self.row)
            self.right.append([])
        elif tag in ("td", "th"):
            self.row.append("")
            self.right[-1].append("n" in attrs.get("class", "").split())

    def handle_endtag(self, tag):
        self.small = False
        if tag == "table":
            self.row = None

    def handle_data(self, data):
        if self.row and not self.small:
            self.row[-1] += data.strip("\n")


class Pages(Case):
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

    def start_quickly(self, names=("one", "two")):
        """Serve a host with VMs of these names, which have no problems."""
        host = self.host()
        for number, name in enumerate(names, 1):
            host.vm(number, name, run=500)
        serving = self.serve(host)
        serving.series()
        return serving

    def page(self, serving, path=""):
        """Return a page that exists."""
        status, headers, body = serving.get(path, accept="text/html")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"), body)
        return body.decode()

    def list(self, serving, path=""):
        """Return the names in the table of VMs."""
        return [row[0] for row in Table(self.page(serving, path)).rows[1:]]
