# SPDX-License-Identifier: GPL-2.0-only
"""The mutants: small changes of KVM that some test has to detect.

They are in patches/mutants/*.toml, for every base with mutants, and in
patches/BASE/mutants/*.toml, for one base. A list has

    first      the tests that are likely to detect its mutants: they run first
    file       the file of the kernel that is changed, one that KVM's modules are built
               from, unless a mutant has another; several: the first that contains the text
    [[mutant]]

and a mutant has

    name
    file       as above
    was        a text that occurs once in the file
    becomes    its replacement
    kernels    the lab's kernels to try, one after the other until one detects the mutant
    survives   the reason, if no test can detect the mutant
    posted     the reason, if the tests that are mailed cannot detect it, but the lab's can

A mutant of the base replaces the one of the same name in patches/mutants.
"""

import collections
import tomllib

from . import base_file, records

SHARED = base_file.TOP / "patches/mutants"
KERNELS = ("x86_64", "x86_64-kasan")
# The baseline run, without any change.
BASELINE = "baseline"
Mutant = collections.namedtuple(
    "Mutant", "name file was becomes survives kernels first posted",
    defaults=("", KERNELS, (), ""))


def find_folders(base=base_file.NAME):
    """Return the directories with mutants for a base."""
    return [SHARED, *(folder / "mutants" for folder in base_file.list_directories(base))]


def read(folders=None):
    """Return the mutants by name, for each list; those of the last folder win."""
    found = {}
    kernels = tuple(name for name in KERNELS if name in records.list_names())
    for folder in folders or find_folders():
        for path in sorted(folder.glob("*.toml")):
            read_list(path, kernels, found)
    lists = {}
    for mutant, name in found.values():
        lists.setdefault(name, {})[mutant.name] = mutant
    return lists


def read_list(path, kernels, found):
    """Add the mutants of a file to those found: pairs of mutant and list by name."""
    written = tomllib.loads(path.read_text())
    names = {BASELINE}
    for values in written["mutant"]:
        values = {"first": written.get("first", ()), "kernels": kernels,
                  **({"file": written["file"]} if "file" in written else {}), **values}
        if isinstance(values.get("file"), str):
            values["file"] = [values["file"]]
        try:
            mutant = Mutant(**values)
        except TypeError as error:
            raise records.Invalid(f"{path.name}: {values.get('name')}: {error}") from None
        if mutant.name in names:
            raise records.Invalid(f"{path.name}: two mutants are called {mutant.name}")
        names.add(mutant.name)
        found[mutant.name] = mutant, path.stem


def choose(lists, names):
    """Return the mutants and those of the lists with these names, all if there are none."""
    every = {name: mutant for mutants in lists.values()
             for name, mutant in mutants.items()}
    chosen = {}
    for name in names or lists:
        if name in lists:
            chosen.update(lists[name])
        elif name in every:
            chosen[name] = every[name]
        else:
            raise records.Invalid(f"no mutant or list '{name}', lists: {' '.join(lists)}")
    return list(chosen.values())


def apply(mutant, source):
    """Return the path in a source tree that a mutant changes, and the changed text."""
    counts = {}
    for name in mutant.file:
        if (source / name).is_file():
            text = (source / name).read_text()
            counts[name] = text.count(mutant.was)
            if counts[name] == 1:
                return source / name, text.replace(mutant.was, mutant.becomes)
    raise records.Invalid("does not apply: " + (", ".join(
        f"{name} contains its text {count} times" for name, count in counts.items())
        or f"no file {' or '.join(mutant.file)}"))
