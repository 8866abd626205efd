# SPDX-License-Identifier: GPL-2.0-only
"""Build KVM's modules with the series for Debian's own kernel of the base.

Only kvm.ko and kvm-amd.ko are built, from build/BASE/linux, with the configuration of
Debian's kernel, and with the CRCs of its symbols if that kernel checks CRCs.
"""

import os
import re
import shutil
from pathlib import Path

from . import records, steps

OUT = records.BASE_BUILD_DIR / "debian-modules"
# Modules are built in a copy of the source: their objects end up next to it.
MODULE_BUILD_DIR = OUT / "made"
FOLDERS = ("arch/x86/kvm", "virt/kvm")
MODULES = ("kvm.ko", "kvm-amd.ko")
# Debian's own modules that KVM needs, in the order in which they are loaded.
EXTRA_MODULES = ("irqbypass.ko", "ccp.ko")
# Debian's own modules for VFIO, and a sample driver that Debian does not build.
VFIO_MODULES = ("vfio.ko", "vfio_iommu_type1.ko", "mdev.ko", "mtty.ko")
# A directory with Debian's kernel and its own KVM, and the sample driver.
DEBIAN = OUT / "debian"
PACKAGES = ("flex", "bison", "bc", "libelf-dev", "libssl-dev", "dwarves", "rsync",
            "zlib1g-dev", "python3")


def get_kernel_dir():
    """Return the directory of Debian's kernel, which is named after the release."""
    return records.BUILD / "debian-kernels" / records.base_file.read_values()["debian_kernel"]


def get_local_version():
    """Return what follows the version in the release name of Debian's kernel."""
    found = re.search(r"vermagic=(([\d.]+)(\S*))",
                      (get_kernel_dir() / "kvm.ko").read_bytes().decode("latin-1"))
    version = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$",
                              (records.base_file.TREE / "Makefile").read_text(), re.M))
    source = ".".join(version[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
    if found[2] != source:
        raise records.Invalid(f"{get_kernel_dir().name} has the kernel {found[1]}, "
                              f"{records.base_file.SHOWN} is {source}")
    return found[3]


def make_record(kernel, userland, more_modules=()):
    """Return the record of a machine with Debian's kernel and the modules of a directory.

    It has one CPU, because the selftests need nested paging, see x86_64.record.
    """
    return records.Record("x86_64-npt").replace(
        kernel=kernel, image="vmlinuz",
        modules=(*EXTRA_MODULES, *MODULES, *more_modules), userland=userland)


def _build(source):
    """Build the modules of a source tree, with Debian's configuration."""
    debian = get_kernel_dir()
    config = (debian / "config").read_text()
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "kernel").mkdir(parents=True)
    # Debian's kernel does not check signatures, and there is no key for one.
    (OUT / "kernel/.config").write_text(re.sub(
        r"^(CONFIG_SYSTEM_TRUSTED_KEYS)=.*$", r'\1=""', config, flags=re.M))
    if "CONFIG_MODVERSIONS=y\n" in config:
        steps.run_script("fetch-debian-symvers", debian.name)
        shutil.copy(records.BUILD / "debian-symvers" / debian.name / "Module.symvers",
                    OUT / "kernel")
    for folder in FOLDERS:
        shutil.copytree(source / folder, MODULE_BUILD_DIR / folder)
    sample = MODULE_BUILD_DIR / "sample"
    sample.mkdir()
    shutil.copy(source / "samples/vfio-mdev/mtty.c", sample)
    (sample / "Kbuild").write_text("obj-m := mtty.o\n")
    make = ["make", "-C", source, f"O={OUT}/kernel", f"LOCALVERSION={get_local_version()}",
            # Nothing reads their types, and they compile faster without.
            "KCFLAGS=-g0", "CONFIG_DEBUG_INFO_BTF=", f"-j{os.cpu_count()}"]
    with steps.lock_directory(records.BASE_BUILD_DIR / "kernels"):
        steps.run("debian-modules: build KVM", records.BASE_BUILD_DIR / "logs/debian-modules.log",
                  [*make, "olddefconfig"], [*make, "modules_prepare"],
                  # vmlinux, which has the symbols, and KVM for Intel are not built.
                  [*make, f"M={MODULE_BUILD_DIR}/{FOLDERS[0]}", "KBUILD_MODPOST_WARN=1",
                   "CONFIG_KVM_INTEL=", "modules"],
                  [*make, f"M={sample}", "KBUILD_MODPOST_WARN=1", "modules"])
    DEBIAN.mkdir()
    for name in MODULES:
        shutil.copy(MODULE_BUILD_DIR / FOLDERS[0] / name, OUT)
        shutil.copy(debian / name, DEBIAN)
    for folder in (OUT, DEBIAN):
        shutil.copy(sample / VFIO_MODULES[-1], folder)
        for name in ("vmlinuz", *EXTRA_MODULES, *VFIO_MODULES[:-1]):
            shutil.copy(debian / name, folder)


def prepare():
    """Fetch Debian's kernel, and build the modules unless nothing has changed.

    Their directory, OUT, has Debian's kernel as well.
    """
    steps.run_script("fetch-debian-kernel", get_kernel_dir().name)
    steps.run_script("install-packages", *PACKAGES)
    record = make_record(OUT, OUT)
    steps.install_packages(record)
    steps.build_if_changed(OUT, record, [Path(__file__), get_kernel_dir() / "config"],
                      ("Documentation", "tools/testing"), lambda: _build(record.source))
