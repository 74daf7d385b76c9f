"""What users put before, behind and beside the router, over simulated engines: each client plays a script of its own, and what the
engines were sent and the router reports must agree with what the client saw.

Each test needs what install.sh or apt installs, and says so where it is missing. `run.sh users` runs them and ends with a line for
each. Needs REAL_ROUTER; settings as in test_real.py.
"""

import http.client
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse

import anthropic
import openai

import engines
import fleet
import raw
import simulated

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = HERE / "clients"
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
LIMIT = 120  # seconds for one client; 1 to 20 are usual


class Two(simulated.Whole):
    """Two engines with room for the prompts of coding agents."""

    roles = ("", "")

    def arguments(self, role):
        return ["--context", "262144", "--cache-tokens", "1000000", "--prefill-rate", "50000"]


class Rig(unittest.TestCase):
    """One fleet for a class."""

    @classmethod
    def setUpClass(cls):
        if not fleet.ROUTER:
            raise unittest.SkipTest("REAL_ROUTER is not set")
        cls.logs = engines.logs("clients")
        cls.fleet = Two(fleet.ROUTER, cls.logs)
        cls.addClassCleanup(cls.fleet.stop)
        cls.fleet.start()
        cls.url, cls.admin = cls.fleet.router.url, cls.fleet.router.admin

    def setUp(self):
        self.before = {path: len(self.all_sent(path)) for path in (CHAT, MESSAGES, RESPONSES)}
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="warmpath-home-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)

    def tearDown(self):
        """Each request was ended once, also those whose client left."""
        fleet.eventually("the router's books are empty", lambda: self.fleet.router.endpoints()["stats"]["leases"] == 0)
        self.assertEqual(self.fleet.router.endpoints()["stats"]["double_finished"], 0)

    def all_sent(self, path):
        return [r for e in self.fleet.engines for r in e.tap.sent(path)]

    def came(self, path):
        """How many requests came to this path in this test."""
        return len(self.all_sent(path)) - self.before[path]

    def need(self, path, what):
        if not path or not pathlib.Path(path).exists():
            self.skipTest(f"{path or what} is not there: run realtest/install.sh {what}")

    def need_program(self, name, package):
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        if not found:
            self.skipTest(f"{name} is not installed (Debian: apt-get install {package})")
        return found

    def play(self, *command, cwd=None, **env):
        """Runs a client in a home of its own, without proxies and keys of the user, and returns what it printed."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR", "GOFLAGS", "GOPROXY", "GOCACHE", "GOMODCACHE", "GOTOOLCHAIN")}
        process = subprocess.Popen(engines.words(command), env=kept | {"HOME": str(self.home), "NO_PROXY": "*"} | env, cwd=cwd or self.home,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = process.communicate(timeout=LIMIT)
        finally:
            engines.end_group(process)
        self.assertEqual(process.returncode, 0, f"{command[0]}: {out[-2000:]}\n{err[-3000:]}")
        return out

    def get(self, url):
        """The JSON of an answer with status 200."""
        status, text = engines.get(url, timeout=5)
        self.assertEqual(status, 200, f"{url}: {text}")
        return json.loads(text)

    def start_aside(self, name, *command, ready, limit=60, **env):
        """Starts a server in the home of the test and returns when ready() is true; its log is NAME.log."""
        kept = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
        log = self.logs / f"{name}.log"
        with open(log, "ab") as to:
            process = subprocess.Popen(engines.words(command), env=kept | {"HOME": str(self.home)} | env, cwd=self.home,
                                       stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True)
        self.addCleanup(engines.end_group, process)

        def lives():
            self.assertIsNone(process.poll(), f"{name} ended: {log.read_text()[-2000:]}")
            try:
                return ready()
            except (OSError, http.client.HTTPException):
                return False

        fleet.eventually(f"{name} is ready", lives, limit=limit)
        return log


class Libraries(Rig):
    def test_openai_python(self):
        """What a script of the library's README does. test_real.py asks it for more, before real engines."""
        client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)
        self.assertEqual([m.id for m in client.models.list()], [simulated.MODEL])
        asked = {"model": simulated.MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
        self.assertEqual(client.chat.completions.create(**asked).usage.completion_tokens, 8)
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].usage.completion_tokens, 8)
        self.assertTrue(client.responses.create(model=simulated.MODEL, input="hello", max_output_tokens=8).output_text)
        with self.assertRaises(openai.NotFoundError) as wrong:
            client.chat.completions.create(**asked | {"model": "nothing"})
        self.assertEqual(wrong.exception.code, "model_not_found")
        self.assertEqual((self.came(CHAT), self.came(RESPONSES)), (2, 1))

    def test_anthropic_python(self):
        client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0, timeout=60)
        asked = {"model": simulated.MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
        self.assertEqual(client.messages.create(**asked).usage.output_tokens, 8)
        with client.messages.stream(**asked) as stream:
            self.assertTrue("".join(stream.text_stream))
            self.assertEqual(stream.get_final_message().usage.output_tokens, 8)
        with self.assertRaises(anthropic.NotFoundError) as wrong:
            client.messages.create(**asked | {"model": "nothing"})
        self.assertEqual(wrong.exception.body["error"]["type"], "not_found_error")
        self.assertEqual(self.came(MESSAGES), 2)

    def play_node(self, package, name):
        """Plays a script of clients/, in a folder from where Node finds its packages."""
        modules = fleet.DIRECTORY / "node/node_modules"
        self.need(modules / package, "agents")
        script = self.home / name
        script.write_text((CLIENTS / name).read_text())
        (self.home / "node_modules").symlink_to(modules)
        self.assertIn("ok", self.play(self.need_program("node", "nodejs"), script, self.url, simulated.MODEL))

    def test_openai_node(self):
        self.play_node("openai", "openai.mjs")
        self.assertEqual(self.came(CHAT), 3)

    def test_ai_sdk(self):
        self.play_node("ai", "ai.mjs")
        self.assertEqual((self.came(RESPONSES), self.came(CHAT), self.came(MESSAGES)), (3, 6, 3))

    def test_openai_agents(self):
        python = fleet.DIRECTORY / "venv-openai-agents/bin/python"
        self.need(fleet.DIRECTORY / "venv-openai-agents/installed", "openai_agents")
        self.assertIn("ok", self.play(python, "-B", CLIENTS / "openai_agents.py", self.url, simulated.MODEL))
        self.assertEqual((self.came(RESPONSES), self.came(CHAT)), (4, 4))

    def test_openai_go(self):
        self.need(fleet.DIRECTORY / "openai-go/openai-go", "openai_go")
        self.assertIn("ok", self.play(fleet.DIRECTORY / "openai-go/openai-go", self.url, simulated.MODEL))
        self.assertEqual((self.came(CHAT), self.came(RESPONSES)), (2, 1))

    def test_langchain(self):
        python = fleet.DIRECTORY / "venv-langchain/bin/python"
        self.need(fleet.DIRECTORY / "venv-langchain/installed", "langchain")
        self.assertIn("ok", self.play(python, "-B", CLIENTS / "langchain_chat.py", self.url, simulated.MODEL))
        self.assertGreaterEqual(self.came(CHAT), 8)
        self.assertEqual(self.came(RESPONSES), 1)


class OpenWebUI(Rig):
    """The requests of Open WebUI's two kinds of connections, with ENABLE_FORWARD_USER_INFO_HEADERS; the program itself is not run."""

    def chat(self, chat, messages, **fields):
        headers = {"Authorization": "Bearer none", "X-OpenWebUI-User-Name": "Ann%20Example", "X-OpenWebUI-User-Id": "u-1",
                   "X-OpenWebUI-User-Email": "ann@example.com", "X-OpenWebUI-User-Role": "user", "X-OpenWebUI-Chat-Id": chat}
        return raw.ask(self.url, CHAT, {"model": simulated.MODEL, "messages": messages, "max_tokens": 8, **fields}, headers)

    def test_openai_connection(self):
        self.assertEqual([m["id"] for m in self.get(self.url + "/v1/models")["data"]], [simulated.MODEL])
        homes = {}
        for chat in (fleet.fresh() for _ in range(4)):
            talk = [{"role": "system", "content": "Keep to the documents. " * 40}]
            for turn in range(3):
                talk.append({"role": "user", "content": f"{chat} asks {turn}"})
                status, headers, answer = self.chat(chat, talk)
                self.assertEqual((status, headers["X-Session-Id"]), (200, chat), "the chat's id is the conversation's")
                talk.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
            status, headers, _ = self.chat(chat, [{"role": "user", "content": "### Task:\nGenerate a title."}], max_completion_tokens=1000)
            self.assertEqual((status, headers["X-Session-Id"]), (200, chat))
        for e in self.fleet.engines:
            for r in e.tap.sent(CHAT):
                if "X-OpenWebUI-Chat-Id" in r.headers and len(r.body["messages"]) > 1:
                    homes.setdefault(r.headers["X-OpenWebUI-Chat-Id"], set()).add(e.name)
        self.assertEqual([len(h) for h in homes.values()], [1] * 4, "an idle fleet keeps each chat at its engine")

    def test_a_stream_ends_with_usage_and_done(self):
        stream = raw.post(self.url, CHAT, {"model": simulated.MODEL, "messages": [{"role": "user", "content": "hello"}], "stream": True,
                                           "max_tokens": 8, "stream_options": {"include_usage": True}})
        self.addCleanup(stream.close)
        self.assertGreaterEqual(stream.drain(), 4)
        self.assertEqual((stream.end, stream.errors), ("done", []))

    def test_ollama_connection(self):
        """Its Ollama connection needs Ollama behind the router; another engine is named in the refusal."""
        status, _, answer = raw.ask(self.url, "/api/chat", {"model": simulated.MODEL, "messages": [{"role": "user", "content": "hello"}]})
        self.assertEqual((status, answer["error"]["code"] if isinstance(answer["error"], dict) else "api_not_served"), (404, "api_not_served"))
        ollama = simulated.Simulated(fleet.ROUTER, "ollama", "", "--dialect", "ollama")
        self.addCleanup(ollama.stop)
        router = simulated.router.Router(fleet.ROUTER, [ollama], *fleet.free_ports(2), self.logs)
        self.addCleanup(router.stop)
        router.start()
        self.get(router.url + "/api/version")
        tags = self.get(router.url + "/api/tags")
        self.assertEqual(len(tags["models"]), 1, tags)
        self.get(router.url + "/api/ps")
        status, _, answer = raw.ask(router.url, "/api/chat", {"model": tags["models"][0]["model"], "stream": False,
                                                               "messages": [{"role": "user", "content": "hello"}]})
        self.assertEqual((status, answer["done"]), (200, True), answer)


class Agents(Rig):
    """The coding agents themselves, whose only way out is the router. What they ask the model to do is not done: its answers are noise."""

    def test_claude_code(self):
        program = fleet.DIRECTORY / "node/node_modules/.bin/claude"
        self.need(program, "agents")
        settings = {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": simulated.MODEL,
                    "ANTHROPIC_SMALL_FAST_MODEL": simulated.MODEL, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        first = json.loads(self.play(program, "-p", "say hello", "--output-format", "json", **settings))
        self.assertFalse(first["is_error"], first)
        again = json.loads(self.play(program, "-p", "and again", "--continue", "--output-format", "json", **settings))
        self.assertFalse(again["is_error"], again)
        self.one_conversation(MESSAGES, "say hello", first["session_id"])

    def test_codex(self):
        program = fleet.DIRECTORY / "node/node_modules/.bin/codex"
        self.need(program, "agents")
        (self.home / ".codex").mkdir()
        (self.home / ".codex/config.toml").write_text(
            f'model = "{simulated.MODEL}"\nmodel_provider = "here"\n\n[model_providers.here]\nname = "here"\nbase_url = "{self.url}/v1"\nwire_api = "responses"\n')
        said = self.play(program, "exec", "--skip-git-repo-check", "--json", "say hello")
        self.assertIn('"turn.completed"', said)
        self.assertIn('"turn.completed"', self.play(program, "exec", "--skip-git-repo-check", "--json", "resume", "--last", "and again"))
        self.one_conversation(RESPONSES, "say hello", next(json.loads(line)["thread_id"] for line in said.splitlines() if "thread_id" in line))

    def one_conversation(self, path, text, session):
        """Both turns went to one engine, as the conversation that the agent named, and the router knew what was cached there."""
        homes = {e.name: [r for r in e.tap.sent(path) if text in json.dumps(r.body)] for e in self.fleet.engines}
        self.assertEqual(sorted(len(r) for r in homes.values()), [0, 2])
        decisions = self.get(self.admin + f"/admin/decisions?last=10&conversation={session}")["decisions"]
        self.assertEqual(len(decisions), 2, decisions)
        last = decisions[0]
        self.assertGreater(last["observed"]["cached_tokens"], 0.9 * last["observed"]["prompt_tokens"], last)
        self.assertEqual(last["predicted"]["cached_tokens"], last["observed"]["cached_tokens"], last)


class LiteLLM(Rig):
    """LiteLLM's proxy in front of the router, and behind it as if it were an engine."""

    def proxy(self, base):
        program = pathlib.Path(os.environ.get("WARMPATH_ARENA", "~/.cache/warmpath-arena")).expanduser() / "litellm/bin/litellm"
        if not program.exists():
            self.skipTest(f"{program} is not there: cd bench && go run ./arena -install -only litellm")
        port = fleet.free_ports(1)[0]
        config = self.home / "litellm.yaml"
        config.write_text(json.dumps({
            "model_list": [{"model_name": simulated.MODEL, "litellm_params": {"model": "openai/" + simulated.MODEL, "api_base": base + "/v1", "api_key": "none"}}],
            "litellm_settings": {"telemetry": False},
        }))
        url = f"http://127.0.0.1:{port}"
        self.start_aside("litellm", program, "--config", config, "--host", "127.0.0.1", "--port", port, limit=90,
                         ready=lambda: engines.get(url + "/health/liveliness", timeout=2)[0] == 200,
                         LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true", LITELLM_LOCAL_MODEL_COST_MAP="True")
        return url

    def talk(self, url, headers=None):
        talk = []
        for turn in range(3):
            talk.append({"role": "user", "content": f"tell me of rivers {turn}, please, and take your time with it"})
            status, _, answer = raw.ask(url, CHAT, {"model": simulated.MODEL, "messages": talk, "max_tokens": 8, "ignore_eos": True}, headers)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["usage"]["completion_tokens"], 8)
            talk.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        stream = raw.post(url, CHAT, {"model": simulated.MODEL, "messages": talk[:1], "max_tokens": 8, "stream": True})
        self.addCleanup(stream.close)
        self.assertGreater(stream.drain(), 1)
        self.assertEqual((stream.end, stream.errors), ("done", []))

    def test_in_front(self):
        self.talk(self.proxy(self.url))
        self.assertEqual(self.came(CHAT), 4)

    def test_behind(self):
        behind = self.proxy(self.url)  # a second router in front, with LiteLLM as its engine, which asks the first router
        router = simulated.router.Router(fleet.ROUTER, [], *fleet.free_ports(2), self.logs)
        router.command += ["--endpoint", behind]
        self.addCleanup(router.stop)
        router.start(limit=40)
        self.talk(router.url)
        self.assertEqual(self.came(CHAT), 4)


class Watchers(Rig):
    """What looks at the router rather than through it."""

    def test_prometheus_and_the_dashboard(self):
        program = self.need_program("prometheus", "prometheus")
        config = self.home / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(HERE.parent / "deploy/compose/alerts.yaml")],
            "scrape_configs": [{"job_name": "warmpath", "static_configs": [{"targets": [self.admin.removeprefix("http://")]}]}],
        }))
        port = fleet.free_ports(1)[0]
        url = f"http://127.0.0.1:{port}"
        self.start_aside("prometheus", program, f"--config.file={config}", f"--storage.tsdb.path={self.home}/data", f"--web.listen-address=127.0.0.1:{port}",
                         ready=lambda: engines.get(url + "/-/ready", timeout=2)[0] == 200)

        def ask(path):
            try:
                return json.loads(engines.get(url + path, timeout=5)[1])["data"]
            except (OSError, ValueError, KeyError):
                return None

        def healthy():
            told = ask("/api/v1/targets")
            return told and [t["health"] for t in told["activeTargets"]] == ["up"]

        def load():
            for turn in range(8):
                raw.ask(self.url, CHAT, {"model": simulated.MODEL, "messages": [{"role": "user", "content": f"hello {turn} " * 50}], "max_tokens": 4})

        fleet.eventually("the scrape works", healthy, limit=30)
        panels = json.loads((HERE.parent / "deploy/compose/grafana/dashboards/warmpath.json").read_text())["panels"]
        queries = [t["expr"] for p in panels + [q for p in panels for q in p.get("panels", [])] for t in p.get("targets", [])]
        self.assertGreater(len(queries), 5)

        def empty():
            load()
            return [q for q in queries if not (ask("/api/v1/query?query=" + urllib.parse.quote(q)) or {}).get("result")]

        left = queries
        end = time.monotonic() + 60
        while left and time.monotonic() < end:
            left = empty()
        self.assertEqual(left, [], "queries of the dashboard without data")
        rules = [r for g in ask("/api/v1/rules")["groups"] for r in g["rules"]]
        self.assertEqual([r["name"] for r in rules if r["health"] != "ok"], [])
        self.assertEqual([r["name"] for r in rules if r["state"] == "firing"], [], "a healthy fleet rings no alarm")

    def test_promtool(self):
        promtool = self.need_program("promtool", "prometheus")
        self.assertIn("SUCCESS", self.play(promtool, "check", "rules", HERE.parent / "deploy/compose/alerts.yaml"))
        text = engines.get(self.admin + "/metrics", timeout=5)[1]
        told = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual((told.returncode, told.stderr), (0, ""))

    def test_opentelemetry_collector(self):
        program = fleet.DIRECTORY / "otelcol/otelcol"
        self.need(program, "otelcol")
        http, grpc = fleet.free_ports(2)
        config = self.home / "otelcol.yaml"
        pipeline = {"receivers": ["otlp"], "exporters": ["debug"]}
        config.write_text(json.dumps({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{http}"}, "grpc": {"endpoint": f"127.0.0.1:{grpc}"}}}},
            "exporters": {"debug": {"verbosity": "detailed"}},
            "service": {"pipelines": {"traces": pipeline, "metrics": pipeline, "logs": pipeline}, "telemetry": {"metrics": {"level": "none"}}},
        }))
        log = self.start_aside("otelcol", program, "--config", config, ready=lambda: engines.get(f"http://127.0.0.1:{http}/", timeout=2))
        for protocol, port in (("http", http), ("grpc", grpc)):
            name = f"router-{protocol}"
            settings = self.home / "warmpath.yaml"
            settings.write_text(json.dumps({
                "otlp": {"endpoint": f"http://127.0.0.1:{port}", "protocol": protocol, "interval": "1s"}, "tracing": {"service_name": name},
            }))
            router = simulated.router.Router(fleet.ROUTER, self.fleet.engines, *fleet.free_ports(2), self.logs)
            router.command += ["-c", str(settings)]
            self.addCleanup(router.stop)
            router.start()
            trace = fleet.fresh()
            status, _, answer = raw.ask(router.url, CHAT, {"model": simulated.MODEL, "messages": [{"role": "user", "content": "secret"}], "max_tokens": 4},
                                        {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
            self.assertEqual(status, 200, answer)
            router.stop()  # delivers what is left
            # two spans, and the exemplars of the request's times
            fleet.eventually("spans, metrics and lines are there", lambda: log.read_text().count(trace) > 2 and "stopped: all requests have ended" in log.read_text())
            told = log.read_text()
            for part in (f"service.name: Str({name})", "service.instance.id: Str(", "Parent ID      : 00f067aa0ba902b7", "Kind           : Server", "Kind           : Client",
                         "Name: warmpath_ttft_seconds", "Name: warmpath_requests_total", "SeverityText: INFO", f"-> Trace ID: {trace}"):
                self.assertIn(part, told)
            self.assertNotIn("secret", told, "nothing holds the text of prompts")
            sent = [r for e in self.fleet.engines for r in e.tap.sent(CHAT) if trace in r.headers.get("traceparent", "")]
            self.assertEqual(len(sent), 1, "the engine can go on with the trace")
            log.write_text("")  # the collector appends

    def test_systemd_unit(self):
        analyze = self.need_program("systemd-analyze", "systemd")
        units = self.home / "units"
        shutil.copytree(HERE.parent / "release/systemd", units)
        service = units / "warmpath.service"
        service.write_text(service.read_text().replace("/usr/bin/warmpath", str(pathlib.Path(fleet.ROUTER).resolve())))
        told = subprocess.run([analyze, "verify", *sorted(map(str, units.glob("warmpath.s*")))], capture_output=True, text=True, timeout=60)
        about = [line for line in told.stderr.splitlines() if "warmpath" in line and "man warmpath" not in line]
        self.assertEqual(about, [])
        told = subprocess.run([analyze, "security", "--offline=true", "--threshold=20", service], capture_output=True, text=True, timeout=60)
        self.assertEqual(told.returncode, 0, told.stdout[-1500:] + told.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
