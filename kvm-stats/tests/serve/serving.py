# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of "serve" have in common: a host that is made up, the program that
serves it, and a Prometheus that scrapes it. All of it on 127.0.0.1 and ports that are
free, and nothing waits for a time but for what is to come."""

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
BUILD = Path(os.environ["KVM_STATS_BUILD"]).resolve()
HOST = BUILD / "tests/serve/host"
REPLAY = BUILD / "tests/replay"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
# seconds; for what comes within one on a machine with nothing else to do, unless that is
# one that is emulated
DEADLINE = 60 * int(os.environ.get("SLOWER", "1"))

# no proxy is asked for what is on this machine
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_for(condition, what="it"):
    """What condition() gives, as soon as that is true."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {DEADLINE} s for {what}")


def series(text):
    """(name, labels) -> value, of OpenMetrics, by the strict parser."""
    found = {}
    for family in openmetrics.text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            if key in found:
                raise AssertionError(f"twice: {key}")
            found[key] = sample.value
    return found


def pick(found, name, **labels):
    """The values of the series of this name that have these labels."""
    return {key[1]: value for key, value in found.items()
            if key[0] == name and labels.items() <= dict(key[1]).items()}


def one(found, name, **labels):
    """The value of the only such series."""
    values = list(pick(found, name, **labels).values())
    if len(values) != 1:
        raise AssertionError(f"{len(values)} series {name} {labels}")
    return values[0]


def vms(found):
    """The names of all VMs."""
    return sorted(dict(labels)["vm"] for labels in pick(found, "kvm_vm_info"))


class Host:
    """A folder for host.c: VMs that come, go, and are what a test says."""

    def __init__(self, path):
        self.path = Path(path)
        (self.path / "proc").mkdir(parents=True)
        self.lines = {}
        self.extra = []
        self.write()

    def vm(self, number, name, vcpus=2, pid=None, start=None, **rates):
        """A VM, or what it does from now on."""
        pid = pid or 1000 + number
        folder = self.path / "proc" / str(pid)
        if not folder.exists():
            self.process(pid, name, start if start is not None else 100 * number)
        rates = " ".join(f"{key}={value}" for key, value in rates.items())
        self.lines[number] = f"vm {number} {pid} {vcpus} {rates}\n"
        return self

    def busy(self, vms, vcpus=4, name="instance", pids=1000):
        """So many VMs, of which none has the values of another one."""
        for n in range(1, vms + 1):
            self.vm(n, f"{name}-{n:05}", vcpus=vcpus, pid=pids + n, run=100 + n * 3 % 500,
                    ready=n % 50, halt=300, poll=n % 30, throttled=n % 7, exits=1000 + n * 37,
                    emulated=n, io=n * 3)
        self.write()
        return self

    def slow(self, ms):
        """Each sample from now on takes so long; 0: no longer than before."""
        self.extra = [f"sleep {ms}\n"] if ms else []
        self.write()

    def process(self, pid, name, start):
        """What /proc knows of it; start: hundredths of a second after boot."""
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

    def end(self, number):
        """The VM is gone, and so is its process."""
        pid = self.lines.pop(number).split()[2]
        if not any(line.split()[2] == pid for line in self.lines.values()):
            shutil.rmtree(self.path / "proc" / pid)
        return self

    def write(self):
        """From now on."""
        new = self.path / "vms.new"
        new.write_text("".join(self.lines.values()) + "".join(self.extra))
        new.rename(self.path / "vms")


class Serve:
    """The program; it has ended well when the test has."""

    def __init__(self, *options, env=None, program=HOST, listen="127.0.0.1:0"):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [program, "serve", "--listen", listen, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            env={**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=1", **env})
        self.url = wait_for(self._url, "the address")
        self.port = int(self.url.rsplit(":", 1)[1].strip("/"))

    def said(self):
        """What it said on standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def _url(self):
        found = re.search(r"https?://[^ \n]*/\n", self.said())
        if not found and self.process.poll() is not None:
            raise AssertionError(f"it ended: {self.said()}")
        return found and found.group().strip()

    def get(self, path="metrics", accept=OPENMETRICS, method="GET", **headers):
        """Status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        if accept is not None:
            headers["Accept"] = accept
        connection.request(method, "/" + path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def series(self):
        """All series there are; the first sample may take its time."""
        status, headers, body = wait_for(
            lambda: (lambda got: got if got[0] != 503 else None)(self.get()), "a sample")
        assert status == 200, (status, body)
        assert headers["Content-Type"].startswith("application/openmetrics-text"), headers
        return series(body.decode())

    def samples(self):
        """How many samples there were."""
        return one(self.series(), "kvm_stats_samples_total")

    def next_sample(self):
        """One that began after this call, and what it has."""
        begin = self.samples()
        return wait_for(lambda: (lambda s: s if one(s, "kvm_stats_samples_total") >= begin + 2
                                 else None)(self.series()), "a sample")

    def api(self, path="api/v1/vms"):
        """What programs get."""
        status, _, body = self.get(path, accept=None)
        assert status == 200, (status, body)
        return json.loads(body)

    def stop(self):
        """It ends when it is told to."""
        if self.errors.closed:
            return
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(DEADLINE)
        said = self.said()
        self.errors.close()
        assert status == 0, (status, said)
        assert "Sanitizer" not in said, said


def free_port():
    """A port that nobody listens on; another may take it, then a test says so."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """Debian's, or the one in $PROMETHEUS, which scrapes four times a second."""

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
        """An answer of its API."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?" + urllib.parse.urlencode(arguments)
        with OPENER.open(url, timeout=DEADLINE) as answer:
            return json.load(answer)["data"]

    def complaints(self):
        """What it had to say of what it scraped; that a machine was too busy to answer
        within an interval is none."""
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
        """labels -> value, now."""
        return {frozenset(found["metric"].items()): float(found["value"][1])
                for found in self.api("query", query=query, **arguments)["result"]}

    def value(self, query):
        """The only value; None: there is none yet."""
        found = list(self.query(query).values())
        assert len(found) < 2, (query, found)
        return found[0] if found else None

    def points(self, selector, seconds=600):
        """All that was scraped: labels -> [(time, value)]."""
        return {frozenset(found["metric"].items()): [(t, float(v)) for t, v in found["values"]]
                for found in self.api("query", query=f"{selector}[{seconds}s]")["result"]}

    def stop(self):
        """It is in the way no longer."""
        self.process.kill()
        self.process.wait()
        self.log.close()


class Case(unittest.TestCase):
    """A test with a folder of its own, where what it starts is stopped."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)

    def host(self, name="host"):
        """A new one, without VMs."""
        return Host(self.folder / name)

    def serve(self, host, *options, **more):
        """Serve what there is on this host; every tenth of a second."""
        host.write()
        if "-d" not in options:
            options += ("-d", "0.1")
        serving = Serve(*options, env={"KVM_STATS_HOST": str(host.path)}, **more)
        self.addCleanup(serving.stop)
        return serving

    def prometheus(self, *servings, **more):
        """One that scrapes them."""
        scraping = Prometheus(self.folder / "prometheus",
                              [f"127.0.0.1:{s.port}" for s in servings], **more)
        self.addCleanup(scraping.stop)
        return scraping

    def run_program(self, *arguments, host=None, data=None):
        """Status and what was said, of a command that ends."""
        env = {**os.environ, "KVM_STATS_HOST": str(host.path) if host else "none",
               "KVM_STATS_REPLAY": str(DATA / data) if data else ""}
        done = subprocess.run([REPLAY if data else HOST, *arguments], env=env, text=True,
                              capture_output=True, timeout=DEADLINE, check=False)
        return done.returncode, done.stdout, done.stderr
