# SPDX-License-Identifier: GPL-2.0-only
"""Which checks apply to a base. Each check declares its needs in the third line of its file:

    # Needs: no base             independent of the base: running the check once is enough
    # Needs: kernels             kernels of the base whose record lists the check in used_by
    # Needs: series NAME         a series of the base
    # Needs: debian_kernel       a value in patches/BASE/base
    # Needs: PATH                a file in patches/BASE, or one that the series introduce

Several needs are separated by commas. A check without the line applies to every base.
"""

import re

from . import base_file, patch_file, records

NO_BASE = "no base"


def read(check):
    """Return the needs of a check, given the path of its file."""
    line = re.search(r"^# Needs: (.+)$", check.read_text(), re.M)
    return line[1].split(", ") if line else []


def is_independent(check):
    """Return True if the check gives the same results for every base."""
    return NO_BASE in read(check)


def find_missing(check, base=base_file.NAME):
    """Return the first need of the check that the base does not meet, "" if it meets all."""
    return next((need for need in read(check) if not is_met(need, check, base)), "")


def is_met(need, check, base):
    """Return True if the base has one need of the check."""
    values = base_file.read_values(base)
    kind, _, name = need.partition(" ")
    if need == NO_BASE:
        return True
    if need == "kernels":
        return any(check.stem in records.parse(records.KERNELS / f"{kernel}.record",
                                               base)["used_by"].split()
                   for kernel in values["kernels"].split())
    if kind == "series" and name:
        return name in patch_file.list_series(base)
    if need in values:
        return bool(values[need])
    if name:
        raise records.Invalid(f"{check.relative_to(records.TOP)}: unknown need '{need}'")
    return bool(base_file.find(need, base)) or need in patch_file.list_new_files(base)
