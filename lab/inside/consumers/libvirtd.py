# SPDX-License-Identifier: GPL-2.0-only
"""libvirt's daemon in the test machine, and its client."""

import contextlib
import subprocess
from pathlib import Path

import consumer

# The test machine has no user except root, and no virtlogd.
FILES = {
    "/etc/passwd": "root:x:0:0::/:\nlibvirt-qemu:x:64055:64055::/:\n",
    "/etc/group": "root:x:0:\nkvm:x:104:\nlibvirt-qemu:x:64055:\n",
    "/etc/libvirt/libvirtd.conf": 'auth_unix_rw = "none"\n',
    "/etc/libvirt/qemu.conf": """\
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
seccomp_sandbox = 0
stdio_handler = "file"
"""}
SOCKET = Path("/run/libvirt/libvirt-sock")


def virsh(*command, limit=120):
    """Run virsh with a time limit in seconds; return its output."""
    done = consumer.run(["virsh", "-q", *command], limit)
    if done.returncode:
        raise RuntimeError(f"virsh {command[0]}: {done.stderr.strip()}")
    return done.stdout


def read_pid(domain):
    """Return the PID of a domain's QEMU."""
    return int(Path(f"/run/libvirt/qemu/{domain}.pid").read_text())


@contextlib.contextmanager
def run_daemon():
    """Start the daemon, yield its process once it replies, and kill it at the end."""
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    SOCKET.unlink(missing_ok=True)
    with subprocess.Popen("libvirtd") as libvirtd:
        try:
            consumer.wait_for("libvirtd's socket", SOCKET.exists)
            for line in virsh("version").splitlines():
                print("#", line)
            yield libvirtd
        finally:
            libvirtd.kill()
