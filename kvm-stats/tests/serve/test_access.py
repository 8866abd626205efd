# SPDX-License-Identifier: GPL-2.0-only
"""Who may see it: TLS, certificates of clients, users."""

import base64
import http.client
import socket
import ssl
import subprocess
import threading
import time

from serving import DEADLINE, OPENMETRICS, Case, one, series

SECRET = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"	# bcrypt of "secret"


class Access(Case):
    """With files in the form of Prometheus' exporter toolkit."""

    def setUp(self):
        super().setUp()
        self.made = self.host()
        self.made.vm(1, "web", run=500)

    def config(self, text):
        """A file with this in it."""
        path = self.folder / "web.yml"
        path.write_text(text)
        return path

    def certificate(self, name, ca=None):
        """NAME.pem and NAME.key, signed by itself or by CA."""
        signed = ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key"] if ca else []
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
             "-addext", "subjectAltName=IP:127.0.0.1", *signed,
             "-keyout", f"{name}.key", "-out", f"{name}.pem"],
            cwd=self.folder, check=True, capture_output=True)

    def login(self, serving, user, password):
        """Status, as this user."""
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return serving.get(Authorization=f"Basic {token}")[0]

    def tls(self, serving, certificate=None):
        """Status and text over TLS."""
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

    def test_users(self):
        """A password that fits, and others."""
        config = self.config(f"basic_auth_users:\n  prometheus: {SECRET}\n")
        serving = self.serve(self.made, "--config", str(config))
        self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
        for path in ("metrics", "", "api/v1/vms", "healthz", "style.css", "nothing"):
            status, headers, body = serving.get(path)
            self.assertEqual((status, body), (401, b"unauthorized\n"))
            self.assertEqual(headers["WWW-Authenticate"], 'Basic realm="kvm-stats"')
        for user, password in (("prometheus", "Secret"), ("prometheus", ""), ("", "secret"),
                               ("root", "secret"), ("prometheus", "secret" * 100)):
            self.assertIn(self.login(serving, user, password), (401, 429))
        self.assertEqual(serving.get(Authorization="Basic !!")[0], 401)
        self.assertEqual(self.login(serving, "prometheus", "secret"), 200)

    def test_guessing_keeps_nobody_waiting(self):
        """Who is known is served while others try one password after the other."""
        config = self.config(f"basic_auth_users:\n  prometheus: {SECRET}\n")
        serving = self.serve(self.made, "--config", str(config))
        self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
        stop = threading.Event()
        answers = []

        def guess():
            while not stop.is_set():
                answers.append(self.login(serving, "prometheus", "guess"))

        guessing = [threading.Thread(target=guess) for _ in range(4)]
        for thread in guessing:
            thread.start()
        try:
            for _ in range(10):
                begin = time.monotonic()
                self.assertEqual(self.login(serving, "prometheus", "secret"), 200)
                self.assertLess(time.monotonic() - begin, 2)
        finally:
            stop.set()
            for thread in guessing:
                thread.join()
        # most of them are not even looked at
        self.assertEqual(set(answers), {401, 429})
        self.assertGreater(answers.count(429), answers.count(401))

    def test_tls(self):
        """What is served is the same; who does not speak TLS gets nothing."""
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
        # one that says nothing does not keep the others from it
        with socket.create_connection(("127.0.0.1", serving.port)):
            self.assertEqual(self.tls(serving)[0], 200)

    def test_certificates_of_clients(self):
        """One that our CA has signed, and no other."""
        for name, ca in (("server", None), ("ours", None), ("theirs", None),
                         ("friend", "ours"), ("stranger", "theirs")):
            if ca:
                # an old openssl cannot sign in one step
                subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt",
                                "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                                f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"],
                               cwd=self.folder, check=True, capture_output=True)
                subprocess.run(["openssl", "x509", "-req", "-in", f"{name}.csr", "-CA",
                                f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
                                "-days", "2", "-out", f"{name}.pem"],
                               cwd=self.folder, check=True, capture_output=True)
            else:
                self.certificate(name)
        config = self.config("tls_server_config:\n  cert_file: server.pem\n"
                             "  key_file: server.key\n  client_ca_file: ours.pem\n"
                             "  client_auth_type: RequireAndVerifyClientCert\n")
        serving = self.serve(self.made, "--config", str(config))
        self.assertEqual(self.tls(serving, "friend")[0], 200)
        for certificate in (None, "stranger"):
            try:
                self.assertEqual(self.tls(serving, certificate)[0], 403)
            except (ssl.SSLError, ConnectionError):
                pass	# it may have been told during the handshake

    def test_wrong_files(self):
        """One line, with the place in the file, and status 2."""
        self.certificate("server")
        self.certificate("other")
        tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: "
        for text, wanted in (
                ("basic_auth_users:\n  me: password\n", ":2: the hash of user 'me' is none"),
                ("basic_auth_users:\n  me: $2y$05$short\n", ":2: the hash of user 'me' is none"),
                (f"basic_auth_users:\n  me: {SECRET}x\n", ":2: the hash of user 'me' is none"),
                ("basic_auth_users: [a]\n", ":1: names with values are wanted here"),
                (tls + "other.key\n", "the certificate in .*server.pem and the key in .*other.key: "),
                (tls + "missing.key\n", "missing.key: No such file or directory"),
                (tls + "server.key\n  client_auth_type: Maybe\n", ":4: client_auth_type is"),
                (tls + "server.key\n  client_ca_file: server.key\n"
                 "  client_auth_type: RequireAndVerifyClientCert\n", "server.key: "),
                (tls + "server.key\n  min_version: SSL30\n", ":4: min_version is TLS12 or TLS13"),
                ("tls_server_config:\n  cert_file: server.pem\n", "need each other"),
                ("rate_limit: 5\n", ":1: 'rate_limit' is not known here"),
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
