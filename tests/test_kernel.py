#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fragments and a configuration in, options that were lost out."""

import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab/host"))

import kernel  # noqa: E402

KCONFIG = "config KVM\n\ttristate\n\nmenuconfig NET\n\tbool\n"


class Lost(unittest.TestCase):
    """What a fragment asks for is compared with what came out."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "Kconfig").write_text(KCONFIG)
        for command in (("init", "-q"), ("add", "-A")):
            subprocess.run(["git", "-C", self.folder, *command], check=True)

    def lost(self, made, *fragments, tree="linux"):
        paths = []
        for number, text in enumerate(fragments):
            paths.append(self.folder / f"{number}.config")
            paths[-1].write_text(text)
        (self.folder / ".config").write_text(made)
        return kernel.lost(types.SimpleNamespace(
            kernel=self.folder, source=self.folder, tree=tree, fragments=paths))

    def test_all_there(self):
        self.assertEqual(self.lost("CONFIG_KVM=m\nCONFIG_NET=y\n",
                                   "# text\nCONFIG_KVM=m\n"), [])

    def test_missing(self):
        for made in ("", "# CONFIG_KVM is not set\n", "CONFIG_KVM=m\n",
                     "CONFIG_KVM_AMD=y\n"):
            with self.subTest(made=made):
                self.assertEqual(self.lost(made, "CONFIG_KVM=y\n"),
                                 ["CONFIG_KVM"])

    def test_not_wanted(self):
        for asked in ("# CONFIG_KVM is not set\n", "CONFIG_KVM=n\n"):
            with self.subTest(asked=asked):
                self.assertEqual(self.lost("CONFIG_KVM=y\n", asked),
                                 ["CONFIG_KVM"])
                self.assertEqual(self.lost("", asked), [])

    def test_the_last_fragment_holds(self):
        self.assertEqual(self.lost("CONFIG_KVM=m\n", "CONFIG_KVM=y\n",
                                   "CONFIG_KVM=m\n"), [])
        self.assertEqual(self.lost("CONFIG_KVM=y\n", "CONFIG_KVM=y\n",
                                   "# CONFIG_KVM is not set\n"), ["CONFIG_KVM"])

    def test_options_of_the_series(self):
        """Another tree may not know them; ours has to, as each has its own."""
        asked = "CONFIG_KVM_STATS_NEW=y\n"
        self.assertEqual(self.lost("", asked), ["CONFIG_KVM_STATS_NEW"])
        self.assertEqual(self.lost("", asked, tree="linux-base"), [])
        for known in "KVM", "NET":
            self.assertEqual(self.lost("", f"CONFIG_{known}=y\n",
                                       tree="linux-base"), [f"CONFIG_{known}"])


class Sanitized(unittest.TestCase):
    """Where a kernel has its sanitizers."""

    MAKEFILE = "%.o: ; @echo '$(KASAN_SANITIZE)$(UBSAN_SANITIZE)'\n"

    def asked(self, name, makefile=""):
        """What kbuild finds for an object."""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"obj := {Path(name).parent}\n{makefile}{self.MAKEFILE}")
            file.flush()
            env = {**os.environ, **kernel.sanitized(types.SimpleNamespace(srcarch="x86"))}
            return subprocess.run(["make", "-s", "-f", file.name, name], env=env, check=True,
                                  capture_output=True, text=True).stdout.strip()

    def test_folders(self):
        for name in ("virt/kvm/eventfd.o", "arch/x86/kvm/kvm_main.o", "arch/x86/kvm/mmu/mmu.o",
                     "fs/eventpoll.o", "fs/proc/fd.o", "kernel/events/core.o", "mm/slub.o",
                     "arch/x86/kernel/kvm_pv_perf.o", "drivers/vfio/vfio.o"):
            self.assertEqual(self.asked(name), "", name)
        for name in ("net/core/sock.o", "drivers/tty/tty_io.o", "fsx/a.o", "virtual/a.o",
                     "arch/x86/kernel/setup.o", "arch/arm64/kvm/arm.o"):
            self.assertEqual(self.asked(name), "nn", name)

    def test_a_makefile_holds(self):
        self.assertEqual(self.asked("mm/kasan/common.o", "KASAN_SANITIZE := n\n"), "n")

    def test_seen_in_an_object(self):
        """A kernel whose KVM is compiled without is none of these."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "a.c"
            source.write_text("int f(int *p) { return *p; }\n")
            for options, seen in ([], False), (["-fsanitize=kernel-address"], True):
                subprocess.run(["gcc", *options, "-c", source, "-o", f"{folder}/a.o"],
                               check=True)
                self.assertEqual(kernel.is_sanitized(f"{folder}/a.o"), seen)


if __name__ == "__main__":
    unittest.main()
