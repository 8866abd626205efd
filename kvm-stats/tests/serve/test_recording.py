# SPDX-License-Identifier: GPL-2.0-only
"""serve --from: a recording instead of this host, from a file and from a pipe."""

import html
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from serving import BUILD, DATA, DEADLINE, HOST, Case, Serve, one, pick, wait_for

RECORDING = DATA / "trouble/recording"
START = "2026-11-22T03:00:00Z"
PROGRAM = BUILD / "kvm-stats"


class Followed(Case):
    """A recording that is written while it is served: of a VM that exits 1,000 times per vCPU-second."""

    def setUp(self):
        super().setUp()
        self.recorded = self.host()
        self.recorded.vm(1, "web", run=300, ready=100, halt=500, exits=1000)
        self.recorded.extra = ["wait 1 100 process backup\n", "exit 1 30 500 100 50\n"]
        self.recorded.write()
        self.file = self.folder / "recording"
        self.recorder = None
        self.record()
        self.addCleanup(self.end_recorder)

    def record(self, *options):
        """Start the recorder, which takes ten samples per second."""
        before = self.file.stat().st_size if self.file.exists() else 0
        self.recorder = subprocess.Popen(
            [HOST, "record", "-d", "0.1", "--blame", "5", "--exits", "5", *options, self.file],
            stderr=subprocess.DEVNULL,
            env={**os.environ, "KVM_STATS_HOST": str(self.recorded.path)})
        wait_for(lambda: self.file.exists() and self.file.stat().st_size > before, "a sample")

    def end_recorder(self):
        """Kill the recorder."""
        self.recorder.kill()
        self.recorder.wait()

    def follow(self):
        """Serve the recording until the end of the test."""
        serving = Serve("-d", "0.1", "--blame", "5", "--exits", "5", "--from", str(self.file), env={},
                        program=PROGRAM)
        self.addCleanup(serving.stop)
        return serving

    @staticmethod
    def counters(found):
        """Return the counters of VMs and of the host."""
        return {key: value for key, value in found.items()
                if key[0].startswith("kvm_vm") and key[0].endswith("_total")}

    @staticmethod
    def exits(found):
        """Return the number of exits, and the vCPU-seconds, of which each has 1,000 of them."""
        return (one(found, "kvm_vm_exits_total", vm="web"),
                sum(pick(found, "kvm_vm_vcpu_seconds_total", vm="web").values()))

    def assert_exact(self, found):
        """Check that the counters agree with each other."""
        exits, seconds = self.exits(found)
        self.assertAlmostEqual(exits, 1000 * seconds, delta=2)

    def assert_equal(self, *servings):
        """Check that servers have equal counters at a sample that all of them have."""
        def same_sample():
            found = [serving.series() for serving in servings]
            times = {one(s, "kvm_stats_last_sample_timestamp_seconds") for s in found}
            return found if len(times) == 1 else None
        found = wait_for(same_sample, "the same sample")
        for other in found[1:]:
            self.assertEqual(self.counters(found[0]), self.counters(other))
        self.assert_exact(found[0])

    def test_second_server(self):
        """Servers that start at different times have equal counters, as exact as those of a host."""
        first = self.follow()
        live = self.serve(self.recorded)
        first.next_sample()
        second = self.follow()
        self.assert_equal(first, second)
        second.next_sample()
        self.assert_equal(first, second)
        self.assert_exact(live.next_sample())

    def test_restarted_server(self):
        """Counters continue when a server restarts: none decreases, also of owners and reasons."""
        first = self.follow()
        found = wait_for(lambda: (lambda s: s if one(s, "kvm_stats_blame_up") else None)(
            first.series()), "the owners, which are recorded every ten seconds")
        self.assertTrue(pick(found, "kvm_vm_wait_seconds_total", owner="backup"))
        self.assertTrue(pick(found, "kvm_vm_exits_by_reason_total", reason="0x1e"))
        before = self.counters(first.next_sample())
        first.stop()
        again = self.follow()
        after = self.counters(again.series())
        self.assertGreaterEqual(self.exits(again.series())[1], 0.2)
        self.assertEqual([key for key, value in before.items() if after.get(key, 0) < value], [])

    def test_restarted_recorder(self):
        """When the recorder restarts, counters of VMs start from 0 in all servers."""
        first = self.follow()
        before = self.exits(first.next_sample())[0]
        self.end_recorder()
        self.record()
        after = wait_for(lambda: (lambda s: s if self.exits(s)[0] < before else None)(
            first.series()), "the new recorder")
        self.assert_exact(after)
        self.assertEqual(first.get("healthz", accept=None)[0], 200)
        self.assert_equal(first, self.follow())

    def test_rotated_file(self):
        """When FILE becomes FILE.1, counters start from 0 in all servers; no growth is counted twice."""
        self.end_recorder()
        for number in range(2, 40):
            self.recorded.vm(number, f"vm-{number}", vcpus=4, run=number, exits=1000 + number)
        self.recorded.write()
        self.record("--max-size", "64K")
        first, last, grown, restarts = self.follow(), None, 0, 0
        begin = time.monotonic()
        while restarts < 2 or not grown:
            self.assertLess(time.monotonic() - begin, DEADLINE)
            found = first.series()
            self.assert_exact(found)
            seconds = self.exits(found)[1]
            # as rate() of Prometheus
            if last is not None:
                grown += seconds - last if seconds >= last else seconds
                restarts += seconds < last
            last = seconds
        self.assertLessEqual(grown, 2 * (time.monotonic() - begin + 0.2))
        self.assert_equal(first, self.follow())

    def test_emptied_file(self):
        """Servers follow a recording that another program has emptied."""
        first = self.follow()
        os.truncate(self.file, 0)
        samples = first.samples()
        wait_for(lambda: first.samples() > samples + 5, "samples after that")
        self.assert_equal(first, self.follow())

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_server_of_root(self):
        """A server that root started is another user, follows root's file, and reads none elsewhere."""
        serving = self.follow()
        # It answers when it has changed its user.
        before = self.exits(serving.next_sample())[0]
        self.assertRegex(Path(f"/proc/{serving.process.pid}/status").read_text(),
                         r"\nUid:((\t6[1-5]\d{3})\2{3})\nGid:\1\n(.*\n)*Groups:\s*\n(.*\n)*CapPrm:\t0+4\n")
        self.end_recorder()
        self.file.unlink()
        self.record()
        self.file.chmod(0o600)
        wait_for(lambda: self.exits(serving.series())[0] < before, "the new file")
        elsewhere = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, elsewhere)
        self.end_recorder()
        shutil.copy(self.file, elsewhere)
        self.file.unlink()
        self.file.symlink_to(elsewhere / "recording")
        wait_for(lambda: re.search(f"{self.file}: cannot open the file that replaced it: "
                                   "Permission denied\n", serving.said()), "a message")

    def test_ended_recorder(self):
        """The last sample becomes too old, also for a server that starts later."""
        self.end_recorder()
        serving = Serve("-d", "0.1", "--max-age", "2", "--from", str(self.file), env={},
                        program=PROGRAM)
        self.addCleanup(serving.stop)
        wait_for(lambda: serving.get("healthz", accept=None)[0] == 503, "a sample that is too old")
        serving.stop()
        serving = Serve("-d", "0.1", "--max-age", "2", "--from", str(self.file), env={},
                        program=PROGRAM)
        self.addCleanup(serving.stop)
        self.assertEqual(serving.get("healthz", accept=None)[0], 503)
        self.record()
        wait_for(lambda: serving.get("healthz", accept=None)[0] == 200, "the next sample")


class Causes(Case):
    """Pages of VMs in trouble, and the command why about the same samples."""

    @staticmethod
    def why(file):
        """Return {VM: [(cause, remedy)]} of the command."""
        found = {}
        done = subprocess.run([PROGRAM, "why", "--from", file], check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if name := re.match(r"(\w+): (\w+, )?lost", line):
                causes = found[name[1]] = []
            elif line.startswith("    to do: "):
                causes[-1] = (causes[-1][0], line.removeprefix("    to do: "))
            elif line.startswith("  "):
                causes.append((line.strip(), ""))
        return found

    def causes(self, serving, vm):
        """Return the same of a page."""
        status, _, body = serving.get(f"vm?vm={vm}", accept="text/html")
        self.assertEqual(status, 200)
        return [tuple(html.unescape(part) for part in found)
                for found in re.findall("^<li>(.*?)(?:<br><b>to do:</b> (.*))?$", body.decode(), re.M)]

    def test_sentences(self):
        """A page has the causes and the remedies of why, in its words, for each VM of a recording."""
        host, file = self.host(), self.folder / "recording"
        host.vm(1, "starved", run=300, ready=400, halt=300)
        host.vm(2, "crowded", run=100, ready=700, halt=200).vm(3, "busy", run=1000)
        host.vm(4, "throttled", run=300, throttled=500, ready=100).vm(5, "blocked", run=100, halt=200)
        host.vm(6, "polling", run=100, poll=500, halt=400).vm(7, "failed", run=500, failed=10, halt=500)
        host.vm(8, "exiting", run=900, exits=200000, halt=100).vm(9, "quiet", run=200, halt=800)
        host.extra = ["wait 1 800 process <b>&\u202e\"x\n", "wait 1 200 vm 3\n", "wait 2 1000 vm 3\n",
                      "exit 8 30 100000 500 100\n"]
        host.write()
        # The owners are recorded every ten seconds.
        subprocess.run([HOST, "record", "-d", "0.5", "-n", "24", "--blame", "5", "--exits", "5", file], check=True,
                       env={**os.environ, "KVM_STATS_HOST": str(host.path)}, stderr=subprocess.DEVNULL)
        with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
            serving = Serve("-d", "0.1", "--max-age", "60", "--blame", "5", "--exits", "5", "--from", "-", env={},
                            program=PROGRAM, stdin=cat.stdout)
            self.addCleanup(serving.stop)
            wait_for(lambda: serving.samples() == 24, "the last sample")
        wanted = self.why(file)
        self.assertEqual(sorted(wanted), ["blocked", "crowded", "exiting", "failed", "polling", "starved", "throttled"])
        self.assertRegex(wanted["starved"][0][0], r'<b>&\\u202e"x (80|79)\.\d%')
        self.assertEqual({vm: self.causes(serving, vm) for vm in wanted}, wanted)
        self.assertEqual(self.causes(serving, "quiet"), [])


class Recording(unittest.TestCase):
    """The recording "trouble": 20 samples, three VMs, one of which is starved twice."""

    def serve(self, *options, stdin=subprocess.DEVNULL):
        """Serve a recording until the end of the test."""
        serving = Serve("-d", "0.1", *options, env={}, program=PROGRAM, stdin=stdin)
        self.addCleanup(serving.stop)
        return serving

    @staticmethod
    def ready(found):
        """Return the seconds that the VM "second" was ready."""
        values = pick(found, "kvm_vm_vcpu_seconds_total", vm="second", mode="ready")
        return next(iter(values.values()), 0)

    def test_file(self):
        """Each interval has the next sample, and the last one becomes too old."""
        serving = self.serve("--from", str(RECORDING), "--at", START, "--max-age", "5")
        found = serving.series()
        self.assertEqual({dict(key)["vm"] for key in pick(found, "kvm_vm_info")},
                         {"calm", "second", "idle"})
        before = one(found, "kvm_stats_samples_total")
        found = wait_for(lambda: (lambda s: s if one(s, "kvm_stats_samples_total") == 20
                                  else None)(serving.series()), "the last sample")
        self.assertLess(before, 20)
        self.assertAlmostEqual(self.ready(found), 15, places=6)
        wait_for(lambda: serving.get("healthz", accept=None)[0] == 503, "a sample that is too old")

    def test_times(self):
        """--at and --until choose the first and the last sample."""
        serving = self.serve("--from", str(RECORDING), "--at", "2026-11-22T03:01:00Z",
                             "--until", "2026-11-22T03:01:30Z")
        wait_for(lambda: re.search(rb", sampled [1-9]", serving.get("healthz", accept=None)[2]),
                 "a second without a sample")
        found = serving.series()
        self.assertEqual(one(found, "kvm_stats_samples_total"), 3)
        times = pick(found, "kvm_vm_vcpu_seconds_total", vm="calm")
        self.assertAlmostEqual(sum(times.values()), 20, places=6)

    def test_sums(self):
        """Owners, exits and stalls are exported as the recording has them."""
        serving = self.serve("--from", str(RECORDING), "--at", START, "--blame", "5", "--exits", "5", "--stalls")
        found = wait_for(lambda: (lambda s: s if one(s, "kvm_stats_samples_total") == 20
                                  else None)(serving.series()), "the last sample")
        waits = pick(found, "kvm_vm_wait_seconds_total", vm="second")
        self.assertEqual({dict(key)["owner"]: round(value, 3) for key, value in waits.items()
                          if value},
                         {"backup.service": 10.5, "calm": 4, "kswapd0": .5})
        exits = pick(found, "kvm_vm_exits_by_reason_total", vm="calm", reason="IO_INSTRUCTION")
        self.assertEqual(list(exits.values()), [19000])
        stalls = pick(found, "kvm_vm_stall_seconds_total", vm="idle", reason="lock")
        self.assertAlmostEqual(list(stalls.values())[0], 7.6, places=6)

    def test_sums_that_were_not_recorded(self):
        """A file without them is rejected."""
        for option in ("--blame=5", "--exits=5", "--stalls"):
            done = subprocess.run([PROGRAM, "serve", option, "--from", DATA / "who/recording", "--at", START],
                                  check=False, capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"recorded without {option.split('=')[0]}\\n$")

    def test_pipe(self):
        """Samples are served when they come, and the last one becomes too old."""
        data = RECORDING.read_bytes()
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
            # the first sample, and part of the second one
            part = 16 + 24 + int.from_bytes(data[24:28], "little") + 10
            cat.stdin.write(data[:part])
            cat.stdin.flush()
            serving = self.serve("--from", "-", "--max-age", "5", stdin=cat.stdout)
            self.assertEqual(serving.samples(), 1)
            time.sleep(0.5)
            self.assertEqual(serving.samples(), 1)
            cat.stdin.write(data[part:])
            cat.stdin.close()
            found = wait_for(lambda: (lambda s: s if one(s, "kvm_stats_samples_total") == 20
                                      else None)(serving.series()), "the last sample")
            self.assertAlmostEqual(self.ready(found), 15, places=6)
        wait_for(lambda: serving.get("healthz", accept=None)[0] == 503, "a sample that is too old")

    def test_export(self):
        """export prints the last sample, or the one at a time."""
        def export(*options):
            done = subprocess.run([PROGRAM, "export", "--from", RECORDING, *options], check=True,
                                  capture_output=True, text=True)
            return {line.split("}")[0]: float(line.split()[-1]) for line in done.stdout.splitlines()
                    if line.startswith('kvm_vm_vcpu_seconds_total{vm="second"')}
        last = export()
        self.assertEqual(len(last), len(export("--at", "2026-11-22T03:01:10Z")))
        self.assertTrue(last)
