# SPDX-License-Identifier: GPL-2.0-only
"""Tests of modules/kvm-stats-modules on a fake host: a directory with its files."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools import TOP

PROGRAM = TOP / "modules/kvm-stats-modules"
KERNEL = "7.3.4+deb13-amd64"
HEADERS = f"linux-headers-{KERNEL}"
DIFF = """diff --git a/virt/kvm/kvm_main.c b/virt/kvm/kvm_main.c
--- a/virt/kvm/kvm_main.c
+++ b/virt/kvm/kvm_main.c
@@ -1 +1 @@
-before
+after
"""
SOURCE = {"virt/kvm/kvm_main.c": "before\n",
          "arch/x86/kvm/Makefile": "obj-m := kvm.o\n",
          "include/linux/kvm_host.h": "#ifndef __KVM_HOST_H\n#define __KVM_HOST_H\n#endif\n",
          "include/uapi/linux/kvm.h": "\n",
          "mm/slub.c": "not wanted\n"}


class Machine(unittest.TestCase):
    """A fake host whose packages, kernels and firmware are files."""

    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.root = self.top / "root"
        self.write("root/var/lib/dpkg/status", "")
        self.debian = self.write(f"root/lib/modules/{KERNEL}/kernel/kvm.ko", "Debian's")
        self.write(f"root/lib/modules/{KERNEL}/build/Makefile", "")
        self.patch = self.write("series/7.3.patch", DIFF)
        for name, text in SOURCE.items():
            self.write(f"linux-source-7.3/{name}", text)
        (self.root / "usr/src").mkdir(parents=True)
        self.pack()
        # make logs its arguments. The modules are text files, so strip is replaced by cp.
        self.add_tool("make", 'echo "$@" >"$LOG/make"; for arg; do case $arg in M=*) '
                  'cp -r "${arg#M=}"/../../.. "$LOG/tree"; '
                  'for m in kvm kvm-amd kvm-intel; do echo $m >"${arg#M=}/$m.ko"; done;; '
                  'esac; done; [ ! -e "$LOG/broken" ] || { cat "$LOG/broken"; exit 2; }')
        self.add_tool("strip", 'cp "$4" "$3"')
        self.add_tool("depmod", 'echo "$@" >>"$LOG/depmod"; [ ! -e "$LOG/no-depmod" ]')
        self.set_packages({HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.4-1"})

    def pack(self):
        """Create the tarball of Debian's source package."""
        subprocess.run(["tar", "-C", self.top, "-cJf",
                        self.root / "usr/src/linux-source-7.3.tar.xz",
                        "linux-source-7.3"], check=True)

    def write(self, name, data):
        """Write a file, create its directories, and return its path."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def add_tool(self, name, text):
        """Replace a program of the host by a script."""
        path = self.write(f"bin/{name}", f"#!/bin/bash\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def set_packages(self, versions, state="installed"):
        """Set the installed packages."""
        versions = {"make": "1", "patch": "1", "xz-utils": "1", **versions}
        self.write("root/var/lib/dpkg/status", "".join(
            f"Package: {name}\nStatus: install ok {state}\nVersion: {version}\n"
            "Architecture: amd64\nMaintainer: x\nDescription: x\n\n"
            for name, version in versions.items() if version))

    def run_program(self, *args, running=KERNEL, program=PROGRAM, series=None):
        """Return the exit status and the combined output."""
        done = subprocess.run(
            [program, *args], check=False, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={
                **os.environ, "PATH": f"{self.top}/bin:{os.environ['PATH']}",
                "LOG": str(self.top), "KVM_STATS_MODULES_ROOT": str(self.root),
                "KVM_STATS_MODULES_RUNNING": running,
                # Under DKMS, the edits are in the directory of the program.
                **({"KVM_STATS_MODULES_SERIES": str(series or self.top / "series")}
                   if program == PROGRAM else {})})
        return done.returncode, done.stdout

    def run_refused(self, *args, **options):
        """Return the error message, after checking that it is one line and nothing was written."""
        status, said = self.run_program(*args, **options)
        self.assertEqual(status, 2, said)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertFalse((self.top / "make").exists())
        self.assertFalse((self.root / f"lib/modules/{KERNEL}/updates").exists())
        return said

    def read_updates(self):
        """Return the installed modules, contents by name."""
        folder = self.root / f"lib/modules/{KERNEL}/updates/kvm-stats"
        return {path.name: path.read_text() for path in folder.glob("*")}

    def test_builds_installs_and_removes(self):
        """All three modules are built from patched source; Debian's file is unchanged."""
        status, said = self.run_program("install")
        self.assertEqual(status, 0, said)
        self.assertIn("takes effect when KVM is loaded", said)
        self.assertEqual(self.read_updates(), {f"{name}.ko": f"{name}\n" for name in
                                          ("kvm", "kvm-amd", "kvm-intel")})
        self.assertEqual(self.debian.read_text(), "Debian's")
        tree = self.top / "tree"
        self.assertEqual((tree / "virt/kvm/kvm_main.c").read_text(), "after\n")
        self.assertIn("-Dkvm_init=kvm_init_stats\n",
                      (tree / "arch/x86/kvm/Kbuild").read_text())
        self.assertFalse((tree / "mm").exists())
        self.assertIn(f"-C {self.root}/lib/modules/{KERNEL}/build ",
                      (self.top / "make").read_text())
        self.assertIn("installed: yes", self.run_program("status")[1])
        status, said = self.run_program("remove")
        self.assertEqual((status, self.read_updates()), (0, {}), said)
        self.assertFalse((self.root / f"lib/modules/{KERNEL}/updates").exists())
        self.assertEqual((self.top / "depmod").read_text(), f"-b {self.root} {KERNEL}\n" * 2)
        self.assertIn("no modules installed", self.run_program("remove")[1])

    def test_new_files_and_headers(self):
        """Files that the series introduce are created; headers that it edits are found before
        the kernel's, and no others are unpacked."""
        self.write("linux-source-7.3/include/linux/hrtimer.h", "before\n")
        self.write("linux-source-7.3/include/linux/mm.h", "not wanted\n")
        self.pack()
        self.patch.write_text(DIFF + DIFF.replace("virt/kvm/kvm_main.c", "include/linux/hrtimer.h")
                              + "diff --git a/arch/x86/kvm/new.c b/arch/x86/kvm/new.c\n"
                              "new file mode 100644\n--- /dev/null\n+++ b/arch/x86/kvm/new.c\n"
                              "@@ -0,0 +1 @@\n+new\n")
        status, said = self.run_program("build")
        self.assertEqual(status, 0, said)
        tree = self.top / "tree"
        self.assertEqual((tree / "arch/x86/kvm/new.c").read_text(), "new\n")
        self.assertEqual((tree / "include/linux/hrtimer.h").read_text(), "after\n")
        self.assertFalse((tree / "include/linux/mm.h").exists())
        kbuild = (tree / "arch/x86/kvm/Kbuild").read_text()
        for folder in ("include", "include/uapi", "arch/x86/include", "arch/x86/include/uapi"):
            self.assertIn(f"-I$(kvm-tree)/{folder} ", kbuild)

    def test_writes_the_edits_of_the_repository(self):
        """The edits of each base are written for a package, only those of the modules' files.
        Each file that they edit exists, or they introduce it."""
        folder = self.top / "package"
        folder.mkdir()
        self.assertEqual(self.run_program("edits", str(folder), series=self.top), (0, ""))
        self.assertEqual({path.name for path in folder.iterdir()}, {"7.3.patch", "6.12.patch"})
        for path in folder.iterdir():
            self.assertLessEqual({"virt/kvm/kvm_main.c", "include/linux/kvm_host.h"}, set(
                re.findall("^diff --git a/(\\S+) ", path.read_text(), re.M)))
            self.assertNotIn(" a/Documentation", path.read_text())
            # lab/checks/series applies the edits to the kernel.
            new = re.findall("^--- /dev/null\n\\+\\+\\+ b/(.*)$", path.read_text(), re.M)
            self.assertIn("arch/x86/kvm/pv_perf.c", new)
            self.assertEqual(len(re.findall("^diff --git .* b/arch/x86/kvm/pv_perf.c$",
                                            path.read_text(), re.M)), 1)

    def test_builds_once(self):
        """Modules are rebuilt only if the kernel or a patch has changed."""
        self.run_program("build")
        (self.top / "make").unlink()
        self.assertIn("already built", self.run_program("build")[1])
        self.assertFalse((self.top / "make").exists())
        self.assertIn("built:     yes", self.run_program("status")[1])
        self.patch.write_text(DIFF.replace("+after", "+later"))
        self.assertIn("built:     outdated", self.run_program("status")[1])
        subprocess.run(["rm", "-rf", self.top / "tree"], check=True)
        self.assertEqual(self.run_program("build")[0], 0)
        self.assertTrue((self.top / "make").exists())

    def test_half_built_modules(self):
        """Modules that an interrupted program left are not used."""
        self.run_program("build")
        for name in "kvm.ko", "kvm-amd.ko":
            (self.top / "make").unlink()
            shutil.rmtree(self.top / "tree")
            (self.root / f"var/cache/kvm-stats-modules/{KERNEL}" / name).unlink()
            self.assertIn("built:     outdated", self.run_program("status")[1])
            self.write("root/var/cache/kvm-stats-modules/build/source/x", "")
            status, said = self.run_program("install")
            self.assertEqual(status, 0, said)
            self.assertTrue((self.top / "make").exists())
            self.assertEqual(self.read_updates()[name], f"{Path(name).stem}\n")
            self.assertFalse((self.root / "var/cache/kvm-stats-modules/build").exists())

    def test_depmod_that_fails(self):
        """If the list of modules cannot be written, the modules from before stay installed."""
        self.write("no-depmod", "")
        for before in {}, {f"{name}.ko": f"{name}\n" for name in ("kvm", "kvm-amd", "kvm-intel")}:
            status, said = self.run_program("install")
            self.assertEqual(status, 1)
            self.assertIn("depmod failed, nothing was installed", said)
            self.assertEqual(self.read_updates(), before)
            self.assertEqual([path.name for path in (self.root / "lib/modules").iterdir()],
                             [KERNEL])
            (self.top / "no-depmod").unlink()
            self.assertEqual(self.run_program("install")[0], 0)
            self.write("no-depmod", "")

    def test_broken_headers(self):
        """Headers without a Makefile are refused with the command that restores them."""
        (self.root / f"lib/modules/{KERNEL}/build/Makefile").unlink()
        self.assertIn(f"/build/Makefile: apt-get install --reinstall {HEADERS}\n",
                      self.run_refused("install"))

    def test_patch_that_does_not_apply(self):
        """The build fails and leaves no files if a patch does not apply; the reason is printed."""
        for name, text, why in (
                ("virt/kvm/kvm_main.c", "something else\n",
                 " while patching Linux 7.3.4: 1 out of 1 hunk FAILED -- saving rejects to file "
                 "virt/kvm/kvm_main.c.rej"),
                ("virt/kvm/kvm_main.c", None,
                 f": {self.root}/usr/src/linux-source-7.3.tar.xz has no virt/kvm/kvm_main.c"),
                ("arch/x86/kvm/Makefile", None, " while unpacking ")):
            source = self.top / "linux-source-7.3" / name
            before = source.read_bytes()
            if text:
                source.write_text(text)
            elif "arch" in name:
                shutil.rmtree(source.parent)
            else:
                source.unlink()
            self.pack()
            status, said = self.run_program("install")
            self.assertEqual(status, 1)
            self.assertIn(f"kvm-stats-modules: build failed{why}", said)
            self.assertEqual(len(said.splitlines()), 2, said)
            self.check_nothing_left()
            source.parent.mkdir(exist_ok=True)
            source.write_bytes(before)

    def test_reason_of_the_compiler(self):
        """The first error is printed, and the cause of an error that make reports."""
        for said, why in (
                ("  CC x.o\nx.c:1:2: error: no\nmake[1]: *** [a] Error 1\n", "x.c:1:2: error: no"),
                ("ld: x: No space left on device\nmake: *** [a] Error 1\n",
                 "ld: x: No space left on device"),
                ("  BTF [M] kvm.ko\npahole: kvm.ko: Invalid argument\nmake[1]: *** [a] Error 1\n"
                 "make: *** [b] Error 2\n", "pahole: kvm.ko: Invalid argument"),
                ("busy\nlast line\n", "last line")):
            self.write("broken", said)
            self.assertIn(f"build failed while compiling: {why} (log: ",
                          self.run_program("build")[1])
            shutil.rmtree(self.top / "tree")

    def test_full_disk(self):
        """A full disk is the reason that is printed, and nothing is installed."""
        self.run_program("install")
        before = self.read_updates()
        self.patch.write_text(DIFF.replace("+after", "+later"))
        shutil.rmtree(self.top / "tree")
        self.add_tool("cp", 'echo "cp: error writing \'$2\': No space left on device" >&2; exit 1')
        status, said = self.run_program("install")
        self.assertEqual(status, 1)
        self.assertIn("while stripping kvm.ko: cp: error writing", said)
        self.assertIn("No space left on device (log: ", said)
        self.assertEqual(self.read_updates(), before)
        (self.top / "bin/cp").unlink()

    def test_build_that_fails(self):
        """A failing compiler leaves no files and keeps the installed modules."""
        self.run_program("install")
        before = self.read_updates()
        subprocess.run(["rm", "-rf", self.top / "tree"], check=True)
        self.write("broken", "")
        self.patch.write_text(DIFF.replace("+after", "+later"))
        self.assertEqual(self.run_program("install")[0], 1)
        self.assertEqual(self.read_updates(), before)
        self.assertEqual([path.name for path in
                          (self.root / "var/cache/kvm-stats-modules").glob("build*")],
                         ["build.log"])

    def check_nothing_left(self):
        """Check that a build left only its log and installed nothing."""
        cache = self.root / "var/cache/kvm-stats-modules"
        self.assertEqual(sorted(path.name for path in cache.glob("*")), ["build.log", "lock"])
        self.assertEqual(self.read_updates(), {})

    def require_signatures(self):
        """Return the ways in which a host accepts only signed modules, one after the other."""
        secure_boot = "root/sys/firmware/efi/efivars/SecureBoot-8be4"
        for name, yes, no in (
                (secure_boot, b"\6\0\0\0\1", b"\6\0\0\0\0"),
                ("root/sys/kernel/security/lockdown", "none [integrity] confidentiality\n",
                 "[none] integrity confidentiality\n"),
                ("root/sys/module/module/parameters/sig_enforce", "Y\n", "N\n")):
            self.write(name, yes)
            yield name
            self.write(name, no)

    def test_refuses_hosts_with_signed_modules(self):
        """Without a key, nothing is installed if the host accepts only signed modules."""
        for _ in self.require_signatures():
            self.assertEqual(self.run_refused("install"), (
                "kvm-stats-modules: host accepts only signed modules, and DKMS has no key: dkms "
                f"generate_mok && mokutil --import {self.root}/var/lib/dkms/mok.pub, then reboot\n"))
        self.assertEqual(self.run_program("install")[0], 0)
        self.assertEqual(self.read_updates()["kvm.ko"], "kvm\n")

    def create_key(self, name):
        """Create NAME.key and the certificate NAME.pub; return the certificate's identifier."""
        path = self.write(f"{name}.key", "").with_suffix("")
        subprocess.run(["openssl", "req", "-new", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{path}.key", "-out", f"{path}.pub", "-outform", "DER",
                        "-subj", f"/CN=Owner of {path.name}", "-days", "2"],
                       check=True, capture_output=True)
        shown = subprocess.run(["openssl", "x509", "-in", f"{path}.pub", "-noout", "-ext",
                                "subjectKeyIdentifier"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
        return re.sub("[ :]", "", shown.splitlines()[1]).lower()

    def enroll(self, *identifiers):
        """Enroll certificates: the kernel lists them with other keys."""
        self.write("root/proc/keys", "".join(
            f"0b1d2c3e I------     1 perm 1f030000     0     0 asymmetri {number}: {identifier}: "
            f"X509.rsa {identifier[-8:]} []\n" for number, identifier in
            enumerate(("ab" * 20, *identifiers))) +
            "1d0e6f21 I--Q---    11 perm 1f3f0000     0 65534 keyring   _uid.0: empty\n")

    def prepare_signing(self):
        """Provide the kernel's program that signs: it appends its arguments."""
        build = f"root/lib/modules/{KERNEL}/build"
        self.write(f"{build}/.config", 'CONFIG_MODULE_SIG_HASH="sha256"\n')
        sign = self.write(f"{build}/scripts/sign-file",
                          '#!/bin/bash\n[ ! -e "$LOG/unfit" ] && echo "$1 $2 $3" >>"$4"\n')
        sign.chmod(0o755)

    def test_signs_with_an_enrolled_key(self):
        """Modules are signed with DKMS's key if the kernel trusts it, also without Secure Boot."""
        self.prepare_signing()
        own = self.create_key("root/var/lib/dkms/mok")
        dkms = self.root / "var/lib/dkms"
        self.enroll()
        for _ in self.require_signatures():
            self.assertEqual(self.run_refused("install"), (
                f"kvm-stats-modules: certificate '{dkms}/mok.pub': not enrolled: "
                f"mokutil --import {dkms}/mok.pub && reboot\n"))
        self.assertEqual(self.run_program("install")[0], 0)
        self.assertEqual(self.read_updates()["kvm.ko"], "kvm\n")
        self.enroll(own)
        self.assertEqual(self.run_program("install")[0], 0)
        for _ in self.require_signatures():
            self.assertEqual(self.run_program("install")[0], 0)
            self.assertEqual(self.read_updates(), {
                f"{name}.ko": f"{name}\nsha256 {dkms}/mok.key {dkms}/mok.pub\n"
                for name in ("kvm", "kvm-amd", "kvm-intel")})
            # DKMS signs its copy itself.
            self.assertEqual(self.run_pre_build()[0], 0)
            self.assertEqual((self.top / "dkms/kvm.ko").read_text(), "kvm\n")

    def test_signs_with_a_chosen_key(self):
        """--key and --cert name another key, which has to be enrolled."""
        self.prepare_signing()
        own = self.create_key("own")
        self.create_key("other")
        self.write("not-a-certificate", "x")
        self.enroll(own)
        key, cert = f"{self.top}/own.key", f"{self.top}/own.pub"
        for arguments, said in (
                ((key, f"{self.top}/other.pub"), "other.pub': not enrolled: mokutil --import "),
                ((key, f"{self.top}/missing"), f"key '{key}': no certificate '"),
                ((key, f"{self.top}/not-a-certificate"), "not-a-certificate': invalid\n"),
                ((f"{self.top}/missing", cert), "missing': cannot be read\n")):
            self.assertIn(said, self.run_refused("install", "--key", arguments[0],
                                                 "--cert", arguments[1]))
        for arguments in (("install", "--key", key), ("install", "--cert", cert),
                          ("build", "--key", key, "--cert", cert),
                          ("install", "--key", key, "--cert", cert, KERNEL, "more")):
            self.assertIn("usage: ", self.run_refused(*arguments))
        status, said = self.run_program("install", "--key", key, "--cert", cert, KERNEL)
        self.assertEqual(status, 0, said)
        self.assertEqual(self.read_updates()["kvm.ko"], f"kvm\nsha256 {key} {cert}\n")
        before = self.read_updates()
        self.write("unfit", "")
        status, said = self.run_program("install", "--key", key, "--cert", cert)
        self.assertEqual((status, said.count("\n")), (1, 2), said)
        self.assertIn(f"cannot sign with '{key}' and '{cert}' (log: ", said)
        self.assertEqual(self.read_updates(), before)
        self.assertEqual([path.name for path in (
            self.root / f"lib/modules/{KERNEL}/updates").iterdir()], ["kvm-stats"])

    def run_pre_build(self):
        """Run pre-build in a copy of the source directory, as DKMS does."""
        folder = self.top / "dkms"
        if not folder.is_dir():
            folder.mkdir()
            for name in ("kvm-stats-modules", "dkms/dkms.conf", "dkms/pre-build"):
                subprocess.run(["cp", PROGRAM.parent / name, folder], check=True)
            shutil.copy(self.patch, folder)
        return self.run_program(KERNEL, program=folder / "pre-build")

    def test_dkms_finds_the_modules(self):
        """pre-build creates all modules named in dkms.conf where DKMS expects them."""
        status, said = self.run_pre_build()
        self.assertEqual(status, 0, said)
        wanted = re.findall(r'BUILT_MODULE_NAME\[\d\]="(.*)"',
                            (PROGRAM.parent / "dkms/dkms.conf").read_text())
        self.assertEqual(sorted(wanted), ["kvm", "kvm-amd", "kvm-intel"])
        self.assertEqual({path.name for path in (self.top / "dkms").glob("*.ko")},
                         {f"{name}.ko" for name in wanted})
        self.assertEqual(self.read_updates(), {})

    def test_dkms_while_packages_are_configured(self):
        """pre-build accepts half-configured packages, but not removed ones."""
        versions = {HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.4-1"}
        self.set_packages(versions, "half-configured")
        self.assertEqual(self.run_pre_build(), (0, mock.ANY))
        self.set_packages(versions, "config-files")
        self.assertIn("missing: ", self.run_pre_build()[1])

    def test_dkms_fails_if_the_build_fails(self):
        """pre-build fails with another status than 77, with which DKMS skips the kernel."""
        self.write("broken", "x.c:1: error: y\n")
        status, said = self.run_pre_build()
        self.assertEqual(status, 1)
        self.assertIn("x.c:1: error: y", said)
        (self.top / "broken").unlink()
        (self.top / "dkms/kvm-stats-modules").unlink()
        self.assertEqual(self.run_pre_build()[0], 127)

    def test_dkms_skips_refused_kernels(self):
        """pre-build returns 77 for kernels and hosts that the program refuses, so that the kernel
        update continues."""
        self.set_packages({HEADERS: "7.3.4-1"})
        status, said = self.run_pre_build()
        self.assertEqual(status, 77)
        self.assertIn("apt-get install linux-source-7.3", said)
        self.set_packages({HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.4-1"})
        self.write("root/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        status, said = self.run_pre_build()
        self.assertEqual(status, 77)
        self.assertIn("only signed modules", said)
        self.write("root/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        self.assertEqual(self.run_pre_build()[0], 0)

    def test_refuses_without_packages(self):
        """The error message contains the command that installs missing packages: also python3,
        if the program is in the repository, which has patches instead of edits."""
        self.assertEqual(self.run_refused("build", series=self.top),
                         "kvm-stats-modules: missing: apt-get install python3\n")
        self.set_packages({"linux-source-7.3": "7.3.4-1", "patch": ""})
        self.assertEqual(self.run_refused("build"), "kvm-stats-modules: missing: apt-get install "
                                                f"{HEADERS} patch\n")

    def test_refuses_two_versions(self):
        """Source and headers of different versions are rejected."""
        self.set_packages({HEADERS: "7.3.4-1", "linux-source-7.3": "7.3.5-1"})
        self.assertIn("is 7.3.4-1, linux-source-7.3 is 7.3.5-1", self.run_refused("install"))

    def test_refuses_other_kernels(self):
        """Kernels that are not supported or not installed are rejected."""
        for kernel in ("7.3.4+deb13-cloud-amd64", "7.3.4+deb13-rt-amd64", "7.4.1+deb13-amd64",
                       "6.12.117+deb13-cloud-amd64", "7.3.4", "7.3.4+deb13-arm64"):
            (self.root / "lib/modules" / kernel).mkdir()
            self.assertIn(f"kernel '{kernel}': not supported", self.run_refused("build", kernel))
        self.assertIn("kernel '9.9': not installed", self.run_refused("build", "9.9"))
        self.assertIn("kernel '': not installed", self.run_refused("build", ""))

    def test_refuses_invalid_arguments(self):
        """Invalid arguments print one line of usage."""
        for args in ((), ("load",), ("build", KERNEL, "more"), ("--help",), ("copy", KERNEL),
                     ("copy", KERNEL, "/no/such/folder")):
            self.assertIn("usage: kvm-stats-modules build|", self.run_refused(*args))

    def test_reports_when_it_takes_effect(self):
        """The program never unloads modules; it reports when the new ones are used."""
        (self.root / "sys/module/kvm").mkdir(parents=True)
        self.write("root/proc/kallsyms", "0 t kvm_init [kvm]\n")
        self.assertIn("while no VM runs", self.run_program("install")[1])
        self.assertIn("loaded:    Debian", self.run_program("status")[1])
        self.write("root/proc/kallsyms", "0 t kvm_init_stats [kvm]\n")
        self.assertIn("loaded:    series", self.run_program("status")[1])
        other = "6.12.117+deb13-amd64"
        self.assertIn(f"takes effect when {KERNEL} is booted",
                      self.run_program("install", KERNEL, running=other)[1])
