# SPDX-License-Identifier: GPL-2.0-only
"""Clients that mean no good, or are broken: memory and time stay bounded, and others
are served meanwhile."""

import os
import random
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from serving import BUILD, Case, one, vms, wait_for

QUICK = 2	# seconds; a tenth of one on a machine with nothing else to do


class Hostile(Case):
    """A host with enough VMs that an answer does not fit into a socket."""

    def setUp(self):
        super().setUp()
        self.made = self.host()
        for number in range(1, 201):
            self.made.vm(number, f"vm-{number:03}", vcpus=4, run=500, exits=1000, halt=300)
        self.serving = self.serve(self.made, "-d", "1")
        self.serving.next_sample()
        self.sockets = []
        self.addCleanup(lambda: [s.close() for s in self.sockets])

    def connect(self, data=b""):
        """A connection from which nobody reads."""
        s = socket.socket()
        self.sockets.append(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(20)
        s.connect(("127.0.0.1", self.serving.port))
        try:
            s.sendall(data)
        except OSError:
            pass
        return s

    def memory(self):
        """Resident, in kB."""
        with open(f"/proc/{self.serving.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def files(self):
        """Open descriptors."""
        return len(list(Path(f"/proc/{self.serving.process.pid}/fd").iterdir()))

    def others_are_served(self):
        """Within a short time, and all of it."""
        begin = time.monotonic()
        status, _, body = self.serving.get()
        took = time.monotonic() - begin
        self.assertEqual(status, 200)
        self.assertTrue(body.endswith(b"# EOF\n"))
        self.assertLess(took, QUICK)

    def test_one_that_does_not_read(self):
        """Many of them: what they were to get is there once for each sample."""
        before = self.memory()
        for _ in range(100):
            self.connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(3):
            self.others_are_served()
        self.assertLess(self.memory() - before, 40000)

    def test_slow_bytes(self):
        """A request that never ends is over after ten seconds, byte by byte or not."""
        slow = self.connect(b"GET /met")
        begin = time.monotonic()
        slow.settimeout(0.5)
        gone = False
        while not gone and time.monotonic() - begin < 60:
            try:
                slow.sendall(b"r")
                gone = slow.recv(1) == b""
            except TimeoutError:
                pass
            except OSError:
                gone = True
        self.assertTrue(gone)
        self.assertGreater(time.monotonic() - begin, 5)
        self.others_are_served()

    def test_a_megabyte_of_header(self):
        """It is refused, and costs no more than the room for headers."""
        before = self.memory()
        for _ in range(20):
            s = self.connect(b"GET /metrics HTTP/1.1\r\nX-Long: " + b"x" * (1 << 20))
            try:
                answer = s.recv(100)
            except OSError:
                answer = b""
            self.assertTrue(answer == b"" or answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 4")),
                            answer)
        self.others_are_served()
        self.assertLess(self.memory() - before, 10000)

    def test_very_long_addresses(self):
        """Refused as well."""
        answer = self.connect(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n")
        try:
            self.assertIn(answer.recv(12), (b"HTTP/1.1 414", b"HTTP/1.1 431", b""))
        except ConnectionResetError:
            pass
        self.others_are_served()

    def test_many_connections(self):
        """Thousands: the idle ones go, and a scraper among them gets its answer."""
        before = self.memory()
        for i in range(2000):
            self.connect()
            if i % 500 == 0:
                self.others_are_served()
            if len(self.sockets) > 400:
                self.sockets.pop(0).close()
        self.others_are_served()
        self.assertLessEqual(self.files(), 256 + 40)
        self.assertLess(self.memory() - before, 20000)

    def test_garbage(self):
        """Whatever it is."""
        random.seed(1)
        for _ in range(300):
            line = random.choice((b"", b"GET ", b"GET / HTTP/9.9\r\n", b"POST /metrics HTTP/1.1\r\n",
                                  b"GET /metrics HTTP/1.1\r\nAccept: ",
                                  b"GET /metrics HTTP/1.1\r\nAccept-Encoding: ",
                                  b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n",
                                  b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
            s = self.connect(line + random.randbytes(random.randrange(200)) + b"\r\n\r\n")
            s.close()
        self.others_are_served()

    def test_pipelined_requests(self):
        """A thousand in one connection, and the answers are not read."""
        self.connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        self.others_are_served()


class Limits(Case):
    """What a host with too much on it does."""

    def test_max_series(self):
        """The youngest VMs are left out, whole, and it is told how much that was."""
        host = self.host()
        for number in range(1, 21):
            host.vm(number, f"vm-{number:02}", run=500, start=1000 - number)
        serving = self.serve(host, "--max-series", "100")
        found = serving.next_sample()
        shown = vms(found)
        self.assertTrue(0 < len(shown) < 20)
        # those with the largest numbers began first
        self.assertEqual(shown, [f"vm-{n:02}" for n in range(21 - len(shown), 21)])
        of_vms = [key for key in found if "vm" in dict(key[1])]
        self.assertLessEqual(len(of_vms), 100)
        self.assertGreater(one(found, "kvm_stats_series_dropped_total"), 0)
        self.assertEqual(one(found, "kvm_stats_vms"), 20)

    def test_nothing_dropped(self):
        """The counter stays where it is if all fits."""
        host = self.host()
        host.vm(1, "one", run=500)
        self.assertEqual(one(self.serve(host).next_sample(), "kvm_stats_series_dropped_total"), 0)

    def test_old_sample(self):
        """Its age is told; beyond the limit it is an error; and it comes back."""
        host = self.host()
        host.vm(1, "one", run=500)
        serving = self.serve(host, "--max-age", "1")
        serving.next_sample()
        host.extra = ["broken\n"]
        host.write()

        def status():
            return serving.get()[0]

        def age():
            found = serving.get()
            for line in found[2].decode().splitlines():
                if line.startswith("kvm_stats_sample_age_seconds "):
                    return float(line.split()[1])
            return 0

        wait_for(lambda: age() > 0.3 or status() == 503, "age")
        wait_for(lambda: status() == 503, "the limit")
        self.assertEqual(serving.get("api/v1/vms")[0], 503)
        self.assertEqual(serving.get("")[0], 503)
        status, _, body = serving.get("healthz")
        self.assertEqual(status, 503)
        self.assertIn(b"the last sample is too old", body)
        self.assertIn(b"the host is broken", body)
        host.extra = []
        host.write()
        wait_for(lambda: serving.get()[0] == 200, "the end of it")

    def test_sample_that_takes_long(self):
        """Nobody waits for it."""
        host = self.host()
        host.vm(1, "one", run=500)
        serving = self.serve(host)
        serving.next_sample()
        host.extra = ["sleep 5000\n"]
        host.write()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            begin = time.monotonic()
            self.assertEqual(serving.get()[0], 200)
            self.assertLess(time.monotonic() - begin, QUICK)
            time.sleep(0.1)
        host.extra = []
        host.write()

    def test_nobody_scrapes_nobody_hurries(self):
        """Samples are as far apart as was asked, and scrapers do not add to them."""
        host = self.host()
        host.vm(1, "one", run=500)
        serving = self.serve(host, "-d", "1")
        begin, before = time.monotonic(), serving.samples()
        time.sleep(4)
        idle = serving.samples() - before
        self.assertLessEqual(idle, time.monotonic() - begin + 2)
        begin, before = time.monotonic(), serving.samples()
        while time.monotonic() - begin < 4:
            serving.get()
        # a sample that is nearly due is taken at once: 8/7 of what was asked, and one
        self.assertLessEqual(serving.samples() - before,
                             (time.monotonic() - begin) * 8 / 7 + 2)

    def test_one_text_for_all(self):
        """Who asks between two samples gets the very same bytes."""
        host = self.host()
        host.vm(1, "one", run=500)
        serving = self.serve(host, "-d", "30", "--max-age", "90")
        serving.get(Accept_Encoding="gzip")
        texts = {serving.get(Accept_Encoding="gzip", User_Agent=str(i))[2] for i in range(10)}
        self.assertEqual(len(texts), 1)


class Cost(Case):
    """What a scrape costs, of 200 VMs with 4 vCPUs each; times are for "make bench"."""

    def test_size_and_allocations(self):
        """700 kB at most, 100 kB packed, and nothing is allocated after the first."""
        host = self.host()
        for n in range(1, 201):
            host.vm(n, f"instance-{n:05}", vcpus=4, run=100 + n * 3 % 500, ready=n % 50,
                    halt=300, poll=n % 30, throttled=n % 7, exits=1000 + n * 37, emulated=n,
                    io=n * 3)
        host.write()
        done = subprocess.run([BUILD / "tests/serve/cost", "20"], text=True, check=True,
                              env={**os.environ, "KVM_STATS_HOST": str(host.path)},
                              capture_output=True)
        samples, size, packed, allocations = map(int, done.stdout.split()[:4])
        self.assertGreater(samples, 8000)
        self.assertLess(size, 700000)
        self.assertLess(packed, 100000)
        self.assertEqual(allocations, 0)


@unittest.skipUnless((BUILD / "tests/serve/fuzz").exists(), "there is no clang")
class Fuzz(unittest.TestCase):
    """Headers and names of all kinds, by libFuzzer."""

    def test_headers_and_names(self):
        """What is said here of them holds, with sanitizers; a number of runs, not a time."""
        with tempfile.TemporaryDirectory() as folder:
            for i, seed in enumerate((
                    b"\0application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1",
                    b"\1gzip;q=0.5, *;q=0, identity", b"\2a\"b\\c\n\xc3\xa4",
                    b"\3\x01\xf0\x9f\x90\xa7", b"\4<b>&'\"")):
                (Path(folder) / str(i)).write_bytes(seed)
            done = subprocess.run(
                [BUILD / "tests/serve/fuzz", "-runs=200000", "-max_len=512", "-seed=1",
                 f"-artifact_prefix={folder}/", folder],
                capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
