# SPDX-License-Identifier: GPL-2.0-only
"""The HTML pages."""

import gzip
import html
import re
import threading
import time
import urllib.parse

from pages import Pages, Table
from serving import one, wait_for

# The limit of a page, also for 1,000 VMs with problems
PAGE_MAX = 60000


class Page(Pages):
    """The pages as their clients get them."""

    def test_order(self):
        """VMs with problems are listed, the worst first; the others are named."""
        serving = self.start()
        rows = {vm["vm"]: vm["problem"] for vm in serving.api()["vms"]}
        self.assertEqual(list(rows)[:4], ["starved", "quota", "hung", "storm"])
        self.assertEqual(rows, {"hung": "stuck", "starved": "starved",
                                "storm": "exits", "gone": "ended", "quota": "throttled", "fine": "",
                                "<b>&\"x'": ""})
        text = self.page(serving)
        self.assertEqual(self.list(serving), list(rows)[:4])
        self.assertIn("4 with problems", text)
        self.assertIn("2 VMs without problems, 1 ended", text)
        self.assertEqual(re.findall(r"<span><a .*?>(.*?)</a> (\d+) %", text),
                         [("fine", "30"), ("&lt;b&gt;&amp;&quot;x&#39;", "10")])
        self.assertEqual(self.list(serving, "?all=1"), list(rows))
        self.assertEqual([row[:2] for row in Table(self.page(serving, "?all=1")).rows[1:]],
                         [list(row) for row in rows.items()])

    def test_stopped(self):
        """Without --stalls, /proc says why a VM is stuck."""
        host = self.host()
        for number, (name, states) in enumerate({"all": "TT", "one": "TS", "traced": "tt"}.items(), 1):
            host.vm(number, name, vcpus=2)
            for vcpu, state in enumerate(states):
                host.thread(100 * (1000 + number) + vcpu, state)
        serving = self.serve(host)
        wait_for(lambda: all(vm["problem"] == "stuck" for vm in serving.api()["vms"]), "problems")
        rows = dict(re.findall(r'vm=(\w+)".*?<td class=problem>(.*?)</small>', self.page(serving), re.DOTALL))
        stopped = "stuck<small>stopped: the VMM is stopped by a signal or a debugger"
        self.assertEqual(rows, {"all": stopped, "traced": stopped,
                                "one": "stuck<small>no vCPU is run: the VMM is paused or stopped, or waits"})

    def test_host_line(self):
        """The line of the host covers all VMs, also if a sample ends long after they were read."""
        host = self.host().vm(1, "one", vcpus=4, run=500, ready=200, halt=300)
        host.vm(2, "two", vcpus=12, run=250, halt=750)
        held = host.path / "held"
        held.touch()
        host.extra = [f"hold {held}\n"]
        threading.Timer(1, host.release).start()
        serving = self.serve(host)
        wait_for(lambda: all(vm["seconds"] > 4 for vm in serving.api()["vms"]), "a window")
        # 4 * 0.5 + 12 * 0.25 of 16 CPUs run, 4 * 0.2 of 16 vCPUs are ready. At each end of a window of
        # 4 s, up to a tick of 10 ms can be booked later; the percentage has one digit.
        tick = 100 * 0.01 / 4 + 0.1
        found = serving.api()["host"]
        self.assertEqual((found["cpus"], found["load"]), (16, 18.4))
        self.assertAlmostEqual(found["run_percent"], 31.25, delta=tick)
        self.assertAlmostEqual(found["ready_percent"], 5, delta=tick)
        for path in "", "?q=two", "vm?vm=two":
            text = re.sub("<.*?>", "", self.page(serving, path))
            line = re.search(r"Host: 16 CPUs, 1.0 vCPUs for each; guests run on ([\d.]+) % of the CPUs; "
                             r"vCPUs are ready \(they wait for a CPU\) for ([\d.]+) %.*"
                             r"load 18.40; CPU pressure 12.3 %", text)
            self.assertAlmostEqual(float(line[1]), 31.25, delta=tick)
            self.assertAlmostEqual(float(line[2]), 5, delta=tick)

    def test_offline_cpus(self):
        """The host's share counts the CPUs that were online in each part of the last minute."""
        host = self.host().vm(1, "one", vcpus=16, run=1000)
        serving = self.serve(host)
        wait_for(lambda: serving.api()["vms"][0]["seconds"] > 4, "a window")
        host.extra = ["cpus 8\n"]
        host.vm(1, "one", vcpus=16, run=500, ready=500).write()
        before = serving.api()["vms"][0]["seconds"]
        wait_for(lambda: serving.api()["vms"][0]["seconds"] > before + 4, "a window with 8 CPUs")
        found = serving.api()["host"]
        self.assertEqual(found["cpus"], 8)
        # half a sample of 0.1 s with other CPUs, in 10 s
        self.assertAlmostEqual(found["run_percent"], 100, delta=1)

    def test_thresholds(self):
        """Each problem begins at its threshold, which alerts have as well."""
        host = self.host()
        values = {"ready": ("starved", {"ready": 110, "run": 500, "halt": 390},
                            {"ready": 90, "run": 500, "halt": 410}),
                  "throttled": ("throttled", {"throttled": 110},
                                {"throttled": 90, "run": 500, "halt": 410}),
                  # the larger one has the remedy
                  "both": ("throttled", {"throttled": 325, "ready": 300, "run": 300},
                           {"throttled": 95, "ready": 95, "run": 500, "halt": 310}),
                  "other": ("stuck", {"run": 3}, {"run": 7}),
                  "blocked": ("stalled", {"run": 400, "halt": 390}, {"run": 400, "halt": 410}),
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
        expected["other-below"] = "stalled"
        serving = self.serve(host)
        wait_for(lambda: all(vm["seconds"] > 4 for vm in serving.api()["vms"]), "a window")
        self.assertEqual({vm["vm"]: vm["problem"] for vm in serving.api()["vms"]}, expected)

    def test_nothing_from_elsewhere(self):
        """The pages have no script and load nothing from other servers."""
        serving = self.start_quickly(["fine"])
        _, headers, _ = serving.get("", accept="text/html")
        self.assertEqual(headers["Content-Security-Policy"], "default-src 'self'; frame-ancestors 'self'")
        for path in "", "?all=1", "?q=x", "vm?vm=fine":
            body = self.page(serving, path)
            page = Table(body)
            self.assertEqual(page.scripts, 0)
            self.assertNotIn(" style=", body)
            self.assertIn("style.css", page.addresses)
            for address in page.addresses:
                self.assertRegex(address, r"^(\./|\?|vm\?|style\.css$|metrics$|api/v1/vms$|healthz$)")
                self.assertEqual(serving.get(address.removeprefix("./"), accept=None)[0], 200, address)
        _, headers, style = serving.get("style.css", accept=None)
        self.assertEqual(headers["Content-Type"], "text/css; charset=utf-8")
        self.assertNotIn(b"url(", style)

    def test_filter(self):
        """The filter finds names, PIDs, UUIDs and cgroups in any case, and stays in its field."""
        serving = self.start_quickly(["starved", "hung", "storm", "<b>&\"x'", "quota"])
        for text, names in (("STAR", ["starved"]), ("1002", ["hung"]),
                            ("+1002", ["hung"]), ("qemu\\x2d1\\x2d1003", ["storm"]),
                            ("00000000-0000-0000-0000-000000001005", ["quota"]), ("none", []),
                            ("<b>", ["<b>&\"x'"]), ("&", ["<b>&\"x'"]), ("e", None), ("\xff", []),
                            ("%", []), ("*", []), ("100", None)):
            with self.subTest(text):
                path = "?" + urllib.parse.urlencode({"q": text})
                body = self.page(serving, path)
                found = self.list(serving, path)
                self.assertEqual(found, found if names is None else names)
                self.assertIn(f'value="{html.escape(text)}"', body)
                self.assertEqual("No VM has this text" in body, not found)
                # Without a URL, a refresh keeps the query.
                self.assertIn("<meta http-equiv=refresh content=5>", body)
        self.assertEqual(self.page(serving, "?q=").split("<table")[1], self.page(serving).split("<table")[1])

    def test_hostile_urls(self):
        """Arguments that are too long or contain a 0 are refused with one line, others are escaped."""
        serving = self.start_quickly(["fine"])
        for path, status in (("?q=" + "x" * 128, 200), ("?q=" + "x" * 129, 400), ("?q=a%00b", 400),
                             ("vm?vm=" + "x" * 129, 400), ("vm?vm=fine%00", 400), ("vm", 404),
                             ("vm?vm=", 404), ("vm?vm=FINE", 404), ("vm?vm=%3Cb%3E", 404),
                             ("vm?vm=fine&vm=x", 200), ("vm?q=fine", 404), ("vm/fine", 404),
                             ("?q=%ff%fe", 200), ("?q=%zz", 200), ("?q=%", 200), ("?q", 200), ("?=", 200),
                             ("?all", 200), ("?" + "all=1&" * 50, 200), ("?q=%3Cscript%3E%22%27", 200)):
            with self.subTest(path[:40]):
                found, headers, body = serving.get(path, accept="text/html")
                self.assertEqual(found, status, body)
                body.decode()
                if status == 200:
                    self.assertEqual(Table(body).scripts, 0)
                else:
                    self.assertEqual(headers["Content-Type"], "text/plain; charset=utf-8")
                    self.assertRegex(body, rb"^\d{3}: [^\n<>]*\n$")

    def test_hostile_names(self):
        """Each VM in the list has a link to its page, whatever its name is."""
        names = ["two words", "a+b&c=d", "100%", "%41", "?#/../", "\"'<>", "größe 🐧", "\u202egpj",
                 "x" * 125 + "é", "\\x1b[31m"]
        serving = self.start_quickly(names)
        addresses = [address for address in Table(self.page(serving)).addresses if address.startswith("vm?")]
        self.assertEqual(len(addresses), len(names))
        for address in addresses:
            heading = re.search("<h1>(.*?)</h1>", self.page(serving, address))[1]
            names.remove(html.unescape(heading))
        self.assertEqual(names, [])

    def test_old_sample(self):
        """A sample older than ten seconds is marked; one older than --max-age is not shown."""
        host = self.host().vm(1, "one", run=500)
        serving = self.serve(host)
        serving.next_sample()
        host.write(["broken\n"])
        wait_for(lambda: "broken" in serving.get("healthz")[2].decode(), "a sample that fails")
        host.stop_clock()
        self.assertNotIn("Data are old: the", self.page(serving))
        self.assertRegex(self.page(serving), r"Sample of <b>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [-+A-Z0-9]+</b>")
        host.stop_clock(later=9)
        self.assertNotIn("Data are old: the", self.page(serving))
        host.stop_clock(later=2)
        for path in "", "vm?vm=one":
            self.assertRegex(self.page(serving, path), r"Data are old: the last sample was taken 1\d s ago")
        host.stop_clock(later=20)
        for path in "", "?all=1", "?q=x", "vm?vm=one":
            status, headers, body = serving.get(path, accept="text/html")
            self.assertEqual((status, headers["Content-Type"]), (503, "text/html; charset=utf-8"))
            self.assertRegex(body, rb"too old: it was taken 3\d s ago.*\n.*the host is broken")
            self.assertIn(b"<meta http-equiv=refresh content=5>", body)
            self.assertNotIn(b"<table", body)

    def test_long_interval(self):
        """A sample is not old before two intervals have passed."""
        host = self.host().vm(1, "one", run=500)
        host.stop_clock()
        serving = self.serve(host, "-d", "20", "--max-age", "100")
        serving.series()
        for later, old in ((39, False), (21, True)):
            host.stop_clock(later=later)
            self.assertEqual("Data are old: the" in self.page(serving), old)

    def test_size(self):
        """A page of 1,000 VMs has at most 60 kB, also if all have problems or long names."""
        serving = self.serve(self.host("quiet").busy(1000), "-d", "3")
        text = wait_for(lambda: self.page(serving), "a window",
                        lambda text: re.search(r"</a> [1-9]\d* %", text))
        self.assertLess(len(text), PAGE_MAX)
        self.assertIn("1000 VMs without problems", text)
        self.assertIn("and 900 more", text)
        found = self.page(serving, "?q=instance")
        self.assertLess(len(found), PAGE_MAX)
        self.assertIn("more</b> are not shown", found)
        self.assertEqual(len(self.list(serving, "?all=1")), 1000)
        _, headers, body = serving.get("?all=1", Accept_Encoding="gzip")
        self.assertEqual(headers["Content-Encoding"], "gzip")
        self.assertLess(len(body), PAGE_MAX)
        self.assertEqual(len(Table(gzip.decompress(body)).rows), 1001)
        serving.stop()
        host = self.host("starved")
        for number in range(1, 1001):
            host.vm(number, f"{number:04}" + 120 * "<", vcpus=1, run=100 + number % 99, ready=500)
        serving = self.serve(host, "-d", "3")
        text = wait_for(lambda: self.page(serving), "the problems",
                        lambda text: "1000 with problems" in text)
        self.assertLess(len(text), PAGE_MAX)
        shown = len(Table(text).rows) - 1
        self.assertGreater(shown, 10)
        self.assertIn(f"<b>{1000 - shown} more</b> are not shown", text)


class VMPage(Pages):
    """The page of one VM."""

    def test_content(self):
        """The page has the identity, the modes and the vCPUs of the VM."""
        host = self.host().vm(1, "web", vcpus=3, run=300, ready=200, halt=400, exits=1000)
        serving = self.serve(host, "--blame", "5")
        wait_for(lambda: serving.api()["vms"][0]["seconds"] > 4, "a window")
        text = self.page(serving, "vm?vm=web")
        for fact in ("<h1>web</h1>", "<dt>PID<dd>1001\n", "<dt>VMM<dd>qemu\n",
                     "<dt>UUID<dd>00000000-0000-0000-0000-000000001001\n",
                     "<dt>cgroup<dd>/machine.slice/machine-qemu\\x2d1\\x2d1001.scope\n",
                     "its vCPUs wait for a CPU", '<a href="./">',
                     "<code>kvm-stats why 1001</code> on this host examines its cgroups",
                     "the guest sees as steal time. It is unknown who ran then.\n"):
            self.assertIn(fact, text)
        self.assertRegex(text, r"<dt>started<dd>20\d\d-")
        rows = {row[0]: row[1:] for row in Table(text).rows}
        for mode, value in (("run", 30), ("ready", 20), ("throttled", 0), ("halt", 40), ("other", 10)):
            self.assertAlmostEqual(float(rows[mode][0].removesuffix(" %")), value, delta=0.3)
            self.assertGreater(len(rows[mode][1]), 20)
        for i in range(3):
            row = rows[f"vCPU {i}"]
            self.assertEqual(int(row[0]), 100100 + i)
            for value, wanted in zip(row[2:8], (30, 20, 0, 40, 0, 10)):
                self.assertAlmostEqual(float(value), wanted, delta=0.3)
            self.assertAlmostEqual(float(row[8]), 1000, delta=20)
        # not a link to a page that does not exist
        self.assertEqual(text.count("Not measured: start kvm-stats serve with"), 2)
        self.assertIn("<code>--exits 5</code>", text)
        self.assertIn("<code>--stalls</code>", text)

    def test_owners(self):
        """The page lists the owners of this VM's waits only."""
        host = self.host().vm(1, "web", ready=500).vm(2, "db", run=900)
        host.extra = ["wait 1 600 vm 2\n", "wait 1 400 process <x>\n"]
        serving = self.serve(host, "--blame", "5")

        def owners(vm):
            text = self.page(serving, f"vm?vm={vm}")
            return [row for row in Table(text.split("<h2>Its most")[0]).rows if row[-1][:2] in ("60", "59", "40", "39")]

        wait_for(lambda: len(owners("web")) == 2, "owners")
        self.assertEqual([row[:2] for row in owners("web")], [["db", "vm"], ["<x>", "process"]])
        self.assertIn("None yet.", self.page(serving, "vm?vm=db"))

    def test_exits(self):
        """The page has the most expensive exits of the VM, with the numbers of the metrics."""
        host = self.host().vm(1, "web", run=900, exits=1000)
        host.extra = ["exit 1 30 1000 100 500\n", "exit 1 48 5000 200 0\n", "exit 1 10 10 1 0\n"]
        serving = self.serve(host, "--exits", "2")

        def rows():
            text = self.page(serving, "vm?vm=web").split("<h2>Its most expensive exits")[1].split("<h2>")[0]
            return [row for row in Table(text).rows if row[0] != "reason"]

        wait_for(lambda: len(rows()) == 2 and float(rows()[0][4]) > 0.5, "exits")
        host.write(["broken\n"])
        wait_for(lambda: "broken" in serving.get("healthz")[2].decode(), "the last sample")
        found = serving.series()
        # the most expensive one first
        self.assertEqual([row[0] for row in rows()], ["0x1e", "0x30"])
        for row, share in zip(rows(), (75, 25)):
            self.assertAlmostEqual(float(row[1]), share, delta=1)
            reason = {"vm": "web", "reason": row[0]}
            self.assertEqual(int(row[2]), one(found, "kvm_vm_exits_by_reason_total", **reason))
            for cell, phase in zip(row[3:5], ("kernel", "user")):
                self.assertAlmostEqual(float(cell), one(
                    found, "kvm_vm_exit_seconds_total", phase=phase, **reason), delta=0.001)

    def test_heads(self):
        """Each head of a table is over its values, and has the name of a quantity, not only its unit."""
        host = self.host().vm(1, "web", vcpus=2, run=400, ready=500, exits=1000).vm(2, "db", run=900)
        host.extra = ["exit 1 30 1000 100 500\n", "wait 1 600 vm 2\n"]
        serving = self.serve(host, "--exits", "2", "--blame", "2")
        wait_for(lambda: "<table id=exits" in self.page(serving, "vm?vm=web") and
                 "<table id=owners" in self.page(serving, "vm?vm=web"), "exits and owners")
        for name, text in (("vms", self.page(serving, "?all=1")), ("vcpus", self.page(serving, "vm?vm=web")),
                           ("exits", self.page(serving, "vm?vm=web")), ("owners", self.page(serving, "vm?vm=web"))):
            with self.subTest(table=name):
                table = Table(re.search(rf"<table id={name}>.*?</table>", text, re.DOTALL)[0])
                self.assertEqual(table.right[0], table.right[1])
                for head in table.rows[0]:
                    self.assertRegex(head, r"^[A-Za-z]{2}")

    def bars(self, serving, vm):
        """Return the place and the text of each bar of the last hour."""
        return [(int(at), title) for at, title in re.findall(
            r"<rect x=(\d+) width=1 height=1000><title>(.*?)</title>", self.page(serving, f"vm?vm={vm}"))]

    def test_hour_since_boot(self):
        """The present minute is the last one also if the host was booted less than an hour ago."""
        host = self.host().vm(1, "web", run=400, halt=600)
        (host.path / "clock").write_text("70000000000")
        serving = self.serve(host)
        serving.series()
        for _ in range(2):
            host.stop_clock(later=60)
            serving.series()
        self.assertEqual([at for at, _ in self.bars(serving, "web")][:2], [57, 58])
        text = self.page(serving, "vm?vm=web")
        sample = time.mktime(time.strptime(re.search(r"Sample of <b>(\S+ \S+)", text)[1], "%Y-%m-%d %H:%M:%S"))
        axis = re.search("<p class=axis>(.*?)</p>", text)[1]
        self.assertEqual(re.findall(r"\d\d:\d\d", axis)[-1],
                         time.strftime("%H:%M", time.localtime(sample - 10)))

    def test_hour(self):
        """The last hour has one bar per minute; older minutes and those before the VM have none."""
        host = self.host().vm(1, "web", run=400, halt=600)
        host.stop_clock()
        serving = self.serve(host)
        serving.series()

        def bars():
            return self.bars(serving, "web")

        def pass_minutes(n):
            for _ in range(n):
                host.stop_clock(later=60)
                serving.series()

        pass_minutes(3)
        self.assertEqual([at for at, _ in bars()], [56, 57, 58])
        for _, title in bars():
            run, halted = re.fullmatch(r"\d\d:\d\d run ([\d.]+) % halt ([\d.]+) %(?: other .*)?", title).groups()
            self.assertAlmostEqual(float(run), 40, delta=2)
            self.assertAlmostEqual(float(halted), 60, delta=2)
        minutes = [title.split()[0] for _, title in bars()]
        self.assertEqual(len(set(minutes)), 3)
        host.vm(1, "web", ready=1000).write()
        pass_minutes(2)
        self.assertEqual([("ready" in title, at) for at, title in bars()][-2:], [(True, 57), (True, 58)])
        # Minutes without a sample have the average.
        host.stop_clock(later=300)
        serving.series()
        self.assertEqual([at for at, _ in bars()], list(range(49, 59)))
        pass_minutes(70)
        self.assertEqual([at for at, _ in bars()], list(range(60))[:59])
        self.assertTrue(all("run" not in title for _, title in bars()))
        self.assertLess(len(self.page(serving, "vm?vm=web")), PAGE_MAX)

    def test_vcpus_are_bounded(self):
        """The page of a VM with 1,000 vCPUs has at most 60 kB."""
        host = self.host()
        host.vm(1, "large", vcpus=1000, run=321, ready=123, halt=222, poll=111, throttled=123)
        serving = self.serve(host)
        wait_for(lambda: serving.api()["vms"][0]["seconds"] > 4, "a window")
        text = self.page(serving, "vm?vm=large")
        self.assertLess(len(text), PAGE_MAX)
        shown = text.count("<th scope=row>vCPU ")
        self.assertGreater(shown, 50)
        self.assertIn(f"<b>{1000 - shown} more vCPUs</b> are not shown", text)

    def test_end(self):
        """The page of a VM that was destroyed has its last values."""
        serving = self.start()
        text = self.page(serving, "vm?vm=gone")
        self.assertIn("ended: these are its last values", text)
        self.assertIn("run 10.0 %", text.replace("9.9 %", "10.0 %"))
