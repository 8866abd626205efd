# SPDX-License-Identifier: GPL-2.0-only
"""As a service of systemd: socket, watchdog, and permissions of the unit."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import unittest
from pathlib import Path

from serving import HERE, HOST, Case, one, series, vms

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
            env={**os.environ, "KVM_STATS_HOST": str(host.path),
                 "NOTIFY_SOCKET": str(self.folder / "notify"), **(env or {})},
            pass_fds=[listening.fileno(), second], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, listening.getsockname()[1]

    def test_socket_and_readiness(self):
        """serve uses the passed socket, and notifies systemd when it starts and stops."""
        host = self.host()
        host.vm(1, "web", run=500)
        process, port = self.start(host, "-d", "0.1", sockets=1)
        self.assertEqual(self.notices.recv(100), b"READY=1")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics", headers={
            "Accept": "application/openmetrics-text;version=1.0.0"})
        found = series(connection.getresponse().read().decode())
        connection.close()
        self.assertEqual(vms(found), ["web"])
        self.assertEqual(one(found, "kvm_stats_vms"), 1)
        process.terminate()
        self.assertEqual(self.notices.recv(100), b"STOPPING=1")
        self.assertEqual(process.wait(60), 0)

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

    def test_no_network(self):
        """A socket of another network is enough: the unit has PrivateNetwork."""
        if subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode:
            self.skipTest("no user namespaces")
        host = self.host()
        host.vm(1, "web", run=500)
        _, port = self.start(host, "-d", "0.1", sockets=1, prefix=["unshare", "-rn"])
        self.assertEqual(self.notices.recv(100), b"READY=1")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics")
        self.assertIn(b"kvm_stats_vms 1\n", connection.getresponse().read())
        connection.close()

    def test_watchdog(self):
        """serve notifies the watchdog only while samples succeed."""
        host = self.host()
        host.vm(1, "web", run=500)
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
    def request(port):
        """Send a request, after which the server has checked its watchdog."""
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            connection.close()

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
        """The threads that serve and verify passwords have no capabilities; none are ambient."""
        host = self.host()
        host.write()
        done = subprocess.run(["setpriv", "--inh-caps=+net_raw", "--ambient-caps=+net_raw", "true"],
                              check=False, capture_output=True)
        if done.returncode:
            self.skipTest("no capability to give up")
        serving = self.serve(host, program=self.program(
            f'exec setpriv --inh-caps=+net_raw --ambient-caps=+net_raw {HOST} "$@"'))
        serving.series()
        found = []
        for path in Path(f"/proc/{serving.process.pid}/task").iterdir():
            status = (path / "status").read_text()
            found.append(int(re.search(r"CapEff:\s*(\w+)", status).group(1), 16))
            self.assertRegex(status, r"CapAmb:\s*0+\n")
            self.assertEqual(found[-1], int(re.search(r"CapPrm:\s*(\w+)", status).group(1), 16))
        self.assertEqual(found[0], 0, "the thread that serves")
        self.assertGreaterEqual(found.count(0), 2)
        self.assertTrue(any(found))

    def program(self, script):
        """Return a program that runs the shell script."""
        path = self.folder / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


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
