# SPDX-License-Identifier: GPL-2.0-only
"""serve --from: a recording instead of this host, from a file and from a pipe."""

import re
import subprocess
import time
import unittest

from serving import BUILD, DATA, DEADLINE, Serve, one, pick, wait_for

RECORDING = DATA / "trouble/recording"
PROGRAM = BUILD / "kvm-stats"


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
        serving = self.serve("--from", str(RECORDING), "--max-age", "5")
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
        serving = self.serve("--from", str(RECORDING), "--blame", "5", "--exits", "5", "--stalls")
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
            done = subprocess.run([PROGRAM, "serve", option, "--from", DATA / "who/recording"],
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
