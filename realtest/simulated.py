"""Simulated engines (`warmpath engine`) behind taps, with the router in front of them: what the router sends to each is seen on the wire."""

import contextlib
import json
import socket
import subprocess
import threading

import engines
import fleet
import router
import tap

MODEL = "simulated"


class Simulated:
    """One `warmpath engine` process, and the tap through which the router talks to it."""

    def __init__(self, binary, name, role="", *args):
        self.name, self.role = name, role
        command = [binary, "engine", "--listen", "127.0.0.1:0", "--model", MODEL, *(["--role", role] if role else []), *args]
        self.process = subprocess.Popen(engines.words(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)
        first = self.process.stdout.readline()
        if " on http://" not in first:
            raise engines.Failed(f"{' '.join(self.process.args)}: {first}{self.process.stdout.read()}")
        self.own = first.split()[-1]
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.tap = tap.Tap(name, self.own)
        self.url = self.tap.url

    def stats(self):
        """What the engine says it did."""
        return json.loads(engines.get(self.own + "/_sim/stats", timeout=5)[1])

    def stop(self):
        self.tap.close()
        self.process.terminate()
        try:
            self.process.wait(12)
        except subprocess.TimeoutExpired:
            pass
        engines.end_group(self.process)


class Whole:
    """Engines without roles, and a router: nothing is split. The other fleets differ in what they override."""

    roles = ("",) * 3
    dialect, connector = "vllm", ""

    def __init__(self, binary, logs):
        self.binary, self.logs = binary, logs
        self.engines, self.router = [], None

    def start(self):
        for n, role in enumerate(self.roles):
            self.engines.append(Simulated(self.binary, f"{role or 'engine'}-{n}", role, "--dialect", self.dialect, *self.arguments(role)))
        listen, admin = fleet.free_ports(2)
        self.router = router.Router(self.binary, [], listen, admin, self.logs)
        self.router.command += engines.words(self.configuration())
        self.router.start()
        return self

    def arguments(self, role):
        """What engines of the role are started with beside the rest."""
        return ["--connector", self.connector] if self.connector else []

    def configuration(self):
        """Arguments of serve."""
        endpoints = [{"name": e.name, "url": e.url, "role": e.role} for e in self.engines]
        return ["-c", self.write("warmpath.yaml", {"endpoints": endpoints, "disaggregation": self.disaggregation()})]

    def disaggregation(self):
        return {}

    def write(self, name, value):
        """Writes JSON, which is YAML, and returns the file."""
        path = self.logs / f"{type(self).__name__}-{name}"
        path.write_text(json.dumps(value, indent=1))
        return path

    def endpoint(self, engine):
        """The name that the router gives an engine."""
        return engine.name

    def stop(self):
        if self.router:
            self.router.stop()
        for engine in self.engines:
            engine.stop()


class Nixl(Whole):
    """Prefillers and decoders, and every request is split that can be."""

    roles = ("prefill", "prefill", "decode", "decode")
    connector = "nixl"

    def disaggregation(self):
        return {"when": "always", "connector": self.connector}


class SGLang(Nixl):
    dialect, connector = "sglang", "sglang"


class LMCache(Nixl):
    connector = "lmcache"

    def __init__(self, *args):
        super().__init__(*args)
        self.notify, self.ports = fleet.free_ports(1)[0], []

    def arguments(self, role):
        if role == "prefill":
            return [*super().arguments(role), "--kv-notify", f"127.0.0.1:{self.notify}"]
        self.ports.append(port_of_two())
        return [*super().arguments(role), "--kv-port", self.ports[-1]]

    def disaggregation(self):
        decoders = [e.name for e in self.engines if e.role == "decode"]
        registry = {name: {"host": "127.0.0.1", "init_port": [port], "alloc_port": [port + 1]} for name, port in zip(decoders, self.ports)}
        return super().disaggregation() | {
            "decoder_registry": str(self.write("registry.json", registry)), "notify_listen": f"127.0.0.1:{self.notify}",
        }


class TRTLLM(Nixl):
    """Configured by the file of trtllm-serve disaggregated."""

    dialect, connector, style = "trtllm", "trtllm", "context_first"

    def configuration(self):
        def section(role):
            urls = [e.tap.address for e in self.engines if e.role == role]
            return {"num_instances": len(urls), "urls": urls, "router": {"type": "conversation"}}

        return ["--trtllm-config", self.write("disagg.yaml", {
            "hostname": "127.0.0.1", "port": 8000, "schedule_style": self.style,
            "context_servers": section("prefill"), "generation_servers": section("decode"),
        })]

    def endpoint(self, engine):
        return engine.tap.address


class TRTLLMGenerationFirst(TRTLLM):
    style = "generation_first"


def port_of_two():
    """A free port after which there is another."""
    for port in fleet.free_ports(50):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + 1))
            return port
    raise engines.Failed("no two free ports in a row")
