# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/completeness.py."""

import unittest

from host import completeness

PAHOLE = """\
struct kvm_vcpu_stat {
\tu64                        exits;                /*     0     8 */
\tlong long unsigned int     halt_wakeup;          /*     8     8 */
\t/* --- cacheline 1 boundary (64 bytes) --- */
\tu64                        wait_hist[32];        /*    16   256 */

\t/* size: 272, cachelines: 5, members: 3 */
\t/* last cacheline: 16 bytes */
};
"""
NESTED = """\
struct kvm_vcpu_stat {
\tu64                        ahead;                /*     0     8 */
\tstruct generic_stat        generic;              /*     8   272 */
\tunion {
\t\tstruct {
\t\t\tatomic64_t small;                   /*   280     8 */
\t\t\tatomic64_t large;                   /*   288     8 */
\t\t};                                       /*   280    16 */
\t\tatomic64_t         pages[2];             /*   280    16 */
\t};                                               /*   280    16 */
};
"""
VM = {"remote_tlb_flush": (0, 8)}
LIST = """\
vm remote_tlb_flush cumulative none pow10 0 0 1 0
vcpu exits cumulative none pow10 0 0 1 0
vcpu halt_wakeup cumulative none pow10 0 8 1 0
vcpu wait_hist log_hist seconds pow10 -9 16 32 0
"""


class Pahole(unittest.TestCase):
    """Parsing of pahole's output."""

    def test_members(self):
        self.assertEqual(completeness.parse_pahole(PAHOLE),
                         {"exits": (0, 8), "halt_wakeup": (8, 8),
                          "wait_hist": (16, 256)})

    def test_nothing(self):
        self.assertEqual(completeness.parse_pahole(""), {})

    def test_what_is_in_it(self):
        """Members of nested structs and of anonymous structs and unions belong to the struct."""
        self.assertEqual(completeness.parse_pahole(NESTED, {"generic_stat": PAHOLE}.get), {
            "exits": (8, 8), "halt_wakeup": (16, 8), "wait_hist": (24, 256),
            "ahead": (0, 8), "small": (280, 8), "large": (288, 8), "pages": (280, 16)})

    def test_what_is_no_plain_member(self):
        for line in ("\tu64 a:3; /*     0: 0  8 */",
                     "\tstruct other x; /*     0     8 */",
                     "\tstruct named {", "\t} generic; /*     0     8 */"):
            with self.subTest(line=line), self.assertRaises(ValueError):
                completeness.parse_pahole(PAHOLE.replace("};", line + "\n};"))


class Check(unittest.TestCase):
    """Comparison of structs with descriptors."""

    def verdict(self, described, vm=None):
        structs = {"vm": VM if vm is None else vm,
                   "vcpu": completeness.parse_pahole(PAHOLE)}
        return completeness.check(structs, described)

    def test_complete(self):
        self.assertEqual(self.verdict(LIST), (True, "4 members"))

    def test_member_without_descriptor(self):
        for line in LIST.splitlines(keepends=True):
            with self.subTest(line=line):
                passed, text = self.verdict(LIST.replace(line, ""))
                self.assertFalse(passed)
                self.assertIn(f"{line.split()[1]} has no descriptor", text)

    def test_descriptor_without_member(self):
        self.assertIn("has no member other",
                      self.verdict(LIST + "vm other instant none pow10 0 8 1 0")[1])

    def test_second_descriptor(self):
        self.assertFalse(self.verdict(LIST + LIST.splitlines()[1])[0])

    def test_wrong_scope(self):
        self.assertFalse(self.verdict(LIST.replace("vcpu exits", "vm exits"))[0])

    def test_wrong_offset(self):
        self.assertIn("halt_wakeup is at 8, 8 bytes",
                      self.verdict(LIST.replace("0 8 1 0", "0 16 1 0"))[1])

    def test_wrong_size(self):
        self.assertFalse(self.verdict(LIST.replace("16 32 0", "16 31 0"))[0])

    def test_four_byte_member(self):
        self.assertFalse(self.verdict(LIST, {"remote_tlb_flush": (0, 4)})[0])

    def test_union(self):
        """All bytes of a union must be described by some of its members."""
        union = {**VM, "small": (8, 8), "large": (16, 8), "pages": (8, 16)}
        small, large = (f"vm {name} instant none pow10 0 {at} 1 0\n"
                        for name, at in (("small", 8), ("large", 16)))
        self.assertEqual(self.verdict(LIST + small + large, union), (True, "6 members"))
        self.assertTrue(self.verdict(LIST + "vm pages instant none pow10 0 8 2 0", union)[0])
        passed, text = self.verdict(LIST + small, union)
        self.assertFalse(passed)
        self.assertIn("large has no descriptor", text)

    def test_no_debug_information(self):
        self.assertIn("no debug information", self.verdict(LIST, {})[1])

    def test_nothing_described(self):
        self.assertFalse(self.verdict("")[0])

    def test_not_a_descriptor(self):
        self.assertIn("not a descriptor",
                      self.verdict("kvm-stats: no VM\n" + LIST)[1])
