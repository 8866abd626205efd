# SPDX-License-Identifier: GPL-2.0-only
"""Tiers: the checks of make check and make check-landing, which lab/checks/tiers lists.

Each line of the file is a tier, a base, and a check with its arguments. The base is

    chosen   the base that BASE names, or the default base
    7.3      a base by name
    -        none: the check is independent of the base

The checks start in the order of their lines. BASE limits a tier to one base. `chosen` leaves
out a base to which the check does not apply (needs.py).
"""

import collections
import os

from . import base_file, needs, records

FILE = records.TOP / "lab/checks/tiers"
NAMES = ("check", "landing")
NO_BASE = "-"
# check: the name of a check; base: None if it is independent; arguments: a list.
Row = collections.namedtuple("Row", "check base arguments")


def list_bases(word, path, where):
    """Return the bases that the second word of a line stands for, [None] for no base."""
    if needs.is_independent(path) != (word == NO_BASE):
        raise records.Invalid(f"{where}: base '{word}' does not fit '# Needs:' of {path.name}")
    if word == NO_BASE:
        return [None]
    named = base_file.list_names()
    if word not in ("chosen", *named):
        raise records.Invalid(f"{where}: no base '{word}', choose from: chosen - "
                              + " ".join(named))
    if word in named and (missing := needs.find_missing(path, word)):
        raise records.Invalid(f"{where}: base {word} has no {missing}, which {path.name} needs")
    base = base_file.NAME if word == "chosen" else word
    return ([base] if not needs.find_missing(path, base)
            and os.environ.get("BASE") in (None, "", base) else [])


def read(tier, checks):
    """Return the rows of a tier in their order; checks: the file of each check by its name."""
    found = []
    for number, line in enumerate(FILE.read_text().splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        where = f"{FILE.relative_to(records.TOP)}:{number}"
        if len(words) < 3 or words[0] not in NAMES:
            raise records.Invalid(f"{where}: not 'TIER BASE CHECK [ARGUMENT...]' with a tier from: "
                                  + " ".join(NAMES))
        name, base, check, *arguments = words
        if check not in checks:
            raise records.Invalid(f"{where}: no check '{check}'")
        if name == tier:
            found += [Row(check, each, arguments)
                      for each in list_bases(base, checks[check], where)]
    for row in found:
        if found.count(row) > 1:
            raise records.Invalid(f"{FILE.relative_to(records.TOP)}: {tier} runs "
                                  f"{' '.join([row.check, *row.arguments])} twice")
    return found
