#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Console, channel and program output in, verdict out."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab/host"))

import judge  # noqa: E402

HEALTHY = """\
[    0.000000] Linux version 5.10.262 (gcc) #1 SMP
[    0.000000] mem auto-init: stack:off, heap alloc:off, heap free:off
[    0.031000] ACPI Error: AE_BAD_PARAMETER, During Region initialization
[    0.912000] kvm: Nested Virtualization enabled
[    1.000000] random: crng init done
[    1.100000] Debug warning: early ioremap leak
[    1.200000] reboot: Restarting system
"""

SPLATS = """\
[    1.0] WARNING: CPU: 0 PID: 1 at virt/kvm/kvm_main.c:42 kvm_stats+0x1/0x2
[    1.0] WARNING: possible circular locking dependency detected
[    1.0] WARNING: suspicious RCU usage
[    1.0] ------------[ cut here ]------------
[    1.0] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    1.0] BUG: sleeping function called from invalid context at mm/slab.h:1
[    1.0] BUG: KASAN: use-after-free in kvm_stats_read+0x1/0x2
[    1.0] kernel BUG at mm/usercopy.c:99!
[    1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0100
[    1.0] Oops: Kernel access of bad area, sig: 11 [#1]
[    1.0] Internal error: Oops - undefined instruction: 0 [#1] SMP
[    1.0] Unable to handle kernel pointer dereference in virtual kernel space
[    1.0] CPU 0 Unable to handle kernel paging request at virtual address 0000
[    1.0] general protection fault, probably for non-canonical address: 0000
[    1.0] rcu: INFO: rcu_sched self-detected stall on CPU
[    1.0] INFO: task kvm:61 blocked for more than 300 seconds.
[    1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 23s! [kvm:61]
[    1.0] INFO: possible recursive locking detected
[    1.0] list_add corruption. prev->next should be next
[    1.0] usercopy: Kernel memory exposure attempt detected from SLUB object
[    1.0] refcount_t: underflow; use-after-free.
[    1.0] BUG kvm_vcpu (Not tainted): Objects remaining in kvm_vcpu on shutdown
[    1.0] UBSAN: shift-out-of-bounds in virt/kvm/kvm_main.c:1
[    1.0] Call Trace:
"""


class Splats(unittest.TestCase):
    """The scan of the console."""

    def test_healthy(self):
        self.assertEqual(judge.splats(HEALTHY), [])

    def test_every_splat(self):
        for line in SPLATS.splitlines():
            with self.subTest(line=line):
                self.assertEqual(judge.splats(HEALTHY + line), [line])

    def test_message_of_init(self):
        line = "init: /lab/kvm.ko: No such file or directory"
        self.assertEqual(judge.splats(line), [line])

    def test_first_comes_first(self):
        self.assertEqual(judge.splats(SPLATS), SPLATS.splitlines())


class Channel(unittest.TestCase):
    """The line protocol of init."""

    def feed(self, data):
        channel = judge.Channel()
        channel.feed(data)
        return channel

    def test_complete(self):
        channel = self.feed(b"begin a\n| x\n> y\nexit a 0\n"
                            b"begin b\nexit b 3\nend\n")
        self.assertTrue(channel.ended)
        self.assertEqual(channel.status, {"a": 0, "b": 3})
        self.assertEqual(channel.output, {"a": b"x\ny", "b": b""})

    def test_empty(self):
        self.assertFalse(self.feed(b"").ended)

    def test_cut_anywhere(self):
        whole = b"begin a\n| x\nexit a 0\nend\n"
        for length in range(len(whole)):
            with self.subTest(length=length):
                self.assertFalse(self.feed(whole[:length]).ended)

    def test_byte_by_byte(self):
        channel = judge.Channel()
        for byte in b"begin a\n| \xff\x00\r|\nexit a 0\nend\n":
            channel.feed(bytes([byte]))
        self.assertTrue(channel.ended)
        self.assertEqual(channel.output["a"], b"\xff\x00\r|\n")

    def test_program_cannot_end_it(self):
        channel = self.feed(b"begin a\n| end\n| exit a 0\n")
        self.assertFalse(channel.ended)
        self.assertEqual(channel.status, {})

    def test_events(self):
        self.assertEqual(judge.Channel().feed(b"begin a\n| x\nexit a 1\nend\n"),
                         [("begin", "a", b""), ("output", "a", b"x\n"),
                          ("exit", "a", b""), ("end", None, b"")])

    def test_nonsense(self):
        for data in (b"hello\n", b"| x\n", b"exit a 0\n", b"begin a\nend\n",
                     b"begin a\nbegin b\n", b"begin a\nexit b 0\n",
                     b"begin a\nexit a\n", b"end\nend\n"):
            with self.subTest(data=data), self.assertRaises(ValueError):
                judge.Channel().feed(data)


class Tap(unittest.TestCase):
    """Programs that print TAP."""

    def verdict(self, output, status=0, level="guest"):
        return judge.tap(output, status, level)

    def test_passed(self):
        self.assertEqual(
            self.verdict("TAP version 13\n1..2\n# hi\nok 1 a\nok 2 b\n"
                         "# Totals: pass:2 fail:0\n"), (True, "2 ok"))

    def test_plan_last(self):
        self.assertTrue(self.verdict("ok 1 a\nok 2 b\n1..2\n")[0])

    def test_not_ok(self):
        passed, text = self.verdict("1..2\nok 1 a\nnot ok 2 b\n")
        self.assertFalse(passed)
        self.assertIn("not ok 2 b", text)

    def test_not_ok_with_status_0_and_skip_level(self):
        self.assertFalse(self.verdict("1..1\nnot ok 1 a # SKIP\n",
                                      level="vcpu")[0])

    def test_no_plan(self):
        self.assertIn("no plan", self.verdict("ok 1 a\n")[1])

    def test_nothing(self):
        self.assertFalse(self.verdict("")[0])

    def test_plan_of_nothing(self):
        self.assertFalse(self.verdict("1..0\n")[0])

    def test_two_plans(self):
        self.assertFalse(self.verdict("1..1\n1..1\nok 1 a\n")[0])

    def test_too_few(self):
        self.assertIn("planned 1..3", self.verdict("1..3\nok 1\nok 2\n")[1])

    def test_too_many(self):
        self.assertFalse(self.verdict("1..1\nok 1\nok 2\n")[0])

    def test_twice_the_same(self):
        self.assertFalse(self.verdict("1..2\nok 1\nok 1\n")[0])

    def test_status(self):
        self.assertIn("exit status 139", self.verdict("1..1\nok 1\n", 139)[1])

    def test_skip_where_guests_run(self):
        self.assertIn("skipped where it has to work",
                      self.verdict("1..2\nok 1 a\nok 2 b # SKIP no guest\n")[1])

    def test_skip_where_none_runs(self):
        self.assertEqual(
            self.verdict("1..2\nok 1 a\nok 2 b # SKIP no guest\n",
                         level="vcpu"), (True, "1 ok, 1 skipped"))

    def test_all_skipped(self):
        for output in ("1..0 # SKIP no kvm\n", "1..1\nok 1 # SKIP no kvm\n"):
            with self.subTest(output=output):
                self.assertFalse(self.verdict(output, level="vcpu")[0])


class Listing(unittest.TestCase):
    """Listings against recorded ones."""

    def test_same(self):
        self.assertEqual(judge.listing("a\nb\n", 0, "a\nb\n"), (True, "2 files"))

    def test_missing(self):
        self.assertEqual(judge.listing("a\n", 0, "a\nb\n"),
                         (False, "1 missing: b"))

    def test_added(self):
        self.assertEqual(judge.listing("a\nb\n", 0, "a\n"),
                         (False, "1 not in the base: b"))

    def test_order_twice_empty_status(self):
        for output, status, recorded in (("b\na\n", 0, "a\nb\n"),
                                         ("a\na\n", 0, "a\n"),
                                         ("", 0, ""), ("a\n", 1, "a\n")):
            with self.subTest(output=output):
                self.assertFalse(judge.listing(output, status, recorded)[0])


if __name__ == "__main__":
    unittest.main()
