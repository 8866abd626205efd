# SPDX-License-Identifier: GPL-2.0-only
"""Identity of VMs in a real Prometheus: no duplicate series, no decreasing counter, and exact
rates while VMs start, end and restart."""

import re
import resource
import time
from pathlib import Path

from serving import Case, one, pick, vms, wait_for


class Identity(Case):
    """VMs that start and end, some with equal names."""

    def scrape(self, serving, scrapes=3):
        """Return a Prometheus after some scrapes."""
        scraping = self.prometheus(serving)
        self.scraped(scraping, scrapes)
        return scraping

    def scraped(self, scraping, more=3):
        """Wait for this many scrapes."""
        def count():
            return sum(len(points) for points in scraping.points("up").values())
        begin = count()
        wait_for(lambda: count() >= begin + more, "scrapes")

    def check(self, scraping, resets=()):
        """Check that nothing was refused and no counter decreased."""
        self.assertEqual(scraping.complaints(), [])
        for labels, points in scraping.points('{__name__=~"kvm_.*_(total|bucket|sum|count)"}'
                                              ).items():
            values = [value for _, value in points]
            if dict(labels).get("vm") in resets:
                continue
            self.assertEqual(values, sorted(values), dict(labels))

    def busy(self, host, number, name, **more):
        """Create a VM with known rates: 60% run, 500 exits per second and vCPU."""
        return host.vm(number, name, run=600, ready=100, halt=200, exits=500, **more)

    def right(self, scraping, vm):
        """Check the rates of such a VM."""
        exits_total = f'kvm_vm_exits_total{{vm="{vm}"}}'

        def covered():
            times = [time for points in scraping.points(exits_total).values()
                     for time, _ in points]
            return max(times) - min(times) if times else 0

        # The window is what was scraped; a longer one would be extrapolated.
        wait_for(lambda: covered() > 3, "three seconds of it")
        window = f"{int(covered() * 1000)}ms"
        # A scrape is later than its sample, so only values of one sample are compared.
        seconds = f'kvm_vm_vcpu_seconds_total{{vm="{vm}"'
        for query, wanted in ((f'sum(rate({seconds},mode="run"}}[{window}]))', 0.6),
                              (f"sum(rate({exits_total}[{window}]))", 500)):
            share = scraping.value(f"{query} / sum(rate({seconds}}}[{window}]))")
            self.assertAlmostEqual(share / wanted, 1, delta=0.02)

    def test_modes_add_up(self):
        """All modes add up to the elapsed time multiplied by the vCPUs, within 0.5%."""
        host = self.busy(self.host(), 1, "web", vcpus=4)
        serving = self.serve(host)
        first = serving.next_sample()
        begin = one(first, "kvm_stats_samples_total")
        last = wait_for(serving.series, "samples",
                        lambda found: one(found, "kvm_stats_samples_total") > begin + 20)
        modes = pick(last, "kvm_vm_vcpu_seconds_total", vm="web")
        self.assertEqual({dict(key)["mode"] for key in modes},
                         {"run", "ready", "throttled", "halt", "poll", "other"})
        vcpus = serving.api()["vms"][0]["vcpus"]
        self.assertEqual(vcpus, 4)
        # The elapsed time of the values follows from the exits: 500 per second and vCPU.
        grew = {mode: one(last, "kvm_vm_vcpu_seconds_total", vm="web", mode=mode) -
                one(first, "kvm_vm_vcpu_seconds_total", vm="web", mode=mode)
                for mode in ("run", "ready", "halt", "poll", "throttled", "other")}
        exits = one(last, "kvm_vm_exits_total", vm="web") - one(
            first, "kvm_vm_exits_total", vm="web")
        elapsed = exits / 500 / 4
        self.assertAlmostEqual(sum(grew.values()), 4 * elapsed, delta=4 * elapsed * 0.005)
        for mode, share in (("run", 0.6), ("ready", 0.1), ("halt", 0.2), ("other", 0.1)):
            self.assertAlmostEqual(grew[mode], 4 * elapsed * share, delta=4 * elapsed * 0.005)

    def test_two_vms_of_one_name(self):
        """The older VM has the plain name; after its end the other one has it, without a reset."""
        host = self.busy(self.host(), 7, "web", pid=500, start=10)
        self.busy(host, 3, "web", pid=400, start=20)
        serving = self.serve(host)
        scraping = self.scrape(serving)
        self.assertEqual(vms(serving.series()), ["web", "web@400"])
        self.assertEqual(serving.api()["vms"][0]["pid"] + serving.api()["vms"][1]["pid"], 900)
        self.right(scraping, "web")
        self.right(scraping, "web@400")
        host.end(7).write()
        wait_for(lambda: vms(serving.series()) == ["web"], "the end")
        self.scraped(scraping, 4)
        self.right(scraping, "web")
        self.check(scraping)

    def test_restart(self):
        """The successor of an ended VM has its name."""
        host = self.busy(self.host(), 1, "web")
        serving = self.serve(host)
        scraping = self.scrape(serving, 5)
        host.end(1).write()
        wait_for(lambda: all(vm["ended"] for vm in serving.api()["vms"]), "the end")
        self.busy(host, 2, "web", start=900).write()
        wait_for(lambda: any(vm["pid"] == 1002 for vm in serving.api()["vms"]), "the next")
        self.scraped(scraping, 6)
        self.assertEqual(vms(serving.series()), ["web"])
        self.right(scraping, "web")
        increase = scraping.value('increase(kvm_vm_exits_total{vm="web"}[5m])')
        self.assertLess(increase, 1000 * 120)
        self.check(scraping, resets=("web",))

    def test_restart_that_meets_its_predecessor(self):
        """As during a migration to the same host, both VMs exist for some time."""
        host = self.busy(self.host(), 1, "web", start=10)
        serving = self.serve(host)
        scraping = self.scrape(serving)
        self.busy(host, 2, "web", start=900).write()
        wait_for(lambda: vms(serving.series()) == ["web", "web@1002"], "both")
        self.scraped(scraping, 4)
        self.right(scraping, "web")
        host.end(1).write()
        wait_for(lambda: vms(serving.series()) == ["web"], "the end of the first")
        self.scraped(scraping, 4)
        self.right(scraping, "web")
        self.check(scraping)

    def test_reboot_in_a_process(self):
        """A guest that is rebooted four times in its process keeps its series, without a reset."""
        host = self.busy(self.host(), 1, "web", pid=500)
        serving = self.serve(host)
        scraping = self.scrape(serving, 4)
        for key in range(2, 6):
            self.busy(host.end(key - 1), key, "web", pid=500, start=900 + key).write()
            self.scraped(scraping, 2)
            self.assertEqual(vms(serving.series()), ["web"])
        self.scraped(scraping, 4)
        self.right(scraping, "web")
        self.check(scraping)

    def test_vm_that_shuts_down(self):
        """The last values are scraped once, then all series end at once."""
        host = self.busy(self.host(), 1, "web")
        self.busy(host, 2, "stays")
        serving = self.serve(host)
        scraping = self.scrape(serving)
        host.end(1).write()
        wait_for(lambda: any(vm["ended"] for vm in serving.api()["vms"]) or
                 len(serving.api()["vms"]) == 1, "the end")
        wait_for(lambda: scraping.query('kvm_vm_info{vm="web"}') == {}, "its series to go")
        self.assertEqual(scraping.query('{vm="web"}'), {})
        ends = {points[-1][0] for points in scraping.points('{vm="web"}').values()}
        self.assertEqual(len(ends), 1)
        self.scraped(scraping)
        self.right(scraping, "stays")
        self.check(scraping)

    def test_last_values_wait_for_every_scraper(self):
        """Two scrapers with one address and User-Agent each get the last values, then these go."""
        host = self.busy(self.host(), 1, "web")
        serving = self.serve(host)
        first, second, third = (self.connect(serving) for _ in range(3))
        self.assertTrue(first() and second())
        self.end(serving, host)
        self.assertTrue(third())
        for _ in range(3):
            serving.next_sample()
            self.assertTrue(first())
        self.assertTrue(second())
        wait_for(lambda: not first(), "it to go")
        self.assertFalse(second())

    def connect(self, serving):
        """Return a function that scrapes through one connection and returns if "web" has series."""
        scrape = serving.connect()
        self.addCleanup(scrape.close)
        return lambda: b'kvm_vm_info{vm="web"' in scrape()[2]

    def end(self, serving, host):
        """Destroy VM 1."""
        host.end(1).write()
        wait_for(lambda: any(vm["ended"] for vm in serving.api()["vms"]), "the end")

    def test_last_values_for_scrapers_that_reconnect(self):
        """Clients that close their connections get the last values for 150 seconds."""
        host = self.busy(self.host(), 1, "web")
        host.stop_clock()
        serving = self.serve(host, "--max-age", "1000")
        # A pair without kept connections, and more kept connections than the server distinguishes
        pair = [lambda: b'kvm_vm_info{vm="web"' in serving.get()[2]] * 2
        kept = [self.connect(serving) for _ in range(40)]
        wait_for(lambda: pair[0](), "a sample")
        host.end(1).write()
        host.stop_clock(later=1)
        wait_for(lambda: serving.get()[2].endswith(b"# EOF\n") and
                 all(vm["ended"] for vm in serving.api()["vms"]), "the end")
        for later in (1, 70, 70):
            host.stop_clock(later)
            self.assertTrue(all(scrape() for scrape in pair + kept))
        host.stop_clock(20)
        wait_for(lambda: not kept[0](), "it to go")

    def test_last_values_after_a_lost_connection(self):
        """A scraper that loses its connection before the last values gets them with the next."""
        host = self.busy(self.host(), 1, "web")
        serving = self.serve(host)
        lost, kept = serving.connect(), self.connect(serving)
        self.assertIn(b'kvm_vm_info{vm="web"', wait_for(lambda: lost()[2][1000:] and lost()[2], "it"))
        self.assertTrue(kept())
        self.end(serving, host)
        lost.close()
        for _ in range(3):
            self.assertTrue(kept())
            serving.next_sample()
        self.assertTrue(self.connect(serving)())

    def test_vm_that_comes_and_goes_between_scrapes(self):
        """A VM that existed only between two scrapes is scraped."""
        host = self.busy(self.host(), 1, "stays")
        serving = self.serve(host)
        serving.get()
        self.busy(host, 2, "short").write()
        wait_for(lambda: len(serving.api()["vms"]) == 2, "the VM")
        samples = serving.api()["samples"]
        wait_for(lambda: serving.api()["samples"] > samples + 1, "a sample")
        host.end(2).write()
        wait_for(lambda: any(vm["ended"] for vm in serving.api()["vms"]), "its end")
        found = serving.series()
        self.assertEqual(vms(found), ["short", "stays"])
        self.assertGreater(one(found, "kvm_vm_vcpu_seconds_total", vm="short", mode="run"), 0)

    def test_vmm_that_hangs(self):
        """A VM whose VMM hangs spends all time in the VMM; others are exact."""
        host = self.busy(self.host(), 1, "hung")
        self.busy(host, 2, "fine")
        serving = self.serve(host)
        scraping = self.scrape(serving)
        host.vm(1, "hung").write()
        self.scraped(scraping, 6)
        self.right(scraping, "fine")
        whole = 'rate(kvm_vm_vcpu_seconds_total{vm="hung"}[2s])'
        other = whole.replace("}", ',mode="other"}')
        wait_for(lambda: scraping.value(f"sum({other}) == sum({whole})"),
                 "both vCPUs to be in the VMM")
        self.check(scraping)

    def test_vcpu_that_goes(self):
        """Sums over vCPUs do not decrease when a vCPU is removed."""
        host = self.busy(self.host(), 1, "web", vcpus=4)
        serving = self.serve(host)
        scraping = self.scrape(serving)
        self.busy(host, 1, "web", vcpus=2).write()
        wait_for(lambda: one(serving.series(), "kvm_vm_vcpus", vm="web") == 2, "it")
        self.scraped(scraping, 4)
        self.busy(host, 1, "web", vcpus=4).write()
        self.scraped(scraping, 4)
        self.check(scraping)

    def test_agent_that_restarts(self):
        """After a restart of the agent, counters start at 0 and rates are exact."""
        host = self.busy(self.host(), 1, "web", age=3600)
        serving = self.serve(host)
        scraping = self.scrape(serving, 5)
        serving.stop()
        again = self.serve(host, listen=f"127.0.0.1:{serving.port}")
        # not those of the hour before
        self.assertLess(one(again.next_sample(), "kvm_vm_exits_total", vm="web"), 1000 * 3600)
        self.scraped(scraping, 6)
        increase = scraping.value('increase(kvm_vm_exits_total{vm="web"}[5m])')
        self.assertLess(increase, 1000 * 120)
        self.assertEqual(len(scraping.points('kvm_vm_exits_total{vm="web"}')), 1)
        self.right(scraping, "web")
        self.assertEqual(scraping.complaints(), [])

    def test_source_that_is_chosen_again(self):
        """After a change of the source, counters of VMs start at 0."""
        host = self.host().vm(1, "web", run=500, exits=100000, age=1000)
        serving = self.serve(host, "--stats", "*hist*", "--detail", "vcpu")

        def exits():
            return one(serving.series(), "kvm_vm_exits_total", vm="web")

        before = wait_for(exits, "exits", lambda n: n > 50000)
        host.vm(1, "web", run=500, exits=10, age=1000)
        host.write(["broken\n"])
        wait_for(lambda: serving.get("healthz")[2].find(b"is broken") >= 0, "the end of the source")
        host.write([])
        after = wait_for(exits, "another source", lambda n: n < before)
        # not the 20000 of the thousand seconds before
        self.assertLess(after, 10000)

    def test_joins(self):
        """kvm_vm_info joins with each VM by label and has a UUID for each."""
        host = self.host()
        for number in range(1, 21):
            self.busy(host, number, f"vm-{number % 7}", start=number)
        scraping = self.scrape(self.serve(host))
        self.assertEqual(len(scraping.query(
            "sum by (instance, vm) (kvm_vm_vcpu_seconds_total)"
            " * on (instance, vm) group_left (uuid, domain) kvm_vm_info")), 20)
        self.assertEqual(len(scraping.query("count by (uuid) (kvm_vm_info)")), 20)
        self.check(scraping)

    def test_totals_keep_ended_vms(self):
        """Totals of the host count VMs that start and end, and keep their usage."""
        host = self.busy(self.host(), 1, "old", age=100)
        serving = self.serve(host)
        serving.next_sample()

        def totals():
            found = serving.next_sample()
            events = [one(found, f"kvm_vms_{name}_total") for name in ("started", "ended")]
            exits = [sum(pick(found, f"kvm_{scope}_exits_total").values()) for scope in ("vm", "vms")]
            run = [sum(pick(found, f"kvm_{name}_seconds_total", mode="run").values())
                   for name in ("vm_vcpu", "vms_vcpu")]
            return events, exits, run

        events, exits, run = totals()
        self.assertEqual((events, exits[1], run[1]), ([0, 0], exits[0], run[0]))
        self.busy(host, 2, "short").write()
        wait_for(lambda: len(serving.api()["vms"]) == 2, "the VM")
        events, exits, run = totals()
        self.assertEqual((events, exits[1]), ([1, 0], exits[0]))
        self.assertAlmostEqual(run[1], run[0], places=6)
        host.end(2).write()
        # The last values go once the scraper has had them.
        wait_for(lambda: vms(serving.series()) == ["old"], "the end")
        events, later, later_run = totals()
        self.assertEqual(events, [1, 1])
        self.assertGreater(later[1], max(exits[1], later[0]))
        self.assertGreater(later_run[1], max(run[1], later_run[0]))

    def test_metrics_of_the_process(self):
        """Memory and files belong to the process that serves, CPU and start time to both processes."""
        earliest = time.time()
        serving = self.serve(self.busy(self.host(), 1, "web"))
        found = serving.next_sample()
        proc = Path(f"/proc/{serving.server()}")
        # One of them is the connection of the scraper.
        self.assertAlmostEqual(one(found, "process_open_fds"),
                               len(list((proc / "fd").iterdir())), delta=2)
        self.assertAlmostEqual(one(found, "process_resident_memory_bytes"),
                               resource.getpagesize() * int((proc / "statm").read_text().split()[1]),
                               delta=2000000)
        limit, = re.findall(r"Max open files +(\d+)", (proc / "limits").read_text())
        self.assertEqual(one(found, "process_max_fds"), int(limit))
        self.assertTrue(earliest < one(found, "process_start_time_seconds") < time.time(), earliest)
        before = one(found, "process_cpu_seconds_total")
        ran = sum(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
                  for pid in (serving.process.pid, serving.server())) / 100
        self.assertLessEqual(0, before)
        self.assertLessEqual(ran - 0.02, one(serving.next_sample(), "process_cpu_seconds_total"))
