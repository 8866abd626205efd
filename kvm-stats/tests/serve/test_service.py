# SPDX-License-Identifier: GPL-2.0-only
"""As a service of systemd: socket, watchdog, and permissions of the unit."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from serving import HERE, HOST, OPENMETRICS, SANITIZER, Case, one, pick, series, vms, wait_for

UNITS = HERE.parent.parent / "systemd"


class Service(Case):
    """The protocols sd_notify and sd_listen_fds."""

    def setUp(self):
        super().setUp()
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notices.close)
        self.notices.bind(str(self.folder / "notify"))
        self.notices.settimeout(60)

    def start(self, host, *options, env=None, sockets=0, second=2, prefix=()):
        """Start serve with sockets as passed by systemd: from descriptor 3 on; 4 is second."""
        host.write()
        listening = socket.socket()
        self.addCleanup(listening.close)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        script = 'fd=$1 second=$2 n=$3; shift 3; '
        if sockets:
            script += 'exec 3<&"$fd" 4<&"$second"; export LISTEN_PID=$$ LISTEN_FDS=$n; '
        process = subprocess.Popen(
            ["bash", "-c", script + 'exec "$@"', "bash", str(listening.fileno()), str(second),
             str(sockets), *prefix, HOST, "serve", *options],
            env={**os.environ, **SANITIZER, "KVM_STATS_HOST": str(host.path),
                 "NOTIFY_SOCKET": str(self.folder / "notify"), **(env or {})},
            pass_fds=[listening.fileno(), second], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, listening.getsockname()[1]

    def test_socket_and_readiness(self):
        """serve uses the passed socket, and notifies systemd when it starts and stops."""
        host = self.host().vm(1, "web", run=500)
        process, port = self.start(host, "-d", "0.1", sockets=1)
        self.assertEqual(self.notices.recv(100), b"READY=1")
        found = series(self.request(port, "/metrics").decode())
        self.assertEqual(vms(found), ["web"])
        self.assertEqual(one(found, "kvm_stats_vms"), 1)
        process.terminate()
        self.assertEqual(self.notices.recv(100), b"STOPPING=1")
        self.assertEqual(process.wait(60), 0)

    def test_closed_standard_files(self):
        """serve works if it is started without standard input and output."""
        host = self.host().vm(1, "web", run=500)
        serving = self.serve(host, program=self.program(f'exec {HOST} "$@" <&- >&-'))
        self.assertEqual(vms(serving.next_sample()), ["web"])

    def test_several_sockets(self):
        """serve uses all passed sockets, of TCP and UNIX."""
        host = self.host()
        path = str(self.folder / "socket")
        with socket.socket(socket.AF_UNIX) as second:
            second.bind(path)
            second.listen()
            process, port = self.start(host, "-d", "0.1", sockets=2, second=second.fileno())
            self.assertEqual(self.notices.recv(100), b"READY=1")
        self.request(port)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(path)
            client.sendall(b"GET /style.css HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 ", client.recv(100))
        process.terminate()
        self.assertEqual(process.wait(60), 0)
        self.assertIn(f"serving on the socket {path}\n", process.stderr.read())

    def test_wrong_sockets(self):
        """A descriptor that does not listen is an error, and more than eight are."""
        with open("/dev/null", encoding="ascii") as null:
            for sockets, wanted in ((2, "file descriptor 4 from systemd: not a listening stream"),
                                    (9, "more than 8 sockets from systemd")):
                process, _ = self.start(self.host(str(sockets)), sockets=sockets, second=null.fileno())
                self.assertEqual(process.wait(60), 2)
                self.assertIn(wanted, process.stderr.read())

    def test_listen_with_sockets(self):
        """--listen is an error if systemd passes the sockets, which have other addresses."""
        process, _ = self.start(self.host(), "--web.listen-address", ":0", sockets=1)
        self.assertEqual(process.wait(60), 2)
        self.assertEqual(process.stderr.read(), "kvm-stats: --web.listen-address ':0': systemd passes"
                         " the sockets; set ListenStream in their unit\n")

    def test_socket_required(self):
        """--web.systemd-socket is an error if systemd passes no socket, otherwise it changes nothing."""
        process, _ = self.start(self.host(), "--web.systemd-socket")
        self.assertEqual(process.wait(60), 2)
        self.assertEqual(process.stderr.read(),
                         "kvm-stats: --web.systemd-socket: systemd passes no socket\n")
        _, port = self.start(self.host("passed"), "--web.systemd-socket", sockets=1)
        self.assertIn(b"kvm_stats_vms 0\n", self.request(port, "/metrics"))

    def messages(self, *options):
        """Return the standard error of a server whose child is killed once."""
        host = self.host(f"log{len(options)}{options[-1]}")
        process, port = self.start(host, "-d", "0.1", *options, sockets=1)
        self.request(port)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        server = children.read_text().split()[0]
        os.kill(int(server), signal.SIGKILL)
        wait_for(lambda: children.read_text().split() not in ([server], []), "another server")
        self.request(port)
        process.terminate()
        self.assertEqual(process.wait(60), 0)
        return process.stderr.read()

    def test_log_format(self):
        """Messages have time, level and text in each format; those below --log.level are omitted."""
        ended = "the process that serves has ended (signal 9); starting another one"
        text = self.messages("--log.format", "text")
        self.assertRegex(text, rf"\Akvm-stats: serving on http://\S+\nkvm-stats: {re.escape(ended)}\n"
                         r"kvm-stats: serving on http://\S+\n\Z")
        now = r"time=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
        self.assertRegex(self.messages("--log.format", "logfmt"),
                         rf'\A{now} level=INFO msg="serving on http://\S+"\n'
                         rf'{now} level=ERROR msg="{re.escape(ended)}"\n'
                         rf'{now} level=INFO msg="serving on http://\S+"\n\Z')
        lines = [json.loads(line) for line in self.messages("--log.format", "json").splitlines()]
        self.assertEqual([list(line) for line in lines], [["time", "level", "msg"]] * 3)
        self.assertEqual([line["level"] for line in lines], ["INFO", "ERROR", "INFO"])
        self.assertEqual(lines[1]["msg"], ended)
        for level, wanted in (("debug", 3), ("warn", 1), ("error", 1)):
            said = self.messages("--log.format", "json", "--log.level", level)
            self.assertEqual(len(said.splitlines()), wanted, said)

    def test_wrong_log_options(self):
        """Unknown levels and formats are errors."""
        for option, value, words in (("--log.level", "fatal", "debug info warn error"),
                                     ("--log.format", "", "text logfmt json"),
                                     ("--log.format", "log", "text logfmt json")):
            process, _ = self.start(self.host(f"{option}={value}"), option, value)
            self.assertEqual(process.wait(60), 2)
            self.assertEqual(process.stderr.read(),
                             f"kvm-stats: {option} '{value}': must be one of {words}\n")

    def test_no_network(self):
        """A socket of another network is enough: the unit has PrivateNetwork."""
        if subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode:
            self.skipTest("no user namespaces")
        host = self.host().vm(1, "web", run=500)
        _, port = self.start(host, "-d", "0.1", sockets=1, prefix=["unshare", "-rn"])
        self.assertEqual(self.notices.recv(100), b"READY=1")
        self.assertIn(b"kvm_stats_vms 1\n", self.request(port, "/metrics"))

    def test_watchdog(self):
        """serve notifies the watchdog only while samples succeed."""
        host = self.host().vm(1, "web", run=500)
        host.stop_clock()
        _, port = self.start(host, "-d", "0.1", "--max-age", "30", sockets=1,
                             env={"WATCHDOG_USEC": "20000000"})
        self.assertEqual(self.notices.recv(100), b"READY=1")
        for _ in range(5):
            host.stop_clock(later=11)
            self.assertEqual(self.notices.recv(100), b"WATCHDOG=1")
        host.hold()
        self.addCleanup(host.release)
        # The notification of the last sample may still be due.
        host.stop_clock(later=61)
        self.request(port)
        self.notices.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            self.notices.recv(100)
        for _ in range(3):
            host.stop_clock(later=11)
            self.request(port)
            self.assertRaises(BlockingIOError, self.notices.recv, 100)

    @staticmethod
    def request(port, path="/healthz"):
        """Request a path twice, after which the server has checked its watchdog, and return its text."""
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path, headers={"Accept": OPENMETRICS})
            text = connection.getresponse().read()
            connection.close()
        return text

    def test_starts_before_there_is_a_source(self):
        """serve starts before kvm.ko is loaded."""
        host = self.host()
        host.write()
        shutil.rmtree(host.path / "proc")
        process, port = self.start(host, "-d", "0.1", sockets=1)
        self.assertEqual(self.notices.recv(100), b"READY=1")
        self.request(port)
        self.assertIsNone(process.poll())


    def test_capabilities(self):
        """The process that serves has no capabilities and cannot gain any; none are ambient."""
        host = self.host()
        host.write()
        done = subprocess.run(["setpriv", "--inh-caps=+net_raw", "--ambient-caps=+net_raw", "true"],
                              check=False, capture_output=True)
        if done.returncode:
            self.skipTest("no capability to give up")
        serving = self.serve(host, program=self.program(
            f'exec setpriv --inh-caps=+net_raw --ambient-caps=+net_raw {HOST} "$@"'))
        serving.series()
        tasks = list(Path(f"/proc/{serving.server()}/task").iterdir())
        self.assertGreaterEqual(len(tasks), 3)
        for path in tasks:
            self.assertRegex((path / "status").read_text(), r"(?s)CapPrm:\s*0+\nCapEff:\s*0+\n"
                             r".*CapAmb:\s*0+\nNoNewPrivs:\s*1\n")
        self.assertRegex(Path(f"/proc/{serving.process.pid}/status").read_text(),
                         r"(?s)CapPrm:\s*0*[1-9a-f]\w*\n.*CapAmb:\s*0+\n")

    def test_hangup(self):
        """SIGHUP, with which scripts reload services, ends neither process."""
        serving = self.serve(self.host().vm(1, "web", run=500))
        server = serving.server()
        for pid in serving.process.pid, server:
            os.kill(pid, signal.SIGHUP)
        serving.next_sample()
        self.assertEqual(serving.get("healthz")[0], 200)
        self.assertEqual(serving.server(), server)

    def test_restart(self):
        """A server that is killed has a successor, whose counters continue without a gap."""
        host = self.host()
        host.vm(1, "web", run=500, halt=300, ready=200, exits=1000).vm(2, "short", run=900, exits=1000)
        # The last VM has too many series.
        host.vm(3, "late", vcpus=64, run=10)
        host.extra = ["wait 1 200 process backup\n", "ended 1 3 200000\n", "exit 1 12 100 50 20\n"]
        serving = self.serve(host, "--blame", "5", "--exits", "3", "--detail", "vcpu",
                             "--max-series", "500")

        def counters(found):
            return {key: value for key, value in found.items() if key[0].startswith("kvm_vm_") and
                    key[0].endswith(("_total", "_sum", "_count", "_bucket"))}

        def sampled(found):
            return one(found, "kvm_stats_last_sample_timestamp_seconds")

        wait_for(lambda: pick(serving.series(), "kvm_vm_wait_seconds_total", owner="backup"), "owners")
        ended = one(serving.next_sample(), "kvm_vm_exits_total", vm="short")
        host.end(2).write()
        # More than the successor is asked for
        for _ in range(200):
            serving.series()
        before = wait_for(serving.series, "the end", lambda found: one(found, "kvm_stats_vms") == 2)
        server = serving.server()
        os.kill(server, signal.SIGKILL)
        after = wait_for(serving.series, "samples of the successor",
                         lambda found: sampled(found) > sampled(before) + 1)
        self.assertNotEqual(serving.server(), server)
        self.assertRegex(serving.said(), r"kvm-stats: the process that serves has ended \(signal 9\);"
                         r" starting another one\n")
        self.assertEqual(one(after, "kvm_vms_ended_total"), 1)
        self.assertEqual(one(after, "process_start_time_seconds"),
                         one(before, "process_start_time_seconds"))
        self.assertGreater(one(after, "process_cpu_seconds_total"),
                           one(before, "process_cpu_seconds_total"))
        for name, labels in (("samples", {}), ("scrapes", {"code": "200"}), ("series_dropped", {})):
            name = f"kvm_stats_{name}_total"
            self.assertGreater(one(after, name, **labels), one(before, name, **labels), name)
        for key, value in counters(before).items():
            if dict(key[1])["vm"] == "web":
                self.assertGreaterEqual(counters(after)[key], value, key)
        elapsed = sampled(after) - sampled(before)

        def growth(name, **labels):
            return (sum(pick(after, name, vm="web", **labels).values()) -
                    sum(pick(before, name, vm="web", **labels).values()))

        self.assertAlmostEqual(growth("kvm_vm_vcpu_seconds_total"), 2 * elapsed, delta=0.02)
        self.assertAlmostEqual(growth("kvm_vm_exits_total"), 2000 * elapsed, delta=20)
        # The charges are read shortly before the VMs.
        for name, labels, share in (("kvm_vm_wait_seconds_total", {"owner": "backup"}, .2),
                                    ("kvm_vm_exits_by_reason_total", {}, 100)):
            self.assertAlmostEqual(growth(name, **labels) / share, elapsed, delta=0.1, msg=name)
        self.assertEqual(growth("kvm_vm_ready_wait_seconds_count"), 3 * (
            one(after, "kvm_stats_samples_total") - one(before, "kvm_stats_samples_total")))
        # Its successor does not know that the scraper has had the last values.
        self.assertGreaterEqual(one(after, "kvm_vm_exits_total", vm="short"), ended)
        self.assertGreater(ended, 0)


class Defaults(unittest.TestCase):
    """The file /etc/default/kvm-stats."""

    def test_units_use_each_variable(self):
        """A unit uses each variable of the file, with the same default."""
        units = {}
        for path in UNITS.glob("*.service"):
            text = path.read_text()
            self.assertIn("\nEnvironmentFile=-/etc/default/kvm-stats\n", text, path)
            name, = re.findall(r"^ExecStart=.* \$(\w+)", text, re.M)
            units[name], = re.findall(rf'^Environment="{name}=(.*)"$', text, re.M)
        self.assertEqual(units, dict(re.findall(r'^#(\w+)="(.*)"$', (UNITS / "default").read_text(), re.M)))


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
class Unit(unittest.TestCase):
    """The settings of the unit."""

    def test_exposure(self):
        """The exposure levels of systemd-analyze are at most 1.2."""
        for unit, limit in (("kvm-stats.service", 1.2), ("kvm-stats-record.service", 1.2)):
            said = subprocess.run(
                ["systemd-analyze", "security", "--offline=yes", "--no-pager", UNITS / unit],
                text=True, capture_output=True, check=True).stdout
            level = re.search(rf"exposure level for {unit}: ([0-9.]+) ", said).group(1)
            self.assertLessEqual(float(level), limit)

    def test_no_unknown_setting(self):
        """systemd recognizes all settings of the units."""
        for unit in ("kvm-stats.service", "kvm-stats-record.service", "kvm-stats.socket"):
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", UNITS / unit],
                                  text=True, capture_output=True, check=False)
            said = [line for line in done.stderr.splitlines()
                    if UNITS.name in line or "kvm-stats" in line]
            self.assertEqual([line for line in said if "is not executable" not in line], [])
