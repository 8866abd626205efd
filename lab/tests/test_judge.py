# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/judge.py."""

import unittest

from host import judge

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
[    1.0] BUG: KASAN: slab-out-of-bounds in kvm_stats_read+0x1/0x2 [kvm]
[    1.0] UBSAN: array-index-out-of-bounds in virt/kvm/kvm_stats.c:1:2
[    1.0] BUG kvm_vcpu (Tainted: G    B  ): Poison overwritten
[    1.0] BUG kmalloc-64 (Not tainted): Redzone overwritten
[    1.0] pagealloc: memory corruption
[    1.0] WARNING: inconsistent lock state
[    1.0] WARNING: bad unlock balance detected!
[    1.0] WARNING: held lock freed!
[    1.0] WARNING: lock held when returning to user space!
[    1.0] BUG: Invalid wait context
[    1.0] BUG: MAX_LOCKDEP_KEYS too low!
[    1.0] turning off the locking correctness validator.
[    1.0] BUG: scheduling while atomic: kvm/61/0x00000002
[    1.0] BUG: using smp_processor_id() in preemptible [00000000] code: kvm/61
[    1.0] WARNING: CPU: 0 PID: 1 at lib/debugobjects.c:505 debug_print_object
[    1.0] ODEBUG: Out of memory. ODEBUG disabled
[    1.0] kmemleak: Kernel memory leak detector disabled
[    1.0] BUG: KCSAN: data-race in kvm_stats_read / kvm_arch_vcpu_ioctl_run
"""
# Messages of sanitizers about themselves and about leaks at boot.
SANITIZERS = """\
[    1.0] kmemleak: Kernel memory leak detector initialized (mem pool available: 9)
[    1.0] kmemleak: 10 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
[    1.0] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
[    1.0] kasan: KernelAddressSanitizer initialized
[    1.0] kcsan: enabled early
"""
RACE = """\
[    2.0] ==================================================================
[    2.0] BUG: KCSAN: data-race in {0} / {1}
[    2.0]
[    2.0] write to 0xffff888003a4d0f8 of 8 bytes by task 70 on cpu 1:
[    2.0]  {1}+0x5b/0x1a0
[    2.0]  kthread+0x1f7/0x210
[    2.0]
[    2.0] read to 0xffff888003a4d0f8 of 8 bytes by task 71 on cpu 0:
[    2.0]  {0}+0x11/0x90 [kvm]
[    2.0]  vfs_read+0xf7/0x210
[    2.0]
[    2.0] Reported by Kernel Concurrency Sanitizer on:
[    2.0] CPU: 0 PID: 71 Comm: a Not tainted 5.10.262 #1
[    2.0] ==================================================================
"""


class Splats(unittest.TestCase):
    """Scanning the console for splats."""

    def test_healthy(self):
        self.assertEqual(judge.find_splats(HEALTHY), [])

    def test_watchful(self):
        self.assertEqual(judge.find_splats(SANITIZERS), [])

    def test_every_splat(self):
        for line in SPLATS.splitlines():
            with self.subTest(line=line):
                self.assertEqual(judge.find_splats(HEALTHY + line), [line])

    def test_message_of_init(self):
        line = "init: /lab/kvm.ko: No such file or directory"
        self.assertEqual(judge.find_splats(line), [line])

    def test_first_comes_first(self):
        self.assertEqual(judge.find_splats(SPLATS), SPLATS.splitlines())


class Races(unittest.TestCase):
    """Only reports of KCSAN with a function of the series count."""

    OURS = frozenset({"kvm_stats_read", "kvm_stats_ioctl"})
    LIBRARY = frozenset({"_copy_to_user", "kcsan_helper", "memcpy"})

    def left(self, *reports):
        console = HEALTHY + "".join(reports) + HEALTHY
        return judge.remove_other_races(
            console, lambda race: judge.has_function(race, self.OURS, self.LIBRARY))

    def test_of_others(self):
        report = RACE.format("mutex_spin_on_owner", "tick_do_update_jiffies64")
        self.assertEqual(judge.find_splats(self.left(report, report)), [])
        self.assertEqual(len(judge.find_races(report + HEALTHY + report)), 2)

    def test_ours_in_either_place(self):
        for pair in (("kvm_stats_read", "other"), ("other", "kvm_stats_read")):
            with self.subTest(pair=pair):
                other = RACE.format("a", "b")
                self.assertEqual(judge.find_splats(self.left(other, RACE.format(*pair),
                                                        other)),
                                 [f"[    2.0] BUG: KCSAN: data-race in {pair[0]}"
                                  f" / {pair[1]}"])

    def test_ours_calls_the_access(self):
        """A function of the series counts if a library function accesses data for it."""
        for calls, seen in ((("_copy_to_user",), True), (("kcsan_helper", "_copy_to_user"), True),
                            (("capable",), False), (("_copy_to_user", "capable"), False),
                            (("capable", "_copy_to_user"), False),
                            (("kcsan_helper", "memcpy", "_copy_to_user"), False)):
            with self.subTest(calls=calls):
                report = RACE.format(calls[0], "b").replace("[    2.0]  vfs_read", "".join(
                    f"[    2.0]  {name}+0x1/0x2\n" for name in (*calls[1:], "kvm_stats_ioctl"))
                    + "[    2.0]  vfs_read")
                self.assertEqual(bool(judge.find_splats(self.left(report))), seen)

    def test_a_name_that_only_begins_like_ours(self):
        report = RACE.format("kvm_stats_reader", "my_kvm_stats_read")
        self.assertEqual(judge.find_splats(self.left(report)), [])

    def test_another_splat_behind_or_in_a_race_stays(self):
        splat = "[    3.0] WARNING: CPU: 0 PID: 1 at x\n"
        race = RACE.format("a", "b")
        middle = race.index("[    2.0]  vfs_read")
        for console in (race + splat, race[:middle] + splat + race[middle:]):
            with self.subTest(console=console):
                self.assertEqual(judge.find_splats(self.left(console)),
                                 [splat.strip()])

    def test_a_report_that_has_no_end_stays(self):
        race = RACE.format("a", "b").rpartition("[    2.0] ==")[0]
        self.assertEqual(len(judge.find_splats(self.left(race))), 1)


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
    """Output of programs in TAP format."""

    def verdict(self, output, status=0, level="guest"):
        return judge.tap(output, status, level)

    def test_passed(self):
        self.assertEqual(
            self.verdict("TAP version 13\n1..2\n# hi\nok 1 a\nok 2 b\n"
                         "# Totals: pass:2 fail:0\n"), (True, "2 ok"))

    def test_plan_last(self):
        self.assertTrue(self.verdict("ok 1 a\nok 2 b\n1..2\n")[0])

    def test_not_passed(self):
        for output, why in (
                ("1..2\nok 1 a\nnot ok 2 b\n", "1 not ok: not ok 2 b"),
                ("ok 1 a\n", "no plan"), ("", "no plan"),
                ("1..0\n", "nothing was tested"),
                ("1..1\n1..1\nok 1 a\n", "two plans"),
                ("1..3\nok 1\nok 2\n", "planned 1..3"),
                ("1..1\nok 1\nok 2\n", "planned 1..1"),
                ("1..2\nok 1\nok 1\n", "planned 1..2"),
                ("1..2\nok 1 a\nok 2 b # SKIP no guest\n",
                 "skipped although guests run")):
            with self.subTest(output=output):
                passed, text = self.verdict(output)
                self.assertFalse(passed)
                self.assertIn(why, text)

    def test_not_ok_with_skip_level(self):
        self.assertFalse(self.verdict("1..1\nnot ok 1 a # SKIP\n",
                                      level="vcpu")[0])

    def test_status(self):
        passed, text = self.verdict("1..1\nok 1\n", 139)
        self.assertFalse(passed)
        self.assertIn("exit status 139", text)

    def test_skip_where_none_runs(self):
        self.assertEqual(
            self.verdict("1..2\nok 1 a\nok 2 b # SKIP no guest\n",
                         level="vcpu"), (True, "1 ok, 1 skipped"))

    def test_all_skipped(self):
        for output in ("1..0 # SKIP no kvm\n", "1..1\nok 1 # SKIP no kvm\n"):
            with self.subTest(output=output):
                self.assertFalse(self.verdict(output, level="vcpu")[0])


class Example(unittest.TestCase):
    """Comparison of an output with the documented one."""

    DOCUMENTED = "all:\nkvm-12: vCPU 0: exits 34\nkvm-12: vCPU 1: exits 0\n"

    def verdict(self, output, status=0):
        return judge.example(output, status, self.DOCUMENTED)

    def test_numbers(self):
        """Numbers may differ, but 0 must be 0."""
        self.assertEqual(self.verdict(self.DOCUMENTED), (True, "3 lines as documented"))
        self.assertTrue(self.verdict(self.DOCUMENTED.replace("12", "987").replace("34", "5"))[0])
        self.assertEqual(self.verdict(self.DOCUMENTED.replace("exits 34", "exits 0")), (
            False, "kvm-N: vCPU 0: exits 0, documented: kvm-N: vCPU 0: exits N"))
        self.assertFalse(self.verdict(self.DOCUMENTED.replace("exits 0", "exits 1"))[0])

    def test_lines(self):
        """A line that is missing, added or different, and an exit status are failures."""
        for output in ("", "all:\n", self.DOCUMENTED + "more\n", self.DOCUMENTED[4:]):
            self.assertFalse(self.verdict(output)[0], output)
        self.assertEqual(self.verdict("stats fd: EPERM\n", 1), (
            False, "exit status 1: stats fd: EPERM"))


class Listing(unittest.TestCase):
    """Comparison of listings with recorded ones."""

    def test_same(self):
        self.assertEqual(judge.listing("a\nb\n", 0, "a\nb\n"), (True, "2 files"))

    def test_missing(self):
        self.assertEqual(judge.listing("a\n", 0, "a\nb\n"),
                         (False, "1 missing: b"))

    def test_added(self):
        self.assertEqual(judge.listing("a\nb\n", 0, "a\n"),
                         (False, "1 not in the base: b"))

    def test_added_by_series(self):
        """A file of the series must exist once, and does not hide other files."""
        self.assertEqual(judge.listing("a\nb\nc\n", 0, "a\nc\n", "b\n"),
                         (True, "2 files and 1 of the series"))
        self.assertEqual(judge.listing("a\nc\n", 0, "a\nc\n", "b\n"),
                         (False, "1 of the series missing: b"))
        self.assertEqual(judge.listing("a\nb\nd\n", 0, "a\n", "b\n"),
                         (False, "1 not in the base: d"))

    def test_order_twice_empty_status(self):
        for output, status, recorded in (("b\na\n", 0, "a\nb\n"),
                                         ("a\na\n", 0, "a\n"),
                                         ("", 0, ""), ("a\n", 1, "a\n")):
            with self.subTest(output=output):
                self.assertFalse(judge.listing(output, status, recorded)[0])
