// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pods, containers and machines of cgroups: layouts of container runtimes and of libvirt, and what
 * users can create. Prints TAP.
 */
#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "identity.h"
#include "identity_reader.h"
#include "tap.h"

#define POD	"1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d"
#define POD_	"1a2b3c4d_5e6f_7a8b_9c0d_1e2f3a4b5c6d"
#define ID	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER	"ffff456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SLICES	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice"
#define TEN(c)		c c c c c c c c c c
#define MARK		"\342\200\246"	/* a text was cut off */
#define REPLACED	"\357\277\275"	/* a byte that is not UTF-8 */
#define USER	"/user.slice/user-1000.slice/user@1000.service"

static const struct layout {
	const char *path, *pod, *container, *machine;
} layouts[] = {
	/* cgroupfs: containerd, docker, CRI-O */
	{ "/kubepods/burstable/pod" POD "/" ID, POD, ID, "" },
	{ "/kubepods/besteffort/pod" POD "/" ID, POD, ID, "" },
	{ "/kubepods/pod" POD "/" ID, POD, ID, "" },
	{ "/kubepods/pod" POD "/crio-" ID, POD, ID, "" },
	{ "/kubepods/pod" POD "/crio-conmon-" ID, POD, "", "" },
	{ "/kubepods/burstable/pod" POD, POD, "", "" },
	/* a static pod */
	{ "/kubepods/burstable/pod09bc3d7ade839efec32b6bec4ec79d09/" ID, "", ID, "" },
	{ "/kubepods.slice/kubepods-pod09bc3d7ade839efec32b6bec4ec79d09.slice/crio-" ID ".scope", "",
	  ID, "" },
	/* systemd */
	{ SLICES "/cri-containerd-" ID ".scope", POD, ID, "" },
	{ SLICES "/docker-" ID ".scope", POD, ID, "" },
	{ SLICES "/crio-" ID ".scope", POD, ID, "" },
	{ SLICES "/crio-" ID ".scope/container", POD, ID, "" },
	{ SLICES "/crio-conmon-" ID ".scope", POD, "", "" },
	{ "/kubepods.slice/kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope", POD, ID, "" },
	/* kubelet with --cgroup-root, as in kind */
	{ "/kubelet/kubepods/burstable/pod" POD "/" ID, POD, ID, "" },
	{ "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
	  "kubelet-kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope", POD, ID, "" },
	/* containerd without SystemdCgroup */
	{ "/kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID, POD, ID, "" },
	{ "/system.slice/kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID, POD, ID, "" },
	{ "/system.slice/containerd.service/kubepods-pod" POD_ ".slice:cri-containerd:" ID, POD, ID,
	  "" },
	/* Kata */
	{ "/kubepods/besteffort/pod" POD "/kata_" ID, POD, ID, "" },
	{ SLICES "/kata_" ID, POD, ID, "" },
	{ SLICES "/kata_cri-containerd-" ID ".scope", POD, ID, "" },
	{ "/kata_kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID, POD, ID, "" },
	{ "/kata_overhead/" ID, "", ID, "" },
	{ "/kata_overhead/kubepods/burstable/pod" POD "/" ID, POD, ID, "" },
	{ "/kata_overhead/kubepods-pod" POD_ ".slice:cri-containerd:" ID, POD, ID, "" },
	{ "/default/kata_" ID, "", ID, "" },
	{ "/kata/" ID, "", ID, "" },
	/* read in a pod, which has a cgroup namespace */
	{ "/../../pod" POD "/" ID, POD, ID, "" },
	{ "/../../../besteffort/pod" POD "/kata_" ID, POD, ID, "" },
	{ "/../../kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope", POD, ID, "" },
	{ "/../../../kubepods-besteffort.slice/kubepods-besteffort-pod" POD_ ".slice/crio-" ID ".scope",
	  POD, ID, "" },
	{ "/../../../../machine.slice/machine-qemu\\x2d1\\x2ddemo.scope", "", "", "qemu-1-demo" },
	{ "/../cri-containerd-" ID ".scope", "", ID, "" },
	/* without Kubernetes */
	{ "/docker/" ID, "", ID, "" },
	{ "/system.slice/docker-" ID ".scope", "", ID, "" },
	{ "/system.slice/nerdctl-" ID ".scope", "", ID, "" },
	{ "/machine.slice/libpod-" ID ".scope/container", "", ID, "" },
	{ "/default/" ID, "", ID, "" },
	/* libvirt and Proxmox */
	{ "/machine.slice/machine-qemu\\x2d1\\x2ddemo.scope/libvirt/emulator", "", "", "qemu-1-demo" },
	{ "/machine.slice/machine-production.slice/machine-qemu\\x2d1\\x2ddemo.scope", "", "",
	  "qemu-1-demo" },
	{ "/machine/qemu-1-demo.libvirt-qemu/vcpu0", "", "", "qemu-1-demo" },
	{ "/machine/production.partition/qemu-1-demo.libvirt-qemu", "", "", "qemu-1-demo" },
	{ "/qemu.slice/100.scope", "", "", "100" },
	/* claims of users: in a session, in a service, in a container, in a VM's cgroup */
	{ USER SLICES "/cri-containerd-" ID ".scope", "", "", "" },
	{ USER "/kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope", "", "", "" },
	{ USER "/machine.slice/machine-qemu\\x2d1\\x2dproduction.scope", "", "", "" },
	{ USER "/app.slice/machine-qemu\\x2d1\\x2dproduction.scope", "", "", "" },
	{ USER "/qemu.slice/100.scope", "", "", "" },
	{ USER "/containerd.service/kubepods-pod" POD_ ".slice:cri-containerd:" ID, "", "", "" },
	{ USER "/user.slice/libpod-" ID ".scope", "", "", "" },
	{ "/user.slice/kubepods/pod" POD "/" ID, "", "", "" },
	{ "/user.slice/user-1000.slice/session-1.scope/docker/" ID, "", "", "" },
	{ "/system.slice/agent.service/kubepods/pod" POD "/" ID, "", "", "" },
	{ "/system.slice/agent.service/machine.slice/machine-a.scope", "", "", "" },
	{ "/system.slice/machine-a.scope", "", "", "" },
	{ "/machine-a.scope", "", "", "" },
	{ "/docker/" OTHER "/kubelet/kubepods/burstable/pod" POD "/" ID, "", OTHER, "" },
	{ "/docker/" OTHER SLICES "/cri-containerd-" ID ".scope", "", OTHER, "" },
	{ "/kubepods/pod00000000-5e6f-7a8b-9c0d-1e2f3a4b5c6d/" OTHER "/kubepods/pod" POD "/" ID,
	  "00000000-5e6f-7a8b-9c0d-1e2f3a4b5c6d", OTHER, "" },
	{ "/kubepods/pod00000000-5e6f-7a8b-9c0d-1e2f3a4b5c6d/pod" POD "/" ID,
	  "00000000-5e6f-7a8b-9c0d-1e2f3a4b5c6d", "", "" },
	{ "/machine.slice/machine-qemu\\x2d1\\x2ddemo.scope/machine-qemu\\x2d2\\x2dother.scope", "", "",
	  "qemu-1-demo" },
	{ "/machine.slice/machine-qemu\\x2d1\\x2ddemo.scope/kubepods/pod" POD "/" ID, "", "",
	  "qemu-1-demo" },
	{ "/lxc.payload.a/machine.slice/machine-b.scope", "", "", "" },
	{ "/../../../../user.slice/user-1000.slice/kubepods/pod" POD "/" ID, "", "", "" },
	{ "/../../kubepods-pod00000000_5e6f_7a8b_9c0d_1e2f3a4b5c6d.slice/cri-containerd-" OTHER
	  ".scope/kubepods-pod" POD_ ".slice/" ID, "00000000-5e6f-7a8b-9c0d-1e2f3a4b5c6d", OTHER, "" },
	/* not quite */
	{ "/kubepods/pod" POD "/" ID "0", POD, "", "" },
	{ "/kubepods/pod" POD "/x-" ID, POD, "", "" },
	{ "/notkubepods.slice/pod" POD, "", "", "" },
	{ "/kubepodsx.slice/kubepods-pod" POD_ ".slice", POD, "", "" },
	{ "/kubepods/podx" POD, "", "", "" },
	{ "/kubepods/podx/" ID, "", "", "" },
	{ "/kubepods/pod09bc3d7ade839efec32b6bec4ec79d0/" ID, "", "", "" },
	{ "/kubepods.slice/pod" POD "/" ID, POD, ID, "" },
	{ "/kubepodx.slice/pod" POD "/" ID, "", "", "" },
	{ "/kubepodsx.slice/pod" POD "/" ID, "", "", "" },
	{ "/kubepods-po.slice/pod" POD "/" ID, POD, ID, "" },
	{ "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg", "", "", "" },
	{ "/docker/g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "", "", "" },
	{ "/.slice/docker/" ID, "", "", "" },
	{ "/machine.slice/machine-a", "", "", "" },
	{ "/machine.slice/machine-a\\x2.scope", "", "", "a\\x2" },
	{ "/machine.slice/machine-a\\x2d.scope", "", "", "a-" },
	{ "/machine.slice/machine-\\x2da.scope", "", "", "-a" },
	{ "/machine.slice/machine-a\\y2da\\xyz.scope", "", "", "a\\y2da\\xyz" },
	{ "/machine.slice/machine-" TEN(TEN("abc")) ".scope", "", "", TEN("abcabcabcabc") "abca" MARK },
	{ "/qemu.slice/abcdefgh", "", "", "" },
	{ "/", "", "", "" },
};

static void write_file(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "%s", path);
	close(fd);
}

static int remove_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void read_identity(int proc, struct kvmstats_identity *identity)
{
	static struct proc_texts texts;

	if (!reader_read_one(proc, 42, &texts))
		errx(1, "the process cannot be read");
	identity_clear(identity);
	identity_from_proc(texts.comm, texts.cmdline, texts.size, texts.cgroups, 42, identity);
}

/* QEMU in Kata: only the vCPU threads are in the cgroup of the pod. */
static void test_threads(void)
{
	static const char *const dirs[] = { "42", "42/task", "42/task/42", "42/task/43" };
	char name[] = "/tmp/identity_test.XXXXXX";
	struct kvmstats_identity identity = { 0 };
	int dir = mkdtemp(name) ? open(name, O_RDONLY | O_DIRECTORY) : -1;
	size_t i;

	for (i = 0; i < 4; i++) {
		if (mkdirat(dir, dirs[i], 0700))
			err(1, "%s", dirs[i]);
	}
	write_file(dir, "42/comm", "qemu\n");
	write_file(dir, "42/cmdline", "");
	write_file(dir, "42/cgroup", "4:memory:/kata_overhead/" OTHER "\n1:name=systemd:/x\n");
	write_file(dir, "42/task/42/cgroup", "4:memory:/kata_overhead/" OTHER "\n");
	write_file(dir, "42/task/43/cgroup", "3:pids:/\n4:memory:/kubepods/pod" POD "/kata_" ID "\n");
	read_identity(dir, &identity);
	tap_result(!strcmp(identity.pod_uid, POD) && !strcmp(identity.container_id, ID) &&
		   !strcmp(identity_cgroup(&identity), "/kata_overhead/" OTHER),
		   "the pod of vCPU threads: %s, container %.6s", identity.pod_uid,
		   identity.container_id);
	write_file(dir, "42/cgroup", "4:memory:/system.slice/a.service/kata_overhead/" OTHER "\n");
	read_identity(dir, &identity);
	tap_result(!*identity.pod_uid && !*identity.container_id,
		   "cgroups of threads elsewhere prove nothing");
	write_file(dir, "42/cgroup", "4:memory:/kata_overhead/" OTHER "\n");
	unlinkat(dir, "42/task/43/cgroup", 0);
	read_identity(dir, &identity);
	tap_result(!*identity.pod_uid && !strcmp(identity.container_id, OTHER),
		   "without threads in a pod, the container is known: %.6s", identity.container_id);
	identity_clear(&identity);
	close(dir);
	nftw(name, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

/* If the first thread has exited, its files are as empty as those of a kernel thread. */
static void test_first_thread_exited(void)
{
	static const char *const dirs[] = { "42", "42/task", "42/task/42", "42/task/43" };
	char name[] = "/tmp/identity_test.XXXXXX";
	struct kvmstats_identity identity = { 0 };
	int dir = mkdtemp(name) ? open(name, O_RDONLY | O_DIRECTORY) : -1, fd;
	size_t i;

	for (i = 0; i < 4; i++) {
		if (mkdirat(dir, dirs[i], 0700))
			err(1, "%s", dirs[i]);
	}
	for (i = 0; i < 4; i += 2) {
		char path[64];

		snprintf(path, sizeof(path), "%s/statm", dirs[i]);
		write_file(dir, path, "0 0 0 0 0 0 0\n");
		snprintf(path, sizeof(path), "%s/cmdline", dirs[i]);
		write_file(dir, path, "");
		snprintf(path, sizeof(path), "%s/cgroup", dirs[i]);
		write_file(dir, path, "4:memory:/\n");
	}
	write_file(dir, "42/comm", "firecracker\n");
	write_file(dir, "42/task/43/statm", "9 8 7 6 0 5 0\n");
	write_file(dir, "42/task/43/cgroup", "4:memory:/firecracker/web\n");
	fd = openat(dir, "42/task/43/cmdline", O_WRONLY | O_CREAT, 0600);
	dprintf(fd, "firecracker%c--id%cweb%c", 0, 0, 0);
	close(fd);
	read_identity(dir, &identity);
	tap_result(!strcmp(identity.name, "web") && !strcmp(identity_cgroup(&identity), "/firecracker/web"),
		   "a VMM whose first thread has exited keeps its name %s and its cgroup %s", identity.name,
		   identity_cgroup(&identity));
	write_file(dir, "42/task/43/statm", "0 0 0 0 0 0 0\n");
	read_identity(dir, &identity);
	tap_result(!strcmp(identity.name, "firecracker"), "a process that exits has the name of its command");
	identity_clear(&identity);
	close(dir);
	nftw(name, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

#define ARGS(...)	(const char *const[]){ __VA_ARGS__, NULL }
#define UUID		"c7a5fdbd-edaf-9455-926a-d65c16db1809"

static const struct vmm {
	const char *comm, *const *args, *name, *vmm, *uuid;
} vmms[] = {
	{ "exe", ARGS("runsc-sandbox", "--root=/run/x", "--platform=kvm", "boot", "--bundle=/b", ID),
	  ID, "runsc" },
	{ "exe", ARGS("runsc-sandbox", "boot", "--io-fds=4"), "runsc-sandbox", "runsc" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/run/fc/db-3.sock"), "db-3", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/web-7/firecracker.socket"), "web-7",
	  "firecracker" },
	{ "firecracker", ARGS("firecracker", "--no-api", "--config-file", "/vms/web-8/vm.json"), "web-8",
	  "firecracker" },
	{ "firecracker", ARGS("firecracker", "--config-file=/vms/web-9.json", "--id", "web"), "web",
	  "firecracker" },
	/* the socket that all of them have by default */
	{ "firecracker", ARGS("firecracker", "--api-sock", "/run/firecracker.socket"), "firecracker",
	  "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "api.sock"), "firecracker", "firecracker" },
	{ "cloud-hyperviso", ARGS("cloud-hypervisor", "--api-socket", "path=/run/vm-1/api.sock"), "vm-1",
	  "cloud-hypervisor" },
	/* truncated commands, and commands that are not names */
	{ "containerd-shim", ARGS("/usr/bin/containerd-shim-kata-v2", "-id", ID),
	  "containerd-shim-kata-v2", "containerd-shim-kata-v2" },
	{ "5", ARGS("/usr/bin/krun", "x"), "krun", "krun" },
	{ "worker", ARGS("/usr/bin/vmm", "x"), "worker", "worker" },
	/* started under another name, as by microvm.nix, or from a script, as on NixOS */
	{ "cloud-hyperviso", ARGS("microvm@web", "--cpus", "boot=1", "--api-socket", "/run/web.sock"), "web",
	  "cloud-hypervisor" },
	{ "cloud-hyperviso", ARGS("microvm@web", "--cpus", "boot=1"), "microvm@web", "cloud-hypervisor" },
	{ "firecracker", ARGS("microvm@db", "--config-file", "/nix/store/db.json"), "db", "firecracker" },
	{ ".qemu-system-x8", ARGS("/nix/store/x/bin/.qemu-system-x86_64-wrapped", "-name", "mail"), "mail", "qemu" },
	{ ".qemu-system-x8", ARGS("microvm@mail", "-name", "mail"), "mail", "qemu" },
	{ "VBoxHeadless", ARGS("/usr/lib/virtualbox/VBoxHeadless", "--comment", "My VM", "--startvm", POD), "My VM",
	  "virtualbox", POD },
	{ "VirtualBoxVM", ARGS("/usr/lib/virtualbox/VirtualBoxVM", "--startvm", POD), "VirtualBoxVM", "virtualbox",
	  POD },
	{ "VBoxSDL", ARGS("VBoxSDL", "--comment=x"), "x", "virtualbox" },
	{ "qemu-system-x86", ARGS("/sdk/emulator/qemu/linux-x86_64/qemu-system-x86_64-headless", "-avd", "Pixel_6"),
	  "Pixel_6", "qemu" },
	{ "qemu-system-x86", ARGS("qemu-system-x86_64-headless", "@Pixel_7", "-no-window"), "Pixel_7", "qemu" },
	{ "qemu-system-x86", ARGS("qemu-system-x86_64", "-name", "ci", "-avd", "Pixel_8"), "ci", "qemu" },
	{ "stratovirt", ARGS("/usr/bin/stratovirt", "-machine", "microvm", "-name", "web,x=y"), "web", "stratovirt" },
	/* texts that have just enough space, and characters that are not UTF-8 */
	{ "firecracker", ARGS("firecracker", "--id", TEN(TEN("a")) TEN("b") TEN("c") "1234567"),
	  TEN(TEN("a")) TEN("b") TEN("c") "1234567", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--id", TEN(TEN("a")) TEN("b") TEN("c") "12345678"),
	  TEN(TEN("a")) TEN("b") TEN("c") "1234" MARK, "firecracker" },
	{ "firecracker", ARGS("firecracker", "--id", TEN(TEN("a")) TEN("b") TEN("c") "123\u00e456789"),
	  TEN(TEN("a")) TEN("b") TEN("c") "123" MARK, "firecracker" },
	{ "firecracker", ARGS("firecracker", "--id", TEN(TEN("a")) TEN("b") TEN("c") "12\u00e456789"),
	  TEN(TEN("a")) TEN("b") TEN("c") "12\u00e4" MARK, "firecracker" },
	{ "firecracker", ARGS("firecracker", "--id", TEN(TEN("a")) TEN("b") TEN("c") "1234\xff"),
	  TEN(TEN("a")) TEN("b") TEN("c") "1234" REPLACED, "firecracker" },
	{ "firecracker", ARGS("firecracker", "--id", TEN(TEN("a")) TEN("b") TEN("c") "12345\xff"),
	  TEN(TEN("a")) TEN("b") TEN("c") "1234" MARK, "firecracker" },
	{ "firecracker", ARGS("firecracker", "--id", "\xff\u00e4\xc3"), REPLACED "\u00e4" REPLACED, "firecracker" },
	/* names and UUIDs of QEMU */
	{ "qemu", ARGS("qemu", "-name", "demo,debug-threads=on"), "demo", "qemu" },
	{ "qemu", ARGS("qemu", "-name", "debug-threads=on,guest=a,,b,c=d"), "a,b", "qemu" },
	{ "qemu", ARGS("qemu", "-name", "guests=a,guest=b"), "b", "qemu" },
	{ "qemu", ARGS("qemu", "-name", "debug-threads=on"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-name", "guest=" TEN(TEN(TEN("a")))), TEN(TEN("a")) TEN("a") TEN("a") "aaaa" MARK, "qemu" },
	{ "kvm", ARGS("/usr/bin/kvm", "--name", "pve"), "pve", "qemu" },
	{ "qemu-kvm", ARGS("/usr/libexec/qemu-kvm", "-name"), "qemu-kvm", "qemu" },
	{ "qemu-kvm", ARGS("/usr/libexec/qemu-kvm", "name", "x", "-x", "-name", "y"), "y", "qemu" },
	{ "qemu-img", ARGS("qemu-img", "-name", "x"), "qemu-img", "qemu-img" },
	{ "qemu", ARGS("qemu", "-avd", "a", "-name", "b"), "b", "qemu" },
	{ "qemu", ARGS("qemu", "-name", "", "-avd", "a"), "a", "qemu" },
	{ "qemu", ARGS("qemu", "-name", "b", "@a"), "b", "qemu" },
	{ "qemu", ARGS("qemu", "-avd"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "C7A5FDBD-EDAF-9455-926A-D65C16DB1809"), "qemu", "qemu", UUID },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbd_edaf_9455_926a_d65c16db1809"), "qemu", "qemu", UUID },
	{ "qemu", ARGS("qemu", "-uuid", UUID "0"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbd-edaf-9455-926a-d65c16db180"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbdaedaf-9455-926a-d65c16db1809"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbd-edafa9455-926a-d65c16db1809"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbd-edaf-9455a926a-d65c16db1809"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbd-edaf-9455-926aad65c16db1809"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "g7a5fdbd-edaf-9455-926a-d65c16db1809"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-uuid", "c7a5fdbd-edaf-9455-926a-d65c16db180g"), "qemu", "qemu" },
	{ "qemu", ARGS("qemu", "-smbios", "type=1,uuid=" UUID), "qemu", "qemu", UUID },
	{ "qemu", ARGS("qemu", "-smbios", "type=1,uuid=" UUID ",x=y", "-uuid", POD), "qemu", "qemu", POD },
	{ "qemu", ARGS("qemu", "-uuid", POD, "-smbios", "type=1,uuid=" UUID), "qemu", "qemu", POD },
	{ "qemu", ARGS("qemu", "-smbios", "type=1", "-smbios"), "qemu", "qemu" },
	/* sockets and configurations, and directories that VMs share */
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/web.sock"), "web", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/web.socket"), "web", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/web.json"), "web", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/web-socket"), "web", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/web-api.sock"), "web", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/.sock"), ".sock", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/a/apis.sock"), "apis", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/a/ap.sock"), "ap", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms/a/ch.sock"), "a", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/a/vm-config/api.sock"), "vm-config", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "a/vm.sock"), "a", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/a/vm.sock"), "a", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vm.sock"), "firecracker", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/vms//vm.sock"), "firecracker", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/run/vm.sock"), "firecracker", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "run/vm.sock"), "firecracker", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/dev/shm/vm.sock"), "firecracker", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/a/runs/vm.sock"), "runs", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/a/ru/vm.sock"), "ru", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock", "/a/rum/vm.sock"), "rum", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock=/vms/a.sock", "--config-file", "/vms/b.json"), "a", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock=/run/api.sock", "--config-file", "/vms/b.json"), "b", "firecracker" },
	{ "firecracker", ARGS("firecracker", "--api-sock=/vms/a.sock", "--config-file", "/vms/b.json", "--id", "c"), "c",
	  "firecracker" },
	{ "firecracker", ARGS("firecracker", "--ids", "x", "--id"), "firecracker", "firecracker" },
	{ "exe", ARGS("runsc-sandbox", "boot", "a", "b"), "b", "runsc" },
	{ "exe", ARGS("runsc-sandbox", "a", "boots", "b"), "runsc-sandbox", "runsc" },
	{ "cloud-hyperviso", ARGS("cloud-hypervisor", "--api-socket=/vms/a.sock", "--platform=x=y,uuid=" UUID), "a",
	  "cloud-hypervisor", UUID },
	{ "cloud-hyperviso", ARGS("cloud-hypervisor", "--api-socket", "/vms/a.sock", "--api-socket", "fd=3", "--platform", "x=" UUID),
	  "a", "cloud-hypervisor" },
	{ "cloud-hyperviso", ARGS("cloud-hypervisor", "--api-socket", "fds"), "fds", "cloud-hypervisor" },
	/* paths of 511 and 512 characters: the second one is too long */
	{ "cloud-hyperviso", ARGS("cloud-hypervisor", "--api-socket", "path=" TEN(TEN("/dir/")) "01/web.sock"), "web", "cloud-hypervisor" },
	{ "cloud-hyperviso", ARGS("cloud-hypervisor", "--api-socket", "path=" TEN(TEN("/dir/")) "012/web.sock"), "web.soc",
	  "cloud-hypervisor" },
	{ "crosvm", ARGS("crosvm", "run", "--socket", "/vms/a.sock"), "a", "crosvm" },
	{ "crosvm", ARGS("crosvm", "run", "-s", "/vms/a.sock"), "a", "crosvm" },
	{ "crosvm", ARGS("crosvm", "run", "--name", "b", "-s", "/vms/a.sock"), "b", "crosvm" },
	{ "crosvm", ARGS("crosvm", "run", "--socket", "/vms/a.sock", "--name", "b"), "b", "crosvm" },
	{ "lkvm", ARGS("lkvm", "run", "--name", "a"), "a", "kvmtool" },
	{ "kvmtool", ARGS("kvmtool", "run", "-n", "a"), "a", "kvmtool" },
	{ "lkvm-static", ARGS("lkvm-static", "run"), "guest-7", "kvmtool" },
	{ "lkvmx", ARGS("lkvmx", "run"), "lkvmx", "lkvmx" },
	{ "lkvm", ARGS("lkvm@a", "run", "-n", "a"), "a", "kvmtool" },
	{ "kvmtool", ARGS("x"), "guest-7", "kvmtool" },
	{ "lkvm-static", ARGS("x"), "guest-7", "kvmtool" },
	{ "worker", ARGS("/nix/store/x/bin/.qemu-kvm", "-name", "a"), "a", "qemu" },
	{ "qemu", ARGS("/usr/bin/kvm"), "qemu", "qemu" },
	{ "qemu", ARGS("x", "-name", "a"), "a", "qemu" },
	{ "stratovirt", ARGS("x"), "x", "stratovirt" },
	{ "VBoxSDL", ARGS("x"), "x", "virtualbox" },
	{ "crosvm", ARGS("x"), "x", "crosvm" },
	{ ".x-wrapped", ARGS("/nix/store/x/bin/.x-wrapped"), ".x-wrapped", ".x-wrapped" },
	{ "5a", ARGS("/usr/bin/krun"), "5a", "5a" },
	{ "exes", ARGS("/usr/bin/krun"), "exes", "exes" },
	{ "long-command-na", ARGS("/usr/bin/long-command-names"), "long-command-names", "long-command-names" },
};

static void test_vmm(const struct vmm *vmm)
{
	struct kvmstats_identity identity;
	char cmdline[1024];
	size_t size = 0, i;
	bool read;

	for (i = 0; vmm->args[i]; i++)
		size += sprintf(cmdline + size, "%s", vmm->args[i]) + 1;
	read = identity_from_proc(vmm->comm, cmdline, size, "", 7, &identity);
	tap_result(read && !strcmp(identity.name, vmm->name) && !strcmp(identity.vmm, vmm->vmm) &&
		   !strcmp(identity.uuid, vmm->uuid ?: ""), "%s with %zu arguments, the last is %.80s: %s, VMM %s, UUID %s",
		   vmm->args[0], i, vmm->args[i - 1], identity.name, identity.vmm, identity.uuid);
}

/* The name of a VM of libvirt is in its cgroup, and on most command lines. */
static void test_domains(void)
{
	static const struct {
		const char *machine, *option, *name, *domain;
	} cases[] = {
		{ "qemu-1-my-vm", "-x", "my-vm", "my-vm" },
		{ "qemu-1-my-vm", "web", "web", "web" },
		{ "qemu-1", "-x", "qemu", "qemu" },
		{ "pve-1-vm", "-x", "qemu", "" },
		{ "pve-1-vm", "web", "web", "" },
	};
	struct kvmstats_identity identity;
	char line[128], cmdline[64];
	size_t i, size;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		sprintf(line, "0::/machine/%s.libvirt-qemu\n", cases[i].machine);
		size = sprintf(cmdline, "qemu%c-name%c%s%c", 0, 0, cases[i].option, 0);
		if (*cases[i].option == '-')
			size = sprintf(cmdline, "qemu%c%s%c", 0, cases[i].option, 0);
		identity_from_proc("qemu", cmdline, size, line, 7, &identity);
		tap_result(!strcmp(identity.name, cases[i].name) && !strcmp(identity.domain, cases[i].domain), "%s with %s: %s, domain %s",
			   cases[i].machine, cases[i].option, identity.name, identity.domain);
		identity_clear(&identity);
	}
}

/* A name may be in the rest of a command line that is too long. */
static void test_long_command_lines(void)
{
	static char cmdline[CMDLINE_MAX];
	struct kvmstats_identity identity;
	size_t size, len;

	for (size = CMDLINE_MAX - 2; size < CMDLINE_MAX; size++) {
		for (len = 124; len < 126; len++) {
			memset(cmdline, 0, sizeof(cmdline));
			memset(cmdline, 'a', len);
			identity_from_proc("aaa", cmdline, size, "", 7, &identity);
			tap_result(strlen(identity.name) == len + (size == CMDLINE_MAX - 1 && len == 124 ? strlen(MARK) : 0),
				   "a command line of %zu bytes and a program of %zu: %s", size, len, identity.name);
		}
	}
}

/* Processes without a command line or a PID, and VMMs that are known */
static void test_programs(void)
{
	static const char *const known[] = {
		"qemu", "firecracker", "cloud-hypervisor", "crosvm", "kvmtool", "runsc", "virtualbox", "stratovirt",
	};
	struct kvmstats_identity identity;
	size_t i;

	identity_from_proc("qemu", "", 0, "", 7, &identity);
	tap_result(!strcmp(identity.name, "qemu") && !strcmp(identity.vmm, "qemu"), "no command line: %s, VMM %s", identity.name,
		   identity.vmm);
	identity_from_proc("lkvm", "lkvm", 5, "", 0, &identity);
	tap_result(!strcmp(identity.name, "lkvm"), "kvmtool without a PID: %s", identity.name);
	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		strcpy(identity.vmm, known[i]);
		tap_result(identity_is_vmm(&identity), "%s is a VMM", identity.vmm);
	}
	strcpy(identity.vmm, "vim");
	tap_result(!identity_is_vmm(&identity), "%s is not", identity.vmm);
	identity_from_proc("vmm", "vmm", 4, "no path\n1:memory\n0::\xff\xff\n", 0, &identity);
	tap_result(!strcmp(identity_cgroup(&identity), REPLACED REPLACED), "a cgroup that is not UTF-8: %s", identity_cgroup(&identity));
	identity_clear(&identity);
	identity_from_proc("vmm", "vmm", 4, "4:memory:/docker/" ID "\n0::/\n", 0, &identity);
	tap_result(!strcmp(identity.container_id, ID), "the root of v2 does not count: %.6s", identity.container_id);
	identity_clear(&identity);
	identity_from_proc("vmm", "vmm", 4, "4:memory:/kata_overhead/" OTHER "\n3:cpu:/docker/" ID "\nno path\n", 0, &identity);
	tap_result(!strcmp(identity.container_id, OTHER), "without a pod, other hierarchies do not count: %.6s", identity.container_id);
	identity_clear(&identity);
	identity_from_proc("vmm", "vmm", 4, "0::/user.slice/a\n4:memory:/kubepods/pod" POD "/" ID "\n", 0, &identity);
	tap_result(!*identity.pod_uid, "nor without Kata's cgroup");
	identity_clear(&identity);
	identity_from_proc("vmm", "vmm", 4, "4:memoryx:/docker/" ID "\n", 0, &identity);
	tap_result(!*identity.container_id, "nor does another hierarchy of v1");
	identity_set_name(&identity, "a\xff");
	tap_result(!strcmp(identity.name, "a" REPLACED), "a name that is set: %s", identity.name);
	identity_clear(&identity);
}

/* Long texts are whole, or end with a character that shows that they are not. */
static void test_long(void)
{
	char name[] = "/tmp/identity_test.XXXXXX", path[4096 + 64], part[] = "/0123456789abcdef.slice";
	int dir = mkdtemp(name) ? open(name, O_RDONLY | O_DIRECTORY) : -1, fd;
	struct kvmstats_identity identity = { 0 };
	size_t len, i;

	if (mkdirat(dir, "42", 0700))
		err(1, "42");
	write_file(dir, "42/comm", "cloud-hyperviso\n");
	len = sprintf(path, "9:cpu:/x\n4:memory:");
	while (len + sizeof(part) < 4096)
		len += sprintf(path + len, "%s", part);
	strcpy(path + len, "\n");
	write_file(dir, "42/cgroup", path);
	path[len] = '\0';
	fd = openat(dir, "42/cmdline", O_WRONLY | O_CREAT, 0600);
	dprintf(fd, "cloud-hypervisor%c", 0);
	for (i = 0; i < 400; i++)
		dprintf(fd, "--disk%cpath=/var/lib/%0100zu%c", 0, i, 0);
	dprintf(fd, "--api-socket%c/run/ch/%0140d.sock%c", 0, 7, 0);
	read_identity(dir, &identity);
	tap_result(!strcmp(identity_cgroup(&identity), strchr(path, '\n') + strlen(" 4:memory:")),
		   "a cgroup of %zu characters is whole", strlen(identity_cgroup(&identity)));
	tap_result(strlen(identity.name) == 124 + 3 && !strncmp(identity.name, "0000", 4) &&
		   !strcmp(identity.name + 124, "\342\200\246"),
		   "a long name is cut off visibly: %s", identity.name);
	for (i = 0; i < 1000; i++)
		dprintf(fd, "--net%ctap=%0120zu%c", 0, i, 0);
	dprintf(fd, "--platform%cuuid=" POD "%c", 0, 0);
	read_identity(dir, &identity);
	tap_result(!strncmp(identity.name, "0000", 4), "the rest of a command line of 170 kB is ignored");
	if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
		err(1, "cmdline");
	dprintf(fd, "cloud-hypervisor%c", 0);
	for (i = 0; i < 1200; i++)
		dprintf(fd, "--net%ctap=%0120zu%c", 0, i, 0);
	dprintf(fd, "--api-socket%c/run/ch/late.sock%c", 0, 0);
	read_identity(dir, &identity);
	tap_result(!strcmp(identity.name, "cloud-hypervisor\342\200\246"),
		   "a name that may be in the rest is not invented: %s", identity.name);
	identity_clear(&identity);
	close(fd);
	close(dir);
	nftw(name, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

/* Copies of an identity share the path of its cgroup, of any length. */
static void test_copies(void)
{
	struct kvmstats_identity identity = { 0 }, copy = { 0 };
	char path[20000];

	memset(path, '/', sizeof(path));
	identity_copy(&copy, &identity);
	tap_result(!*identity_cgroup(&copy), "a VM without a cgroup has the path \"\"");
	identity_set_cgroup(&identity, path, sizeof(path));
	identity_copy(&copy, &identity);
	tap_result(identity_cgroup(&copy) == identity_cgroup(&identity), "copies share their path");
	identity_copy(&copy, &copy);
	identity_set_cgroup(&identity, "/a", 2);
	tap_result(strlen(identity_cgroup(&copy)) == sizeof(path) && !strcmp(identity_cgroup(&identity), "/a"),
		   "a copy keeps its path of %zu characters", strlen(identity_cgroup(&copy)));
	identity_clear(&identity);
	identity_clear(&identity);
	identity_copy(&identity, &copy);
	identity_clear(&copy);
	tap_result(strlen(identity_cgroup(&identity)) == sizeof(path), "a path exists while it has a user");
	identity_clear(&identity);
}

/* A VM is another one, or has moved, if any member of its identity differs. */
static void test_differences(void)
{
	struct kvmstats_identity identity = { .pid = 1 }, other = { 0 };

	identity_set_cgroup(&identity, "/a", 2);
	identity_copy(&other, &identity);
	tap_result(identity_equals(&identity, &other), "a copy of an identity equals it");
#define TEST_TEXT(text, size)							\
	strcpy(other.text, "x");						\
	tap_result(!identity_equals(&identity, &other), "another " #text);	\
	*other.text = '\0';
	IDENTITY_TEXTS(TEST_TEXT)
#define TEST_NUMBER(number)							\
	other.number++;								\
	tap_result(!identity_equals(&identity, &other), "another " #number);	\
	other.number--;
	TEST_NUMBER(pid)
	TEST_NUMBER(vm_id)
	TEST_NUMBER(started)
	tap_result(identity_equals(&identity, &other), "and it is the same again");
	identity_set_cgroup(&other, "/b", 2);
	tap_result(!identity_equals(&identity, &other), "another cgroup");
	identity_clear(&identity);
	identity_clear(&other);
}

int main(void)
{
	struct kvmstats_identity identity;
	const struct layout *l;
	char line[1024];
	size_t i;

	for (i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		l = &layouts[i];
		snprintf(line, sizeof(line), "5:cpu:/\n0::%s\n", l->path);
		identity_from_proc("vmm", "vmm", 4, line, 0, &identity);
		tap_result(!strcmp(identity.pod_uid, l->pod) && !strcmp(identity.machine, l->machine) &&
			   !strcmp(identity.container_id, l->container),
			   "%s: pod %s, container %.6s, machine %s", l->path, identity.pod_uid,
			   identity.container_id, identity.machine);
		identity_clear(&identity);
	}
	for (i = 0; i < sizeof(vmms) / sizeof(*vmms); i++)
		test_vmm(&vmms[i]);
	test_domains();
	test_long_command_lines();
	test_programs();
	test_threads();
	test_first_thread_exited();
	test_long();
	test_copies();
	test_differences();
	return tap_end();
}
