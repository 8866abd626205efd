# SPDX-License-Identifier: GPL-2.0-only
"""Waits of "serve --blame": owners, their number, and their names; lengths of waits."""

import json
import os
import subprocess

from serving import HOST, Case, one, pick, wait_for

WAIT = "kvm_vm_wait_seconds_total"
LENGTH = "kvm_vm_ready_wait_seconds"


class Waits(Case):
    """VMs that wait while other VMs and processes run."""

    def start(self, waits, *options):
        """Serve two VMs with these lines of waits."""
        host = self.host()
        # Larger than any PID: the program checks whether the process of a VM still exists.
        host.vm(1, "web", pid=5000001, run=300, ready=400, halt=300).vm(2, "build-17", run=900)
        host.extra = [f"wait {line}\n" for line in waits]
        return host, self.serve(host, *options)

    @staticmethod
    def owners(found, vm="web"):
        """Return {(kind, owner): seconds} of a VM."""
        return {(dict(key)["kind"], dict(key)["owner"]): value
                for key, value in pick(found, WAIT, vm=vm).items()}

    def wait_until(self, serving, condition):
        """Return the series of the first sample whose owners meet the condition."""
        return wait_for(serving.series, "owners", lambda found: condition(self.owners(found)))

    def test_owners(self):
        """Other VMs and processes are exported with the time for which the VM waited."""
        _, serving = self.start(["1 620 vm 2", "1 380 process backup"], "--blame", "5")
        found = self.wait_until(serving, lambda owners: owners.get(("vm", "build-17"), 0) > 2)
        owners = self.owners(found)
        self.assertEqual(set(owners), {("vm", "build-17"), ("process", "backup"), ("other", "")})
        share = owners[("vm", "build-17")] / sum(owners.values())
        self.assertAlmostEqual(share, 0.62, places=6)
        self.assertEqual(self.owners(found, "build-17"), {("other", ""): 0})
        self.assertEqual(one(found, "kvm_stats_blame_up"), 1)

    def test_many_owners(self):
        """The time of more owners than are kept is exported for others."""
        _, serving = self.start([*(f"1 3 process command-{n}" for n in range(300)),
                                 "2 900 process backup"], "--blame", "5")
        found = self.wait_until(serving, lambda owners: sum(owners.values()) > 2)
        self.assertEqual(len(self.owners(found)), 6)
        self.assertAlmostEqual(sum(self.owners(found).values()),
                               sum(self.owners(found, "build-17").values()), places=4)

    def test_page_and_api_name_the_first_owner(self):
        """The page and the API name the first owner of a starved VM."""
        _, serving = self.start(["1 380 process backup", "1 620 vm 2"], "--blame", "5")
        wait_for(lambda: serving.api()["vms"][0].get("waits"), "owners")
        vm = serving.api()["vms"][0]
        self.assertEqual([(owner["kind"], owner["owner"]) for owner in vm["waits"]],
                         [("vm", "build-17"), ("process", "backup")])
        for owner, percent in zip(vm["waits"], (62, 38)):
            self.assertAlmostEqual(owner["percent"], percent, delta=0.2)
        wait_for(lambda: serving.api()["vms"][0]["problem"] == "starved", "the problem")
        _, _, body = serving.get("", accept="text/html")
        self.assertIn(b"short of CPU: build-17 ran 62 % of the time it waited", body)

    def test_why(self):
        """The command why waits for VMs, names the hypervisor, and counts a VM that ends for as long as it ran."""
        host = self.host()
        waits = ["wait 1 600 steal\n", "wait 1 200 process backup\n"]
        held = [host.path / f"held{number}" for number in range(3)]
        for file in held:
            file.touch()
        host.write([*waits, f"hold {held[0]}\n"])
        with subprocess.Popen([HOST, "why", "-d", "0.1", "-n", "20", "-o", "json"], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "KVM_STATS_HOST": str(host.path)}) as why:
            # Two samples are before the observation. The first one has no VM, the fourth one lacks the second VM.
            for number, file in enumerate(held):
                wait_for(file.with_suffix(".waiting").exists, file.name)
                host.extra = waits + [f"hold {later}\n" for later in held[number + 1:number + 2]]
                if not number:
                    host.vm(1, "web", run=300, ready=400, halt=300).vm(2, "short", vcpus=1, run=1000)
                if file == held[-1]:
                    host.end(2)
                host.write()
                file.unlink()
            rows = [json.loads(line) for line in why.stdout]
        cause = rows[0]["causes"][0]
        self.assertEqual((rows[0]["vm"], cause["cause"]), ("web", "steal"))
        self.assertIn("Then ran: hypervisor of this host (steal) 75.0%, backup 2", cause["text"])
        self.assertIn("This host is a VM", cause["text"])
        self.assertGreater(rows[-1]["host"]["used_cpus"], 0.55)
        self.assertLess(rows[-1]["host"]["used_cpus"], 1.4)

    def test_not_without_the_option(self):
        """Without --blame, nothing is measured."""
        _, serving = self.start(["1 620 vm 2"])
        found = serving.next_sample()
        self.assertEqual(self.owners(found), {})
        self.assertEqual(pick(found, "kvm_stats_blame_up"), {})
        self.assertNotIn("waits", serving.api()["vms"][0])

    def test_a_new_owner_replaces_a_small_one(self):
        """An owner with twice the time of the smallest one replaces it; no series decreases."""
        host, serving = self.start(["1 300 process a", "1 100 process b"], "--blame", "2")
        self.wait_until(serving, lambda owners: owners.get(("process", "b"), 0) > 0.2)
        host.write(["wait 1 300 process a\n", "wait 1 800 process c\n"])
        before = {}

        def replaced(owners):
            for owner, value in before.items():
                self.assertGreaterEqual(owners.get(owner, value), value, owner)
            before.update(owners)
            return ("process", "c") in owners

        found = self.wait_until(serving, replaced)
        self.assertEqual(set(self.owners(found)),
                         {("process", "a"), ("process", "c"), ("other", "")})

    def test_hostile_names(self):
        """Names with control characters are valid labels, once each."""
        _, serving = self.start(['1 100 process a\x01"\\', '1 100 process a\x02"\\',
                                    "1 100 process caf\udcff"], "--blame", "9")
        found = self.wait_until(serving, lambda owners: len(owners) > 2)
        self.assertEqual(set(self.owners(found)),
                         {("process", 'a?"\\'), ("process", "caf?"), ("other", "")})
        # The parser drops a duplicate.
        _, _, body = serving.get()
        self.assertEqual(body.count(b'kvm_vm_wait_seconds_total{vm="web"'), 3)

    def test_a_vm_that_ends_keeps_its_last_values(self):
        """The owners of a destroyed VM stay until a scraper has received them; the waits without
        an owner are unknown."""
        host, serving = self.start(["1 620 vm 2"], "--blame", "5")
        before = self.owners(self.wait_until(
            serving, lambda owners: owners.get(("vm", "build-17"), 0) > 0.5))
        host.extra = []
        host.end(1).write()
        wait_for(lambda: any(vm["ended"] for vm in serving.api()["vms"]), "its end")
        ended = [vm for vm in serving.api()["vms"] if vm["vm"] == "web"]
        self.assertEqual([owner["owner"] for owner in ended[0]["waits"]],
                         ["build-17", "not seen yet"])
        self.assertGreater(before[("vm", "build-17")], 0.5)

    @staticmethod
    def lengths(found, vm="web"):
        """Return the histogram of a VM: {bound: number of waits}, number, sum."""
        return ({dict(key)["le"]: value for key, value in pick(found, LENGTH + "_bucket", vm=vm).items()},
                one(found, LENGTH + "_count", vm=vm), one(found, LENGTH + "_sum", vm=vm))

    def test_lengths(self):
        """Waits are counted by length; number and sum fit, and no series ever decreases."""
        host = self.host().vm(1, "web", run=300, ready=400, halt=300).vm(2, "idle", halt=1000)
        host.extra = [f"ended 1 {line}\n" for line in ("5 200", "40 4000000", "3 71000000")]
        serving = self.serve(host, "--blame", "5")
        wait_for(lambda: pick(serving.series(), LENGTH + "_count", vm="web"), "lengths")
        before = {}
        for sample in range(6):
            if sample == 3:
                host.extra = host.extra[:1]
                host.end(2).write()
            found = serving.next_sample()
            buckets, count, total = self.lengths(found)
            self.assertEqual(len(buckets), 12)
            values = [buckets[bound] for bound in sorted(buckets, key=float)]
            self.assertEqual(values, sorted(values))
            self.assertEqual(count, buckets["+Inf"])
            # of each length, by the numbers of all lengths
            short, medium, long = (buckets[bound] for bound in
                                   ("1.023e-06", "0.004194303", "0.268435455"))
            self.assertEqual(long, count)
            self.assertEqual(buckets["0.067108863"], medium)
            self.assertAlmostEqual(
                total, short * 200e-9 + (medium - short) * 0.004 + (long - medium) * 0.071, places=8)
            self.assertEqual((medium - short) * 3, (long - medium) * 40)
            # The program counts when it is loaded, and at each sample.
            self.assertLessEqual(short, 5 * (one(found, "kvm_stats_samples_total") + 2))
            now = buckets | {"count": count, "sum": total}
            for name, value in before.items():
                self.assertGreaterEqual(now[name], value, name)
            before = now
        self.assertGreater(before["count"], 48)

    def test_no_waits(self):
        """A VM without waits has a histogram of zeros, unless nothing is measured."""
        _, serving = self.start(["1 620 vm 2"], "--blame", "5")
        wait_for(lambda: pick(serving.series(), LENGTH + "_count", vm="build-17"), "lengths")
        buckets, count, total = self.lengths(serving.series(), "build-17")
        self.assertEqual((set(buckets.values()), count, total), ({0}, 0, 0))
        without = self.serve(self.host("without").vm(1, "web", ready=400))
        self.assertEqual(pick(without.next_sample(), LENGTH + "_count"), {})
