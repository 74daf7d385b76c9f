"""What must work on two healthy Ollamas: their own API, and what differs from other engines in OpenAI's and Anthropic's."""

import json
import time

import anthropic

import engines
import raw
from fleet import FOREVER, MODEL, eventually, fresh, saw, words


def ask(tokens=8, **fields):
    """A request of /api/chat or /api/generate whose answer has exactly `tokens` tokens."""
    return {"model": MODEL, "options": {"num_predict": tokens, "temperature": 0}, **fields}


def user(text):
    return [{"role": "user", "content": text}]


class OllamaDoors:
    """Mixed into a Fleet, before Doors."""

    def test_models_are_listed_once(self):
        self.assertEqual([m.id for m in self.openai.models.list()], [MODEL + ":latest"])
        for name in (MODEL, MODEL + ":latest"):
            self.assertEqual(self.openai.models.retrieve(name).id, name)
        for path in ("/api/tags", "/api/ps"):
            self.assertEqual([m["name"] for m in raw.get(self.url, path)["models"]], [MODEL + ":latest"])

    def test_a_native_path_is_passed_on(self):
        for path, fields in (("/api/chat", {"messages": user("hello")}), ("/api/generate", {"prompt": "hello"})):
            status, _, plain = raw.ask(self.url, path, ask(stream=False, **fields))
            self.assertEqual((status, plain["done_reason"], plain["eval_count"]), (200, "length", 8))
            stream = raw.post(self.url, path, ask(**fields))  # these paths stream unless told not to
            self.addCleanup(stream.close)
            lines = stream.text()
            self.assertGreater(len(lines), 4)
            self.assertTrue(json.loads(lines[-1])["done"])
            self.assertIn("ndjson", stream.headers["Content-Type"])
        status, _, shown = raw.ask(self.url, "/api/show", {"model": MODEL})
        self.assertEqual((status, shown["details"]["family"]), (200, "llama"))

    def test_fields_the_router_does_not_know_survive_both_ways(self):
        answer = raw.ask(self.url, "/api/chat", ask(stream=False, messages=user(fresh()), logprobs=True))[2]
        self.assertGreaterEqual(len(answer["logprobs"]), 4)

    def test_count_tokens(self):
        with self.assertRaises(anthropic.NotFoundError) as refused:
            self.anthropic.messages.count_tokens(model=MODEL, messages=user("hello"))
        if self.router:
            self.assertEqual(refused.exception.body["error"]["code"], "api_not_served")

    def test_errors_have_the_form_of_the_path(self):
        """Of Ollama and of the router alike: a string in Ollama's own API, an object in the others."""
        wrong = {"model": "wrong", "messages": user("hello"), "max_tokens": 8}
        broken = b'{"model":"tiny","messages":[{"role"'
        long = {"messages": user(words(self.kind, 40000)), "max_tokens": 8, "model": MODEL, "truncate": False}
        for path in ("/api/chat", "/v1/chat/completions", "/v1/messages"):
            for body, status in ((wrong, 404), (broken, 400), (long, 400)):
                got, _, answer = raw.ask(self.url, path, body)
                self.assertEqual(got, status, answer)
                self.assertIsInstance(answer["error"], str if path.startswith("/api") else dict)
        if self.router:
            self.assertEqual([e["state"] for e in self.router.endpoints()["endpoints"]], ["up", "up"])

    def test_a_conversation_stays_on_its_engine_and_its_cache_grows(self):
        """Before 0.33.3 Ollama does not report what was cached, and in Responses calls it 0; what computes tells it in the log."""
        for path in ("/api/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses"):
            session, messages, users, cached, prompt = fresh(), [], set(), [], 0
            for turn in range(5):
                messages += user(words(self.kind, 300, f"{session} turn {turn}"))
                body = {
                    "/api/chat": ask(stream=False, messages=messages), "/v1/responses": {"model": MODEL, "input": messages, "max_output_tokens": 8},
                }.get(path, {"model": MODEL, "messages": messages, "max_tokens": 8})
                before = self.figures("cached"), self.figures("prompt_tokens")
                (status, _, answer), used = self.user_of(lambda: raw.ask(self.url, path, body, {"X-Session-Id": session}))
                self.assertEqual(status, 200, answer)
                users.update(used)
                self.idle()
                cached.append(sum(self.figures("cached")) - sum(before[0]))
                prompt = sum(self.figures("prompt_tokens")) - sum(before[1])
                messages.append({"role": "assistant", "content": f"I see, {turn}"})
            self.assertEqual(len(users), 1, "one engine computes every turn")
            self.assertEqual(sorted(cached), cached)
            self.assertGreater(cached[-1], 0.6 * prompt)
            saw(self.kind, f"five turns of {path}: cached tokens {cached}, the last prompt had {prompt}")

    def test_a_model_that_repeats_itself_is_not_the_engines_fault(self):
        """Ollama ends such an answer without its mark; see warmpath's answer.GivesUp."""
        ends = []
        for _ in range(12):
            stream = raw.post(self.url, "/api/generate", ask(3000, prompt=fresh()))
            self.addCleanup(stream.close)
            ends.append(json.loads(stream.text()[-1]))
            self.assertEqual(stream.end, "closed")
        saw(self.kind, f"{sum(not end['done'] for end in ends)} of 12 answers ended without a mark")
        self.assertFalse([end for end in ends if "error" in end])
        if self.router:
            self.assertEqual([e["state"] for e in self.router.endpoints()["endpoints"]], ["up", "up"])

    def test_requests_go_where_the_model_is_in_memory(self):
        self.need_router()
        self.addCleanup(lambda: [engines.create_model(engine) for engine in self.engines])
        for resident, other in (self.engines, self.engines[::-1]):
            engines.create_model(resident)
            raw.ask(other.url, "/api/generate", {"model": MODEL, "keep_alive": 0})
            eventually("one has unloaded it", lambda: raw.get(other.url, "/api/ps")["models"] == [])
            time.sleep(3)  # a round of probes
            before = self.figures("prompt_tokens")
            for _ in range(4):
                self.assertEqual(raw.ask(self.url, "/api/chat", ask(stream=False, messages=user(fresh())))[0], 200)
            grown = [b - a for a, b in zip(before, self.figures("prompt_tokens"))]
            self.assertEqual(grown[self.engines.index(other)], 0, "the model is loaded nowhere else")
            self.assertEqual(raw.get(other.url, "/api/ps")["models"], [])

    def test_requests_for_two_contexts_part(self):
        """Ollama loads a model again for another num_ctx."""
        self.need_router()
        self.addCleanup(self.as_at_first)
        before = sum(self.figures("loads"))
        for turn in range(20):
            body = ask(stream=False, messages=user(fresh()))
            body["options"]["num_ctx"] = (4096, 8192)[turn % 2]
            self.assertEqual(raw.ask(self.url, "/api/chat", body)[0], 200)
        loads = sum(self.figures("loads")) - before
        saw(self.kind, f"20 requests for two contexts in turn: {loads:.0f} loads")
        self.assertLessEqual(loads, 4, "the two are not kept apart")

    def as_at_first(self):
        """Every model is loaded without a num_ctx, and a new router knows of none."""
        self.router.stop()
        for engine in self.engines:
            engines.create_model(engine)
        self.start_router()

    def test_a_client_that_leaves_frees_the_engine(self):
        """In Ollama's own API, plain and streamed."""
        for stream in (True, False):
            before = sum(self.figures("generated"))
            connection = raw.begin(self.url, "/api/chat", ask(FOREVER, stream=stream, messages=user(fresh())))
            self.busy_engine()
            connection.close()
            self.assert_freed(before)
