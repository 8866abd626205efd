# SPDX-License-Identifier: GPL-2.0-only
"""Real VMs, the unmodified program and a real Prometheus: the metrics in Prometheus match what
the VMs did."""

import csv
import fcntl
import os
import platform
import re
import signal
import subprocess
import unittest
from pathlib import Path

from serving import BUILD, Case, Serve, one, pick, series, vms, wait_for

KVM_CREATE_VM = 0xae01
# unique, because other VMs may run
WEB, DB, BUSY, PAUSED, FAILING = (f"{name}-{os.getpid()}" for name in (
    "web", "db", "busy", "paused", "failing"))
UUID = "6b1f0c3e-5a55-4d2c-9d2e-00000000000{}"
# To how many ports the guest of tests/vmm writes each time that it is woken
OUTS = 10
SECONDS = 5	# of scrapes that are checked
ALL = 600	# at least as long as a test takes


def why_not():
    """Return why no VM can run on this host, or an empty string."""
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


def why_no_stalls():
    """Return why serve --stalls does not work on this host, or an empty string."""
    done = subprocess.run([BUILD / "kvm-stats", "doctor", "-o", "csv"], text=True,
                          capture_output=True, check=False)
    return next((row["why"] for row in csv.DictReader(done.stdout.splitlines())
                 if row["source"] == "stalls" and row["works"] != "yes"), "")


def ran(pid):
    """Return the CPU time of a VMM's vCPUs in seconds, as counted by the kernel."""
    return sum(int(schedstat.read_text(encoding="ascii").split()[0])
               for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat")
               if (schedstat.parent / "comm").read_text().startswith("CPU ")) / 1e9


def version():
    """Return the version of Prometheus, for example (2, 42)."""
    said = subprocess.run([os.environ.get("PROMETHEUS", "prometheus"), "--version"], text=True,
                          capture_output=True, check=True)
    return tuple(map(int, re.search(r"version (\d+)\.(\d+)", said.stdout + said.stderr).groups()))


@unittest.skipIf(why_not(), f"no VM can run here: {why_not()}")
class Real(Case):
    """VMs of tests/vmm, and others that start and end all the time."""

    def setUp(self):
        super().setUp()
        self.start_others()
        self.pids, self.vcpus = {}, {}
        self.start(WEB, 4, "-k")
        self.start(DB, 2, "-k")
        self.serving = self.serve_real()
        self.wait_for_vms()

    def wait_for_vms(self):
        """Wait until all VMs are served."""
        wait_for(lambda: set(self.vcpus) <= set(vms(self.serving.series())), "the VMs")

    def start_others(self):
        """Run short VMs with equal names in the background; tests ignore them."""
        others = subprocess.Popen(
            ["sh", "-c", 'while :; do sleep 1 | "$0" -k 1 1; done', BUILD / "tests/vmm"],
            stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(others.wait)
        self.addCleanup(os.killpg, others.pid, signal.SIGKILL)

    def start(self, name, vcpus, option):
        """Start a VM that runs until the test ends."""
        # kvm-stats recognizes VMMs by the name of the program.
        program = self.folder / name / "qemu-system-x86_64"
        program.parent.mkdir()
        program.symlink_to(BUILD / "tests/vmm")
        vmm = subprocess.Popen(
            [program, option, "1", str(vcpus), "-name", f"guest={name}",
             "-uuid", UUID.format(vcpus)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(vmm.stdout.close)
        self.addCleanup(vmm.wait)
        self.addCleanup(vmm.stdin.close)
        # The process may be stopped.
        self.addCleanup(vmm.send_signal, signal.SIGCONT)
        self.assertEqual(vmm.stdout.readline(), b"ready\n")
        self.pids[name], self.vcpus[name] = vmm.pid, vcpus
        return vmm

    def serve_real(self, *options):
        """Serve the VMs of this host."""
        serving = Serve("-d", "0.1", *options, env={}, program=BUILD / "kvm-stats")
        self.addCleanup(serving.stop)
        return serving

    def span(self, scraping):
        """Return the times of the first and last scrape to check, and the CPU time of web
        before and after each of them."""
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
        """Joins, counters, rates and quantiles match the VMs' work and the kernel's clocks."""
        # classic and native histograms of the same scrapes
        native = {"flags": ["--enable-feature=native-histograms"],
                  "more": "    convert_classic_histograms_to_nhcb: true\n"
                          "    always_scrape_classic_histograms: true\n"}
        scraping = self.prometheus(self.serving, **native if version() >= (3, 0) else {})
        # It uses a whole CPU, so it starts last.
        self.start(BUSY, 1, "-kb")
        self.wait_for_vms()
        begin, end, kernel = self.span(scraping)
        # Versions differ in whether a window includes its start.
        window = f"{round((end - begin) * 1000) + 1}ms"

        def grew(name, **labels):
            """Return {vm: increase} between the scrapes, and check that no value decreased."""
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
            """Return {vm: value} at the last scrape."""
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
                # A woken guest writes to ten ports and halts.
                woken = halts[vm] - 2 * self.vcpus[vm]
                self.assertGreaterEqual(exits[vm], (OUTS + 1) * woken, vm)
            self.assertEqual(halts[BUSY], 0)
        ports = grew("kvm_vm_io_exits_total")
        # kvm_pvm does not count port I/O.
        if any(ports.values()):
            with self.subTest("each halt comes after ten ports"):
                for vm, vcpus in self.vcpus.items():
                    # At both scrapes, each vCPU may be between two halts.
                    self.assertLessEqual(abs(ports[vm] - OUTS * halts[vm]), OUTS * vcpus, vm)
        with self.subTest("each vCPU is woken"):
            self.assertEqual({vm: self.woken(vm) for vm in self.vcpus}, {**self.vcpus, BUSY: 0})
        modes = grew("kvm_vm_vcpu_seconds_total")
        with self.subTest("times add up"):
            times = [modes[vm] / vcpus for vm, vcpus in self.vcpus.items()]

            def between(name):
                points, = scraping.points(f"kvm_stats_{name}_seconds", ALL).values()
                return [value for at, value in points if begin <= at <= end]

            # The VMs of a sample are read one after the other, within its duration.
            durations, timestamps = between("sample_duration"), between("last_sample_timestamp")
            skew = durations[0] + durations[-1] + 0.005 * max(times)
            self.assertLessEqual(max(times) - min(times), skew, times)
            self.assertAlmostEqual(times[0], timestamps[-1] - timestamps[0], delta=skew)
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
        """Return how many vCPUs of a VM have halted more than once."""
        done = subprocess.run([BUILD / "kvm-stats", "show", vm, "halt_exits", "-v", "-o", "csv"],
                              text=True, capture_output=True, check=False)
        return sum(row["scope"][4:].isdigit() and int(row["value"]) > 1
                   for row in csv.DictReader(done.stdout.splitlines()))

    def says(self):
        """Return the source and the number of series."""
        found = self.serving.series()
        source, = pick(found, "kvm_stats_source_info")
        return (f"source {dict(source)['source']}, {os.uname().release}, "
                f"{len(vms(found))} VMs, {len(found)} series")

    def quantiles(self, ask, grew, window):
        """Check that quantiles of halts are between the right bounds."""
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
            # The rank may be on a bound.
            low = max((bound for bound in bounds if counts[bound] < rank * (1 - 1e-6)), default=0)
            high = next(bound for bound in bounds if counts[bound] >= rank * (1 - 1e-6))
            if counts[high] < rank * (1 + 1e-6):
                high = next((bound for bound in bounds if counts[bound] >= rank * (1 + 1e-6)), high)
            classic = ask(f"histogram_quantile({quantile}, "
                          f"sum by (le) (rate({metric}_bucket{{{mine}}}[{window}])))")[None]
            self.assertTrue(low <= classic <= high, (quantile, low, classic, high))
            if version() >= (3, 0):
                # of totals, because rate() extrapolates classic and native histograms
                # differently
                classic = ask(f"histogram_quantile({quantile}, "
                              f"sum by (le) ({metric}_bucket{{{mine}}}))")
                native = ask(f"histogram_quantile({quantile}, sum({metric}{{{mine}}}))")
                self.assertAlmostEqual(native[None] / classic[None], 1, delta=1e-9)

    def test_emulation_failure(self):
        """The alert fires when a VM fails that was scraped before without failures."""
        if platform.machine() != "x86_64":
            self.skipTest("the guest is for x86")
        scraping = self.prometheus(self.serving, rules=[self.quick_rules()])
        vmm = self.start(FAILING, 3, "-k")
        failures = f'kvm_vm_insn_emulation_fail_total{{vm="{FAILING}"}}'

        def points():
            return [value for points in scraping.points(failures).values() for _, value in points]

        wait_for(lambda: len(points()) > 2, "scrapes of the healthy VM")
        self.assertEqual(set(points()), {0})
        vmm.stdin.write(b"fail\n")
        vmm.stdin.flush()
        fired = wait_for(lambda: scraping.points(
            'ALERTS{alertname="KvmEmulationFailed",alertstate="firing"}'), "the alert")
        self.assertEqual({dict(key)["vm"] for key in fired}, {FAILING})
        # Each vCPU fails once.
        wait_for(lambda: points()[-1] == 3, "three failures")

    def test_stuck(self):
        """The alert and the page report a hung VMM and a paused VM, and no other, until the
        VMM continues."""
        self.start(PAUSED, 3, "-kp")
        mine = set(self.vcpus)
        scraping = self.prometheus(self.serving, rules=[self.quick_rules()])

        def stuck():
            return {dict(key)["vm"] for key in scraping.query(
                'ALERTS{alertname="KvmVmStuck",alertstate="firing"}')} & mine

        def exits(vm):
            return one(self.serving.next_sample(), "kvm_vm_exits_total", vm=vm)

        wait_for(lambda: stuck() == {PAUSED}, "the alert of the one that is paused")
        os.kill(self.pids[DB], signal.SIGSTOP)
        wait_for(lambda: stuck() == {DB, PAUSED}, "the alert of the one that hangs")
        before = {vm: exits(vm) for vm in (WEB, DB)}
        # a new server, because the page covers the last minute
        serving = self.serve_real()
        rows = wait_for(
            lambda: [vm for vm in serving.api()["vms"] if vm["vm"] in mine], "a window",
            lambda rows: len(rows) == len(mine) and all(vm["seconds"] > SECONDS for vm in rows))
        found = [vm for vm in rows if vm["problem"] == "stuck"]
        self.assertEqual({vm["vm"] for vm in found}, {DB, PAUSED}, rows)
        # On a busy host, others are starved.
        problems = [bool(vm["problem"]) for vm in rows]
        self.assertEqual(problems, sorted(problems, reverse=True), rows)
        for vm in found:
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

    @unittest.skipIf(why_no_stalls(), why_no_stalls())
    def test_stalls(self):
        """The time of a VMM that is stopped has a series by reason, and equals the mode other."""
        serving = self.serve_real("--stalls")

        def read():
            found = serving.next_sample()
            return ({dict(key)["reason"]: value for key, value in
                     pick(found, "kvm_vm_stall_seconds_total", vm=DB).items()},
                    *(one(found, "kvm_vm_vcpu_seconds_total", vm=DB, mode=mode)
                      for mode in ("other", "ready")))

        self.assertEqual(set(wait_for(lambda: read()[0], "reasons")),
                         {"stopped", "frozen", "memory", "disk", "lock", "wait", "kvm", "paused",
                          "unknown", "timed"})
        first, other, ready = read()
        os.kill(self.pids[DB], signal.SIGSTOP)
        wait_for(lambda: read()[0]["stopped"] > first["stopped"] + 2, "time of a stopped VMM")
        os.kill(self.pids[DB], signal.SIGCONT)

        def compare():
            last, now, waited = read()
            grew = last["stopped"] - first["stopped"]
            # KVM counts the wait after a halt as part of the halt, so OTHER lacks it.
            missing = grew - (now - other)
            return -max(0.02, grew / 100) <= missing <= max(0.02, grew / 100) + waited - ready and (
                last, grew)
        last, grew = wait_for(compare, "the time of other")
        self.assertLess(sum(last.values()) - sum(first.values()) - grew, 0.1 * grew)

    @unittest.skipIf(why_no_stalls(), why_no_stalls())
    def test_page_of_stuck_vms(self):
        """The page has the reason why a VM is stuck; one that its VMM does not run is after others."""
        self.start(PAUSED, 3, "-kp")
        os.kill(self.pids[WEB], signal.SIGSTOP)
        serving = self.serve_real("--stalls")

        def reasons():
            _, _, body = serving.get("?all=1", accept="text/html")
            found = re.findall(r">([^<>]*)</a><td class=problem>stuck<small>(\w+): ", body.decode())
            return [(name, reason) for name, reason in found if name in self.vcpus]

        wait_for(lambda: reasons() == [(WEB, "stopped"), (PAUSED, "paused")], "the reasons")
        os.kill(self.pids[WEB], signal.SIGCONT)

    def test_files_of_the_server(self):
        """The process that serves has neither files nor memory of the sampler's BPF programs."""
        def mentions(pid):
            return [sum("bpf" in os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()
                        if path.is_symlink()), Path(f"/proc/{pid}/maps").read_text().count("bpf-map")]

        if not pick(self.serving.series(), "kvm_stats_source_info", source="bpf"):
            self.skipTest("the source is not bpf")
        self.assertEqual(mentions(self.serving.server()), [0, 0])
        self.assertTrue(all(mentions(self.serving.process.pid)))

    def test_other_cgroup(self):
        """The cgroup of a VM is the one to which its process was moved while it runs."""
        def cgroup():
            (labels, _), = pick(serving.series(), "kvm_vm_info", vm=WEB).items()
            return dict(labels)["cgroup"]

        root = Path("/sys/fs/cgroup")
        groups = [path.parent / f"moved-{os.getpid()}" for path in (
            *root.glob("cgroup.procs"), *root.glob("*/cgroup.procs")) if path.parent == root
            or not (root / "cgroup.procs").exists()]
        if not groups:
            self.skipTest("no cgroups")
        serving = self.serve_real()
        before = cgroup()
        self.assertNotIn("moved", before)
        old = [(group, re.search(rf"^\d+:(?:[^:]*\b)?{group.parent.name}:(.*)$|^0::(.*)$", Path(
            f"/proc/{self.pids[WEB]}/cgroup").read_text(), re.M)) for group in groups]
        for group, found in old:
            group.mkdir()
            self.addCleanup(group.rmdir)
            path = group.parent / (found[1] or found[2] or "/").strip("/") / "cgroup.procs"
            self.addCleanup(path.write_text, str(self.pids[WEB]))
            try:
                (group / "cgroup.procs").write_text(str(self.pids[WEB]))
            except OSError:
                # A cpuset has no CPUs yet.
                continue
        wait_for(lambda: cgroup() == f"/{groups[0].name}", "the other cgroup")

    def test_other_threads(self):
        """The thread that wakes the vCPUs of a VM is accounted as emulator, and nothing else."""
        def times():
            return {dict(key)["role"]: value for key, value in pick(
                self.serving.series(), "kvm_vm_other_threads_seconds_total", vm=WEB).items()}

        found = wait_for(times, "the time", lambda found: found.get("emulator"))
        self.assertEqual((found["io"], found["vhost"]), (0, 0))
        wait_for(lambda: times()["emulator"] > found["emulator"], "more time")

    def test_strict_parsers(self):
        """promtool and the strict parser of the Python client accept both formats."""
        status, _, text = self.serving.get(accept="text/plain;version=0.0.4")
        self.assertEqual(status, 200)
        self.check_metrics(text)
        exported = subprocess.run([BUILD / "kvm-stats", "export", "-o", "openmetrics"],
                                  text=True, capture_output=True, check=False)
        self.assertIn(exported.returncode, (0, 3), exported.stderr)
        found = series(exported.stdout)
        self.assertLessEqual(set(self.vcpus), set(vms(found)))
        for vm, vcpus in self.vcpus.items():
            self.assertEqual(one(found, "kvm_vm_vcpus", vm=vm), vcpus)
