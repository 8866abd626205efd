# SPDX-License-Identifier: GPL-2.0-only
"""A Linux guest with perf as Debian has it, for QEMU in the lab's machine."""

import re
import shutil
import subprocess
from pathlib import Path

import machine
import records
import steps
import suite

PERF = Path("/usr/bin/perf")
PROGRAMS = records.INSIDE / "consumers"
GUEST_PROGRAMS = ("perf-work", "guest-kexec", "guest-hotplug")


def libraries(program):
    """The files that a program of this machine is linked with."""
    said = subprocess.run(["ldd", program], check=True, capture_output=True,
                          text=True).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def prepare():
    """Build its kernel and what runs in it; returns the kernel's record."""
    record = records.Record("x86_64")
    steps.install(record)
    steps.script("install-packages", "linux-perf")
    suite.prepare(record)
    return record


def pack(record, root, plan, initrd):
    """An initramfs of a folder, with init and what it is to run."""
    (root / "lab/bin").mkdir(parents=True, exist_ok=True)
    with steps.alone(record.userland):
        shutil.copy(record.userland / "init", root)
        for program in GUEST_PROGRAMS:
            shutil.copy(record.userland / "bin" / program, root / "lab/bin")
    machine.write_plan(root, [["verdict", "/dev/ttyS1"], *(
        ["test", name, f"/lab/bin/{program}", *map(str, args)]
        for name, (program, *args) in plan.items())])
    machine.write_initramfs(initrd, root)
    shutil.rmtree(root)


def give(root, kernel, initrd):
    """What guest-kexec starts, where there is something."""
    if initrd:
        (root / "lab").mkdir(parents=True, exist_ok=True)
        shutil.copy(kernel, root / "lab/kernel")
        shutil.move(initrd, root / "lab/initrd")


def next_initramfs(record, folder, plan, kernel, following):
    """That of a kernel that another one starts, and which may start one itself."""
    root, initrd = folder / "next", folder / "next.cpio"
    shutil.rmtree(root, ignore_errors=True)
    give(root, kernel, following)
    pack(record, root, plan, initrd)
    return initrd


def files(record, folder, plan, *later):
    """What the machine needs of it: kernel and initramfs, which are made in a folder,
    and the programs that run QEMU.

    plan: argv of each test by its name; later: those of kernels that are started with
    kexec, each by the one before, which has kernel and initramfs in /lab.
    """
    root, kernel, initrd = folder / "root", folder / "bzImage", folder / "guest.cpio"
    shutil.rmtree(root, ignore_errors=True)
    for file in (PERF, *libraries(PERF)):
        path = root / str(file).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)
    shutil.copy(record.kernel / record.image, kernel)
    (root / "lab/bin").mkdir(parents=True)
    (root / "lab/bin/perf").symlink_to(PERF)
    following = None
    for another in reversed(later):
        following = next_initramfs(record, folder, another, kernel, following)
    give(root, kernel, following)
    pack(record, root, plan, initrd)
    return [kernel, initrd, records.LAB / "host/judge.py", *PROGRAMS.glob("*.py")]


def boot(found, prefix, record, release, test, guest_files, again=None):
    """Boot a machine with QEMU of a release of Debian, and run a test in it.

    again: what to type to see it again, if it is not the whole check."""
    record = records.Record(f"{record.name}-long", record.tree)
    # With a periodic tick: a CPU whose one timer got lost did not wake up any more.
    record = record.but(cmdline=f"{record.cmdline} highres=off")
    suite.boot(found, prefix, record, [test], files=guest_files, memory="3G",
               overlay=records.BUILD / "consumers" / release / "root", again=lambda *_: again)
