# SPDX-License-Identifier: GPL-2.0-only
"""VMs that run, the program as it is, and a real Prometheus that scrapes it: what is in
Prometheus is what the VMs did."""

import csv
import fcntl
import itertools
import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

from serving import BUILD, HERE, Case, Serve, one, pick, series, vms, wait_for

KVM_CREATE_VM = 0xae01
# There may be others.
WEB, DB, BUSY, PAUSED = (f"{name}-{os.getpid()}" for name in ("web", "db", "busy", "paused"))
UUID = "6b1f0c3e-5a55-4d2c-9d2e-00000000000{}"
# To how many ports the guest of tests/vmm writes each time that it is woken
OUTS = 10
SECONDS = 5	# of scrapes that are looked at
ALL = 600	# at least as long as a test takes


def why_not():
    """Why no VM can run here."""
    if not (BUILD / "tests/vmm").exists():
        return "tests/vmm is not built"
    try:
        with open("/dev/kvm", "rb", buffering=0) as kvm:
            os.close(fcntl.ioctl(kvm, KVM_CREATE_VM, 0))
    except OSError as error:
        return f"/dev/kvm: {error.strerror}"
    done = subprocess.run([BUILD / "kvm-stats", "doctor"], text=True, capture_output=True,
                          check=False)
    return "" if not done.returncode else done.stdout + done.stderr


def ran(pid):
    """Seconds that the vCPUs of this process had a CPU, as the kernel has counted."""
    return sum(int(schedstat.read_text(encoding="ascii").split()[0])
               for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat")
               if (schedstat.parent / "comm").read_text().startswith("CPU ")) / 1e9


def version():
    """Of Prometheus: 2.42 is (2, 42)."""
    said = subprocess.run([os.environ.get("PROMETHEUS", "prometheus"), "--version"], text=True,
                          capture_output=True, check=True)
    return tuple(map(int, re.search(r"version (\d+)\.(\d+)", said.stdout + said.stderr).groups()))


@unittest.skipIf(why_not(), f"no VM can run here: {why_not()}")
class Real(Case):
    """Real all the way."""

    def setUp(self):
        super().setUp()
        self.start_others()
        self.pids, self.vcpus = {}, {}
        self.start(WEB, 4, "-k")
        self.start(DB, 2, "-k")
        self.serving = self.serve_real()
        self.wait_for_vms()

    def wait_for_vms(self):
        """Until all are served."""
        wait_for(lambda: set(self.vcpus) <= set(vms(self.serving.series())), "the VMs")

    def start_others(self):
        """One after the other, all of one name: what is of them is none of a test's."""
        others = subprocess.Popen(
            ["sh", "-c", 'while :; do sleep 1 | "$0" -k 1 1; done', BUILD / "tests/vmm"],
            stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(others.wait)
        self.addCleanup(os.killpg, others.pid, signal.SIGKILL)

    def start(self, name, vcpus, option):
        """A VM, until the test ends."""
        # for kvm-stats, which goes by the program's name, it is one that it knows
        program = self.folder / name / "qemu-system-x86_64"
        program.parent.mkdir()
        program.symlink_to(BUILD / "tests/vmm")
        vmm = subprocess.Popen(
            [program, option, "1", str(vcpus), "-name", f"guest={name}",
             "-uuid", UUID.format(vcpus)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(vmm.stdout.close)
        self.addCleanup(vmm.wait)
        self.addCleanup(vmm.stdin.close)
        # it may be stopped
        self.addCleanup(vmm.send_signal, signal.SIGCONT)
        self.assertEqual(vmm.stdout.readline(), b"ready\n")
        self.pids[name], self.vcpus[name] = vmm.pid, vcpus

    def serve_real(self):
        """What this machine does."""
        serving = Serve("-d", "0.1", env={}, program=BUILD / "kvm-stats")
        self.addCleanup(serving.stop)
        return serving

    def span(self, scraping):
        """The first and the last scrape that are looked at, as times and what the kernel
        says of the CPU time of web around them: four figures that do not fall."""
        def scrapes():
            return [at for points in scraping.points("kvm_stats_samples_total", ALL).values()
                    for at, _ in points]

        def next_one():
            before = len(scrapes())
            first = ran(self.pids[WEB])
            found = wait_for(lambda: scrapes()[before + 1:], "a scrape")
            return found[0], first, ran(self.pids[WEB])

        begin, *around_begin = next_one()
        wait_for(lambda: scrapes()[-1] - begin > SECONDS, "more scrapes")
        end, *around_end = next_one()
        return begin, end, around_begin + around_end

    def test_in_prometheus(self):
        """Joins, counters, rates, quantiles: against what the VMs have to do, and what the
        kernel says of them without us."""
        # both kinds of histograms, of the same scrapes
        native = {"flags": ["--enable-feature=native-histograms"],
                  "more": "    convert_classic_histograms_to_nhcb: true\n"
                          "    always_scrape_classic_histograms: true\n"}
        scraping = self.prometheus(self.serving, **native if version() >= (3, 0) else {})
        # It takes a whole CPU, so it comes when all else is there.
        self.start(BUSY, 1, "-kb")
        self.wait_for_vms()
        begin, end, kernel = self.span(scraping)
        # what is just at its beginning is in for some versions only
        window = f"{round((end - begin) * 1000) + 1}ms"

        def grew(name, **labels):
            """vm -> how much, from the first scrape to the last; and no value fell."""
            chosen = ",".join(f'{key}="{value}"' for key, value in labels.items())
            found = {}
            for key, points in scraping.points(f"{name}{{{chosen}}}", ALL).items():
                vm = dict(key)["vm"]
                if vm not in self.vcpus:
                    continue
                values = [value for at, value in points if begin <= at <= end]
                self.assertEqual(values, sorted(values), key)
                found[vm] = found.get(vm, 0) + values[-1] - values[0]
            return found

        def ask(query):
            """vm -> value, at the last scrape."""
            return {dict(key).get("vm"): value
                    for key, value in scraping.query(query, time=end).items()}

        with self.subTest("nothing was refused"):
            self.assertEqual(scraping.complaints(), [])
        with self.subTest("joins"):
            joined = scraping.query("kvm_vm_vcpus * on (instance, vm) "
                                    "group_left (pid, uuid) kvm_vm_info", time=end)
            found = {dict(key)["vm"]: (value, dict(key)["pid"], dict(key)["uuid"])
                     for key, value in joined.items() if dict(key)["vm"] in self.vcpus}
            self.assertEqual(found, {vm: (vcpus, str(self.pids[vm]), UUID.format(vcpus))
                                     for vm, vcpus in self.vcpus.items()})
        halts, exits = grew("kvm_vm_halt_exits_total"), grew("kvm_vm_exits_total")
        with self.subTest("counters"):
            for vm in WEB, DB:
                self.assertGreater(halts[vm], 20, vm)
                # each time that a guest is woken it writes to ten ports, and halts
                woken = halts[vm] - 2 * self.vcpus[vm]
                self.assertGreaterEqual(exits[vm], (OUTS + 1) * woken, vm)
            self.assertEqual(halts[BUSY], 0)
        ports = grew("kvm_vm_io_exits_total")
        # kvm_pvm counts none of them
        if any(ports.values()):
            with self.subTest("each halt comes after ten ports"):
                for vm, vcpus in self.vcpus.items():
                    # each vCPU may be anywhere between two halts, in either scrape
                    self.assertLessEqual(abs(ports[vm] - OUTS * halts[vm]), OUTS * vcpus, vm)
        with self.subTest("each vCPU is woken"):
            self.assertEqual({vm: self.woken(vm) for vm in self.vcpus}, {**self.vcpus, BUSY: 0})
        modes = grew("kvm_vm_vcpu_seconds_total")
        with self.subTest("times add up"):
            # of the same samples, so all VMs have the same time
            times = [modes[vm] / vcpus for vm, vcpus in self.vcpus.items()]
            self.assertLessEqual(max(times) - min(times), 0.005 * max(times), times)
            late = max(value for points in scraping.points(
                '{__name__=~"kvm_stats_sample_age_seconds|scrape_duration_seconds"}', ALL).values()
                       for _, value in points)
            self.assertLessEqual(abs(times[0] - (end - begin)), 2 * late + 0.005 * times[0])
        with self.subTest("time that the kernel has counted"):
            run = grew("kvm_vm_vcpu_seconds_total", mode="run")[WEB] + grew(
                "kvm_vm_vcpu_seconds_total", mode="poll").get(WEB, 0)
            some = 0.005 * modes[WEB]
            self.assertLessEqual(kernel[2] - kernel[1] - some, run, kernel)
            self.assertLessEqual(run, kernel[3] - kernel[0] + some, kernel)
        with self.subTest("what a busy guest does"):
            self.assertEqual(grew("kvm_vm_vcpu_seconds_total", mode="halt")[BUSY], 0)
        with self.subTest("rates"):
            share = ask(f'sum by (vm) (rate(kvm_vm_vcpu_seconds_total[{window}]))'
                        " / on (vm) kvm_vm_vcpus")
            self.assertLessEqual(max(share[vm] for vm in self.vcpus) / min(
                share[vm] for vm in self.vcpus), 1.005, share)
            for name, grown in ("halt_exits", halts), ("exits", exits):
                rate = ask(f"rate(kvm_vm_{name}_total[{window}])"
                           f" / on (vm) sum by (vm) (rate(kvm_vm_vcpu_seconds_total[{window}]))")
                for vm in grown:
                    self.assertAlmostEqual(rate[vm], grown[vm] / modes[vm],
                                           delta=1e-6 * rate[vm], msg=vm)
        with self.subTest("quantiles"):
            self.quantiles(ask, grew, window)
        print(f"Prometheus {version()}, {self.says()}", flush=True)

    @staticmethod
    def woken(vm):
        """How many of its vCPUs have halted more than once."""
        done = subprocess.run([BUILD / "kvm-stats", "show", vm, "halt_exits", "-v", "-o", "csv"],
                              text=True, capture_output=True, check=False)
        return sum(row["scope"][4:].isdigit() and int(row["value"]) > 1
                   for row in csv.DictReader(done.stdout.splitlines()))

    def says(self):
        """The source, and how many series there are."""
        found = self.serving.series()
        build, = pick(found, "kvm_stats_build_info")
        return (f"source {dict(build)['source']}, {os.uname().release}, "
                f"{len(vms(found))} VMs, {len(found)} series")

    def quantiles(self, ask, grew, window):
        """Of the time that a halt lasts: between the bounds where they have to be."""
        metric = "kvm_vm_halt_wait_duration_seconds"
        mine = f'vm=~"{"|".join(self.vcpus)}"'
        if not ask(f"{metric}_count"):
            self.skipTest("this kernel has no halt_wait_hist")
        counts = {}
        for bound in {dict(key)["le"] for key in pick(self.serving.series(), f"{metric}_bucket")}:
            counts[float(bound)] = sum(grew(f"{metric}_bucket", le=bound).values())
        bounds = sorted(counts)
        for quantile in 0.5, 0.99:
            rank = quantile * counts[bounds[-1]]
            # it may be just between two
            low = max((bound for bound in bounds if counts[bound] < rank * (1 - 1e-6)), default=0)
            high = next(bound for bound in bounds if counts[bound] >= rank * (1 - 1e-6))
            if counts[high] < rank * (1 + 1e-6):
                high = next((bound for bound in bounds if counts[bound] >= rank * (1 + 1e-6)), high)
            classic = ask(f"histogram_quantile({quantile}, "
                          f"sum by (le) (rate({metric}_bucket{{{mine}}}[{window}])))")[None]
            self.assertTrue(low <= classic <= high, (quantile, low, classic, high))
            if version() >= (3, 0):
                # Of all that there was: rate() guesses a bit at either end of its window,
                # bucket by bucket of one kind and in one go of the other.
                classic = ask(f"histogram_quantile({quantile}, "
                              f"sum by (le) ({metric}_bucket{{{mine}}}))")
                native = ask(f"histogram_quantile({quantile}, sum({metric}{{{mine}}}))")
                self.assertAlmostEqual(native[None] / classic[None], 1, delta=1e-9)

    def test_stuck(self):
        """A VMM hangs, and a VM is paused before any vCPU was entered: their counters stand
        still, the alert and the page say so, of these two alone, until it goes on."""
        rules = self.folder / "rules.yml"
        # what takes minutes takes seconds
        rules.write_text(re.sub(r"(\d)m\b", r"\1s", (
            HERE.parent.parent / "rules/kvm-stats.rules.yml").read_text()))
        self.start(PAUSED, 3, "-kp")
        mine = set(self.vcpus)
        scraping = self.prometheus(self.serving, rules=[rules])

        def stuck():
            return {dict(key)["vm"] for key in scraping.query(
                'ALERTS{alertname="KvmVmStuck",alertstate="firing"}')} & mine

        def exits(vm):
            return one(self.serving.next_sample(), "kvm_vm_exits_total", vm=vm)

        wait_for(lambda: stuck() == {PAUSED}, "the alert of the one that is paused")
        os.kill(self.pids[DB], signal.SIGSTOP)
        wait_for(lambda: stuck() == {DB, PAUSED}, "the alert of the one that hangs")
        before = {vm: exits(vm) for vm in (WEB, DB)}
        # one that begins now: the page is of the last minute
        serving = self.serve_real()
        rows = wait_for(lambda: (lambda rows: rows if len(rows) == len(mine) and all(
            vm["seconds"] > SECONDS for vm in rows) else None)(
                [vm for vm in serving.api()["vms"] if vm["vm"] in mine]), "a window")
        self.assertEqual({vm["vm"] for vm in rows if vm["hurts"] == "stuck or paused"},
                         {DB, PAUSED}, rows)
        self.assertEqual({vm["vm"] for vm in rows[:2]}, {DB, PAUSED}, rows)
        for vm in rows[:2]:
            self.assertEqual((vm["other_percent"], vm["exits_per_second"]), (100, 0), vm)
        self.assertEqual(exits(DB), before[DB])
        self.assertGreater(exits(WEB), before[WEB])
        os.kill(self.pids[DB], signal.SIGCONT)
        wait_for(lambda: stuck() == {PAUSED}, "the end of the alert")
        self.assertGreater(exits(DB), before[DB])
        counters = scraping.points(
            f'{{__name__=~"kvm_vm_.*_total", vm=~"{"|".join(mine)}"}}', ALL)
        self.assertEqual({dict(key)["vm"] for key in counters}, mine)
        for key, points in counters.items():
            values = [value for _, value in points]
            self.assertEqual(values, sorted(values), key)
        self.assertEqual(scraping.complaints(), [])

    def test_strict_parsers(self):
        """promtool and Python's client have nothing to say of either format."""
        status, _, text = self.serving.get(accept="text/plain;version=0.0.4")
        self.assertEqual(status, 200)
        done = subprocess.run(["promtool", "check", "metrics"], input=text, check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
        exported = subprocess.run([BUILD / "kvm-stats", "export", "-f", "openmetrics"],
                                  text=True, capture_output=True, check=False)
        self.assertIn(exported.returncode, (0, 3), exported.stderr)
        found = series(exported.stdout)
        self.assertLessEqual(set(self.vcpus), set(vms(found)))
        for vm, vcpus in self.vcpus.items():
            self.assertEqual(one(found, "kvm_vm_vcpus", vm=vm), vcpus)
