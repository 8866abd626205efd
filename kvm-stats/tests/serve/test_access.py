# SPDX-License-Identifier: GPL-2.0-only
"""TLS, client certificates, users, and names of the host."""

import base64
import http.client
import os
import select
import socket
import ssl
import subprocess
import threading
import time

from serving import DEADLINE, HOST, OPENMETRICS, OTHER_USER, Case, one, series, wait_for

SECRET = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"	# bcrypt of "secret"


class WebConfig(Case):
    """A host, and files in the format of Prometheus' exporter toolkit."""

    def setUp(self):
        super().setUp()
        self.made = self.host().vm(1, "web", run=500)

    def config(self, text):
        """Write the configuration file."""
        path = self.folder / "web.yml"
        path.write_text(text)
        return path

    def certificate(self, name, ca=None):
        """Create NAME.pem and NAME.key, self-signed or signed by CA."""
        signed = ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key"] if ca else []
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
             "-addext", "subjectAltName=IP:127.0.0.1", *signed,
             "-keyout", f"{name}.key", "-out", f"{name}.pem"],
            cwd=self.folder, check=True, capture_output=True)

    def login(self, serving, user, password, source=None):
        """Return the status for this user, at a client with the address source."""
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return serving.get(Authorization=f"Basic {token}", source=source)[0]

    def tls(self, serving, certificate=None):
        """Return status and text of a request over TLS."""
        context = ssl.create_default_context(cafile=self.folder / "server.pem")
        if certificate:
            context.load_cert_chain(self.folder / f"{certificate}.pem",
                                    self.folder / f"{certificate}.key")
        connection = http.client.HTTPSConnection("127.0.0.1", serving.port, context=context,
                                                 timeout=DEADLINE)
        try:
            connection.request("GET", "/metrics", headers={"Accept": OPENMETRICS})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

class Access(WebConfig):
    """TLS, client certificates, users, and the rate limit."""

    def test_users(self):
        """Only the right password is accepted, before and after a login."""
        config = self.config(f"basic_auth_users:\n  prometheus: {SECRET}\n")
        serving = self.serve(self.made, "--config", str(config))
        for path in ("metrics", "", "api/v1/vms", "healthz", "style.css", "nothing"):
            status, headers, body = serving.get(path)
            self.assertEqual((status, body), (401, b"401: user and password required\n"))
            self.assertEqual(headers["WWW-Authenticate"], 'Basic realm="kvm-stats"')
        wrong = [("prometheus", "Secret"), ("prometheus", ""), ("", "secret"),
                 ("root", "secret"), ("prometheus", "secret" * 100),
                 ("prometheus", "secretX"), ("prometheus", "secre"), ("Prometheus", "secret")]
        for _ in range(2):
            for user, password in wrong:
                self.assertEqual(self.login(serving, user, password), 401, (user, password))
            self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
        for scheme in ("basic", "BASIC", "Basic  "):
            self.assertEqual(serving.get(Authorization=f"{scheme} cHJvbWV0aGV1czpzZWNyZXQ=")[0], 200)
        for header in ("Basic !!", "Basic", "Basic ", "Basic cHJvbWV0aGV1cw==", "Bearer x",
                       "Basiccc cHJvbWV0aGV1czpzZWNyZXQ=", "cHJvbWV0aGV1czpzZWNyZXQ=",
                       # "prometheus:secret", a zero byte, and more
                       "Basic cHJvbWV0aGV1czpzZWNyZXQAeA=="):
            self.assertEqual(serving.get(Authorization=header)[0], 401, header)

    def guess(self, serving, clients=4):
        """Guess passwords in threads until the test ends."""
        stop = threading.Event()
        self.guessed = []

        def guess():
            while not stop.is_set():
                self.guessed.append(self.login(serving, "user-0", "guess"))

        guessing = [threading.Thread(target=guess) for _ in range(clients)]
        for thread in guessing:
            thread.start()
            self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        wait_for(lambda: len(self.guessed) > clients, "guesses")

    def test_guessing_locks_out_nobody_else(self):
        """The first login of each user succeeds while others guess from many addresses."""
        users = "".join(f"  user-{i}: {SECRET}\n" for i in range(20))
        config = self.config(f"basic_auth_users:\n{users}")
        serving = self.serve(self.made, "--config", str(config))
        token = base64.b64encode(b"user-0:guess").decode()
        for i in range(20):
            guessing = []
            for address in range(100):
                client = socket.socket()
                self.addCleanup(client.close)
                client.bind((f"127.0.{i}.{address + 1}", 0))
                client.connect(("127.0.0.1", serving.port))
                client.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\n"
                               f"Authorization: Basic {token}\r\n\r\n".encode())
                guessing.append(client)
            self.assertEqual(self.login(serving, f"user-{i}", "secret"), 200, i)
            for client in guessing:
                client.close()

    def test_guessing_does_not_lock_out_users_of_the_address(self):
        """Other users log in from the address that four guessing clients have."""
        users = "".join(f"  user-{i}: {SECRET}\n" for i in range(40))
        config = self.config(f"basic_auth_users:\n{users}")
        serving = self.serve(self.made, "--config", str(config))
        self.guess(serving)
        self.assertEqual([self.login(serving, f"user-{i}", "secret")
                          for i in range(40)], [200] * 40)
        self.assertEqual(set(self.guessed), {401})

    def test_login_delays_nobody_else(self):
        """A known user is served while the password of another one is verified."""
        slow = SECRET.replace("$05$", "$14$")
        config = self.config(f"basic_auth_users:\n  known: {SECRET}\n  slow: {slow}\n")
        serving = self.serve(self.made, "--config", str(config))
        self.assertEqual(self.login(serving, "known", "secret"), 200)
        token = base64.b64encode(b"slow:guess").decode()
        with socket.create_connection(("127.0.0.1", serving.port)) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\n"
                           f"Authorization: Basic {token}\r\n\r\n".encode())
            for _ in range(3):
                self.assertEqual(self.login(serving, "known", "secret"), 200)
            self.assertEqual(select.select([client], [], [], 0)[0], [])
            self.assertIn(b" 401 ", client.recv(100))

    def test_tls(self):
        """TLS clients are served, clients without TLS are not."""
        self.certificate("server")
        config = self.config("tls_server_config:\n  cert_file: server.pem\n"
                             "  key_file: server.key\n  min_version: TLS13\n")
        serving = self.serve(self.made, "--config", str(config))
        self.assertTrue(serving.url.startswith("https://"))
        status, text = self.tls(serving)
        self.assertEqual(status, 200)
        self.assertEqual(one(series(text), "kvm_stats_vms"), 1)
        with self.assertRaises((http.client.HTTPException, OSError)):
            serving.get()
        # A connection without a handshake does not block others.
        with socket.create_connection(("127.0.0.1", serving.port)):
            self.assertEqual(self.tls(serving)[0], 200)

    def test_tls_12_ciphers(self):
        """TLS 1.2 requires ECDHE and an AEAD cipher; cipher_suites can name CBC ciphers."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", "server.key", "-out", "server.pem"],
                       cwd=self.folder, check=True, capture_output=True)
        tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
        cbc = "  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]\n"
        for more, accepted in (("", {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"}),
                               (cbc, {"ECDHE-RSA-AES128-SHA"})):
            serving = self.serve(self.made, "--config", str(self.config(tls + more)))
            found = set()
            for cipher in ("AES128-SHA", "AES256-SHA", "AES128-GCM-SHA256", "AES128-CCM",
                           "DHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA",
                           "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"):
                context = ssl.create_default_context(cafile=self.folder / "server.pem")
                context.maximum_version = ssl.TLSVersion.TLSv1_2
                context.set_ciphers(cipher + ":@SECLEVEL=0")
                with socket.create_connection(("127.0.0.1", serving.port)) as client:
                    try:
                        with context.wrap_socket(client, server_hostname="127.0.0.1") as session:
                            found.add(session.cipher()[0])
                    except (ssl.SSLError, ConnectionError):
                        pass
            self.assertEqual(found, accepted)

    def client(self, name, ca, extensions):
        """Create NAME.pem and NAME.key, signed by CA."""
        (self.folder / "extensions").write_text(extensions)
        # An old openssl cannot sign in one step.
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                        f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"],
                       cwd=self.folder, check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", f"{name}.csr", "-CA",
                        f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
                        "-days", "2", "-out", f"{name}.pem", "-extfile", "extensions"],
                       cwd=self.folder, check=True, capture_output=True)

    def statuses(self, serving):
        """Return the status for each certificate; 0 if the handshake fails."""
        found = {}
        for name in (None, "friend", "both", "server-only", "stranger"):
            try:
                found[name] = self.tls(serving, name)[0]
            except (ssl.SSLError, ConnectionError):
                found[name] = 0
        return found

    def test_certificates_of_clients(self):
        """Each client_auth_type accepts what Prometheus' exporter toolkit accepts."""
        for name in ("server", "ours", "theirs"):
            self.certificate(name)
        self.client("friend", "ours", "subjectAltName=DNS:friend.example,URI:spiffe://friend\n")
        self.client("both", "ours", "extendedKeyUsage=serverAuth,clientAuth\n")
        self.client("server-only", "ours", "extendedKeyUsage=serverAuth\n")
        self.client("stranger", "theirs", "subjectAltName=DNS:friend.example\n")
        for policy, more, accepted in (
                ("RequireAndVerifyClientCert", "", {"friend", "both"}),
                ("VerifyClientCertIfGiven", "", {None, "friend", "both"}),
                ("RequireAnyClientCert", "", {"friend", "both", "server-only", "stranger"}),
                ("RequestClientCert", "", {None, "friend", "both", "server-only", "stranger"}),
                ("NoClientCert", "", {None, "friend", "both", "server-only", "stranger"}),
                ("RequireAndVerifyClientCert", "client_allowed_sans: [other, spiffe://friend]",
                 {"friend"}),
                ("RequireAndVerifyClientCert", "client_allowed_sans: [friend]", set()),
        ):
            with self.subTest(policy, more=more):
                ca = "" if policy in ("NoClientCert", "RequireAnyClientCert",
                                      "RequestClientCert") else "  client_ca_file: ours.pem\n"
                config = self.config("tls_server_config:\n  cert_file: server.pem\n"
                                     f"  key_file: server.key\n{ca}"
                                     f"  client_auth_type: {policy}\n  {more}\n")
                found = self.statuses(self.serve(self.made, "--config", str(config)))
                self.assertEqual({name for name, status in found.items() if status == 200},
                                 accepted, found)
                self.assertLessEqual(set(found.values()), {0, 200, 403})

    def test_wrong_files(self):
        """An invalid file is reported in one line, with its place, and status 2."""
        self.certificate("server")
        self.certificate("other")
        tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: "
        for text, wanted in (
                ("basic_auth_users:\n  me: password\n", ":2: user 'me': not a bcrypt hash"),
                ("basic_auth_users:\n  me: $2y$05$short\n", ":2: user 'me': not a bcrypt hash"),
                (f"basic_auth_users:\n  me: {SECRET}x\n", ":2: user 'me': not a bcrypt hash"),
                (f"basic_auth_users:\n  me: {SECRET.replace('$05$', '$19$')}\n",
                 ":2: user 'me': not a bcrypt hash with a cost of 18 or less"),
                ("tls_server_config:\n  cert_file: server.pem\n  key_file: ''\n",
                 "both are required"),
                ("basic_auth_users: [a]\n", ":1: basic_auth_users: not a mapping"),
                (tls + "other.key\n", "certificate '.*server.pem', key '.*other.key': "),
                (tls + "missing.key\n", "missing.key: No such file or directory"),
                (tls + "server.key\n  cert: x\n", "cert and cert_file: only one is allowed"),
                (tls + "server.key\n  client_auth_type: Maybe\n",
                 ":4: client_auth_type 'Maybe': unknown policy"),
                (tls + "server.key\n  client_ca_file: server.key\n"
                 "  client_auth_type: RequireAndVerifyClientCert\n", "client CA '.*server.key': "),
                (tls + "server.key\n  client_ca_file: server.pem\n",
                 "client_ca_file requires client_auth_type"),
                (tls + "server.key\n  client_auth_type: RequireAndVerifyClientCert\n",
                 "client_auth_type requires client_ca_file"),
                (tls + "server.key\n  min_version: SSL30\n", ":4: min_version 'SSL30': must be"),
                (tls + "server.key\n  max_version: TLS12\n  min_version: TLS13\n",
                 "min_version 'TLS13': newer than max_version"),
                (tls + "server.key\n  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n",
                 ":4: cipher_suites 'TLS_RSA_WITH_RC4_128_SHA': unknown cipher suite"),
                (tls + "server.key\n  curve_preferences: [P256]\n", ":4: .*unknown curve"),
                (tls + "server.key\n  prefer_server_cipher_suites: maybe\n", ":4: .*true or false"),
                ("tls_server_config:\n  cert_file: server.pem\n", "both are required"),
                ("tls_server_config:\n  cert_files: server.pem\n", ":2: 'cert_files': unknown key"),
                ("http_server_config:\n  headers:\n    Server: x\n", ":3: 'Server': unknown key"),
                ("http_server_config:\n  headers:\n    X-Frame-Options: yes\n",
                 ":3: X-Frame-Options 'yes': invalid value"),
                ("rate_limit:\n  interval: fast\n", ":2: interval 'fast': not a duration"),
                ("rate_limit:\n  burst: -1\n", ":2: burst '-1': not a number"),
                ("rate_limits:\n  burst: 1\n", ":1: 'rate_limits': unknown key"),
                ("rate_limit:\nrate_limit:\n", ":2: 'rate_limit': given twice"),
                ("basic_auth_users:\n  - {\n", ":[23]: "),
        ):
            with self.subTest(text):
                config = self.config(text)
                status, out, err = self.run_program("serve", "--listen", "127.0.0.1:0",
                                                    "--config", str(config), host=self.made)
                self.assertEqual((status, out), (2, ""))
                self.assertRegex(err, wanted)
                self.assertEqual(err.count("\n"), 1)
        status, _, err = self.run_program("serve", "--config", "/nowhere/web.yml", host=self.made)
        self.assertEqual((status, err.count("\n")), (2, 1))

    def test_all_keys_of_the_toolkit(self):
        """A file with every key of Prometheus' exporter toolkit is accepted and has effect."""
        self.certificate("server")
        pem = {name: "".join(f"    {line}\n" for line in
                             (self.folder / f"server.{name}").read_text().splitlines())
               for name in ("pem", "key")}
        config = self.config(f"""tls_server_config:
  cert: |
{pem["pem"]}  key: |
{pem["key"]}  client_ca: |
{pem["pem"]}  client_auth_type: VerifyClientCertIfGiven
  min_version: TLS12
  max_version: TLS12
  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_AES_256_GCM_SHA384]
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP384, CurveP256]
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'none'
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection: 1
    Strict-Transport-Security: max-age=31536000; includeSubDomains
basic_auth_users: {{}}
rate_limit:
  interval: 1ns
  burst: 100
""")
        serving = self.serve(self.made, "--config", str(config))
        context = ssl.create_default_context(cafile=self.folder / "server.pem")
        connection = http.client.HTTPSConnection("127.0.0.1", serving.port, context=context,
                                                 timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        self.assertEqual(connection.sock.version(), "TLSv1.2")
        self.assertEqual(connection.sock.cipher()[0], "ECDHE-ECDSA-AES256-GCM-SHA384")
        headers = dict(answer.getheaders())
        self.assertEqual(headers["Content-Security-Policy"], "default-src 'none'")
        self.assertEqual(headers["X-Frame-Options"], "deny")
        self.assertEqual(headers["Strict-Transport-Security"], "max-age=31536000; includeSubDomains")

    def test_rate_limit(self):
        """A burst of requests is served, and one more after each interval."""
        self.made.stop_clock()
        config = self.config("rate_limit:\n  interval: 1m30s\n  burst: 3\n")
        serving = self.serve(self.made, "--config", str(config))
        statuses = [serving.get("healthz")[0] for _ in range(5)]
        self.assertEqual(statuses.count(429), 2, statuses)
        self.made.stop_clock(later=91)
        statuses = [serving.get("healthz")[0] for _ in range(5)]
        self.assertEqual(statuses.count(429), 4, statuses)


class Reload(WebConfig):
    """A file that changes while a service serves."""

    def serve_with(self, config):
        """Serve as a user that may read the files."""
        for path in (self.folder, *self.folder.iterdir()):
            os.chown(path, 61183, 61183)
        return self.serve(self.made, "--config", str(config),
                          program=self.program(f'exec {OTHER_USER} {HOST} "$@"'))

    def reported(self, serving, line):
        """Wait until the program has reported line."""
        wait_for(lambda: line in serving.said(), line)

    def test_users_change(self):
        """New users can log in; an invalid file is reported once, and the old one kept."""
        self.made.vm(2, "db", run=500)
        users = f"basic_auth_users:\n  prometheus: {SECRET}\n"
        config = self.config(users)
        serving = self.serve_with(config)
        self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
        self.config(users + "  broken: hash\n")
        self.reported(serving, "web.yml:3: user 'broken': not a bcrypt hash with a cost of 18 or "
                               "less; keeping the previous configuration\n")
        self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
        config.unlink()
        self.reported(serving, "web.yml: No such file or directory; keeping the previous")
        self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
        self.assertEqual(serving.get()[0], 401)
        self.config(f"basic_auth_users:\n  other: {SECRET}\n")
        self.reported(serving, "kvm-stats: reloaded ")
        self.assertEqual(self.login(serving, "prometheus", "secret"), 401)
        self.assertEqual(self.login(serving, "other", "secret"), 200)
        self.assertEqual(len(serving.said().splitlines()), 4)

    def test_certificate_changes(self):
        """New connections get the new certificate, open ones stay."""
        self.certificate("server")
        config = self.config("tls_server_config:\n  cert_file: server.pem\n"
                             "  key_file: server.key\n")
        serving = self.serve_with(config)
        context = ssl.create_default_context(cafile=self.folder / "server.pem")
        old = http.client.HTTPSConnection("127.0.0.1", serving.port, context=context,
                                          timeout=DEADLINE)
        self.addCleanup(old.close)

        def status():
            old.request("GET", "/healthz")
            answer = old.getresponse()
            answer.read()
            return answer.status

        self.assertEqual(status(), 200)
        # Key and certificate do not fit until both are replaced.
        self.certificate("new")
        (self.folder / "new.pem").rename(self.folder / "server.pem")
        self.reported(serving, "keeping the previous configuration")
        self.assertEqual(status(), 200)
        os.chown(self.folder / "new.key", 61183, 61183)
        (self.folder / "new.key").rename(self.folder / "server.key")
        self.reported(serving, "kvm-stats: reloaded ")
        self.assertEqual(self.tls(serving)[0], 200)
        self.assertEqual(status(), 200)
        self.config("")
        self.reported(serving, "enabling or disabling TLS requires a restart; keeping")
        self.assertEqual(self.tls(serving)[0], 200)

    def test_files_of_root(self):
        """A server that root started gets files that only root may read."""
        self.certificate("server")
        config = self.config("tls_server_config:\n  cert_file: server.pem\n"
                             "  key_file: server.key\n")
        config.chmod(0o600)
        serving = self.serve(self.made, "--config", str(config))
        self.assertEqual(self.tls(serving)[0], 200)
        self.certificate("new")
        for suffix in ("pem", "key"):
            (self.folder / f"new.{suffix}").rename(self.folder / f"server.{suffix}")
        self.reported(serving, "kvm-stats: reloaded ")
        wait_for(lambda: serving.said().count("serving on") == 2, "another server")
        self.assertEqual(self.tls(serving)[0], 200)
        self.assertNotIn("has ended", serving.said())


class Hosts(Case):
    """On loopback addresses, only names of this host are answered."""

    def status(self, serving, host):
        """Return the status for a request with this Host header."""
        return serving.get("healthz", Host=host)[0]

    def test_names_of_this_host(self):
        """A page that rebinds its name to a loopback address reads nothing."""
        made = self.host().vm(1, "web", run=500)
        serving = self.serve(made, "--host", "metrics.example", "--host", "other.example")
        serving.series()
        own = socket.gethostname()
        for host in ("localhost", "LOCALHOST:1234", "localhost.", "127.0.0.1", "127.1.2.3:80",
                     "[::1]", "[::1]:10847", own, own.upper() + ":80", "metrics.example",
                     "other.example:10847"):
            self.assertEqual(self.status(serving, host), 200, host)
        for host in ("evil.example", "localhost.evil.example", "evil.example:10847", "192.0.2.1",
                     "[2001:db8::1]", "127.0.0.1.evil.example", "", ":80", "localhost:80:80",
                     "localhost:evil", "[::1]evil", "x" * 300, "metrics.example.evil"):
            self.assertEqual(self.status(serving, host), 421, host)
        _, _, body = serving.get("metrics", Host="evil.example")
        self.assertEqual(body, b"421: not a name of this host; --host allows more names\n")
        found = serving.next_sample()
        self.assertEqual(one(found, "kvm_stats_scrapes_total", code="421"), 14)

    def test_names_without_header(self):
        """A client of HTTP/1.0 without Host is served, because browsers send Host."""
        serving = self.serve(self.host())
        serving.series()
        self.assertEqual(answer(serving, b"GET /healthz HTTP/1.0\r\n\r\n")[0], 200)

    def test_names_in_etc_hosts(self):
        """Names that /etc/hosts has for addresses of this host are answered, others are not."""
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.1.1\tvm.example.com vm # not.me\n192.0.2.1 other.example\n"
                         "#127.0.0.1 comment.example\n::1 ip6-localhost\n")
        if subprocess.run(["unshare", "-rm", "mount", "--bind", hosts, "/etc/hosts"],
                          check=False, capture_output=True).returncode:
            self.skipTest("no user namespaces")
        serving = self.serve(self.host(), program=self.program(
            f'exec unshare -rm sh -c \'mount --bind {hosts} /etc/hosts; exec "$@"\' sh {HOST} "$@"'))
        serving.series()
        for host in ("vm.example.com:9100", "VM.example.com.", "ip6-localhost"):
            self.assertEqual(self.status(serving, host), 200, host)
        for host in ("other.example", "comment.example", "not.me", "example.com", "#127.0.0.1"):
            self.assertEqual(self.status(serving, host), 421, host)


def answer(serving, request, half_close=False):
    """Return status, headers and body of all that a raw request is answered until the end."""
    with socket.create_connection(("127.0.0.1", serving.port), timeout=DEADLINE) as client:
        if half_close:
            # One segment: the server sees the request and the end together.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        client.sendall(request)
        if half_close:
            client.shutdown(socket.SHUT_WR)
        received = b""
        while more := client.recv(1 << 16):
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


class Requests(Case):
    """Requests that RFC 9112 requires to be answered, or to be refused."""

    def setUp(self):
        super().setUp()
        self.serving = self.serve(self.host())
        self.serving.series()

    def test_absolute_form(self):
        """The host of a URL in absolute form replaces the header."""
        port = self.serving.port
        for url, host, status in (
                (f"http://localhost:{port}/healthz", "localhost", 200),
                (f"HTTP://localhost:{port}/healthz?x=1", "evil.example", 200),
                ("https://127.0.0.1/metrics", "x", 200),
                ("http://localhost", "localhost", 200),
                ("http://localhost?x", "localhost", 200),
                ("http://evil.example/healthz", "localhost", 421),
                ("http://user@localhost/healthz", "localhost", 421),
                (f"http://{'x' * 400}/healthz", "localhost", 421),
                ("http:///healthz", "localhost", 421),
                ("http:/healthz", "localhost", 404),
                ("ftp://localhost/healthz", "localhost", 404),
                ("http://localhost/nothing", "localhost", 404)):
            with self.subTest(url):
                self.assertEqual(answer(self.serving, f"GET {url} HTTP/1.1\r\nHost: {host}\r\n"
                                        "Connection: close\r\n\r\n".encode())[0], status)

    def test_headers(self):
        """A request without Host, with two, or with two lengths has status 400, and is the last."""
        for headers in ("", "Host: localhost\r\nHost: localhost\r\n",
                        "Host: localhost\r\nhost: evil.example\r\n",
                        "Host: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n",
                        "Host: localhost\r\nContent-Length: 5\r\ncontent-length: 6\r\n",
                        "Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                        "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n"):
            with self.subTest(headers):
                status, head, body = answer(
                    self.serving, f"GET /healthz HTTP/1.1\r\n{headers}\r\n".encode())
                self.assertEqual(status, 400)
                self.assertIn(b"connection: close", head)
                self.assertRegex(body, b"^400: (exactly one|more than one)")
        self.assertEqual(one(self.serving.next_sample(), "kvm_stats_scrapes_total", code="400"), 7)

    def test_half_closed(self):
        """A client that closes its sending side gets all responses, and then the end."""
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(20):
            self.assertEqual(answer(self.serving, request, half_close=True)[0], 200)
        _, _, body = answer(self.serving, 5 * request, half_close=True)
        self.assertEqual(body.count(b"HTTP/1.1 200 "), 4)
        scrape = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        # Some of them come when a sample is due, which others wait for.
        for _ in range(60):
            self.assertIn(b"kvm_stats_up 1\n", answer(self.serving, scrape, half_close=True)[2])
            time.sleep(0.03)
