# SPDX-License-Identifier: GPL-2.0-only
"""Names, formats and values of the metrics, and the command line."""

import csv
import gzip
import re
import urllib.error

from prometheus_client import parser as text_format

from serving import (DEADLINE, HERE, OPENER, Case, one, openmetrics, pick, series, vms, wait_for)

ARCHITECTURES = ("arm64", "i386", "mips", "ppc32", "ppc64", "s390x", "x86_64", "x86_64-6.18")
BOUNDS = [(4**i * 1024 - 1) * 1e-9 for i in range(11)] + [float("inf")]

# Accept headers of these versions, and the expected formats
PROMETHEUS_2_42 = ("application/openmetrics-text;version=1.0.0,"
                   "application/openmetrics-text;version=0.0.1;q=0.75,"
                   "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
PROMETHEUS_2_53 = ("application/openmetrics-text;version=1.0.0;q=0.5,"
                   "application/openmetrics-text;version=0.0.1;q=0.4,"
                   "text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
PROMETHEUS_2_53_PROTOBUF = ("application/vnd.google.protobuf;"
                            "proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5,"
                            "application/openmetrics-text;version=1.0.0;q=0.4,"
                            "application/openmetrics-text;version=0.0.1;q=0.3,"
                            "text/plain;version=0.0.4;q=0.2,*/*;q=0.1")
PROMETHEUS_3_5 = ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                  "application/openmetrics-text;version=0.0.1;q=0.4,"
                  "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
                  "text/plain;version=0.0.4;q=0.2,*/*;q=0.1")
TEXT, OPEN = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"
ACCEPT = {
    PROMETHEUS_2_42: OPEN,
    PROMETHEUS_2_53: OPEN,
    PROMETHEUS_2_53_PROTOBUF: OPEN,
    PROMETHEUS_3_5: OPEN,
    None: TEXT,
    "": TEXT,
    "*/*": TEXT,
    "application/*": TEXT,
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": TEXT,
    "application/openmetrics-text": OPEN,
    "application/openmetrics-text; version=0.0.1": TEXT,
    "application/openmetrics-text; version=2.0.0, text/plain; version=0.0.4; q=0.1": TEXT,
    "application/openmetrics-text; version=1.0.0; q=0": TEXT,
    "application/openmetrics-text; version=1.0.0; q=0.2, text/plain; q=0.3": TEXT,
    "text/plain;version=1.0.0;q=0.9,application/openmetrics-text;version=\"1.0.0\";q=0.1": OPEN,
    "APPLICATION/OpenMetrics-Text ; Version=1.0.0 ; q=1.000": OPEN,
    "text/plain;q=0.9, application/openmetrics-text;version=1.0.0;q=x": TEXT,
    "text/plain;note=\"a,application/openmetrics-text;q=1\"": TEXT,
    ";;;,,,q=;\"\\": TEXT,
}


class Formats(Case):
    """Text and OpenMetrics for a host with two VMs."""

    def setUp(self):
        super().setUp()
        self.made = self.host()
        self.made.vm(1, "web-1", run=300, ready=100, halt=400, poll=100, exits=5000, emulated=7)
        self.made.vm(2, "db", vcpus=4, run=900, exits=100, failed=100)

    def test_promtool_takes_the_text_format(self):
        """promtool check metrics reports nothing."""
        serving = self.serve(self.made)
        serving.next_sample()
        _, _, body = serving.get(accept=None)
        self.check_metrics(body)

    def test_labels_are_escaped(self):
        """A name with a quote, a backslash and a newline is the value of its labels, in export as well."""
        for name, label in (('a"b', 'a"b'), ("a\\b", "a\\b"), ("a\nb", "a\nb"), ('\\"\n\\n', '\\"\n\\n'),
                            ("}\nx 1\n#", "}\nx 1\n#"), ("a\r\t\x1bb", "a???b")):
            with self.subTest(name):
                made = self.host(str(hash(name))).vm(1, name, run=500)
                made.write()
                for output in ("openmetrics", "text"):
                    status, text, errors = self.run_program("export", "-o", output, host=made)
                    self.assertEqual((status, errors), (0, ""))
                    self.assertEqual(text.count("kvm_vm_info{"), 1)
                    if output == "openmetrics":
                        self.assertEqual(vms(series(text)), [label])
                    else:
                        self.check_metrics(text.encode())

    def test_both_formats_say_the_same(self):
        """The two formats have the same series and values."""
        serving = self.serve(self.made, "-d", "1")
        serving.next_sample()

        def both():
            opened = serving.series()
            _, _, body = serving.get(accept=None)
            text = {}
            for family in text_format.text_string_to_metric_families(body.decode()):
                for sample in family.samples:
                    text[sample.name, frozenset(sample.labels.items())] = sample.value
            samples = "kvm_stats_samples_total"
            return one(opened, samples) == one(text, samples) and (opened, text)

        opened, text = wait_for(both, "both of one sample")
        moving = ("kvm_stats_scrapes_total", "process_")
        self.assertEqual(*({key: value for key, value in found.items()
                            if not key[0].startswith(moving)} for found in (opened, text)))
        self.assertGreater(len(opened), 30)

    def test_accept(self):
        """The Accept header chooses the format, also the headers that Prometheus sends."""
        serving = self.serve(self.made)
        for accept, wanted in ACCEPT.items():
            with self.subTest(accept):
                _, headers, _ = serving.get(accept=accept)
                self.assertEqual(headers["Content-Type"], wanted + "; charset=utf-8")

    def test_accept_encoding(self):
        """The text is compressed for clients that prefer gzip."""
        serving = self.serve(self.made, "-d", "60", "--max-age", "200")
        _, _, plain = serving.get()
        for encoding, packed in (("gzip", True), ("gzip;q=0", False), ("deflate", False),
                                 ("*", True), ("identity, gzip;q=0.5", False),
                                 ("deflate, gzip;q=0.2, *;q=0", True), ("", False)):
            with self.subTest(encoding):
                _, headers, body = serving.get(Accept_Encoding=encoding)
                self.assertEqual(headers["Content-Encoding"], "gzip" if packed else None)
                body = gzip.decompress(body) if packed else body
                self.assertEqual(series(body.decode()).keys(), series(plain.decode()).keys())

    def test_methods_and_paths(self):
        """HEAD has no body, POST is refused, and unknown paths have status 404."""
        serving = self.serve(self.made)
        status, headers, body = serving.get(method="HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 1000)
        self.assertEqual(serving.get(method="POST")[0], 405)
        self.assertEqual(serving.get("metrics/")[0], 404)
        self.assertEqual(serving.get("../etc/passwd")[0], 404)
        found = serving.next_sample()
        self.assertEqual(one(found, "kvm_stats_scrapes_total", code="404"), 2)
        self.assertEqual(one(found, "kvm_stats_scrapes_total", code="405"), 1)
        self.assertEqual(one(found, "kvm_stats_series_dropped_total"), 0)

    def test_histogram_has_exact_bounds(self):
        """Halts of 5 ms are in [2^22, 2^23) ns: up to 0.016777215, not up to 0.004194303."""
        serving = self.serve(self.made)
        found = serving.next_sample()
        name = "kvm_vm_halt_wait_duration_seconds"
        buckets = sorted((float(dict(key)["le"]), value)
                         for key, value in pick(found, name + "_bucket", vm="web-1").items())
        self.assertEqual(len(buckets), 12)
        for (bound, _), wanted in zip(buckets, BOUNDS):
            self.assertTrue(bound == wanted or abs(bound - wanted) < 1e-15, (bound, wanted))
        count = one(found, name + "_count", vm="web-1")
        self.assertGreater(count, 0)
        self.assertEqual([value for _, value in buckets], [0] * 7 + [count] * 5)
        self.assertAlmostEqual(one(found, name + "_sum", vm="web-1"), count * 0.005,
                               delta=2 * 0.005)

    def test_histogram_of_a_recording(self):
        """Each bucket of the kernel counts for the right bound."""
        _, out, _ = self.run_program("export", "-o", "openmetrics", data="x86_64-6.18")
        found = series(out)
        _, shown, _ = self.run_program("show", "-z", "-o", "csv", "web-1", "halt_wait_hist",
                                       data="x86_64-6.18")
        kernel = {}
        for line in csv.DictReader(shown.splitlines()):
            kernel[round(float(line["below"] or "inf") * 1e9)
                   if line["below"] else float("inf")] = int(line["value"])
        self.assertGreater(sum(kernel.values()), 100)
        for key, value in pick(found, "kvm_vm_halt_wait_duration_seconds_bucket",
                               vm="web-1").items():
            bound = float(dict(key)["le"])
            bound = round(bound * 1e9) if bound != float("inf") else bound
            wanted = sum(n for below, n in kernel.items() if below - 1 <= bound)
            self.assertEqual(value, wanted, bound)

    def test_numbers_are_exact(self):
        """Large values are exact, and times have nine decimal places."""
        _, out, _ = self.run_program("export", data="x86_64-6.18")
        _, shown, _ = self.run_program("show", "-z", "-o", "csv", "batch-7", "insn_emulation",
                                       "halt_wait_ns", data="x86_64-6.18")
        self.assertIn("insn_emulation", shown)
        exact = re.search(r"insn_emulation,.*?,(\d+)", shown).group(1)
        self.assertIn(f'kvm_vm_insn_emulation_total{{vm="batch-7"}} {exact}\n', out)
        self.assertRegex(out, r'_sum\{vm="web-1"\} \d+\.\d{9}\n')
        self.assertNotRegex(out, r"\} [0-9.]*e")

    def test_no_family_twice_on_any_architecture(self):
        """No family and no series occurs twice, with any options."""
        for data in ARCHITECTURES:
            for options in ((), ("--detail", "vcpu"), ("--stats", "*"),
                            ("--stats", "*", "--detail", "vcpu")):
                with self.subTest(data, options=options):
                    status, out, err = self.run_program("export", "-o", "openmetrics", *options,
                                                        data=data)
                    self.assertEqual((status, err), (0, ""))
                    heads = re.findall(r"^# TYPE (\S+) ", out, re.MULTILINE)
                    self.assertEqual(len(heads), len(set(heads)))
                    self.assertTrue(vms(series(out)))

    def test_generic_statistics(self):
        """--stats names metrics by descriptors, and repeats none of the table."""
        _, out, _ = self.run_program("export", "-o", "openmetrics", "--stats", "*",
                                     data="x86_64-6.18")
        found = series(out)
        self.assertEqual(one(found, "kvm_vm_mmu_cache_miss_total", vm="web-1"), 4)
        self.assertTrue(pick(found, "kvm_vcpu_halt_wait_seconds_total", vm="web-1"))
        # the same under the VM's name, and what never happened
        self.assertFalse(pick(found, "kvm_vcpu_exits_total"))
        self.assertFalse(pick(found, "kvm_vm_nx_lpage_splits"))

    def test_every_metric_is_in_the_table(self):
        """Metrics have the type, labels and help of the table."""
        _, listed, _ = self.run_program("export", "--list")
        table = {}
        for line in listed.splitlines():
            name, kind, labels, text = line.split("\t")
            table[name] = (kind, {label for label in labels.split(", ") if label}, text)
        serving = self.serve(self.made, "--blame", "1")
        serving.get("nothing")
        self.made.write(["unreadable the reason\n"])
        wait_for(lambda: pick(serving.series(), "kvm_vm_wait_seconds_total"), "owners")
        serving.next_sample()
        _, _, body = serving.get()
        seen = set()
        for family in openmetrics.text_string_to_metric_families(body.decode()):
            name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
            kind, labels, text = table[name]
            seen.add(name)
            self.assertEqual((family.type, family.documentation), (kind, text))
            for sample in family.samples:
                has = set(sample.labels) | ({"le"} & labels)
                self.assertEqual(has, labels, name)
        # not on this host: it has no nested guests, its processes do not run, and the program
        # runs without --exits and --stalls
        self.assertEqual(set(table) - seen,
                         {"kvm_vm_other_threads_seconds_total", "kvm_vm_other_threads_ready_seconds_total",
                          "kvm_vms_unobserved_total",
                          "kvm_vm_exits_by_reason_total", "kvm_vm_exit_seconds_total",
                          "kvm_vm_stall_seconds_total",
                          "kvm_vm_nested_run_total", "kvm_vm_tlb_flush_total",
                          "kvm_vm_signal_exits_total", "kvm_vm_mmio_exits_total",
                          "kvm_vm_io_exits_total", "kvm_vm_pf_taken_total",
                          "kvm_vm_hypercalls_total", "kvm_vm_preemption_reported_total",
                          "kvm_vm_halt_successful_poll_total",
                          "kvm_vm_vcpus_blocking"} & (set(table) - seen))

    def test_what_never_happens_is_left_out(self):
        """A family is omitted while it is 0 on the host, and then stays for all VMs."""
        serving = self.serve(self.made)
        found = serving.next_sample()
        self.assertFalse(pick(found, "kvm_vm_io_exits_total"))
        self.made.vm(2, "db", vcpus=4, run=900, exits=100, io=1000).write()
        serving.next_sample()
        found = serving.next_sample()
        self.assertEqual(len(pick(found, "kvm_vm_io_exits_total")), 2)
        self.made.vm(2, "db", vcpus=4, run=900, exits=100).write()
        found = serving.next_sample()
        self.assertEqual(len(pick(found, "kvm_vm_io_exits_total")), 2)

    def test_manual_documents_the_json(self):
        """/api/v1/vms has the keys of the manual, in this order."""
        self.made.extra = ["unreadable the reason\n"]
        serving = self.serve(self.made, "--blame", "1")
        found = wait_for(serving.api, "a window", lambda found: all(
            vm["seconds"] and "waits" in vm for vm in found["vms"]))
        manual = (HERE.parent.parent / "man/kvm-stats-serve.1").read_text()
        manual = re.search(r"^\.SH JSON\n(.*?)^\.SH ", manual, re.M | re.S).group(1)
        documented = [key for line in re.findall(r"^\.TP\n\.BR? (.*)$", manual, re.M)
                      for key in line.replace('", "', "").split()]
        vms_at = documented.index("vms") + 1
        self.assertEqual(list(found), documented[:vms_at])
        for vm in found["vms"]:
            self.assertEqual(list(vm), documented[vms_at:])
        self.assertEqual(list(found["unreadable"][0]), ["number", "reason", "why"])
        self.assertEqual(list(found["host"]), ["cpus", "load", "cpu_pressure_percent", "run_percent",
                                               "ready_percent"])

    def test_partial_sample(self):
        """A sample that reached a bound says so in /healthz and in a metric, and has all VMs."""
        self.made.extra = ["partial the reason\n"]
        serving = self.serve(self.made)
        found = serving.series()
        self.assertEqual(one(found, "kvm_stats_unreadable", reason="too-many"), 1)
        self.assertRegex(serving.get("healthz")[2].decode(),
                         r"\Aok: 2 VMs, source \S+ \(partial\), sampled .*\n"
                         r"(.*\n)*cannot read 1: the reason\n")

    def test_counters_of_alerts_start_at_0(self):
        """The first scrape of a VM has all counters that alerts use."""
        # No second sample before the scrape
        found = self.serve(self.made, "-d", "60", "--max-age", "120").series()
        rules = (HERE.parent.parent / "rules/kvm-stats.rules.yml").read_text()
        alerts = rules[rules.index("kvm-stats-alerts"):]
        used = set(re.findall(r"\bkvm_vm_\w+_total\b(?=[\[{])", alerts))
        self.assertEqual(used, {"kvm_vm_insn_emulation_fail_total"})
        for name in used | {"kvm_vm_exits_total"}:
            self.assertEqual(pick(found, name, vm="web-1"), {frozenset({("vm", "web-1")}): 0})

    def test_vcpus(self):
        """With --detail vcpu, the values of the vCPUs add up to those of the VM."""
        serving = self.serve(self.made, "--detail", "vcpu")
        serving.next_sample()
        found = serving.next_sample()
        for vm, vcpus in (("web-1", 2), ("db", 4)):
            self.assertEqual(len(pick(found, "kvm_vcpu_exits_total", vm=vm)), vcpus)
            self.assertEqual(sum(pick(found, "kvm_vcpu_exits_total", vm=vm).values()),
                             one(found, "kvm_vm_exits_total", vm=vm))
            self.assertEqual(len(pick(found, "kvm_vcpu_seconds_total", vm=vm)), vcpus * 6)
            for mode in ("run", "ready", "halt", "poll", "other"):
                self.assertAlmostEqual(
                    sum(pick(found, "kvm_vcpu_seconds_total", vm=vm, mode=mode).values()),
                    one(found, "kvm_vm_vcpu_seconds_total", vm=vm, mode=mode), places=6)

    def test_hostile_names(self):
        """Any VM name becomes a valid label."""
        names = {"two words": "two words", 'a"b\\c': 'a"b\\c',
                 "x" * 125 + "é": "x" * 125 + "é",
                 "}\" 1 kvm_vm_vcpus{vm=\"": None, "\u202egpj.exe": None, "größe 🐧": None}
        host = self.host("named")
        for number, name in enumerate(names, 1):
            host.vm(number, name, exits=10)
        host.vm(50, b"bad\xff\xfeutf8")
        serving = self.serve(host)
        found = serving.next_sample()
        labels = vms(found)
        self.assertEqual(len(labels), len(names) + 1)
        for name in ("two words", 'a"b\\c', "x" * 125 + "é"):
            self.assertIn(name, labels)
        for label in labels:
            self.assertLessEqual(len(label.encode()), 128)
            self.assertNotIn("\n", label)
        self.assertEqual(one(found, "kvm_vm_vcpus", vm='a"b\\c'), 2)
        _, _, body = serving.get(accept=None)
        self.check_metrics(body)
        self.assertEqual(sorted(vm["vm"] for vm in serving.api()["vms"]), sorted(labels))


class Commands(Case):
    """Command lines; errors are one line and status 2."""

    WRONG = {
        ("export", "-o", "xml"): "--output 'xml': must be one of text openmetrics",
        ("export", "--max-series", "0"): "--max-series '0': must be 1",
        ("export", "--max-series", "-5"): "--max-series '-5': must be 1",
        ("export", "--stats", "a["): r"--stats 'a\[': invalid pattern: it has a \[ without \]",
        ("export", "--stats", "nothing_like_it"): "--stats 'nothing_like_it': matches no statistic",
        ("export", "--detail", "vm"): "--detail 'vm': must be vcpu",
        ("export", "now"): "export takes no arguments: 'now'",
        ("export", "--listen", "127.0.0.1:1"): "--listen: not an option of export",
        ("serve", "--frobnicate"): "--frobnicate: unknown option",
        ("serve", "-d", "0"): "--delay '0': must be 0.1",
        ("serve", "--max-age", "x"): "--max-age 'x': must be 0.1",
        ("serve", "-d", "60", "--max-age", "60"): "--max-age: must be at least twice --delay",
        **{("serve", "--blame", value): f"--blame '{value}': must be 1" for value in ("0", "33", "x", "")},
        ("serve", "--exits", "11"): "--exits '11': must be 1 to 10",
        ("serve", "--listen", "nonsense"): "--listen 'nonsense': not ADDRESS:PORT",
        ("serve", "--listen", "127.0.0.1:99999"): "not ADDRESS:PORT",
        ("serve", "--listen", "300.0.0.1:80"): "--listen '300.0.0.1:80': Name or service not known",
        ("serve", "--listen", "no host:80"): "--listen 'no host:80': Name or service not known",
        ("serve", "--web.listen-address", "a"): "--web.listen-address 'a': not ADDRESS:PORT",
        ("serve", "--listen", "::1:80"): "not ADDRESS:PORT",
        ("serve", "--listen", "192.0.2.1:10847"): "cannot listen on 192.0.2.1:10847: ",
        ("serve", "--listen", ":"): "not ADDRESS:PORT",
        ("serve", *(9 * ["--web.listen-address", ":0"])): "more than 8 addresses",
        ("serve", "--host", "a:b"): "--host 'a:b': not a host name",
        ("serve", "--host", ""): "--host '': not a host name",
        ("serve", *(17 * ["--host", "a"])): "--host 'a': more than 16 names",
        ("serve", "--web.telemetry-path", "metrics"): "--web.telemetry-path 'metrics': not a path",
        ("serve", "--web.telemetry-path", "/healthz"): "'/healthz': serves another page",
        ("serve", "--web.config.file", "/none"): "/none: No such file or directory",
        ("serve", "--max-series", "0"): "--max-series '0': must be 1",
        ("serve", "--stats", "nothing_like_it"): "--stats 'nothing_like_it': matches no statistic",
    }

    def test_wrong_usage(self):
        """Wrong usage is reported in one line, with status 2."""
        host = self.host()
        for arguments, wanted in self.WRONG.items():
            with self.subTest(arguments):
                status, out, err = self.run_program(*arguments, host=host)
                self.assertEqual((status, out), (2, ""), err)
                self.assertRegex(err, f"^kvm-stats: .*{wanted}")
                self.assertEqual(err.count("\n"), 1)

    def test_port_in_use(self):
        """A port in use is reported."""
        serving = self.serve(self.host())
        status, _, err = self.run_program("serve", "--listen", f"127.0.0.1:{serving.port}",
                                          host=self.host("other"))
        self.assertEqual(status, 2)
        self.assertEqual(err, f"kvm-stats: cannot listen on 127.0.0.1:{serving.port}: "
                              "Address already in use\n")

    def test_loopback_only(self):
        """Serving other hosts without access control causes a warning."""
        warning = "anyone who can reach it sees names and load of all VMs"
        for name, listen, warns in (("a", "127.0.0.1:0", False), ("b", "0.0.0.0:0", True),
                                    ("c", "[::1]:0", False), ("d", ":0", True),
                                    ("e", "localhost:0", False)):
            said = self.serve(self.host(name), listen=listen).said()
            self.assertEqual(warning in said, warns, (listen, said))

    def test_several_addresses(self):
        """Each address serves the same, under the path that was asked for."""
        host = self.host().vm(1, "web", run=500)
        serving = self.serve(host, "--web.listen-address", "[::1]:0",
                             "--web.listen-address", "127.0.0.2:0",
                             "--web.telemetry-path", "/kvm/metrics", listen=None)
        lines = wait_for(lambda: len(serving.said().splitlines()) == 2 and
                         serving.said().splitlines(), "both addresses")
        for line in lines:
            url = line.split()[-1]
            self.assertRegex(url, r"http://(\[::1\]|127\.0\.0\.2):\d+/$")
            with OPENER.open(url + "kvm/metrics", timeout=DEADLINE) as answer:
                self.assertIn(b"kvm_stats_up 1\n", answer.read())
            with OPENER.open(url, timeout=DEADLINE) as answer:
                self.assertIn(b'href="kvm/metrics"', answer.read())
            with self.assertRaises(urllib.error.HTTPError):
                OPENER.open(url + "metrics", timeout=DEADLINE)

    def test_export_without_vms(self):
        """A host without VMs is exported."""
        status, out, err = self.run_program("export", "-o", "openmetrics", data="empty")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(one(series(out), "kvm_stats_vms"), 0)

    def test_export_is_for_the_textfile_collector(self):
        """The default output of export is valid for the textfile collector."""
        _, out, _ = self.run_program("export", data="x86_64-6.18")
        self.check_metrics(out.encode())
        self.assertNotIn("# EOF", out)
        self.assertNotIn("# UNIT", out)

    def test_without_a_source(self):
        """Without a source, /healthz reports the reason until a source works."""
        host = self.host().vm(1, "late")
        (host.path / "proc").rename(host.path / "away")
        serving = self.serve(host)
        found = serving.series()
        self.assertEqual(one(found, "kvm_stats_source_info", source="none"), 1)
        status, _, body = serving.get("healthz")
        self.assertEqual(status, 503)
        self.assertIn(b"there is no host: make one", body)
        (host.path / "away").rename(host.path / "proc")
        wait_for(lambda: vms(serving.series()) == ["late"], "the source")
        self.assertEqual(serving.get("healthz")[0], 200)

