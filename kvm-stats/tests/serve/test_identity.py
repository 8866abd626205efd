# SPDX-License-Identifier: GPL-2.0-only
"""Which VM is which, against a real Prometheus: no series twice, no counter that falls,
and rates that are right over whatever happens to a VM."""

import time

from serving import Case, one, pick, vms, wait_for


class Identity(Case):
    """VMs come, go, and are called alike."""

    def scrape(self, serving, scrapes=3):
        """A Prometheus that has been there a few times."""
        scraping = self.prometheus(serving)
        self.scraped(scraping, scrapes)
        return scraping

    def scraped(self, scraping, more=3):
        """So many scrapes later."""
        def count():
            return sum(len(points) for points in scraping.points("up").values())
        begin = count()
        wait_for(lambda: count() >= begin + more, "scrapes")

    def check(self, scraping, resets=()):
        """What was scraped is right: no series twice, no counter fell."""
        self.assertEqual(scraping.complaints(), [])
        for labels, points in scraping.points('{__name__=~"kvm_.*_(total|bucket|sum|count)"}'
                                              ).items():
            values = [value for _, value in points]
            if dict(labels).get("vm") in resets:
                continue
            self.assertEqual(values, sorted(values), dict(labels))

    def busy(self, host, number, name, **more):
        """A VM whose rates are known: 60 % running, 1000 exits a second, 2 vCPUs."""
        return host.vm(number, name, run=600, ready=100, halt=200, exits=500, **more)

    def right(self, scraping, vm, exits=1000):
        """Its rates are."""
        exits_total = f'kvm_vm_exits_total{{vm="{vm}"}}'

        def covered():
            times = [time for points in scraping.points(exits_total).values()
                     for time, _ in points]
            return max(times) - min(times) if times else 0

        # all that there is of it: a longer window would have less than it asks for
        wait_for(lambda: covered() > 3, "three seconds of it")
        window = f"{int(covered() * 1000)}ms"
        rate = scraping.value(f"rate({exits_total}[{window}])")
        self.assertIsNotNone(rate, window)
        # a scrape is later than its sample, by more on a busy machine
        self.assertTrue(0.5 * exits < rate < 1.5 * exits, (rate, window))
        # what is of the same samples has to fit exactly
        seconds = f'kvm_vm_vcpu_seconds_total{{vm="{vm}"'
        for query, wanted in ((f'sum(rate({seconds},mode="run"}}[{window}]))', 0.6),
                              (f"sum(rate({exits_total}[{window}]))", 500)):
            share = scraping.value(f"{query} / sum(rate({seconds}}}[{window}]))")
            self.assertAlmostEqual(share / wanted, 1, delta=0.02)

    def test_modes_add_up(self):
        """All modes together are the vCPUs times the time, within half a per cent."""
        host = self.busy(self.host(), 1, "web", vcpus=4)
        serving = self.serve(host)
        first = serving.next_sample()
        time.sleep(3)
        last = serving.next_sample()
        took = one(last, "kvm_stats_samples_total") - one(first, "kvm_stats_samples_total")
        self.assertGreater(took, 5)
        modes = pick(last, "kvm_vm_vcpu_seconds_total", vm="web")
        self.assertEqual({dict(key)["mode"] for key in modes},
                         {"run", "ready", "throttled", "halt", "poll", "other"})
        vcpus = serving.api()["vms"][0]["vcpus"]
        self.assertEqual(vcpus, 4)
        # Both are of the time between two samples: that of the values, by the exits,
        # of which there are 500 a second and vCPU
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
        """The oldest has it; the other keeps its own when that one ends."""
        host = self.busy(self.host(), 7, "web", pid=500, start=10)
        self.busy(host, 3, "web", pid=400, start=20)
        serving = self.serve(host)
        scraping = self.scrape(serving)
        self.assertEqual(vms(serving.series()), ["web", "web@400"])
        self.assertEqual(serving.api()["vms"][0]["pid"] + serving.api()["vms"][1]["pid"], 900)
        self.right(scraping, "web")
        self.right(scraping, "web@400")
        host.end(7).write()
        wait_for(lambda: vms(serving.series()) == ["web@400"], "the end")
        self.scraped(scraping)
        self.right(scraping, "web@400")
        self.check(scraping)

    def test_restart(self):
        """The next one of this name goes on where the one before has ended."""
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
        """As a migration to the same host: both are there for a while."""
        host = self.busy(self.host(), 1, "web", start=10)
        serving = self.serve(host)
        scraping = self.scrape(serving)
        self.busy(host, 2, "web", start=900).write()
        wait_for(lambda: vms(serving.series()) == ["web", "web@1002"], "both")
        self.scraped(scraping, 4)
        self.right(scraping, "web")
        host.end(1).write()
        wait_for(lambda: vms(serving.series()) == ["web@1002"], "the end of the first")
        self.scraped(scraping, 4)
        self.right(scraping, "web@1002")
        self.check(scraping)

    def test_vm_that_shuts_down(self):
        """Its last values are scraped once more, then all of its series go at once."""
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
        """One that comes late gets them as well; who has never come is not waited for."""
        host = self.busy(self.host(), 1, "web")
        serving = self.serve(host)
        for scraper in ("a", "b"):
            serving.get(User_Agent=scraper)
        host.end(1).write()
        wait_for(lambda: any(vm["ended"] for vm in serving.api()["vms"]), "the end")

        def scrape(scraper):
            return b'kvm_vm_info{vm="web"' in serving.get(User_Agent=scraper)[2]

        self.assertTrue(scrape("a"))
        self.assertTrue(scrape("new"))
        self.assertTrue(scrape("b"))
        wait_for(lambda: not scrape("a"), "it to go")
        self.assertFalse(scrape("b"))

    def test_vm_that_comes_and_goes_between_scrapes(self):
        """It is there to be scraped."""
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
        """Its vCPUs do nothing; the others are served as ever."""
        host = self.busy(self.host(), 1, "hung")
        self.busy(host, 2, "fine")
        serving = self.serve(host)
        scraping = self.scrape(serving)
        host.vm(1, "hung").write()
        self.scraped(scraping, 6)
        self.right(scraping, "fine")
        wait_for(lambda: 1.7 < (scraping.value(
            'sum(rate(kvm_vm_vcpu_seconds_total{vm="hung",mode="other"}[1s]))') or 0) < 2.3,
            "both vCPUs to be in the VMM")
        self.check(scraping)

    def test_vcpu_that_goes(self):
        """The sum over vCPUs does not fall when one is taken away."""
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
        """Counters begin again from 0, and their rates are right."""
        host = self.busy(self.host(), 1, "web", age=3600)
        serving = self.serve(host)
        scraping = self.scrape(serving, 5)
        serving.stop()
        again = self.serve(host, listen=f"127.0.0.1:{serving.port}")
        self.assertLess(one(again.next_sample(), "kvm_vm_exits_total", vm="web"), 30000)
        self.scraped(scraping, 6)
        increase = scraping.value('increase(kvm_vm_exits_total{vm="web"}[5m])')
        self.assertLess(increase, 1000 * 120)
        self.assertEqual(len(scraping.points('kvm_vm_exits_total{vm="web"}')), 1)
        self.right(scraping, "web")
        self.assertEqual(scraping.complaints(), [])

    def test_source_that_is_chosen_again(self):
        """The one before is gone with all that it said; counters begin again from 0."""
        host = self.host()
        host.vm(1, "web", run=500, exits=100000, age=1000)
        serving = self.serve(host, "--stats", "*hist*", "--detail", "vcpu")

        def exits():
            return one(serving.series(), "kvm_vm_exits_total", vm="web")

        before = wait_for(lambda: (lambda n: n if n > 50000 else None)(exits()), "exits")
        host.vm(1, "web", run=500, exits=10, age=1000)
        host.extra = ["broken\n"]
        host.write()
        wait_for(lambda: serving.get("healthz")[2].find(b"is broken") >= 0, "the end of the source")
        host.extra = []
        host.write()
        after = wait_for(lambda: (lambda n: n if n < before else None)(exits()), "another source")
        # not the 20000 of the thousand seconds before
        self.assertLess(after, 10000)

    def test_names_of_all_kinds(self):
        """A blank, quotes, 128 bytes of UTF-8: as they are, in Prometheus too."""
        names = ["two words", 'say "hi"', "back\\slash", "ü" * 63 + "x"]
        host = self.host()
        for number, name in enumerate(names, 1):
            self.busy(host, number, name)
        scraping = self.scrape(self.serve(host))
        found = {dict(key)["vm"] for key in scraping.query("kvm_vm_vcpus")}
        self.assertEqual(found, set(names))
        self.check(scraping)

    def test_joins(self):
        """kvm_vm_info has a partner for each VM, by name and by uuid."""
        host = self.host()
        for number in range(1, 21):
            self.busy(host, number, f"vm-{number % 7}", start=number)
        scraping = self.scrape(self.serve(host))
        self.assertEqual(len(scraping.query(
            "sum by (instance, vm) (kvm_vm_vcpu_seconds_total)"
            " * on (instance, vm) group_left (uuid, domain) kvm_vm_info")), 20)
        self.assertEqual(len(scraping.query("count by (uuid) (kvm_vm_info)")), 20)
        self.check(scraping)
