"""KV events of real engines: what the router predicts to be cached against what the engines report.

    WARMPATH_REAL=DIR TESTS=test_events realtest/run.sh vllm sglang

Two engines of a kind with small caches, so that much is evicted; more conversations than fit, then a restart of one engine.
"""

import http.client
import json
import os
import random
import re
import threading
import time
import unittest

import engines
import raw
import router as routers

BLOCK = 32
BLOCKS = 256


class Publisher(engines.Engine):
    """An engine that publishes KV events at ports after its own, with a small cache."""

    replay = 2  # the replay port, after its own

    def __init__(self, kind, port, directory, logs):
        super().__init__(kind, port, directory, logs)
        config = {"publisher": "zmq", "endpoint": f"tcp://*:{port + 1}", "replay_endpoint": f"tcp://*:{port + self.replay}", "topic": "kv"}
        if kind == "vllm":
            config["enable_kv_cache_events"] = True
            self.extra = ["--kv-events-config", json.dumps(config), "--num-gpu-blocks-override", BLOCKS, "--max-model-len", 4096]
        else:
            self.extra = ["--kv-events-config", json.dumps(config), "--max-total-tokens", BLOCKS * BLOCK, "--context-length", 4096]


class Events:
    """What must hold of any kind; the subclasses say which."""

    kind = None
    options = ()

    @classmethod
    def setUpClass(cls):
        directory = engines.default_dir()
        kinds = os.environ.get("REAL_KINDS", "").split()
        why = engines.missing(cls.kind, directory)
        binary = os.environ.get("REAL_ROUTER")
        if kinds and cls.kind not in kinds:
            why = f"REAL_KINDS does not name {cls.kind}"
        if not binary:
            why = "needs the router"
        if why:
            raise unittest.SkipTest(why)
        logs = engines.logs("events")
        base = {"vllm": 19500, "sglang": 19600}[cls.kind]
        cls.fleet = [Publisher(cls.kind, base + 10 * i, directory, logs) for i in range(2)]
        cls.router = routers.Router(binary, cls.fleet, base + 80, base + 81, logs)
        cls.router.log.unlink(missing_ok=True)
        cls.router.command += ["--log-format", "json"]
        cls.router.command += cls.options
        engines.start_all(cls.fleet)
        try:
            cls.router.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.router.stop()
        for engine in cls.fleet:
            engine.stop()

    def lines(self):
        """The router's log, a dictionary a line."""
        return [json.loads(line) for line in self.router.log.read_text().splitlines() if line.startswith("{")]

    def hears(self, text, limit):
        """Seconds until a line holds a text."""
        began = time.monotonic()
        while time.monotonic() - began < limit:
            if any(text in line.get("detail", "") for line in self.lines()):
                return time.monotonic() - began
            time.sleep(0.05)
        self.fail(f"the router did not say {text!r} within {limit} s: {self.router.tail()}")

    def ask(self, session, messages):
        connection = http.client.HTTPConnection(self.router.url.removeprefix("http://"), timeout=120)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(
                {"model": engines.MODEL, "messages": messages, "max_tokens": 6, "temperature": 0}),
                {"Content-Type": "application/json", "X-Session-ID": session})
            answer = connection.getresponse()
            body = answer.read()
            self.assertEqual(answer.status, 200, body)
            return json.loads(body)["choices"][0]["message"]["content"] or ""
        finally:
            connection.close()

    def converse(self, seed, conversations, turns, at_once=1):
        """Conversations in turns of all of them, so that each has to come back after the others.

        One request at a time: what others evict between a decision and the moment the engine looks can be known by nobody.
        """
        rng = random.Random(seed)
        words = "red green blue stone river cloud paper engine table window forest signal copper winter".split()
        text = lambda n: " ".join(rng.choice(words) for _ in range(n))  # noqa: E731
        system = " ".join(words * 12)
        talks = [[{"role": "system", "content": system}] for _ in range(conversations)]
        for _ in range(turns):
            order = list(range(conversations))
            rng.shuffle(order)
            for talk in talks:
                talk.append({"role": "user", "content": text(90)})
            work, lock = list(order), threading.Lock()

            def run():
                while True:
                    with lock:
                        if not work:
                            return
                        i = work.pop()
                    talks[i].append({"role": "assistant", "content": self.ask(f"s{seed}-{i}", talks[i])})

            threads = [threading.Thread(target=run) for _ in range(at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def judge(self, since):
        """How many requests there were, and the share within one block."""
        time.sleep(0.3)
        turns = [line for line in self.lines()[since:] if line.get("msg") == "request" and "cached_tokens" in line]
        off = [abs(line["predicted_cached_tokens"] - line["cached_tokens"]) for line in turns]
        far = [(line["endpoint"], line["reason"], line["predicted_cached_tokens"], line["cached_tokens"], line["prompt_tokens"])
               for line, d in zip(turns, off) if d > BLOCK]
        print(f"\n{self.kind}: {len(turns)} requests, {len(far)} off by more than a block, "
              f"{sum(off)} tokens of {sum(line['prompt_tokens'] for line in turns)}: {far[:12]}")
        self.assertGreater(len(turns), 50)
        self.assertLessEqual(len(far), len(turns) / 100, far)

    def predicted(self):
        """[(endpoint, predicted, reported)] of the requests so far, in their order."""
        time.sleep(0.3)
        return [(line["endpoint"], line["predicted_cached_tokens"], line.get("cached_tokens"))
                for line in self.lines() if line.get("msg") == "request" and "predicted_cached_tokens" in line]

    def states(self):
        """The state of each endpoint's KV events."""
        text = engines.get(self.router.admin + "/metrics", 5)[1]
        return re.findall(r'^warmpath_kv_state\{.*state="(\w+)"\} 1$', text, re.MULTILINE)

    def test_events(self):
        for engine in self.fleet:
            self.hears("followed", 15)
        self.converse(0, 4, 2)  # what the first requests of all share is not known yet
        since = len(self.lines())
        self.converse(1, 24, 5)
        self.judge(since)

        self.fleet[0].kill_all()
        self.fleet[0].process.wait(30)
        self.fleet[0].start()
        self.fleet[0].wait()
        print(f"{self.kind}: a restart was said {self.hears('started anew', 3):.1f} s after it was ready")
        since = len(self.lines())
        self.converse(2, 16, 4)
        self.judge(since)


class VLLMEvents(Events, unittest.TestCase):
    kind = "vllm"

    def complete(self, prompt, **fields):
        status, _, answer = raw.ask(self.router.url, "/v1/completions", {"model": engines.MODEL, "prompt": prompt, "max_tokens": 1, **fields})
        self.assertEqual(status, 200, answer)

    def test_prompts_for_which_no_cache_is_read(self):
        """An evaluation asks for log probabilities behind the same examples: vLLM finds nothing, and says so."""
        examples = " ".join(f"value{n} = {n}" for n in range(60))
        for n in range(3):
            self.complete(f"{examples} warm {n}")
        since = len(self.predicted())
        for n in range(8):
            self.complete(f"{examples} asked {n}", echo=True, logprobs=1)
        self.assertEqual({(p, c) for _, p, c in self.predicted()[since:]}, {(0, None)})
        self.assertEqual(self.states(), ["exact", "exact"])
        since = len(self.predicted())
        for n in range(2):
            self.complete(f"{examples} after {n}")
        for _, p, c in self.predicted()[since:]:
            self.assertLessEqual(abs(p - c), BLOCK)
            self.assertGreater(c, 300)

    def test_a_router_that_starts_anew_takes_no_conversation_for_another(self):
        """It has no state file, and learns from the events what the engines hold, but not whose it is."""
        chance = random.Random("anew")
        text = lambda n: " ".join(chance.choice(["red", "green", "blue", "stone", "river"]) for _ in range(n))  # noqa: E731
        system = text(260)
        talks = [[{"role": "system", "content": system}] for _ in range(10)]

        def turn():
            for n, talk in enumerate(talks):
                talk.append({"role": "user", "content": text(120)})
                talk.append({"role": "assistant", "content": self.ask(f"{self.life}{n}", talk)})

        self.life = "first"
        for _ in range(3):
            turn()
        self.router.stop()
        self.router.start()
        self.hears("followed", 15)
        since, self.life = len(self.predicted()), "second"
        turn()
        over = [(p, c) for _, p, c in self.predicted()[since:] if p - c > 4 * BLOCK]
        print(f"\nvllm: turns after a restart of the router that were expected to find more than they did: {over}")
        self.assertEqual(over, [])


class SGLangEvents(Events, unittest.TestCase):
    kind = "sglang"


if __name__ == "__main__":
    unittest.main(verbosity=2)
