"""Two real SGLang servers that hand KV cache over in rooms, one for prefill and one for decode, with the router in front; and a third
one that does both, to compare with.

Needs what install.sh nixl_sglang adds to SGLang. Without REAL_ROUTER there is nothing to test.
"""

import concurrent.futures
import os
import threading
import time
import unittest

import engines
import fleet
import pair
from pair import post, prompt, request


class Half(engines.Engine):
    """One SGLang server of a role: prefill, decode, or both for one that does not take part."""

    def __init__(self, role, port, bootstrap, directory, logs):
        super().__init__("sglang", port, directory, logs)
        self.extra = []
        if role != "both":
            self.without = ("--enable-response-store",)  # refused with a role
            self.extra = ["--disable-overlap-schedule", "--disaggregation-mode", role, "--disaggregation-transfer-backend", "nixl",
                          "--disaggregation-bootstrap-port", bootstrap]
        if role == "decode":
            self.extra += ["--disaggregation-decode-retraction-backup", "none", "--disaggregation-decode-enable-radix-cache"]

    def start(self):
        os.environ["REAL_HOST_KV"] = "1"
        return super().start()


def ask(url, path, body):
    """The answer to a request as a value: of a stream, a list."""
    status, _, raw = pair.ask(url, path, body)
    if status != 200:
        return status, raw
    documents = pair.documents(raw)
    return 200, documents if body.get("stream") else documents[0]


class DisaggregatedSGLang(pair.PairTest):
    kind, addon = "sglang", "nixl_sglang"

    @classmethod
    def halves(cls, ports, logs):
        cls.alone = Half("both", ports[3], 0, fleet.DIRECTORY, logs)
        return [Half("prefill", ports[0], ports[1], fleet.DIRECTORY, logs), Half("decode", ports[2], ports[1], fleet.DIRECTORY, logs), cls.alone]

    def test_1_the_text_of_one_server(self):
        for n, (chat, stream) in enumerate([(c, s) for c in (False, True) for s in (False, True)]):
            path, body, got = self.same(n, chat, stream)
            self.assertEqual(got, post(self.alone.url, path, body)[2])

    def test_2_twelve_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(12) as many:
            results = list(many.map(lambda n: self.same(100 + n, n % 2 == 0, n // 2 % 2 == 0), range(24)))
        for path, body, got in results:
            self.assertEqual(got, post(self.alone.url, path, body)[2])
        self.assertEqual(self.leases(), 0)

    def test_3_lists_of_prompts(self):
        body = {"model": engines.MODEL, "prompt": [prompt(1, 40), prompt(2, 50), prompt(3, 60)], "max_tokens": 6, "temperature": 0}
        status, got = ask(self.pair.url, "/v1/completions", body)
        self.assertEqual(status, 200, got)
        want = ask(self.alone.url, "/v1/completions", body)[1]
        self.assertEqual([c["text"] for c in got["choices"]], [c["text"] for c in want["choices"]])

    def test_4_log_probabilities_of_the_prompt(self):
        for stream in (False, True):
            body = {"text": prompt(7, 30), "sampling_params": {"max_new_tokens": 5, "temperature": 0}, "return_logprob": True,
                    "logprob_start_len": 0, "stream": stream}
            status, got = ask(self.pair.url, "/generate", body)
            self.assertEqual(status, 200, got)
            want = ask(self.alone.url, "/generate", body)[1]
            got, want = (v[-1] if stream else v for v in (got, want))
            self.assertEqual([t for _, t, _ in got["meta_info"]["input_token_logprobs"]], [t for _, t, _ in want["meta_info"]["input_token_logprobs"]])
            self.assertGreaterEqual(len(got["meta_info"]["input_token_logprobs"]), 30)
        body = {"model": engines.MODEL, "prompt": prompt(8, 30), "max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 1}
        got, want = (ask(url, "/v1/completions", body)[1]["choices"][0] for url in (self.pair.url, self.alone.url))
        self.assertEqual((got["text"], got["logprobs"]["tokens"]), (want["text"], want["logprobs"]["tokens"]))

    def test_5_several_answers_are_refused(self):
        status, said = ask(self.pair.url, "/v1/chat/completions",
                           {"model": engines.MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "n": 2})
        self.assertEqual(status, 400)
        self.assertIn("several answers", said)

    def test_6_a_client_that_leaves(self):
        for after, tokens in ((0.2, 9000), (2.5, 300)):
            self.leave(after, tokens)
            queues = ("running_reqs", "queue_reqs", "prefill_bootstrap_queue_reqs", "prefill_inflight_queue_reqs",
                      "decode_prealloc_queue_reqs", "decode_transfer_queue_reqs")
            fleet.eventually("both servers are idle", lambda: all(
                engine.metrics().get("sglang:num_" + name, 0) == 0 for engine in (self.prefiller, self.decoder) for name in queues))
            fleet.eventually("no reservation is open", lambda: self.leases() == 0)
        self.same(500, True, False)

    def test_7_the_prefiller_is_killed(self):
        kill = threading.Timer(0.3, self.prefiller.kill_all)
        kill.start()

        def one(n):
            path, body = request(300 + n, n % 2 == 0, False)
            began = time.monotonic()
            status, _, got = post(self.pair.url, path, body)
            return path, body, status, got, time.monotonic() - began

        def until_it_fails(n):
            """A quick machine answers twelve before the kill."""
            asked, until = [], time.monotonic() + 20
            while time.monotonic() < until:
                asked.append(one(n + 6 * len(asked)))
                if asked[-1][2] >= 500:
                    break
            return asked

        with concurrent.futures.ThreadPoolExecutor(6) as many:
            results = [asked for each in many.map(until_it_fails, range(6)) for asked in each]
        kill.join()
        for path, body, status, got, took in results:
            if status == 200:
                self.assertEqual(got, post(self.alone.url, path, body)[2])
            else:  # nobody is left who could compute a prompt
                self.assertGreaterEqual(status, 500, got)
                self.assertIn("error", got)
            self.assertLess(took, 60)
        self.assertTrue(any(status >= 500 for _, _, status, _, _ in results))
        self.assert_decoder_uncharged()


if __name__ == "__main__":
    unittest.main(verbosity=2)
