# SPDX-License-Identifier: GPL-2.0-only
"""lab/TESTED.md lists the kernels of every base, as their records describe them."""

import re
import unittest

from host import base_file, records
from tools import TOP

RESULTS = {"guest": "guests", "vcpu": "VMs and vCPUs", "own-tests": "no selftests",
           "build": "compiled"}


def read_landing(base):
    """Return the kernels of a base that make check-landing runs."""
    rows = [line.split() for line in (TOP / "lab/checks/tiers").read_text().splitlines()]
    return {name for row in rows if row[:3] == ["landing", base, "kernels"] for name in row[3:]}


def read_records(base):
    """Return {kernel: (result, run by)} of a base."""
    values = base_file.read_values(base)
    found = {}
    for name in values["kernels"].split():
        record = records.parse(records.KERNELS / f"{name}.record", base)
        run_by = ("make check-landing" if name in read_landing(base) else
                  "make check-all" if "kernels" in record["used_by"].split() else
                  "more-kernels" if "more-kernels" in record["used_by"].split() else "by name")
        found[name] = RESULTS[record["level"]], run_by
    return found


def read_page():
    """Return {base: {kernel: (result, run by)}} of the page."""
    text = (TOP / "lab/TESTED.md").read_text()
    return {base: {row[0]: tuple(row[2:]) for row in
                   re.findall(r"^\| (\S+) \| (.+) \| (.+) \| (.+) \|$", part, re.M)
                   if row[0] != "kernel"}
            for base, part in re.findall(r"^## Linux (\S+)\n(.*?)(?=^## |\Z)", text, re.M | re.S)}


class Page(unittest.TestCase):
    """The page and the bases."""

    maxDiff = None

    def test_bases(self):
        """The page has a section for each base."""
        self.assertEqual(sorted(read_page()), sorted(base_file.list_names()))

    def test_kernels(self):
        """Each section lists the kernels of its base with their level and their check."""
        for base, kernels in read_page().items():
            with self.subTest(base=base):
                self.assertEqual(kernels, read_records(base))
