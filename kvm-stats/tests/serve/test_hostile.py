# SPDX-License-Identifier: GPL-2.0-only
"""Clients that mean no good, or are broken: memory and time stay bounded, and others
are served meanwhile."""

import contextlib
import errno
import http.client
import itertools
import multiprocessing
import os
import random
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from serving import BUILD, OPENMETRICS, Case, one, vms, wait_for

QUICK = 0.1	# seconds
ATTEMPTS = 15
# Attackers have an address of their own: when there are too many connections, those of the
# address with most of them go. And so their ports are not those of other tests.
ATTACKER = "127.0.0.2"


def waited(task):
    """Seconds that this thread could have run, but others had the CPU."""
    return int(Path(f"/proc/{task}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


@contextlib.contextmanager
def before_others(*threads):
    """They get a CPU when they want one, as far as this user may decide it."""
    try:
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, thread, -20)
        yield
    except PermissionError:
        yield
    finally:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            for thread in threads:
                os.setpriority(os.PRIO_PROCESS, thread, 0)


def serving_takes(serving, attack=None):
    """Seconds until an answer is there, all of it: as on a machine with nothing else to do.

    What the thread that serves and this one waited for a CPU while others had it is taken
    off, because that is the machine's time, and they do not have to wait for long where
    they may have a priority. What the thread that serves spends on other clients, or
    sleeps, is not taken off. The median of some, because it is what all of them meet: the
    CPU may be taken from the machine itself, which nobody tells, in a few of them. An
    attack goes on between them, however slow this machine is.
    """
    pid = serving.process.pid
    server = f"{pid}/task/{pid}"
    took = []
    with before_others(pid, threading.get_native_id()):
        for _ in range(ATTEMPTS):
            if attack:
                begun = attack.value
                wait_for(lambda: attack.value > begun + 20, "the attack to go on")
            before, begin = waited(server) + waited("thread-self"), time.monotonic()
            status, _, body = serving.get()
            after, end = waited(server) + waited("thread-self"), time.monotonic()
            assert status == 200, (status, body)
            assert body.endswith(b"# EOF\n")
            took.append(end - begin - (after - before))
    return statistics.median(took)


def age(serving):
    """Seconds since the sample that is served; 0: it is too old to be served."""
    for line in serving.get()[2].decode().splitlines():
        if line.startswith("kvm_stats_sample_age_seconds "):
            return float(line.split()[1])
    return 0


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
        s.bind((ATTACKER, 0))
        s.connect(("127.0.0.1", self.serving.port))
        try:
            s.sendall(data)
        except OSError:
            pass
        return s

    def attack(self, datas, connections, programs=1):
        """So many programs that begin connections as fast as they can, each with what
        next(datas) gives, never read, and keep so many of them open, until the test ends.
        Returns when all of them are open, with how many there were so far."""
        opened = multiprocessing.Value("Q", 0)

        def begin():
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            os.nice(19)	# it stands for other machines
            kept = []
            while True:
                s = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.bind((ATTACKER, 0))
                kept.append(s)
                try:
                    status = s.connect_ex(("127.0.0.1", self.serving.port))
                    if status and status != errno.EINPROGRESS:
                        raise OSError(status, os.strerror(status))
                    s.send(next(datas))
                except (BlockingIOError, ConnectionError):
                    pass
                if len(kept) > connections:
                    kept.pop(0).close()
                with opened.get_lock():
                    opened.value += 1

        for _ in range(programs):
            attacker = multiprocessing.Process(target=begin, daemon=True)
            attacker.start()
            self.addCleanup(attacker.join)
            self.addCleanup(attacker.kill)
        wait_for(lambda: opened.value > programs * connections, "the attack")
        return opened

    def memory(self):
        """Resident, in kB."""
        with open(f"/proc/{self.serving.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def files(self):
        """Open descriptors."""
        return len(list(Path(f"/proc/{self.serving.process.pid}/fd").iterdir()))

    def others_are_served(self, attack=None):
        """Within a short time, and all of it."""
        self.assertLess(serving_takes(self.serving, attack), QUICK)

    def test_nobody_else(self):
        """What is to be seen below is not there anyway."""
        self.others_are_served()

    def test_one_that_does_not_read(self):
        """Many of them: what they were to get is there once for each sample."""
        before = self.memory()
        for _ in range(100):
            self.connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.others_are_served()
        self.assertLess(self.memory() - before, 40000)

    def test_more_that_do_not_read_than_there_is_room(self):
        """Those that have not read for longest go, and no other has to wait."""
        before = self.memory()
        for _ in range(600):
            self.connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.others_are_served()
        self.assertLessEqual(self.files(), 256 + 40)
        self.assertLess(self.memory() - before, 40000)

    def test_slow_bytes(self):
        """A request that never ends is over after ten seconds, byte by byte or not."""
        slow = self.connect(b"GET /met")
        for _ in range(100):
            self.connect(b"GET /met")
        self.others_are_served()
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
        self.others_are_served(self.attack(
            itertools.repeat(b"GET /metrics HTTP/1.1\r\nX-Long: " + b"x" * (1 << 20)), 100))
        self.assertLess(self.memory() - before, 10000)

    def test_very_long_addresses(self):
        """Refused as well."""
        answer = self.connect(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n")
        try:
            self.assertIn(answer.recv(12), (b"HTTP/1.1 414", b"HTTP/1.1 431", b""))
        except ConnectionResetError:
            pass
        self.others_are_served()

    def test_ten_thousand_connections(self):
        """Open at once, and each that is closed is followed by another: the idle ones go,
        and a scraper among them gets its answer."""
        before = self.memory()
        self.others_are_served(self.attack(itertools.repeat(b""), 2500, programs=4))
        self.assertLessEqual(self.files(), 256 + 40)
        self.assertLess(self.memory() - before, 20000)

    def test_ten_thousand_that_do_not_read(self):
        """The same, and all of them have asked for an answer."""
        before = self.memory()
        self.others_are_served(self.attack(
            itertools.repeat(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), 2500, programs=4))
        self.assertLessEqual(self.files(), 256 + 40)
        self.assertLess(self.memory() - before, 40000)

    def test_with_the_address_of_those(self):
        """A scraper that has the address of too many others gets its answer, all of it, if
        it reads some of it while the next hundred of them come."""
        for number in range(201, 601):
            self.made.vm(number, f"vm-{number:03}", vcpus=4, run=500, exits=1000, halt=300)
        self.serving = self.serve(self.made, "-d", "1", "--detail", "vcpu", "--stats", "*")
        # more than the kernel takes at once
        wait_for(lambda: len(self.serving.get()[2]) > 4000000, "a large answer")

        def others():
            for _ in range(100):
                self.connect()
            # they have had their turn before this one
            self.serving.get("healthz")

        for _ in range(3):
            others()
        scraper = socket.socket()
        self.sockets.append(scraper)
        scraper.settimeout(60)
        scraper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100000)
        scraper.bind((ATTACKER, 0))
        scraper.connect(("127.0.0.1", self.serving.port))
        scraper.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {OPENMETRICS}\r\n"
                        "Connection: close\r\n\r\n".encode())
        answer, times = b"", 0
        while more := scraper.recv(1 << 17, socket.MSG_WAITALL):
            answer += more
            times += 1
            if times <= 8:
                others()
        self.assertTrue(answer.endswith(b"# EOF\n"), (len(answer), times))
        self.assertGreater(times, 8)

    def test_garbage(self):
        """Whatever it is."""
        chosen = random.Random(1)

        def garbage():
            while True:
                line = chosen.choice((
                    b"", b"GET ", b"GET / HTTP/9.9\r\n", b"POST /metrics HTTP/1.1\r\n",
                    b"GET /metrics HTTP/1.1\r\nAccept: ",
                    b"GET /metrics HTTP/1.1\r\nAccept-Encoding: ",
                    b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n",
                    b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
                yield line + chosen.randbytes(chosen.randrange(200)) + b"\r\n\r\n"

        self.others_are_served(self.attack(garbage(), 300))

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

        wait_for(lambda: age(serving) > 0.3 or status() == 503, "age")
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
        host.slow(5000)
        wait_for(lambda: age(serving) > 0.5, "the sample that takes long")
        self.assertLess(serving_takes(serving), QUICK)
        host.slow(0)

    def test_told_to_stop_while_some_wait(self):
        """For the next sample, which takes long: they get an answer, and it ends."""
        host = self.host()
        host.vm(1, "one", run=500)
        serving = self.serve(host)
        serving.next_sample()
        host.slow(1000)
        wait_for(lambda: age(serving) > 0.2, "a sample that takes long")
        waiting = [socket.create_connection(("127.0.0.1", serving.port)) for _ in range(20)]
        for i, client in enumerate(waiting):
            self.addCleanup(client.close)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.01)
            if i == 10:
                serving.process.terminate()
        serving.stop()

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


def cpu_of(serving):
    """Seconds of CPU that all of its threads had."""
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in
               Path(f"/proc/{serving.process.pid}/task").glob("*/schedstat")) / 1e9


class Cost(Case):
    """What a scrape costs, of 200 VMs with 4 vCPUs each; times are for "make bench"."""

    def test_ten_scrapers(self):
        """They cost at most 1.2 of one: CPU time, and of the kernel's too, of two programs
        that serve the same. What else the machine does can only make a round dearer, of
        ten scrapers most of all: the cheapest one counts, of as many as it takes. As
        Prometheus does it: compressed, each in a connection that stays, once a sample."""
        host = self.host().busy(200)
        one_scraper, ten = (self.serve(host, "-d", "2") for _ in range(2))
        connections = [(serving, http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60))
                       for serving in [one_scraper] + 10 * [ten]]
        headers = {"Accept": OPENMETRICS, "Accept-Encoding": "gzip"}

        def cpu():
            return [cpu_of(serving) for serving in (one_scraper, ten)]

        def scrape():
            """CPU time of either, and whether all had the same sample: on a busy machine
            the next one may come meanwhile, and a text is made for each."""
            before, texts = cpu(), set()
            # no sooner than the next sample is due, and no text is made for one of them twice
            time.sleep(2.05)
            for serving, connection in connections:
                connection.request("GET", "/metrics", headers=headers)
                answer = connection.getresponse()
                text = answer.read()
                self.assertEqual((answer.status, len(text) > 10000), (200, True))
                texts.add((serving, text))
            return [b - a for a, b in zip(before, cpu())], len(texts) == 2

        def scrapes():
            scrape()
            while True:
                took, same = scrape()
                if same:
                    yield took

        first = all_ten = float("inf")
        for i, took in enumerate(itertools.islice(scrapes(), 50)):
            first, all_ten = min(first, took[0]), min(all_ten, took[1])
            if i >= 4 and all_ten <= 1.2 * first:
                break
        for _, connection in connections:
            connection.close()
        self.assertLessEqual(all_ten / first, 1.2)

    def test_size_and_allocations(self):
        """700 kB at most, 100 kB packed, and nothing is allocated after the first."""
        host = self.host().busy(200)
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
