# SPDX-License-Identifier: GPL-2.0-only
"""The rules and the dashboard, with promtool and a real Prometheus."""

import json
import re
import shutil
import subprocess

from serving import HERE, Case, wait_for

RULES = HERE.parent.parent / "rules"


class Rules(Case):
    """Each alert fires when it has to, and not otherwise."""

    def promtool(self, *arguments, folder=RULES):
        """Status and what it said."""
        done = subprocess.run(["promtool", *arguments], cwd=folder, text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_rules_are_rules(self):
        """promtool has nothing to say."""
        status, said = self.promtool("check", "rules", "kvm-stats.rules.yml")
        self.assertEqual(status, 0, said)

    def test_alerts(self):
        """All of their tests pass, and each alert has one of either kind."""
        status, said = self.promtool("test", "rules", "kvm-stats.test.yml")
        self.assertEqual(status, 0, said)
        alerts = set(re.findall(r"- alert: (\w+)", (RULES / "kvm-stats.rules.yml").read_text()))
        tests = (RULES / "kvm-stats.test.yml").read_text().split("  - name: ")[1:]
        for alert in alerts:
            mine = [test for test in tests if f"alertname: {alert}\n" in test]
            self.assertTrue(any("exp_labels:" in test for test in mine), alert)
            self.assertTrue(any("exp_alerts: []" in test for test in mine), alert)

    def test_the_tests_would_see_it(self):
        """An alert that never fires, or always does, fails its tests."""
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


class Dashboard(Case):
    """Each of its queries gives data."""

    def test_every_query_gives_data(self):
        """Of a host on which everything happens."""
        host = self.host()
        for number in (1, 2):
            host.vm(number, f"vm-{number}", run=300, ready=200, throttled=100, halt=200,
                    poll=100, exits=200000, io=100, emulated=100, failed=100)
        host.extra = ["unreadable the reason\n"]
        serving = self.serve(host, "--max-series", "100")
        scraping = self.prometheus(serving, rules=[RULES / "kvm-stats.rules.yml"])
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
        for metric in re.findall(r"- record: (\S+)", (RULES / "kvm-stats.rules.yml").read_text()):
            wait_for(lambda m=metric: scraping.query(m), metric)
        self.assertNotIn("$datasource", used)
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}),
                         len(dashboard["panels"]))
        for variable in dashboard["templating"]["list"][1:]:
            found = re.match(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            metric = found.group(1).replace("$instance", ".*")
            # there is none for a moment if a scrape was late
            series = wait_for(lambda m=metric: scraping.query(m), metric)
            self.assertTrue(all(found.group(2) in dict(key) for key in series))
