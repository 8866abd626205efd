#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""modules/kvm-stats-modules, on a machine that is made up in a folder."""

import os
import re
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

PROGRAM = Path(__file__).resolve().parent.parent / "modules/kvm-stats-modules"
KERNEL = "7.3.4+deb13-amd64"
HEADERS = f"linux-headers-{KERNEL}"
PATCH = """KVM: Change something

Why.
---
diff --git a/virt/kvm/kvm_main.c b/virt/kvm/kvm_main.c
--- a/virt/kvm/kvm_main.c
+++ b/virt/kvm/kvm_main.c
@@ -1 +1 @@
-before
+after
diff --git a/Documentation/kvm.rst b/Documentation/kvm.rst
--- a/Documentation/kvm.rst
+++ b/Documentation/kvm.rst
@@ -1 +1 @@
-not in what is unpacked
+and not wanted
"""
SOURCE = {"virt/kvm/kvm_main.c": "before\n",
          "arch/x86/kvm/Makefile": "obj-m := kvm.o\n",
          "include/linux/kvm_host.h": "#ifndef __KVM_HOST_H\n#define __KVM_HOST_H\n#endif\n",
          "include/uapi/linux/kvm.h": "\n",
          "mm/slub.c": "not wanted\n"}


class Machine(unittest.TestCase):
    """Its packages, kernels and firmware are files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.root = self.top / "root"
        self.write("root/var/lib/dpkg/status", "")
        self.debian = self.write(f"root/lib/modules/{KERNEL}/kernel/kvm.ko", "Debian's")
        (self.root / f"lib/modules/{KERNEL}/build").mkdir()
        self.write("patches/7.3/series", "fixes\n")
        self.patch = self.write("patches/7.3/fixes/0001-x.patch", PATCH)
        for name, text in SOURCE.items():
            self.write(f"linux-source-7.3/{name}", text)
        (self.root / "usr/src").mkdir(parents=True)
        self.pack()
        # make says what it was given; the modules are text, which strip would refuse.
        self.tool("make", 'echo "$@" >"$LOG/make"; for arg; do case $arg in M=*) '
                  'cp -r "${arg#M=}"/../../.. "$LOG/tree"; '
                  'for m in kvm kvm-amd kvm-intel; do echo $m >"${arg#M=}/$m.ko"; done;; '
                  'esac; done; [ ! -e "$LOG/broken" ]')
        self.tool("strip", 'cp "$4" "$3"')
        self.tool("depmod", 'echo "$@" >>"$LOG/depmod"')
        self.packages({HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.4-1"})

    def pack(self):
        """The tarball of Debian's source package."""
        subprocess.run(["tar", "-C", self.top, "-cJf",
                        self.root / "usr/src/linux-source-7.3.tar.xz",
                        "linux-source-7.3"], check=True)

    def write(self, name, data):
        """A file and its folders."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def tool(self, name, text):
        """A program instead of the machine's."""
        path = self.write(f"bin/{name}", f"#!/bin/bash\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def packages(self, versions, state="installed"):
        """What dpkg says is installed."""
        versions = {"make": "1", "patch": "1", "xz-utils": "1", **versions}
        self.write("root/var/lib/dpkg/status", "".join(
            f"Package: {name}\nStatus: install ok {state}\nVersion: {version}\n"
            "Architecture: amd64\nMaintainer: x\nDescription: x\n\n"
            for name, version in versions.items() if version))

    def run_it(self, *args, running=KERNEL, program=PROGRAM):
        """Status and both outputs together."""
        done = subprocess.run(
            [program, *args], check=False, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={
                **os.environ, "PATH": f"{self.top}/bin:{os.environ['PATH']}",
                "LOG": str(self.top), "KVM_STATS_MODULES_ROOT": str(self.root),
                "KVM_STATS_MODULES_RUNNING": running,
                # For DKMS they are beside it.
                **({"KVM_STATS_MODULES_PATCHES": str(self.top / "patches")}
                   if program == PROGRAM else {})})
        return done.returncode, done.stdout

    def refused(self, *args, **options):
        """The one line that says why not; nothing was written."""
        status, said = self.run_it(*args, **options)
        self.assertEqual(status, 2, said)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertFalse((self.top / "make").exists())
        self.assertFalse((self.root / f"lib/modules/{KERNEL}/updates").exists())
        return said

    def updates(self):
        """What is installed beside Debian's."""
        folder = self.root / f"lib/modules/{KERNEL}/updates/kvm-stats"
        return {path.name: path.read_text() for path in folder.glob("*")}

    def test_builds_installs_and_removes(self):
        """All three modules, of the patched source; Debian's file stays."""
        status, said = self.run_it("install")
        self.assertEqual(status, 0, said)
        self.assertIn("takes effect when KVM is loaded", said)
        self.assertEqual(self.updates(), {f"{name}.ko": f"{name}\n" for name in
                                          ("kvm", "kvm-amd", "kvm-intel")})
        self.assertEqual(self.debian.read_text(), "Debian's")
        tree = self.top / "tree"
        self.assertEqual((tree / "virt/kvm/kvm_main.c").read_text(), "after\n")
        self.assertIn("#define kvm_init kvm_init_stats\n",
                      (tree / "include/linux/kvm_host.h").read_text())
        self.assertFalse((tree / "mm").exists())
        self.assertIn(f"-C {self.root}/lib/modules/{KERNEL}/build ",
                      (self.top / "make").read_text())
        self.assertIn("installed: yes", self.run_it("status")[1])
        status, said = self.run_it("remove")
        self.assertEqual((status, self.updates()), (0, {}), said)
        self.assertFalse((self.root / f"lib/modules/{KERNEL}/updates").exists())
        self.assertEqual((self.top / "depmod").read_text(), f"-b {self.root} {KERNEL}\n" * 2)
        self.assertIn("nothing is installed", self.run_it("remove")[1])

    def test_each_kernel_has_its_series(self):
        """6.12 takes that of its own base, and its own source."""
        other = "6.12.117+deb13-amd64"
        (self.root / f"lib/modules/{other}/build").mkdir(parents=True)
        self.write("patches/6.12/series", "fixes\n")
        self.write("patches/6.12/fixes/0001-x.patch", PATCH.replace("+after", "+of 6.12"))
        subprocess.run(["cp", "-r", self.top / "linux-source-7.3",
                        self.top / "linux-source-6.12"], check=True)
        subprocess.run(["tar", "-C", self.top, "-cJf",
                        self.root / "usr/src/linux-source-6.12.tar.xz",
                        "linux-source-6.12"], check=True)
        self.packages({f"linux-headers-{other}": "6.12.117-1", "linux-source-6.12": "6.12.117-1"})
        status, said = self.run_it("build", other)
        self.assertEqual(status, 0, said)
        self.assertEqual((self.top / "tree/virt/kvm/kvm_main.c").read_text(), "of 6.12\n")

    def test_builds_once(self):
        """Again only when the kernel or a patch is another one."""
        self.run_it("build")
        (self.top / "make").unlink()
        self.assertIn("built already", self.run_it("build")[1])
        self.assertFalse((self.top / "make").exists())
        self.assertIn("built:     yes", self.run_it("status")[1])
        self.patch.write_text(PATCH.replace("+after", "+later"))
        self.assertIn("built:     of another version", self.run_it("status")[1])
        subprocess.run(["rm", "-rf", self.top / "tree"], check=True)
        self.assertEqual(self.run_it("build")[0], 0)
        self.assertTrue((self.top / "make").exists())

    def test_a_patch_that_does_not_apply(self):
        """Of another version of the source: the build fails and leaves nothing."""
        self.write("linux-source-7.3/virt/kvm/kvm_main.c", "something else\n")
        self.pack()
        status, said = self.run_it("install")
        self.assertEqual(status, 1)
        self.assertIn("building failed: ", said)
        self.assertIn("FAILED", said)
        self.left_nothing()

    def test_a_build_that_fails(self):
        """Neither does the compiler's failure, and what was installed stays."""
        self.run_it("install")
        before = self.updates()
        subprocess.run(["rm", "-rf", self.top / "tree"], check=True)
        self.write("broken", "")
        self.patch.write_text(PATCH.replace("+after", "+later"))
        self.assertEqual(self.run_it("install")[0], 1)
        self.assertEqual(self.updates(), before)
        self.assertEqual([path.name for path in
                          (self.root / "var/cache/kvm-stats-modules").glob("build.*")],
                         ["build.log"])

    def left_nothing(self):
        """Of a build, but for its log; and nothing is installed."""
        cache = self.root / "var/cache/kvm-stats-modules"
        self.assertEqual([path.name for path in cache.glob("*")], ["build.log"])
        self.assertEqual(self.updates(), {})

    def test_refuses_signed_only(self):
        """The kernel would not load them, and KVM would be gone."""
        self.write("root/sys/firmware/efi/efivars/SecureBoot-8be4", b"\6\0\0\0\1")
        self.assertIn("signed modules only", self.refused("install"))
        self.write("root/sys/firmware/efi/efivars/SecureBoot-8be4", b"\6\0\0\0\0")
        self.write("root/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        self.assertIn("signed modules only", self.refused("install"))
        self.write("root/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        self.assertEqual(self.run_it("install")[0], 0)

    def pre_build(self):
        """What DKMS calls in its copy of the folder that it was given."""
        folder = self.top / "dkms"
        if not folder.is_dir():
            folder.mkdir()
            for name in ("kvm-stats-modules", "dkms/dkms.conf", "dkms/pre-build"):
                subprocess.run(["cp", PROGRAM.parent / name, folder], check=True)
            subprocess.run(["cp", "-r", self.top / "patches", folder], check=True)
        return self.run_it(KERNEL, program=folder / "pre-build")

    def test_dkms_has_the_modules(self):
        """They lie where DKMS looks for them, all that its file names."""
        status, said = self.pre_build()
        self.assertEqual(status, 0, said)
        wanted = re.findall(r'BUILT_MODULE_NAME\[\d\]="(.*)"',
                            (PROGRAM.parent / "dkms/dkms.conf").read_text())
        self.assertEqual(sorted(wanted), ["kvm", "kvm-amd", "kvm-intel"])
        self.assertEqual({path.name for path in (self.top / "dkms").glob("*.ko")},
                         {f"{name}.ko" for name in wanted})
        self.assertEqual(self.updates(), {})

    def test_dkms_while_packages_are_configured(self):
        """The headers have it built in the middle of that; what was removed is not there."""
        versions = {HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.4-1"}
        self.packages(versions, "half-configured")
        self.assertEqual(self.pre_build(), (0, mock.ANY))
        self.packages(versions, "config-files")
        self.assertIn("missing: ", self.pre_build()[1])

    def test_dkms_skips_what_cannot_be_built(self):
        """Not 1 or 2: the update of the kernel would end with that."""
        self.write("broken", "")
        self.assertEqual(self.pre_build()[0], 77)
        (self.top / "broken").unlink()
        self.packages({HEADERS: "7.3.4-1"})
        status, said = self.pre_build()
        self.assertEqual(status, 77)
        self.assertIn("apt-get install linux-source-7.3", said)
        self.packages({HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.4-1"})
        self.write("root/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        status, said = self.pre_build()
        self.assertEqual(status, 77)
        self.assertIn("signed modules only", said)
        self.write("root/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        self.assertEqual(self.pre_build()[0], 0)
        (self.top / "dkms/kvm-stats-modules").unlink()
        self.assertEqual(self.pre_build()[0], 77)

    def test_refuses_without_packages(self):
        """And says what to type."""
        self.packages({"linux-source-7.3": "7.3.4-1", "patch": ""})
        self.assertEqual(self.refused("build"), "kvm-stats-modules: missing: apt-get install "
                                                f"{HEADERS} patch\n")

    def test_refuses_two_versions(self):
        """Source and headers have to be of one."""
        self.packages({HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.5-1"})
        self.assertIn("is 7.3.4-1, linux-source-7.3 is 7.3.5-1", self.refused("install"))

    def test_refuses_other_kernels(self):
        """Those it was not tried on, and those that are not there."""
        for kernel in ("7.3.4+deb13-cloud-amd64", "7.3.4+deb13-rt-amd64", "7.4.1+deb13-amd64",
                       "6.12.117+deb13-cloud-amd64", "7.3.4", "7.3.4+deb13-arm64"):
            (self.root / "lib/modules" / kernel).mkdir()
            self.assertIn(f"not tried on the kernel {kernel}", self.refused("build", kernel))
        self.assertIn("no kernel '9.9' is installed", self.refused("build", "9.9"))
        self.assertIn("no kernel", self.refused("build", ""))

    def test_refuses_other_words(self):
        """One line of usage."""
        for args in ((), ("load",), ("build", KERNEL, "more"), ("--help",), ("copy", KERNEL),
                     ("copy", KERNEL, "/no/such/folder")):
            self.assertIn("usage: kvm-stats-modules build|", self.refused(*args))

    def test_says_when_it_takes_effect(self):
        """It unloads nothing by itself."""
        (self.root / "sys/module/kvm").mkdir(parents=True)
        self.write("root/proc/kallsyms", "0 t kvm_init [kvm]\n")
        self.assertIn("when no VM runs", self.run_it("install")[1])
        self.assertIn("loaded:    Debian", self.run_it("status")[1])
        self.write("root/proc/kallsyms", "0 t kvm_init_stats [kvm]\n")
        self.assertIn("loaded:    series", self.run_it("status")[1])
        other = "6.12.117+deb13-amd64"
        self.assertIn(f"takes effect when {KERNEL} is booted",
                      self.run_it("install", KERNEL, running=other)[1])


if __name__ == "__main__":
    unittest.main()
