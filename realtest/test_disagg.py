"""Two real vLLM engines that hand KV cache over (NixlConnector), one computing prompts, one answering, with the router in front.

Needs what install.sh nixl adds to vLLM. Settings are those of test_real.py; without REAL_ROUTER there is nothing to test.
"""

import concurrent.futures
import json
import threading
import unittest

import engines
import fleet
import pair
import raw

LEASE = 8  # seconds that a prefiller keeps what no decoder fetches


class Half(engines.Engine):
    """One vLLM engine that can be either side of a hand-over."""

    def __init__(self, port, side, first_ucx, directory, logs):
        super().__init__("vllm", port, directory, logs)
        self.environment = {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side),
            "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "UCX_TCP_PORT_RANGE": f"{first_ucx}-{first_ucx + 19}",
            "NIXL_PTHR_DELAY_US": "1000", "VLLM_YIELD_SLEEP_S": "0.0003",  # see install.sh: no polling
        }
        self.extra = ("--kv-transfer-config", json.dumps({
            "kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu", "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": {"kv_lease_duration": LEASE},
        }))

    def wait(self, limit=engines.START_LIMIT):
        """On a processor with AMX vLLM 0.33.0 dies (SIGILL) where the first prompt that it works on is one that it has fetched."""
        took = super().wait(limit)
        pair.post(self.url, *pair.request("first", False, False))
        return took


class Disaggregated(pair.PairTest):
    kind, addon = "vllm", "nixl"

    @classmethod
    def halves(cls, ports, logs):
        return [Half(ports[0], ports[1], 31000, fleet.DIRECTORY, logs), Half(ports[2], ports[3], 31020, fleet.DIRECTORY, logs)]

    def test_1_the_text_of_one_engine(self):
        moved = "vllm:external_prefix_cache_hits_total"
        before = self.decoder.metrics().get(moved, 0)
        for n, (chat, stream) in enumerate([(c, s) for c in (False, True) for s in (False, True)]):
            path, body, got = self.same(n, chat, stream)
            self.assertEqual(got, pair.post(self.prefiller.url, path, body)[2])
        self.assertGreaterEqual(self.decoder.metrics().get(moved, 0) - before, 4 * 288)

    def test_2_twelve_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(12) as many:
            results = list(many.map(lambda n: self.same(100 + n, n % 2 == 0, n // 2 % 2 == 0), range(24)))
        for path, body, got in results:
            self.assertEqual(got, pair.post(self.prefiller.url, path, body)[2])
        self.assertEqual(self.leases(), 0)

    def test_3_a_client_that_leaves(self):
        for after, tokens in ((0.2, 9000), (1.5, 300)):
            self.leave(after, tokens)
            fleet.eventually("both engines are idle and hold nothing", lambda: all(
                engine.figure("running") == 0 and engine.metrics().get("vllm:kv_cache_usage_perc", 0) == 0 for engine in (self.prefiller, self.decoder)))
            fleet.eventually("no reservation is open", lambda: self.leases() == 0)
        self.assertEqual(self.prefiller.metrics().get("vllm:nixl_num_kv_expired_reqs_total", 0), 0)

    def test_4_the_prefiller_is_killed(self):
        want = [pair.post(self.decoder.url, *pair.request(300 + n, n % 2 == 0, False))[2] for n in range(12)]
        kill = threading.Timer(0.3, self.prefiller.kill_all)
        kill.start()
        with concurrent.futures.ThreadPoolExecutor(6) as many:
            results = list(many.map(lambda n: self.same(300 + n, n % 2 == 0, n // 2 % 2 == 0, want_split=False), range(12)))
        kill.join()
        self.assertEqual([got for _, _, got in results], want)
        self.assert_decoder_uncharged()

    def test_5_the_decoder_is_killed_and_both_are_back(self):
        """What is under way then is told as failed, or answered by the prefiller alone; afterwards all is split as before."""
        if self.prefiller.ending():
            self.back(self.prefiller)
        with concurrent.futures.ThreadPoolExecutor(6) as many:
            under_way = [many.submit(self.long_answer, n, n % 2 == 0) for n in range(6)]
            fleet.eventually("the decoder answers", lambda: self.decoder.figure("running") >= 3)
            self.decoder.kill_all()
            for answer in under_way:
                status, end, errors = answer.result(120)
                self.assertTrue(status >= 500 or end in ("plain", "done", "broken") or errors, f"cut as if it were whole: {status} {end}")
        fleet.eventually("no reservation is open", lambda: self.leases() == 0)
        self.back(self.decoder)
        for n in range(4):
            path, body, got = self.same(500 + n, n % 2 == 0, n // 2 % 2 == 0)
            self.assertEqual(got, pair.post(self.prefiller.url, path, body)[2])
        self.assertEqual(self.leases(), 0)

    def long_answer(self, seed, stream):
        """The status of an answer that takes seconds, how it ended, and the errors in it."""
        body = {"model": engines.MODEL, "prompt": pair.prompt(400 + seed), "max_tokens": 3000, "ignore_eos": True, "stream": stream}
        if not stream:
            return raw.ask(self.pair.url, "/v1/completions", body, timeout=120)[0], "plain", []
        answer = raw.post(self.pair.url, "/v1/completions", body, timeout=120)
        answer.drain()
        answer.close()
        return answer.status, answer.end, answer.errors

    def back(self, engine):
        """Starts an engine again, and waits until the router sees it."""
        engine.stop(grace=1)
        engine.start().wait()
        fleet.eventually("the router sees both", lambda: all(e["state"] == "up" for e in self.pair.endpoints()["endpoints"]), 60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
