# SPDX-License-Identifier: GPL-2.0-only
"""Debian's own kernels, in machines of the lab."""

import records
import steps

# In the order in which they are loaded; older kernels have all of them.
MODULES = ("rng-core.ko", "irqbypass.ko", "ccp.ko", "kvm.ko", "kvm-amd.ko")


def record(release):
    """Fetch the kernel of a release; how it is booted, with guests that run for long."""
    steps.script("fetch-debian-kernel", release)
    folder = records.BUILD / "debian-kernels" / release
    return records.Record("x86_64-long").but(
        kernel=folder, image="vmlinuz",
        modules=tuple(name for name in MODULES if (folder / name).is_file()))


def arm64(release):
    """The same of its kernel for arm64, which has KVM in it, but virtio on PCI alone."""
    steps.script("fetch-debian-kernel", release, ARCHITECTURE="arm64")
    return records.Record("arm64").but(
        kernel=records.BUILD / "debian-kernels" / f"{release}-arm64", image="vmlinuz",
        verdict=("-device", "virtio-serial-pci", "-device", "virtconsole,chardev=verdict"))
