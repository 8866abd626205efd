# SPDX-License-Identifier: GPL-2.0-only
"""The rules and the dashboard, with promtool and a real Prometheus."""

import http.server
import json
import re
import shutil
import subprocess
import threading

from serving import DATA, RULES, Case, Serve, wait_for


class Rules(Case):
    """promtool, for the rules."""

    def promtool(self, *arguments, folder=RULES):
        """Return status and output of promtool."""
        done = subprocess.run(["promtool", *arguments], cwd=folder, text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr


class Promtool(Rules):
    """The rules are valid, and their tests pass."""

    def test_rules_are_rules(self):
        """promtool accepts the rules."""
        status, said = self.promtool("check", "rules", "kvm-stats.rules.yml")
        self.assertEqual(status, 0, said)

    def test_alerts(self):
        """The tests of the rules pass; each alert has one that fires and one that does not."""
        status, said = self.promtool("test", "rules", "kvm-stats.test.yml")
        self.assertEqual(status, 0, said)
        alerts = set(re.findall(r"- alert: (\w+)", (RULES / "kvm-stats.rules.yml").read_text()))
        tests = (RULES / "kvm-stats.test.yml").read_text().split("  - name: ")[1:]
        for alert in alerts:
            mine = [test for test in tests if f"alertname: {alert}\n" in test]
            self.assertTrue(any("exp_labels:" in test for test in mine), alert)
            self.assertTrue(any("exp_alerts: []" in test for test in mine), alert)

    def test_dead_mans_switch(self):
        """The alerts for missing hosts fire when one or all are not scraped, and for restarts."""
        page = (RULES / "alerts.md").read_text()
        alerts, = re.findall(r"(?s)```yaml\n(.*?)```", page)
        (self.folder / "own.yml").write_text("groups:\n- name: own\n  rules:\n" +
                                             re.sub("(?m)^", "  ", alerts))
        # Values of each minute. At 25 h, b has ended, a has restarted twice, and c three times.
        series = {"a": "1+0x1490 2+0x4 3+0x65", "b": "1+0x300", "c": "1+0x1485 2+0x4 3+0x4 4+0x60"}
        for name, minute, wanted in (
                ("KvmStatsMissing", 1500, []), ("KvmStatsMissing", 1600, [{"job": "kvm"}]),
                ("KvmStatsHostsMissing", 1500, [{}]),
                ("KvmStatsRestarts", 1500, [{"instance": "c", "job": "kvm"}])):
            (self.folder / "test.yml").write_text(json.dumps({
                "rule_files": ["own.yml"], "evaluation_interval": "1m",
                "tests": [{"interval": "1m", "input_series": [
                    {"series": f'process_start_time_seconds{{job="kvm", instance="{instance}"}}',
                     "values": values} for instance, values in series.items()],
                    "alert_rule_test": [
                        {"eval_time": "10m", "alertname": name, "exp_alerts": []},
                        {"eval_time": f"{minute}m", "alertname": name,
                         "exp_alerts": [{"exp_labels": labels} for labels in wanted]}]}]}))
            status, said = self.promtool("test", "rules", "test.yml", folder=self.folder)
            self.assertEqual(status, 0, said)

    def test_alerts_that_never_or_always_fire_are_detected(self):
        """An alert that never fires, or always does, fails the tests of the rules."""
        rules = (RULES / "kvm-stats.rules.yml").read_text()
        for broken in ("vector(0) > 1", "vector(1)"):
            folder = self.folder / broken.replace(" ", "")
            shutil.copytree(RULES, folder)
            changed = re.sub(r"(- alert: (\w+)\n(?: +#.*\n)? +expr: )(?:>-\n(?: {10}.*\n)+|.*\n)",
                             lambda found: f"{found.group(1)}{broken}\n", rules)
            (folder / "kvm-stats.rules.yml").write_text(changed)
            _, said = self.promtool("test", "rules", "kvm-stats.test.yml", folder=folder)
            failed = set(re.findall(r"alertname: ?(\w+)", said))
            self.assertEqual(failed, set(re.findall(r"- alert: (\w+)", rules)), said)


class Readme(Rules):
    """Configurations of Prometheus and PCP."""

    def test_commands_add_rules_and_target(self):
        """Debian's file stays valid, and has the rules and the target besides its own."""
        page = (RULES.parent / "README.md").read_text()
        commands, = re.findall(r"^    sed -i (?:.*\\\n)*.*\n    promtool check config [^&]*", page, re.M)
        config = self.folder / "prometheus.yml"
        shutil.copy("/etc/prometheus/prometheus.yml", config)
        jobs = set(re.findall(r"- job_name: (.*)", config.read_text()))
        commands = commands.replace("/etc/prometheus/prometheus.yml", str(config))
        done = subprocess.run(["sh", "-euc", commands.replace("/usr/share/kvm-stats", str(RULES))],
                              text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 rule files found", done.stdout)
        self.assertEqual(set(re.findall(r"- job_name: (.*)", config.read_text())), jobs | {"kvm"})
        status, said = self.promtool("check", "service-discovery", "--timeout=1s", str(config), "kvm")
        self.assertEqual(status, 0, said)
        self.assertIn('"__address__": "localhost:10847"', said)

    def test_address_for_pcp(self):
        """The file for PCP has the default address of serve in its first line."""
        source = (RULES.parent / "src/serve/sockets.c").read_text()
        address, = re.findall(r'#define DEFAULT_LISTEN\s+"127\.0\.0\.1(:\d+)"', source)
        self.assertEqual((RULES / "kvm_stats.url").read_text().splitlines()[0],
                         f"http://localhost{address}/metrics")


class Thresholds(Rules):
    """Alerts have the thresholds in src/thresholds.h."""

    # alert: [smaller, larger] than the threshold
    CHANGES = {"KvmVmStarved": (0.06, 0.2), "KvmVmThrottled": (0.05, 0.2),
               "KvmVmStuck": (0.5, 0.999), "KvmVmStalled": (0.1, 0.3),
               "KvmHaltPollingWasted": (0.05, 0.3),
               "KvmExitStorm": (20000, 90000), "KvmStatsStale": (5, 30)}

    def table(self):
        """Return {alert: threshold} of the table."""
        rows = re.findall(r"^\t\w+\s*= (\d+),\s*/\* (\w+), (\w+):",
                          (RULES.parent / "src/thresholds.h").read_text(), re.M)
        return {alert: int(value) / (1000 if unit == "permille" else 1)
                for value, unit, alert in rows}

    @staticmethod
    def thresholds(rules):
        """Return {alert: threshold} of the rules, without those that are 0."""
        found = {}
        for alert in re.split(r"\n +- alert: ", rules)[1:]:
            expr = alert[alert.index("expr:"):re.search(r"\n {8}(?:for|labels):", alert).start()]
            values = {float(value) for value in re.findall(r" > ([0-9.]+)", expr)} - {0}
            if values:
                found[alert.split()[0]], = values
        return found

    def test_rules_have_the_thresholds_of_the_table(self):
        """Each threshold of an alert is a row of the table."""
        rules = (RULES / "kvm-stats.rules.yml").read_text()
        self.assertEqual(self.thresholds(rules), self.table())
        self.assertEqual(set(self.table()), set(self.CHANGES))

    def test_each_change_of_a_threshold_is_detected(self):
        """Other thresholds differ from the table, and fail the tests of the rules."""
        rules = (RULES / "kvm-stats.rules.yml").read_text()
        for alert, values in self.CHANGES.items():
            begin = rules.index(f"- alert: {alert}\n")
            for value in values:
                with self.subTest(alert, value=value):
                    changed = rules[:begin] + re.sub(r" > [0-9.]+", f" > {value}",
                                                     rules[begin:], count=1)
                    self.assertNotEqual(self.thresholds(changed), self.table())
                    folder = self.folder / f"{alert}-{value}"
                    shutil.copytree(RULES, folder)
                    (folder / "kvm-stats.rules.yml").write_text(changed)
                    _, said = self.promtool("test", "rules", "kvm-stats.test.yml", folder=folder)
                    self.assertIn(f"alertname: {alert},", said)

    def test_runbook(self):
        """Each alert links to its own section of the runbook."""
        rules = (RULES / "kvm-stats.rules.yml").read_text()
        links = dict(re.findall(r"- alert: (\w+)\n(?:(?! +- alert).*\n)+? +runbook_url: \S+#(\w+)",
                                rules))
        sections = re.findall(r"^## (\w+)$", (RULES / "alerts.md").read_text(), re.M)
        self.assertEqual(list(links), sections)
        self.assertEqual({name: name.lower() for name in sections}, links)


class Alerts(Case):
    """Alerts fire on real scrapes of VMs that start healthy."""

    # What each VM does after its first scrapes, and the alert that it causes.
    EVENTS = {
        "fine": ({"run": 300, "halt": 600, "exits": 2000}, None),
        "starved": ({"run": 500, "ready": 200, "halt": 300, "exits": 2000}, "KvmVmStarved"),
        "quota": ({"run": 100, "throttled": 500, "halt": 400}, "KvmVmThrottled"),
        "hung": ({}, "KvmVmStuck"),
        "stalled": ({"run": 300, "halt": 300}, "KvmVmStalled"),
        "polling": ({"run": 100, "poll": 400, "halt": 500}, "KvmHaltPollingWasted"),
        "storm": ({"run": 900, "exits": 300000}, "KvmExitStorm"),
        "failing": ({"run": 300, "halt": 600, "failed": 1000}, "KvmEmulationFailed"),
    }

    def start(self, vms):
        """Return three hosts and Prometheus, which has scraped the healthy VMs of the first."""
        hosts = [self.host(name) for name in ("busy", "slow", "blind")]
        for number, name in enumerate(vms, 1):
            hosts[0].vm(number, name, run=300, halt=600, exits=2000)
        hosts[1].vm(1, "other", run=300, halt=600)
        shutil.rmtree(hosts[2].path / "proc")
        self.servings = [self.serve(host, "--max-age", "600") for host in hosts]
        scraping = self.prometheus(*self.servings, rules=[self.quick_rules()])
        wait_for(lambda: len(scraping.points("kvm_vm_vcpu_seconds_total")) and all(
            len(points) > 2 for points in scraping.points("kvm_vm_vcpus").values()), "scrapes")
        return hosts, scraping

    def test_each_alert_fires_on_real_scrapes(self):
        """Each alert fires for the VM or host that causes it, and for no other."""
        (busy, slow, _), scraping = self.start(self.EVENTS)
        for number, (name, (rates, _)) in enumerate(self.EVENTS.items(), 1):
            busy.vm(number, name, **rates)
        # This VM fails before its first scrape.
        busy.vm(100, "doomed", run=300, halt=600, failed=1000, age=1)
        busy.write(["unreadable the reason\n"])
        slow.hold()
        self.addCleanup(slow.release)
        instances = [f"127.0.0.1:{serving.port}" for serving in self.servings]
        expected = {(alert, name) for name, (_, alert) in self.EVENTS.items() if alert}
        expected |= {("KvmEmulationFailed", "doomed"), ("KvmVmUnreadable", instances[0]),
                     ("KvmStatsStale", instances[1]), ("KvmStatsBlind", instances[2])}

        def fired():
            labels = [dict(key) for key in scraping.points('ALERTS{alertstate="firing"}')]
            return {(key["alertname"], key.get("vm", key["instance"])) for key in labels}

        def failures():
            return scraping.points('kvm_vm_insn_emulation_fail_total{vm="failing"}').values()

        wait_for(lambda: any(points[-1][1] for points in failures()), "the failure")
        # It fails once: the alert needs the 0 before.
        for number, name in ((8, "failing"), (100, "doomed")):
            busy.vm(number, name, run=300, halt=600)
        busy.write()
        wait_for(lambda: expected <= fired(), "all alerts")
        self.assertEqual(fired(), expected)
        self.servings[0].stop()
        wait_for(lambda: ("KvmStatsDown", instances[0]) in fired(), "KvmStatsDown")
        self.assertEqual({alert for alert, _ in fired()}, set(re.findall(
            r"- alert: (\w+)", (RULES / "kvm-stats.rules.yml").read_text())))


class Joins(Case):
    """Recording rules that join with other exporters, on real scrapes."""

    # Metrics as openstack-exporter, kube-state-metrics and prometheus-pve-exporter have them
    OTHERS = """openstack_nova_server_status{{address_ipv4="10.0.0.7",availability_zone="nova",\
flavor_id="m1.small",host_id="2091",hypervisor_hostname="compute-1",id="{uuid}",\
instance_libvirt="instance-0000002a",name="shop-db",status="ACTIVE",tenant_id="6f70",\
user_id="alice",uuid="{uuid}"}} 0
kube_pod_info{{created_by_kind="VirtualMachineInstance",created_by_name="shop",\
host_ip="192.0.2.7",host_network="false",namespace="shop",node="worker-1",\
pod="virt-launcher-shop-x7x2k",pod_ip="10.1.2.3",priority_class="",uid="{pod}"}} 1
pve_guest_info{{id="qemu/100",name="mail",node="pve1",tags="",template="0",type="qemu"}} 1
pve_guest_info{{id="lxc/101",name="dns",node="pve1",tags="",template="0",type="lxc"}} 1
"""
    POD = "0f7b7b2c-91f5-4b0c-8a52-5d0c55a0b1c2"

    def exporter(self, text):
        """Serve this text on a free port, and return the port."""
        class Metrics(http.server.BaseHTTPRequestHandler):
            """The other exporters."""

            def do_GET(self):
                """Send the text."""
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                """Log nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def test_joins_on_real_scrapes(self):
        """Each rule yields the modes of the VM that the other exporter describes, only."""
        host = self.host()
        rates = {"run": 300, "ready": 100, "halt": 600}
        host.vm(1, "server", **rates).vm(2, "pod", **rates).vm(3, "guest", **rates)
        for pid, cgroup in ((1002, f"/kubepods.slice/kubepods-pod{self.POD.replace('-', '_')}.slice/"
                                   f"cri-containerd-{'ab' * 32}.scope"),
                            (1003, "/qemu.slice/100.scope")):
            (host.path / f"proc/{pid}/cgroup").write_text(f"0::{cgroup}\n")
        port = self.exporter(self.OTHERS.format(uuid=f"{0:08}-0000-0000-0000-{1001:012}",
                                                pod=self.POD))
        scraping = self.prometheus(
            self.serve(host), rules=[RULES / "kvm-stats.rules.yml"],
            more=f"  - job_name: others\n    static_configs:\n      - targets: ['127.0.0.1:{port}']\n")
        for record, vm, labels in (
                ("server_mode", "server", {"name": "shop-db", "tenant_id": "6f70"}),
                ("pod_mode", "pod", {"namespace": "shop", "pod": "virt-launcher-shop-x7x2k",
                                     "node": "worker-1"}),
                ("guest_mode", "guest", {"id": "qemu/100", "name": "mail", "node": "pve1"})):
            found = wait_for(lambda r=record: scraping.query(f"{r}:kvm_vm_vcpu_seconds:share5m"),
                             record)
            self.assertEqual({dict(key)["vm"] for key in found}, {vm})
            share = {dict(key)["mode"]: value for key, value in found.items()}
            self.assertAlmostEqual(share["run"], 0.3, places=3)
            for key in found:
                self.assertLessEqual(labels.items(), dict(key).items())


class Dashboard(Case):
    """The dashboard for Grafana."""

    def test_every_query_gives_data(self):
        """Each query and variable yields data for a host with all kinds of events."""
        host = self.host()
        for number in (1, 2):
            host.vm(number, f"vm-{number}", run=300, ready=200, throttled=100, halt=200,
                    poll=100, exits=200000, io=100, emulated=100, failed=100)
        host.extra = ["unreadable the reason\n", "wait 1 200 vm 2\n"]
        serving = self.serve(host, "--max-series", "100", "--blame", "1")
        recorded = Serve("--from", str(DATA / "trouble/recording"), "--at", "2026-11-22T03:00:00Z",
                         "--max-age", "600", "--exits", "5", "--stalls", env={})
        self.addCleanup(recorded.stop)
        scraping = self.prometheus(serving, recorded, rules=[RULES / "kvm-stats.rules.yml"])
        dashboard = json.loads((RULES / "grafana-dashboard.json").read_text())
        queries = [target["expr"] for panel in dashboard["panels"]
                   for target in panel.get("targets", ())]
        self.assertGreater(len(queries), 30)
        variables = {"$__rate_interval": "10s", "$instance": ".*", "$vm": ".*"}
        for query in queries:
            for variable, value in variables.items():
                query = query.replace(variable, value)
            with self.subTest(query):
                wait_for(lambda q=query: scraping.query(q), query)
        used = " ".join(queries)
        rules = (RULES / "kvm-stats.rules.yml").read_text().split("- name: kvm-stats-joins")[0]
        for metric in re.findall(r"- record: (\S+)", rules):
            wait_for(lambda m=metric: scraping.query(m), metric)
        self.assertNotIn("$datasource", used)
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}),
                         len(dashboard["panels"]))
        for variable in dashboard["templating"]["list"][1:]:
            found = re.match(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            metric = found.group(1).replace("$instance", ".*")
            # A late scrape can leave a gap.
            series = wait_for(lambda m=metric: scraping.query(m), metric)
            self.assertTrue(all(found.group(2) in dict(key) for key in series))
            # Without it, "All" is a pattern with the names of all VMs.
            self.assertEqual(variable["allValue"], ".*")
        # Metrics that need an option of serve have panels.
        for metric in ("kvm_vm_wait_seconds", "kvm_vm_exit_seconds_total",
                       "kvm_vm_exits_by_reason_total", "kvm_vm_stall_seconds_total"):
            self.assertIn(metric, used)
