# SPDX-License-Identifier: GPL-2.0-only
"""Common parts of the tests of "serve": a simulated host, the program that serves it, and a
Prometheus that scrapes it, all on 127.0.0.1 and free ports. Tests wait for events, never for a
time."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from prometheus_client.openmetrics import parser as openmetrics

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
RULES = HERE.parent.parent / "rules"
BUILD = Path(os.environ["KVM_STATS_BUILD"]).resolve()
HOST = BUILD / "tests/serve/host"
REPLAY = BUILD / "tests/replay"
# Runs a program without privileges, as a service does
OTHER_USER = "setpriv --reuid 61183 --regid 61183 --clear-groups --inh-caps=-all"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
# Seconds; events take less than one on an idle machine that is not emulated.
DEADLINE = 60 * float(os.environ.get("SLOWER", "1"))
# The process that serves may not start the thread that finds leaks.
SANITIZER = {"ASAN_OPTIONS": "quarantine_size_mb=1:detect_leaks=0"}

# never through a proxy
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_for(condition, what="it", until=bool):
    """Return the result of condition() as soon as it is true, or until() is true for it."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = condition()
        if until(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {DEADLINE} s for {what}")


def series(text):
    """Return {(name, labels): value} of OpenMetrics, by the strict parser."""
    found = {}
    for family in openmetrics.text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            if key in found:
                raise AssertionError(f"twice: {key}")
            found[key] = sample.value
    return found


def pick(found, name, **labels):
    """Return the series with this name and these labels as {labels: value}."""
    return {key[1]: value for key, value in found.items()
            if key[0] == name and labels.items() <= dict(key[1]).items()}


def one(found, name, **labels):
    """Return the value of the only such series."""
    values = list(pick(found, name, **labels).values())
    if len(values) != 1:
        raise AssertionError(f"{len(values)} series {name} {labels}")
    return values[0]


def vms(found):
    """Return the names of all VMs."""
    return sorted(dict(labels)["vm"] for labels in pick(found, "kvm_vm_info"))


class Host:
    """A directory for host.c, with VMs that a test creates, changes and destroys."""

    def __init__(self, path):
        self.path = Path(path)
        (self.path / "proc").mkdir(parents=True)
        self.lines = {}
        self.extra = []
        self.write()

    def vm(self, number, name, vcpus=2, pid=None, start=None, **rates):
        """Create a VM, or change its rates."""
        pid = pid or 1000 + number
        folder = self.path / "proc" / str(pid)
        if not folder.exists():
            self.process(pid, name, start if start is not None else 100 * number)
        rates = " ".join(f"{key}={value}" for key, value in rates.items())
        self.lines[number] = f"vm {number} {pid} {vcpus} {rates}\n"
        return self

    def busy(self, vms, vcpus=4, name="instance", pids=1000):
        """Create this many VMs with different rates."""
        for n in range(1, vms + 1):
            run, ready, poll, throttled = 100 + n * 3 % 500, n % 50, n % 30, n % 7
            self.vm(n, f"{name}-{n:05}", vcpus=vcpus, pid=pids + n, run=run, ready=ready, poll=poll,
                    halt=950 - run - ready - poll - throttled, throttled=throttled, exits=1000 + n * 37,
                    emulated=n, io=n * 3)
        self.write()
        return self

    def hold(self):
        """Let the next sample last until release(), and return after its start."""
        held = self.path / "held"
        held.touch()
        self.write([f"hold {held}\n"])
        wait_for((self.path / "held.waiting").exists, "the sample that does not end")

    def release(self):
        """End the sample that hold() keeps from ending."""
        self.write([])
        (self.path / "held").unlink()

    def stop_clock(self, later=0):
        """Stop the clock of timeouts, or advance the stopped clock by some seconds."""
        clock = self.path / "clock"
        time_ns = int(clock.read_text()) if clock.exists() else time.monotonic_ns()
        new = self.path / "clock.new"
        new.write_text(str(time_ns + int(later * 1e9)))
        new.rename(clock)

    def process(self, pid, name, start):
        """Create the process in /proc; start is in hundredths of a second after boot."""
        folder = self.path / "proc" / str(pid)
        folder.mkdir()
        name = name if isinstance(name, bytes) else name.encode()
        (folder / "cmdline").write_bytes(
            b"qemu-system-x86_64\0-name\0guest=" + name.replace(b",", b",,") +
            b",debug-threads=on\0-uuid\0" +
            f"00000000-0000-0000-0000-{pid:012}".encode() + b"\0")
        (folder / "comm").write_text("qemu-system-x86\n")
        (folder / "cgroup").write_text(
            f"0::/machine.slice/machine-qemu\\x2d1\\x2d{pid}.scope\n")
        (folder / "stat").write_text(
            f"{pid} (qemu-system-x86) S 1" + " 0" * 17 + f" {start}" + " 0" * 30 + "\n")

    def thread(self, tid, state):
        """Create the thread of a vCPU in /proc, or change its state."""
        (self.path / "proc" / str(tid)).mkdir(exist_ok=True)
        (self.path / "proc" / str(tid) / "stat").write_text(f"{tid} (CPU 0/KVM) {state}" + " 0" * 49 + "\n")

    def end(self, number):
        """Destroy the VM and end its process."""
        pid = self.lines.pop(number).split()[2]
        if not any(line.split()[2] == pid for line in self.lines.values()):
            shutil.rmtree(self.path / "proc" / pid)
        return self

    def write(self, extra=None):
        """Apply all changes; extra: replace the lines besides those of VMs."""
        self.extra = self.extra if extra is None else extra
        new = self.path / "vms.new"
        new.write_text("".join(self.lines.values()) + "".join(self.extra), errors="surrogateescape")
        new.rename(self.path / "vms")


class Serve:
    """The program, which must end without an error when the test ends."""

    def __init__(self, *options, env=None, program=HOST, listen="127.0.0.1:0",
                 stdin=subprocess.DEVNULL):
        self.errors = tempfile.NamedTemporaryFile("r")
        listen = ["--listen", listen] if listen else []
        # Not the file that is read: its offset would move the output.
        with open(self.errors.name, "w") as errors:
            self.process = subprocess.Popen(
                [program, "serve", *listen, *options],
                stdin=stdin, stdout=subprocess.DEVNULL, stderr=errors,
                env={**os.environ, **SANITIZER, **env})
        self.url = wait_for(self._url, "the address")
        self.port = int(self.url.rsplit(":", 1)[1].strip("/"))
        self.scrape = self.connect()

    def server(self):
        """Return the PID of the process that serves: the child with several threads, or itself."""
        children = [pid for path in Path(f"/proc/{self.process.pid}/task").glob("*/children")
                    for pid in path.read_text().split()]
        return next((int(pid) for pid in children
                     if len(list(Path(f"/proc/{pid}/task").glob("*"))) > 1), self.process.pid)

    def said(self):
        """Return its standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def _url(self):
        found = re.search(r"https?://[^ \n]*/\n", self.said())
        if not found and self.process.poll() is not None:
            raise AssertionError(f"it ended: {self.said()}")
        return found and found.group().strip()

    def get(self, path="metrics", accept=OPENMETRICS, method="GET", source=None, **headers):
        """Return status, headers and body, as a client with the address source."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE,
                                                source_address=source and (source, 0))
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        if accept is not None:
            headers["Accept"] = accept
        connection.request(method, "/" + path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def connect(self):
        """Return a function like get() for metrics, with one connection as Prometheus has it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)

        def scrape():
            try:
                connection.request("GET", "/metrics", headers={"Accept": OPENMETRICS})
                answer = connection.getresponse()
            except ConnectionError:
                # It was idle for too long, or evicted.
                connection.close()
                connection.request("GET", "/metrics", headers={"Accept": OPENMETRICS})
                answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

        scrape.close = connection.close
        return scrape

    def series(self):
        """Return all series, after the first sample."""
        status, headers, body = wait_for(self.scrape, "a sample", lambda got: got[0] != 503)
        assert status == 200, (status, body)
        assert headers["Content-Type"].startswith("application/openmetrics-text"), headers
        return series(body.decode())

    def samples(self):
        """Return the number of samples."""
        return one(self.series(), "kvm_stats_samples_total")

    def next_sample(self):
        """Return the series of a sample that began after this call."""
        begin = self.samples()
        return wait_for(self.series, "a sample",
                        lambda found: one(found, "kvm_stats_samples_total") >= begin + 2)

    def api(self, path="api/v1/vms"):
        """Return the JSON of a path."""
        status, _, body = self.get(path, accept=None)
        assert status == 200, (status, body)
        return json.loads(body)

    def stop(self):
        """Stop it, and check that it ends without an error."""
        if self.errors.closed:
            return
        self.scrape.close()
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(DEADLINE)
        said = self.said()
        self.errors.close()
        assert status == 0, (status, said)
        assert "Sanitizer" not in said, said


def free_port():
    """Return a free port. Prometheus fails with an error if another program takes it."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """Debian's Prometheus, or $PROMETHEUS, which scrapes four times a second."""

    def __init__(self, folder, targets, rules=(), interval="250ms", more="", itself=False, cpus=1,
                 flags=()):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.port = free_port()
        config = self.folder / "prometheus.yml"
        rule_files = "".join(f"  - {rule}\n" for rule in rules)
        jobs = "".join(f"        - '{target}'\n" for target in targets)
        config.write_text(
            f"global:\n  scrape_interval: {interval}\n  evaluation_interval: {interval}\n"
            f"rule_files:\n{rule_files or '  []'}\n"
            "scrape_configs:\n  - job_name: kvm\n"
            f"    static_configs:\n      - targets:\n{jobs}{more}" + (
                "  - job_name: itself\n    static_configs:\n"
                f"      - targets: ['127.0.0.1:{self.port}']\n" if itself else ""))
        self.log = (self.folder / "log").open("w+")
        self.process = subprocess.Popen(
            [os.environ.get("PROMETHEUS", "prometheus"), f"--config.file={config}",
             f"--storage.tsdb.path={self.folder}/tsdb", f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn", *flags],
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={**os.environ, "GOMAXPROCS": str(cpus)})
        wait_for(self._ready, "Prometheus")

    def _ready(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError(f"Prometheus ended: {self.log.read()}")
        try:
            return self.api("query", query="1")
        except OSError:
            return None

    def api(self, what, **arguments):
        """Return the data of an API request."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?" + urllib.parse.urlencode(arguments)
        with OPENER.open(url, timeout=DEADLINE) as answer:
            return json.load(answer)["data"]

    def complaints(self):
        """Return errors of scrapes, except for those that took too long on a busy machine."""
        with OPENER.open(f"http://127.0.0.1:{self.port}/metrics", timeout=DEADLINE) as answer:
            text = answer.read().decode()
        counted = re.findall(r"^(prometheus_target_scrapes_(?:sample_\w+|exceeded_\w+)_total) (\S+)$",
                             text, re.MULTILINE)
        assert len(counted) >= 3, text
        found = [f"{name} {value}" for name, value in counted if float(value)]
        for target in self.api("targets")["activeTargets"]:
            if "deadline exceeded" not in target["lastError"]:
                found += [target["lastError"]] if target["lastError"] else []
        return found

    def query(self, query, **arguments):
        """Return {labels: value} at this time."""
        return {frozenset(found["metric"].items()): float(found["value"][1])
                for found in self.api("query", query=query, **arguments)["result"]}

    def value(self, query):
        """Return the only value, or None."""
        found = list(self.query(query).values())
        assert len(found) < 2, (query, found)
        return found[0] if found else None

    def points(self, selector, seconds=600):
        """Return everything scraped as {labels: [(time, value)]}."""
        return {frozenset(found["metric"].items()): [(t, float(v)) for t, v in found["values"]]
                for found in self.api("query", query=f"{selector}[{seconds}s]")["result"]}

    def stop(self):
        """Kill it."""
        self.process.kill()
        self.process.wait()
        self.log.close()


class Case(unittest.TestCase):
    """A test with a temporary directory, which stops the programs that it started."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        # The process that serves reads the clock of the simulated host.
        self.folder.chmod(0o711)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def host(self, name="host"):
        """Return a new host without VMs."""
        return Host(self.folder / name)

    def serve(self, host, *options, **more):
        """Serve this host, with ten samples per second."""
        host.write()
        if "-d" not in options:
            options += ("-d", "0.1")
        serving = Serve(*options, env={"KVM_STATS_HOST": str(host.path)}, **more)
        self.addCleanup(serving.stop)
        return serving

    def prometheus(self, *servings, **more):
        """Return a Prometheus that scrapes them."""
        scraping = Prometheus(self.folder / "prometheus",
                              [f"127.0.0.1:{s.port}" for s in servings], **more)
        self.addCleanup(scraping.stop)
        return scraping

    def program(self, script):
        """Return a program that runs the shell script."""
        path = self.folder / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def quick_rules(self):
        """Return the rules, with seconds instead of minutes."""
        rules = self.folder / "rules.yml"
        rules.write_text(re.sub(r"(\d)m\b", r"\1s", (RULES / "kvm-stats.rules.yml").read_text()))
        return rules

    def check_metrics(self, text):
        """Check that promtool accepts the metrics."""
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def run_program(self, *arguments, host=None, data=None):
        """Return status, standard output and standard error of a command."""
        env = {**os.environ, "KVM_STATS_HOST": str(host.path) if host else "none",
               "KVM_STATS_REPLAY": str(DATA / data) if data else ""}
        if arguments[:1] == ("serve",):
            # In a child, it prints a line about a thread of the parent.
            env["ASAN_OPTIONS"] = "detect_leaks=0"
        done = subprocess.run([REPLAY if data else HOST, *arguments], env=env, text=True,
                              capture_output=True, timeout=DEADLINE, check=False)
        return done.returncode, done.stdout, done.stderr
