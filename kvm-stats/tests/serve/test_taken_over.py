# SPDX-License-Identifier: GPL-2.0-only
"""The process that serves is taken over: it does whatever its user and descriptors allow."""

import os
import re
import socket
import time
from pathlib import Path

from serving import HOST, OTHER_USER, Case, vms, wait_for

SECONDS = int(os.environ.get("ATTACK_SECONDS", "2"))
MEANS = ("events", "sockets", "signals", "limits", "memory", "messages", "children", "silence")


def status(pid, *keys):
    """Return lines of /proc/PID/status."""
    return re.findall(rf"^(?:{'|'.join(keys)}):.*$", Path(f"/proc/{pid}/status").read_text(), re.M)


def limits(pid):
    """Return what another process can set of this one: its limits, nice value, policy and others."""
    proc = Path(f"/proc/{pid}")
    values = (proc / "stat").read_text().rsplit(")")[1].split()
    return ((proc / "limits").read_text(), values[16], values[38], os.sched_getaffinity(pid),
            (proc / "oom_score_adj").read_text())


class TakenOver(Case):
    """A server that attacks the sampler, as another user than the sampler or as the same one."""

    def start(self, name, user):
        """Serve a host, as root or as another user."""
        host = self.host(name).vm(1, "web", run=500)
        serving = self.serve(host, "--max-age", "2", program=self.program(f'exec {user} {HOST} "$@"'))
        serving.series()
        serving.scrape.close()
        return host, serving

    def attack(self, attacks, user):
        """Attack a server of this user by each of the means; afterwards each service answers."""
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(notices.close)
        notices.bind(str(self.folder / "notify"))
        (self.folder / "notify").chmod(0o777)
        os.environ.update(NOTIFY_SOCKET=str(self.folder / "notify"), WATCHDOG_USEC="20000000")
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET")
        self.addCleanup(os.environ.pop, "WATCHDOG_USEC")
        attacked = []
        for means in attacks:
            host, serving = self.start(f"{means}{len(user)}", user)
            attacked.append((means, serving, serving.server(), limits(serving.process.pid)))
            (host.path / "attack").write_text(f"{serving.server()} {means} {SECONDS}\n")
        time.sleep(SECONDS)
        for means, serving, server, before in attacked:
            with self.subTest(means):
                wait_for(lambda: serving.server() not in (server, serving.process.pid), "a successor")
                self.assertFalse(Path(f"/proc/{server}").exists())
                self.assertIn(b"ok: 1 VM,", wait_for(lambda: serving.get("healthz"), "an answer",
                                                     lambda got: got[0] == 200)[2])
                self.assertEqual(vms(serving.next_sample()), ["web"])
                self.assertEqual(limits(serving.process.pid), before)
        received = []
        while True:
            try:
                received.append(notices.recv(100))
            except BlockingIOError:
                break
        self.assertLess(len(received), 5 * len(attacked))

    def test_server_of_root(self):
        """A server that root started has another user ID than the sampler, and harms no other process."""
        self.assertEqual(os.getuid(), 0)
        _, serving = self.start("user", "")
        found = status(serving.server(), "Uid", "Gid", "Groups", "CapPrm", "CapEff", "Seccomp")
        uid = os.stat(f"/proc/{serving.server()}/task").st_uid
        self.assertRegex("\n".join(found), r"\AUid:((\t(6[1-5]\d{3}))\2{3})\nGid:\1\nGroups:\s*\n"
                         r"CapPrm:\s*0+\nCapEff:\s*0+\nSeccomp:\t2\Z", uid)
        self.attack(MEANS, "")

    def test_server_with_the_user_of_the_sampler(self):
        """A server with the user ID of its sampler, as in a service, does not harm the sampler."""
        self.attack(MEANS, OTHER_USER)

    def test_every_means(self):
        """A server that uses every means has a successor, which answers."""
        self.attack(["all"], "")
