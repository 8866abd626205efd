# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/kernel.py: lost options, added functions, directories with sanitizers."""

import os
import subprocess
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from host import kernel, patch_file
from tools import commit_all

KCONFIG = "config KVM\n\ttristate\n\nmenuconfig NET\n\tbool\n"


class Lost(unittest.TestCase):
    """Comparison of the fragments with the resulting configuration."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "Kconfig").write_text(KCONFIG)
        commit_all(self.folder)

    def find_lost(self, made, *fragments, tree="linux"):
        paths = []
        for number, text in enumerate(fragments):
            paths.append(self.folder / f"{number}.config")
            paths[-1].write_text(text)
        (self.folder / ".config").write_text(made)
        return kernel.find_lost_options(types.SimpleNamespace(
            kernel=self.folder, source=self.folder, tree=tree, fragments=paths))

    def test_all_there(self):
        self.assertEqual(self.find_lost("CONFIG_KVM=m\nCONFIG_NET=y\n",
                                   "# text\nCONFIG_KVM=m\n"), [])

    def test_missing(self):
        for made in ("", "# CONFIG_KVM is not set\n", "CONFIG_KVM=m\n",
                     "CONFIG_KVM_AMD=y\n"):
            with self.subTest(made=made):
                self.assertEqual(self.find_lost(made, "CONFIG_KVM=y\n"),
                                 ["CONFIG_KVM"])

    def test_not_wanted(self):
        for asked in ("# CONFIG_KVM is not set\n", "CONFIG_KVM=n\n"):
            with self.subTest(asked=asked):
                self.assertEqual(self.find_lost("CONFIG_KVM=y\n", asked),
                                 ["CONFIG_KVM"])
                self.assertEqual(self.find_lost("", asked), [])

    def test_the_last_fragment_holds(self):
        self.assertEqual(self.find_lost("CONFIG_KVM=m\n", "CONFIG_KVM=y\n",
                                   "CONFIG_KVM=m\n"), [])
        self.assertEqual(self.find_lost("CONFIG_KVM=y\n", "CONFIG_KVM=y\n",
                                   "# CONFIG_KVM is not set\n"), ["CONFIG_KVM"])

    def test_options_of_the_series(self):
        """Options of the series may be unknown only in other trees than the patched one."""
        asked = "CONFIG_KVM_STATS_NEW=y\n"
        self.assertEqual(self.find_lost("", asked), ["CONFIG_KVM_STATS_NEW"])
        self.assertEqual(self.find_lost("", asked, tree="linux-base"), [])
        for known in "KVM", "NET":
            self.assertEqual(self.find_lost("", f"CONFIG_{known}=y\n",
                                       tree="linux-base"), [f"CONFIG_{known}"])


class Functions(unittest.TestCase):
    """The functions in which data races count."""

    DIFF = """diff --git a/old.c b/old.c
--- a/old.c
+++ b/old.c
@@ -1,4 +1,6 @@
-static int moved(int number)
-void edited(void)
+void edited(int number)
+int added(void)
 int kept(void)
diff --git a/other.c b/other.c
--- a/other.c
+++ b/other.c
@@ -1 +1,2 @@
+static long moved(long number)
 int kept_as_well(void)
"""

    def test_added_and_moved(self):
        """Functions count if the series add them or move them to another file."""
        series = patch_file.Patch("0001-x.patch", "", [], self.DIFF)
        with (mock.patch.object(patch_file, "list_new_files", return_value=[]),
              mock.patch.object(patch_file, "read_patches", return_value=[series])):
            self.assertEqual(kernel.find_functions(), {"added", "moved"})


class Sanitized(unittest.TestCase):
    """Directories in which a kernel has sanitizers."""

    MAKEFILE = "%.o: ; @echo '$(KASAN_SANITIZE)$(UBSAN_SANITIZE)'\n"

    def read_variables(self, name, makefile=""):
        """Return the values of the variables in kbuild for an object."""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"obj := {Path(name).parent}\n{makefile}{self.MAKEFILE}")
            file.flush()
            env = {**os.environ, **kernel.limit_sanitizers(types.SimpleNamespace(srcarch="x86"))}
            return subprocess.run(["make", "-s", "-f", file.name, name], env=env, check=True,
                                  capture_output=True, text=True).stdout.strip()

    def test_folders(self):
        for name in ("virt/kvm/eventfd.o", "arch/x86/kvm/kvm_main.o", "arch/x86/kvm/mmu/mmu.o",
                     "fs/eventpoll.o", "fs/proc/fd.o", "kernel/events/core.o", "mm/slub.o",
                     "arch/x86/kernel/kvm_pv_perf.o", "drivers/vfio/vfio.o"):
            self.assertEqual(self.read_variables(name), "", name)
        for name in ("net/core/sock.o", "drivers/tty/tty_io.o", "fsx/a.o", "virtual/a.o",
                     "arch/x86/kernel/setup.o", "arch/arm64/kvm/arm.o"):
            self.assertEqual(self.read_variables(name), "nn", name)

    def test_makefile_takes_precedence(self):
        self.assertEqual(self.read_variables("mm/kasan/common.o", "KASAN_SANITIZE := n\n"), "n")

    def test_is_sanitized(self):
        """An object compiled without KASAN is detected."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "a.c"
            source.write_text("int f(int *p) { return *p; }\n")
            for options, seen in ([], False), (["-fsanitize=kernel-address"], True):
                subprocess.run(["gcc", *options, "-c", source, "-o", f"{folder}/a.o"],
                               check=True)
                self.assertEqual(kernel.is_sanitized(f"{folder}/a.o"), seen)
