# SPDX-License-Identifier: GPL-2.0-only
"""As a service of systemd: its socket, its watchdog, and what the unit may do."""

import os
import re
import shutil
import socket
import subprocess
import time
import unittest

from serving import HERE, HOST, Case, one, series, vms, wait_for

UNITS = HERE.parent.parent / "systemd"


class Service(Case):
    """The protocol of sd_notify and sd_listen_fds, spoken by a test."""

    def setUp(self):
        super().setUp()
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notices.close)
        self.notices.bind(str(self.folder / "notify"))
        self.notices.settimeout(60)

    def start(self, host, *options, env=None, sockets=0):
        """serve, with sockets as systemd hands them over: from descriptor 3 on."""
        host.write()
        listening = socket.socket()
        self.addCleanup(listening.close)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        script = 'fd=$1 n=$2; shift 2; '
        if sockets:
            script += 'exec 3<&"$fd" 4<&"$fd"; export LISTEN_PID=$$ LISTEN_FDS=$n; '
        process = subprocess.Popen(
            ["bash", "-c", script + 'exec "$@"', "bash", str(listening.fileno()), str(sockets),
             HOST, "serve", *options],
            env={**os.environ, "KVM_STATS_HOST": str(host.path),
                 "NOTIFY_SOCKET": str(self.folder / "notify"), **(env or {})},
            pass_fds=[listening.fileno()], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, listening.getsockname()[1]

    def test_socket_and_readiness(self):
        """It serves on the socket that it is given, says so, and says when it stops."""
        host = self.host()
        host.vm(1, "web", run=500)
        process, port = self.start(host, "-d", "0.1", sockets=1)
        self.assertEqual(self.notices.recv(100), b"READY=1")
        import http.client
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

    def test_two_sockets(self):
        """More than one is a mistake."""
        process, _ = self.start(self.host(), sockets=2)
        self.assertEqual(process.wait(60), 2)
        self.assertIn("more than one socket", process.stderr.read())

    def test_watchdog(self):
        """Signs of life, as long as samples come."""
        host = self.host()
        host.vm(1, "web", run=500)
        self.start(host, "-d", "0.1", "--max-age", "0.5", "--listen", "127.0.0.1:0",
                   env={"WATCHDOG_USEC": "200000"})
        self.assertEqual(self.notices.recv(100), b"READY=1")
        for _ in range(5):
            self.assertEqual(self.notices.recv(100), b"WATCHDOG=1")
        host.slow(100000)

        def silent():
            self.notices.settimeout(3)
            try:
                return not self.notices.recv(100)
            except TimeoutError:
                return True

        wait_for(silent, "the end of the signs")

    def test_starts_before_there_is_a_source(self):
        """The unit does not fail because kvm.ko is not loaded yet."""
        host = self.host()
        host.write()
        shutil.rmtree(host.path / "proc")
        process, _ = self.start(host, "-d", "0.1", "--listen", "127.0.0.1:0")
        self.assertEqual(self.notices.recv(100), b"READY=1")
        time.sleep(0.5)
        self.assertIsNone(process.poll())


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
class Unit(unittest.TestCase):
    """What it could do if it were taken over."""

    def test_exposure(self):
        """systemd-analyze security gives 2.0 at most."""
        said = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", "--no-pager",
             UNITS / "kvm-stats.service"], text=True, capture_output=True, check=True).stdout
        level = re.search(r"exposure level for kvm-stats.service: ([0-9.]+) ", said).group(1)
        self.assertLessEqual(float(level), 2.0)

    def test_no_unknown_setting(self):
        """systemd knows all that is in the units."""
        for unit in ("kvm-stats.service", "kvm-stats.socket"):
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", UNITS / unit],
                                  text=True, capture_output=True, check=False)
            said = [line for line in done.stderr.splitlines()
                    if UNITS.name in line or "kvm-stats" in line]
            self.assertEqual([line for line in said if "is not executable" not in line], [])
