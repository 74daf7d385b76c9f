"""aiperf's conversations through the router, over simulated engines that hand KV cache over, and over some that do not.

aiperf measures as it does for anybody: several turns a conversation, each with what was said before. What it reports, what the
router says it decided, and what went over the wire to both engines of each request must be one story. Needs install.sh aiperf;
the engines are those of `warmpath engine`. Settings are those of test_real.py; without REAL_ROUTER there is nothing to test.
"""

import collections
import itertools
import json
import os
import shutil
import subprocess
import unittest

import engines
import fleet
import simulated

CONVERSATIONS, TURNS = 8, 4
ANSWER = 24  # tokens
LIMIT = 120  # seconds for one run; 10 to 20 are usual, one or two of them under load
BLOCK = 16  # tokens of the simulated engines' KV blocks
CHAT = "/v1/chat/completions"
SEEDS = itertools.count(1)  # no run says what another one has said
# Names of headers that may carry a conversation's id, of those that the router knows and aiperf sends.
IDS = ("X-Session-ID", "X-Correlation-ID", "X-Session-Affinity")


class Run:
    """One run of aiperf, and what the engines were sent meanwhile."""

    def __init__(self, fleet_, folder, *args, environment=None):
        before = {e.name: {r.headers["X-Request-Id"] for r in e.tap.sent(CHAT)} for e in fleet_.engines}
        self.command = [
            fleet.DIRECTORY / "venv-aiperf/bin/aiperf", "profile", "--model", simulated.MODEL, "--url", fleet_.router.url, "--endpoint-type", "chat",
            "--tokenizer", "local/tiny", "--conversation-num", CONVERSATIONS, "--conversation-turn-mean", TURNS, "--concurrency", 4,
            "--isl", 300, "--osl", ANSWER, "--extra-inputs", "ignore_eos:true", "--random-seed", next(SEEDS), "--workers-max", 1, "--record-processors", 1,
            "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--output-artifact-dir", folder, *args,
        ]
        work = fleet.DIRECTORY / "cache"
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        env |= engines.offline(work) | {"HOME": str(work)} | (environment or {})
        process = subprocess.Popen(["nice", "-n", "10", *engines.words(self.command)], env=env, cwd=work, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            self.log = process.communicate(timeout=LIMIT)[0]
        finally:
            engines.end_group(process)
        self.code = process.returncode
        if self.code:
            raise AssertionError(f"aiperf ended with {self.code}: {self.log[-3000:]}")
        self.report = json.loads((folder / "profile_export_aiperf.json").read_text())
        lines = (folder / "profile_export.jsonl").read_text().splitlines()
        self.records = {r["metadata"]["x_request_id"]: r for r in map(json.loads, lines)}
        self.sent = {e.name: [r for r in e.tap.sent(CHAT) if r.headers["X-Request-Id"] not in before[e.name]] for e in fleet_.engines}

    def average(self, metric):
        return self.report[metric]["avg"]

    def times(self):
        text = f"{self.average('request_latency'):.0f} ms"
        return text + f", first token {self.average('time_to_first_token'):.0f} ms" if "time_to_first_token" in self.report else text

    def talks(self):
        """The records of each conversation, by its id, in the order of its turns."""
        found = collections.defaultdict(list)
        for r in self.records.values():
            found[r["metadata"]["x_correlation_id"]].append(r)
        return {k: sorted(v, key=lambda r: r["metadata"]["turn_index"]) for k, v in found.items()}


def value(record, metric):
    return record["metrics"][metric]["value"]


class Base:
    """One fleet for a class, and what holds for all of them."""

    kind = None  # of simulated
    at_home = 0.75  # of later turns, at least; a policy that looks at load may leave a busy home

    @classmethod
    def setUpClass(cls):
        if not (fleet.DIRECTORY / "venv-aiperf/installed").exists():
            raise unittest.SkipTest(f"aiperf is not installed in {fleet.DIRECTORY}: run realtest/install.sh aiperf {fleet.DIRECTORY}")
        if not fleet.ROUTER:
            raise unittest.SkipTest("REAL_ROUTER is not set")
        cls.logs = engines.logs("aiperf")
        cls.fleet, cls.facts = cls.kind(fleet.ROUTER, cls.logs), []
        cls.addClassCleanup(cls.fleet.stop)
        cls.fleet.start()

    @classmethod
    def tearDownClass(cls):
        for fact in cls.facts:
            fleet.saw(cls.kind.__name__, fact)

    def measure(self, *args, environment=None):
        """Runs aiperf, which must see no error, and be served every turn."""
        run = Run(self.fleet, self.folder(), *args, environment=environment)
        self.assertEqual(run.report["error_summary"], [])
        self.assertEqual((run.average("request_count"), run.average("request_error_rate")), (CONVERSATIONS * TURNS, 0))
        self.assertEqual(len(run.records), CONVERSATIONS * TURNS)
        self.assertEqual([len(turns) for turns in run.talks().values()], [TURNS] * CONVERSATIONS)
        self.sane(run, "--streaming" in args)
        return run

    def folder(self):
        """A new folder for what aiperf writes."""
        folder = self.logs / self.id()
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def sane(self, run, streaming):
        """What aiperf measured can be: in order, and as long as was asked for."""
        for r in run.records.values():
            self.assertEqual(value(r, "usage_completion_tokens"), ANSWER)
            latency = value(r, "request_latency")
            self.assertTrue(0 < latency < 10_000, r)
            if streaming:
                self.assertTrue(0 < value(r, "time_to_first_token") <= latency, r)
        if streaming:  # on a busy machine some come in one piece
            self.assertLess(run.average("time_to_first_token"), run.average("request_latency"))
            self.assertGreater(run.average("inter_token_latency"), 0)
            self.assertGreater(run.average("http_req_chunks_received"), 2, "answers did not come as streams")
        for turns in run.talks().values():
            sizes = [value(r, "usage_prompt_tokens") for r in turns]
            self.assertEqual(sizes, sorted(set(sizes)), "a turn does not go on from the one before")

    def books(self):
        """Nothing is open: not in the router's books, nor at any engine."""
        open_ = ["warmpath_leases", "warmpath_endpoint_outstanding_requests", "warmpath_endpoint_outstanding_prefill_tokens", "warmpath_endpoint_outstanding_decode_tokens"]
        metrics = self.fleet.router.metrics()
        self.assertEqual([name for name in open_ if name not in metrics], [])
        fleet.eventually("the books are empty", lambda: not any(self.fleet.router.metrics()[name] for name in open_))
        fleet.eventually("no engine has a request", lambda: not any(e.stats()["open"] for e in self.fleet.engines))

    def decisions(self, run):
        """What `warmpath explain` tells of a run: {request: {leg: decision}}."""
        command = [fleet.ROUTER, "explain", "--last", "1000", "--json", "--admin", self.fleet.router.admin]
        told = subprocess.run(command, check=True, timeout=30, capture_output=True, text=True).stdout.splitlines()
        found = collections.defaultdict(dict)
        for d in map(json.loads, told):
            if d["request"] in run.records:
                self.assertNotIn(d.get("leg", ""), found[d["request"]], "a leg was made twice")
                found[d["request"]][d.get("leg", "")] = d
        self.assertEqual(set(found), set(run.records))
        return found

    def homes(self, run, decisions, leg):
        """Each turn but the first finds its conversation's home to be where the turn before went; returns the share that stayed there."""
        stayed = []
        for turns in run.talks().values():
            before = None
            for r in turns:
                d = decisions[r["metadata"]["x_request_id"]][leg]
                if before:
                    self.assertEqual((d.get("home"), d["first_turn"]), (before, False), d)
                    stayed.append(d["endpoint"] == before)
                before = d["endpoint"]
        return sum(stayed) / len(stayed)

    def cached(self, run, decisions, leg):
        """The usage that aiperf got tells what the engine of the leg had cached: at its conversation's home all but the last turn. Returns the share of all."""
        for turns in run.talks().values():
            before = None
            for r in turns:
                at = decisions[r["metadata"]["x_request_id"]][leg]["endpoint"]
                prompt, hit = value(r, "usage_prompt_tokens"), value(r, "usage_prompt_cache_read_tokens")
                if before and before[0] == at:
                    self.assertTrue(before[1] - 2 * BLOCK <= hit < prompt, f"{hit} of {prompt} were cached, after a turn of {before[1]}")
                before = at, prompt
        return run.average("overall_usage_prompt_cache_read_pct") / 100


class Splits(Base):
    """Every request goes to two engines."""

    def whole_story(self, run, header):
        """Both legs of each request, on the wire and in the router's words."""
        decisions = self.decisions(run)
        legs = {"prefill": {}, "decode": {}}
        for e in self.fleet.engines:
            for sent in run.sent[e.name]:
                request = sent.headers["X-Request-Id"]
                self.assertNotIn(request, legs[e.role], f"{request} was sent twice")
                legs[e.role][request] = sent
                self.assertEqual(decisions[request][e.role]["endpoint"], self.fleet.endpoint(e))
        for leg, sent in legs.items():
            self.assertEqual(set(sent), set(run.records), f"ids of the {leg} legs")
        for request, r in run.records.items():
            talk = r["metadata"]["x_correlation_id"]
            for leg in legs:
                self.carries(legs[leg][request], talk, header)
                d = decisions[request][leg]
                self.assertEqual((d["conversation"], d["outcome"], d["split"]["why"]), (talk, "ok", "always"), d)
        shares = {leg: self.homes(run, decisions, leg) for leg in legs}
        hit = self.cached(run, decisions, "prefill")
        self.assertGreaterEqual(min(shares.values()), self.at_home, shares)
        self.books()
        for e in self.fleet.engines:
            kv = e.stats()["kv"]
            self.assertEqual((kv["refused"], kv["failed"], kv["expired"], kv["open"]), (0, 0, 0, 0), f"{e.name}: {kv}")
        at = ", ".join(f"{share:.0%} of later turns at their {leg} home" for leg, share in shares.items())
        self.facts.append(f"{len(run.records)} requests in two legs, {at}, {hit:.0%} of the prompts cached, {run.times()}")

    def carries(self, sent, talk, header):
        """A leg carries the conversation's id in aiperf's headers; vLLM is told it in X-Session-ID, for its KV events."""
        want = {header: talk, "X-Session-Affinity": talk} | ({"X-Session-ID": talk} if self.kind.dialect == "vllm" else {})
        self.assertEqual({name: sent.headers[name] for name in IDS if name in sent.headers}, want)

    def test_1_streams(self):
        self.whole_story(self.measure("--streaming"), "X-Correlation-ID")

    def test_2_whole_answers(self):
        self.whole_story(self.measure("--session-header", "X-Session-ID"), "X-Session-ID")

    def test_3_clients_that_leave(self):
        """Half of the requests are given up while they are under way; the others are answered, and nothing stays open."""
        run = Run(self.fleet, self.folder(), "--streaming", "--request-cancellation-rate", 50, "--request-cancellation-delay", 0.06)
        left = [r for r in run.records.values() if r["metadata"]["was_cancelled"]]
        self.assertGreater(len(left), CONVERSATIONS, "too few left")
        failed = [r["error"] for r in run.records.values() if r.get("error") and not r["metadata"]["was_cancelled"]]
        self.assertEqual(failed, [])
        self.books()
        for e in self.fleet.engines:
            self.assertEqual(e.stats()["kv"]["refused"], 0, e.name)
        self.facts.append(f"{len(left)} of {len(run.records)} requests given up, the others answered")


class Nixl(Splits, unittest.TestCase):
    kind = simulated.Nixl


class LMCache(Splits, unittest.TestCase):
    kind = simulated.LMCache


class SGLang(Splits, unittest.TestCase):
    kind = simulated.SGLang


class TRTLLM(Splits, unittest.TestCase):
    """trtllm-serve's own file. Workers are told the conversation by X-Correlation-ID, whatever header it came in, and in the body."""

    kind = simulated.TRTLLM
    at_home = 1

    def carries(self, sent, talk, header):
        want = {header: talk, "X-Session-Affinity": talk, "X-Correlation-ID": talk}
        self.assertEqual({name: sent.headers[name] for name in IDS if name in sent.headers}, want)
        self.assertEqual(sent.body.get("conversation_params"), {"conversation_id": talk})


class TRTLLMGenerationFirst(TRTLLM):
    kind = simulated.TRTLLMGenerationFirst


class Whole(Base, unittest.TestCase):
    """Three engines without roles. aiperf's id travels in a header that nobody knows, so that conversations are recognised by what they say."""

    kind = simulated.Whole

    def unnamed(self, *args):
        run = self.measure("--session-header", "X-Nobody-Knows", *args, environment={"AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID": "false"})
        decisions = self.decisions(run)
        reached = {}
        for e in self.fleet.engines:
            for sent in run.sent[e.name]:
                request = sent.headers["X-Request-Id"]
                self.assertNotIn(request, reached, "sent twice")
                reached[request] = e
                self.assertEqual(decisions[request][""]["endpoint"], self.fleet.endpoint(e))
                self.assertEqual(sent.headers["X-Nobody-Knows"], run.records[request]["metadata"]["x_correlation_id"])
                self.assertNotIn(sent.headers["X-Nobody-Knows"], [sent.headers[name] for name in IDS if name in sent.headers])
        self.assertEqual(set(reached), set(run.records))
        minted = set()
        for talk, turns in run.talks().items():
            ids = {decisions[r["metadata"]["x_request_id"]][""]["conversation"] for r in turns}
            self.assertEqual(len(ids), 1, f"{talk} was taken for several: {ids}")
            minted |= ids
        self.assertEqual(len(minted), CONVERSATIONS, "conversations were taken for one another")
        stayed = self.homes(run, decisions, "")
        hit = self.cached(run, decisions, "")
        self.assertGreaterEqual(stayed, self.at_home)
        self.books()
        self.facts.append(f"{len(run.records)} requests without ids, {CONVERSATIONS} conversations found, {stayed:.0%} of later turns at home, "
                          f"{hit:.0%} of the prompts cached, {run.times()}")

    def test_1_streams(self):
        self.unnamed("--streaming")

    def test_2_whole_answers(self):
        self.unnamed()


if __name__ == "__main__":
    unittest.main(verbosity=2)
