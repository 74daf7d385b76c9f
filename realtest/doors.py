"""What must work on two healthy engines: every door, with the official clients, streaming included."""

import concurrent.futures
import json
import time

import anthropic
import openai

import raw
from fleet import FOREVER, MODEL, chat, eventually, fresh, saw, words

WEATHER = {
    "name": "get_weather", "description": "the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
                   "required": ["city"]},
}
LONG = {"vllm": 12000, "sglang": 8000, "llama": 4000, "ollama": 4000}  # tokens that take the engine a second or more to read


class Doors:
    """Mixed into a Fleet; `kind` says which engine answers."""

    def tearDown(self):
        """After every test nothing runs, and the router's books are empty: each reservation was ended once."""
        super().tearDown()
        self.idle()
        if self.router and self.router.process.poll() is None:
            eventually("the router's books are empty", lambda: self.books() == (0, 0))
            self.assertEqual(self.router.endpoints()["stats"]["double_finished"], 0)

    def books(self):
        """Open leases and outstanding requests, by the router."""
        told = self.router.endpoints()
        return told["stats"]["leases"], sum(e["load"]["requests"] for e in told["endpoints"])

    # OpenAI

    def test_chat_answers_with_usage(self):
        answer = self.openai.chat.completions.create(**self.chat("hello"))
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 8)
        self.assertGreater(answer.usage.prompt_tokens, 5)

    def test_chat_stream_has_usage_only_when_asked(self):
        for asked in (False, True):
            fields = {"stream_options": {"include_usage": True}} if asked else {}
            with self.openai.chat.completions.create(**self.chat("hello"), stream=True, **fields) as stream:
                chunks = list(stream)
            finishes = [c.choices[0].finish_reason for c in chunks if c.choices]
            self.assertEqual([f for f in finishes if f], ["length"])
            usages = [c.usage for c in chunks if c.usage]
            self.assertEqual(len(usages), 1 if asked else 0)
            if asked:
                self.assertEqual(usages[0].completion_tokens, 8)
                self.assertEqual(chunks[-1].choices, [])

    def test_stream_ends_with_done(self):
        stream = raw.post(self.url, "/v1/chat/completions", chat("hello", stream=True))
        self.assertIn("text/event-stream", stream.headers["Content-Type"])
        self.addCleanup(stream.close)
        self.assertGreaterEqual(stream.drain(), 4)
        self.assertEqual((stream.end, stream.errors), ("done", []))

    def test_completions_answer_and_stream(self):
        request = {"model": MODEL, "prompt": "once upon a time", "max_tokens": 8, "extra_body": {"ignore_eos": True}}
        self.assertEqual(self.openai.completions.create(**request).usage.completion_tokens, 8)
        with self.openai.completions.create(**request, stream=True) as stream:
            reasons = [c.choices[0].finish_reason for c in stream if c.choices]
        self.assertEqual(reasons[-1], "length")

    def test_responses_answer_and_stream(self):
        request = {"model": MODEL, "input": "hello", "max_output_tokens": 8}
        self.assertIn(self.openai.responses.create(**request).usage.output_tokens, range(1, 9))
        with self.openai.responses.create(**request, stream=True) as stream:
            kinds = [event.type for event in stream]
        self.assertEqual(kinds[0], "response.created")
        self.assertIn(kinds[-1], ("response.completed", "response.incomplete"))

    def test_responses_are_read_from_the_engine_that_holds_them(self):
        if self.kind in ("llama", "ollama"):
            self.skipTest("llama-server and Ollama keep no responses")
        held = [self.openai.responses.create(model=MODEL, input=f"remember {fresh()}", max_output_tokens=4).id
                for _ in range(6)]
        for name in held:
            self.assertEqual(self.openai.responses.retrieve(name).id, name)

    def test_embeddings(self):
        if self.kind == "llama":
            numbers = self.openai.embeddings.create(model=MODEL, input="hello").data[0].embedding
            self.assertGreater(len(numbers), 100)
        else:
            with self.assertRaises(openai.APIStatusError) as refused:
                self.openai.embeddings.create(model=MODEL, input="hello")
            own = raw.ask(self.engines[0].url, "/v1/embeddings", {"model": MODEL, "input": "hello"})[0]
            self.assertEqual(refused.exception.status_code, own, "the engine's own refusal comes through")
            saw(self.kind, f"/v1/embeddings of a model that generates: {own}")

    def test_models_are_listed_once(self):
        self.assertEqual([m.id for m in self.openai.models.list()].count(MODEL), 1)

    def test_fields_the_router_does_not_know_survive_both_ways(self):
        text = f"hello {fresh()}"
        if self.kind == "vllm":
            answer = raw.ask(self.url, "/v1/chat/completions", chat(text, return_token_ids=True))[2]
            self.assertEqual(len(answer["choices"][0]["token_ids"]), 8)
        elif self.kind == "sglang":
            name = fresh()
            self.assertEqual(raw.ask(self.url, "/v1/chat/completions", chat(text, rid=name))[2]["id"], name)
        else:
            answer = raw.ask(self.url, "/v1/chat/completions", chat(text, timings_per_token=True))[2]
            self.assertEqual(answer["timings"]["predicted_n"], 8)

    def test_a_tool_call_comes_through(self):
        tools = [{"type": "function", "function": WEATHER}]
        plain = self.openai.chat.completions.create(**self.chat("hello")).usage.prompt_tokens
        if self.kind in ("llama", "ollama"):
            answer = self.openai.chat.completions.create(**self.chat("hello"), tools=tools)
        else:
            answer = self.forced_call(tools)
            self.assertEqual(answer.choices[0].message.tool_calls[0].function.name, "get_weather")
        self.assertGreater(answer.usage.prompt_tokens, plain + 20, "the tools are in the prompt")

    def forced_call(self, tools):
        """An answer in which a grammar makes the model call the tool; noise may need some tries to end its JSON."""
        for _ in range(6):
            answer = self.openai.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hello"}], max_tokens=500, temperature=1,
                tools=tools, tool_choice={"type": "function", "function": {"name": "get_weather"}})
            if answer.choices[0].message.tool_calls:
                return answer
        self.fail("no tool call in six tries")

    def test_the_engine_gets_the_very_prompt(self):
        text = 'd\u00e9j\u00e0 vu \u65e5\u672c\u8a9e \U0001f600 "quoted" back\\slash \u0000 tab\t' + fresh()
        through = raw.ask(self.url, "/v1/chat/completions", chat(text))[2]
        direct = raw.ask(self.engines[0].url, "/v1/chat/completions", chat(text))[2]
        self.assertEqual(through["usage"]["prompt_tokens"], direct["usage"]["prompt_tokens"])

    def test_request_id_is_echoed_and_reaches_the_engine(self):
        self.need_router()
        name = fresh()
        _, headers, answer = raw.ask(self.url, "/v1/chat/completions", chat("hello"), {"X-Request-Id": name})
        self.assertEqual(headers.get_all("X-Request-Id"), [name])
        if self.kind == "vllm":
            self.assertEqual(answer["id"], f"chatcmpl-{name}")

    def test_an_unknown_model_is_a_404_with_the_known_names(self):
        if not self.router and self.kind != "vllm":
            status = raw.ask(self.url, "/v1/chat/completions", chat("hello") | {"model": "wrong"})[0]
            saw(self.kind, f"a wrong model name: {status}")
            self.skipTest("this engine takes any name; the router does not")
        with self.assertRaises(openai.NotFoundError) as refused:
            self.openai.chat.completions.create(**self.chat("hello") | {"model": "wrong"})
        self.assertIn(MODEL, refused.exception.message)

    def test_a_prompt_that_is_too_long_is_the_clients_fault(self):
        with self.assertRaises(openai.BadRequestError):
            self.openai.chat.completions.create(**self.chat(words(self.kind, 40000)))
        for _ in range(4):
            self.openai.chat.completions.create(**self.chat("hello"))
        if self.router:
            self.assertEqual([e["state"] for e in self.router.endpoints()["endpoints"]], ["up", "up"])

    # Anthropic

    def test_messages_answer_and_stream(self):
        # Always the same first token: llama-server 0.7.0 leaves message_start out when that is a part of a character.
        request = {"model": MODEL, "max_tokens": 8, "system": "be brief", "messages": [{"role": "user", "content": "hello"}],
                   "extra_body": {"temperature": 0}}
        answer = self.anthropic.messages.create(**request)
        self.assertEqual(answer.type, "message")
        self.assertGreater(answer.usage.output_tokens, 0)
        with self.anthropic.messages.stream(**request) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_message()
        self.assertEqual((kinds[0], kinds[-1]), ("message_start", "message_stop"))
        self.assertGreater(final.usage.output_tokens, 0)

    def test_messages_with_an_unknown_model_get_anthropics_error(self):
        self.need_router()
        with self.assertRaises(anthropic.NotFoundError) as refused:
            self.anthropic.messages.create(model="wrong", max_tokens=8, messages=[{"role": "user", "content": "hello"}])
        self.assertEqual(refused.exception.body["error"]["type"], "not_found_error")

    def test_count_tokens(self):
        count = self.anthropic.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hello"}])
        self.assertGreater(count.input_tokens, 3)

    # Native paths

    def test_a_native_path_is_passed_on(self):
        path, body = {
            "vllm": ("/tokenize", {"model": MODEL, "prompt": "hello"}),
            "sglang": ("/generate", {"text": "hello", "sampling_params": {"max_new_tokens": 4}}),
            "llama": ("/tokenize", {"content": "hello"}),
        }[self.kind]
        status, _, answer = raw.ask(self.url, path, body)
        self.assertEqual(status, 200, answer)
        self.assertTrue({"tokens", "text"} & set(answer), answer)

    # Conversations

    def test_a_conversation_stays_on_its_engine_and_its_cache_grows(self):
        session, messages, users, cached, prompt = fresh(), [], set(), [], 0
        before = self.router.metrics().get("warmpath_cached_tokens_total", 0) if self.router else 0
        for turn in range(5):
            messages.append({"role": "user", "content": words(self.kind, 300, f"{session} turn {turn}")})
            request = {"model": MODEL, "messages": messages, "max_tokens": 8, "extra_body": {"ignore_eos": True}}
            answer, used = self.user_of(lambda: self.openai.chat.completions.create(
                **request, extra_headers={"X-Session-Id": session}))
            users.update(used)
            cached.append(answer.usage.prompt_tokens_details.cached_tokens)
            self.assertGreater(answer.usage.prompt_tokens, prompt)
            prompt = answer.usage.prompt_tokens
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        self.assertEqual(len(users), 1, "one engine computes every turn")
        self.assertEqual(sorted(cached), cached)
        self.assertGreater(cached[-1], 0.6 * prompt)
        saw(self.kind, f"five turns: cached tokens {cached}, the last prompt had {prompt}")
        if self.router:
            counted = self.router.metrics()["warmpath_cached_tokens_total"] - before
            self.assertEqual(counted, sum(cached), "the router reads cached tokens from usage")

    def test_usage_is_counted_where_much_follows_it(self):
        """Log probabilities, token ids and vectors keep it more than 8 KB from the end of the answer."""
        self.need_router()
        for path, body in {
            "sglang": [("/generate", {"text": words(self.kind, 200, fresh()), "return_logprob": True, "sampling_params": {"max_new_tokens": 600, "ignore_eos": True}})],
            "vllm": [("/v1/chat/completions", chat(words(self.kind, 4000, fresh()), return_token_ids=True))],
            "llama": [("/v1/embeddings", {"model": MODEL, "input": [fresh() for _ in range(8)]})],
        }.get(self.kind, []):
            for stream in (False, True) if path == "/generate" else (False,):
                with self.subTest(path, stream=stream):
                    before = self.router.metrics()
                    answer = raw.post(self.url, path, body | ({"stream": True} if stream else {}))
                    self.addCleanup(answer.close)
                    found = list(answer.read())[-1] if stream else json.loads(answer.answer.read())
                    usage = found.get("usage") or found["meta_info"]
                    after = self.router.metrics()
                    for name in ("prompt", "output"):
                        counted = after.get(f"warmpath_{name}_tokens_total", 0) - before.get(f"warmpath_{name}_tokens_total", 0)
                        self.assertEqual(counted, usage.get("prompt_tokens" if name == "prompt" else "completion_tokens", 0), name)

    def test_the_session_id_is_echoed_or_minted(self):
        self.need_router()
        name = fresh()
        for given in ({"X-Session-Id": name}, {}):
            headers = raw.ask(self.url, "/v1/chat/completions", chat("hello"), given)[1]
            echoed = headers.get_all("X-Session-Id")
            self.assertEqual(len(echoed), 1)
            self.assertEqual(echoed[0], name) if given else self.assertEqual(len(echoed[0]), 36)

    def test_many_conversations_are_spread(self):
        self.need_router()
        before = self.figures("prompt_tokens")

        def one(n):
            return self.openai.chat.completions.create(**self.chat(words(self.kind, 200, fresh())), extra_headers={"X-Session-Id": f"{n}{fresh()}"})

        # An engine that an earlier test has started anew takes ten times as long for a second or two: so many at once that it is used nevertheless.
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(one, range(72)))
        self.assertEqual([a.usage.completion_tokens for a in answers], [8] * 72)
        eventually("both engines computed some", lambda: all(b > a for a, b in zip(before, self.figures("prompt_tokens"))))

    # Clients that leave

    def test_a_client_that_leaves_its_stream_frees_the_engine(self):
        before = sum(self.figures("generated"))
        stream = self.endless()
        self.busy_engine()
        stream.close()
        self.assert_freed(before)

    def test_a_client_that_leaves_before_the_first_token_frees_the_engine(self):
        before = sum(self.figures("generated"))
        connection = raw.begin(self.url, "/v1/chat/completions", chat(words(self.kind, LONG[self.kind], fresh()), 3000, stream=True))
        self.busy_engine()
        connection.close()
        self.assert_freed(before)

    def test_a_client_that_leaves_a_plain_request_frees_the_engine(self):
        tokens = FOREVER
        if self.kind == "llama":
            tokens = 1000  # llama-server looks for a plain client that left every 30 s only
        before = sum(self.figures("generated"))
        connection = raw.begin(self.url, "/v1/chat/completions", chat(fresh(), tokens))
        self.busy_engine()
        connection.close()
        if self.router:
            eventually("the router's books are empty", lambda: self.books() == (0, 0))
        self.assert_freed(before)

    # Time to first token

    def test_time_to_first_token_is_measured_at_data(self):
        before = self.router.metrics() if self.router else {}
        stream = raw.post(self.url, "/v1/chat/completions", chat(words(self.kind, LONG[self.kind], fresh()), stream=True))
        self.addCleanup(stream.close)
        self.assertGreater(stream.drain(), 0, f"status {stream.status}")
        saw(self.kind, f"{LONG[self.kind]} tokens: headers after {stream.headers_at:.3f} s, first data after {stream.data_at:.3f} s")
        self.assertEqual(stream.end, "done")
        if self.router:
            after = self.router.metrics()
            name = "warmpath_ttft_seconds"
            counted = after[name + "_count"] - before.get(name + "_count", 0)
            seconds = after[name + "_sum"] - before.get(name + "_sum", 0)
            self.assertEqual(counted, 1)
            self.assertAlmostEqual(seconds, stream.data_at, delta=0.2 + 0.2 * stream.data_at)

    def test_short_prompts_go_before_long_ones_that_wait(self):
        """What comes while both engines compute long prompts, and more long ones wait, waits for those under way only."""
        self.need_router()
        for _ in range(3):  # a busy machine hides that prompts are computed one after the other
            queued, overtaken = self.long_then_short()
            if queued > 0 and overtaken >= 4:
                break
        if self.kind != "sglang":  # it computes several prompts in one step, which does not always look like one after the other
            self.assertGreater(queued, 0)
            self.assertGreaterEqual(overtaken, 4)

    def long_then_short(self):
        """How many of the requests stood in the router's queue, and how many long ones were overtaken by all short ones."""
        before = self.router.metrics().get("warmpath_queue_seconds_count", 0)
        came = []

        def ask(name, count):
            # four long prompts one after the other, on a machine that may be busy
            stream = raw.post(self.url, "/v1/chat/completions", chat(words(self.kind, count, fresh()), stream=True), timeout=300)
            self.assertEqual(len(stream.take(1)), 1, f"status {stream.status}: {stream.end} {stream.errors}")
            came.append(name)
            stream.drain()
            stream.close()
            return stream.data_at

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            list(pool.map(lambda n: ask("known", LONG[self.kind]), range(8)))  # it shows that prompts are computed one after the other
            long = [pool.submit(ask, "long", LONG[self.kind]) for _ in range(12)]
            time.sleep(0.3)
            short = [pool.submit(ask, "short", 50) for _ in range(6)]
            waited = [sum(f.result() for f in group) / len(group) for group in (long, short)]
        queued = self.router.metrics().get("warmpath_queue_seconds_count", 0) - before
        last = max(n for n, name in enumerate(came) if name == "short")
        overtaken = came[last:].count("long")
        saw(self.kind, f"12 long prompts and 6 short ones that came after them: first data after {waited[0]:.2f} and {waited[1]:.2f} s; "
                       f"{queued:.0f} stood in the router's queue, {overtaken} long ones were overtaken by all short ones")
        return queued, overtaken

    def chat(self, text):
        """The arguments of the openai client for an answer of eight tokens."""
        return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0,
                "extra_body": {"ignore_eos": True}}
