"""Starts, watches and ends real engines on loopback ports.

Needs Python's standard library only. Settings are those of a small CPU machine: one thread an engine, 32768 tokens of KV
cache, low priority.
"""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import tempfile
import time

KINDS = ("vllm", "sglang", "llama", "ollama")
MODEL = "tiny"
HERE = pathlib.Path(__file__).resolve().parent
START_LIMIT = 600  # seconds; 20 to 40 is usual for vLLM and SGLang on two idle cores, over 180 on busy ones, 1 for llama-server


class Failed(Exception):
    """An engine or the router did not do what it was started for; the message is for people."""


def default_dir():
    """Where install.sh puts the engines unless told otherwise."""
    return pathlib.Path(os.environ.get("WARMPATH_REAL") or "~/.cache/warmpath-real").expanduser()


def logs(name):
    """The folder for the logs of a run: REAL_LOGS, or a new one."""
    folder = pathlib.Path(os.environ.get("REAL_LOGS") or tempfile.mkdtemp(prefix=f"warmpath-{name}-"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def missing(kind, directory):
    """Why engines of this kind cannot be started from the folder, or "" when they can."""
    wanted = {
        "vllm": ["venv-vllm/installed", "model/model.safetensors"],
        "sglang": ["venv-sglang/installed", "model/model.safetensors"],
        "llama": ["llama/root/usr/bin/llama-server", "llama/tiny.gguf"],
        "ollama": ["ollama/bin/ollama", "llama/tiny.gguf"],
        "clients": ["venv-clients/installed"],
    }[kind]
    absent = [name for name in wanted if not (directory / name).exists()]
    if not absent:
        return ""
    return f"{kind} is not installed in {directory} (no {absent[0]}): run realtest/install.sh {kind} {directory}"


class Engine:
    """One engine process and its descendants, in a process group of their own."""

    extra = ()  # further arguments
    without = ()  # usual ones that are left out
    environment = {}  # further variables
    processor = None  # the one that it runs on; None: any

    def __init__(self, kind, port, directory, logs):
        self.kind, self.port, self.directory = kind, port, directory
        self.url = f"http://127.0.0.1:{port}"
        self.log = logs / f"{kind}-{port}.log"
        self.process = None
        self.ended = False

    def start(self):
        """Starts the process; wait() says when it is ready."""
        command, extra = COMMANDS[self.kind](self.directory, self.port)
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")} | extra | self.environment
        command = [word for word in command if word not in self.without]
        self.ended = False
        where = [] if self.processor is None else ["taskset", "--cpu-list", str(self.processor)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*where, "nice", "-n", "10", *command, *words(self.extra)], env=env, cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )
        return self

    def wait(self, limit=START_LIMIT):
        """Returns when the engine answers its health check, with the seconds it took from here."""
        began = time.monotonic()
        while time.monotonic() - began < limit:
            if self.process.poll() is not None:
                raise Failed(f"{self.kind} on port {self.port} ended with code {self.process.returncode}: {self.tail()}")
            try:
                if get(self.url + ALIVE.get(self.kind, "/health"), timeout=10)[0] == 200:
                    if self.kind == "ollama":
                        create_model(self)
                    return time.monotonic() - began
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.25)
        raise Failed(f"{self.kind} on port {self.port} was not ready after {limit} s: {self.tail()}")

    def tail(self):
        """The last lines of the engine's log."""
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else "(no log)"

    def terminate(self):
        """Sends SIGTERM to the server process alone, as a supervisor would."""
        self.ended = True
        self.process.send_signal(signal.SIGTERM)

    def compute_process(self):
        """The process that computes: it is not the one that has the port, except for llama-server."""
        if self.kind == "llama":
            return self.process.pid
        name = {"vllm": "EngineCore", "sglang": "scheduler", "ollama": "llama-server"}[self.kind]
        for pid in descendants(self.process.pid):
            if name in command_line(pid):
                return pid
        raise Failed(f"no process named {name} below {self.process.pid}")

    def kill_compute(self):
        """Sends SIGKILL to the process that computes, as the kernel does when memory runs out."""
        self.ended = True
        os.kill(self.compute_process(), signal.SIGKILL)

    @contextlib.contextmanager
    def standing_still(self):
        """The process that computes stands still meanwhile, as in a collective operation that never ends."""
        pid = self.compute_process()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def compute_slowly(self, stop):
        """vLLM's worker computes for a twentieth of the time, until stop is set."""
        pid = next(p for p in descendants(self.process.pid) if "VLLM::Worker" in command_line(p))
        while not stop.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.95)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)

    def kill_all(self):
        """Sends SIGKILL to all of the engine's processes at once, as a machine that fails does."""
        self.ended = True
        end_group(self.process)

    def ending(self):
        """Whether the engine was ended, by this program or by itself."""
        return self.ended or self.exited()

    def exited(self):
        """Whether the server process has ended."""
        return self.process is None or self.process.poll() is not None

    def stop(self, grace=15):
        """Ends the whole process group: SIGTERM, and after `grace` seconds SIGKILL."""
        if self.process is None:
            return
        if not self.exited():
            self.terminate()
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        end_group(self.process)
        self.process = None

    def metrics(self):
        """The engine's counters and gauges, summed over their labels."""
        status, text = get(self.url + "/metrics", timeout=10)
        if status != 200:
            raise Failed(f"{self.url}/metrics answered {status}")
        return parse_metrics(text)

    def figure(self, name):
        """One figure by the common names of FIGURES; 0 while the engine has not counted any."""
        if self.kind == "ollama":
            return figures_of_log(self.log.read_text(errors="replace"))[name]
        return self.metrics().get(FIGURES[self.kind][name], 0.0)


# What answers as soon as the engine can.
ALIVE = {"ollama": "/api/version"}

# The engines' own names of what the tests look at. Ollama has no such figures: figures_of_log reads them.
FIGURES = {
    "vllm": {"running": "vllm:num_requests_running", "prompt_tokens": "vllm:prompt_tokens_total",
             "generated": "vllm:generation_tokens_total"},
    "sglang": {"running": "sglang:num_running_reqs", "prompt_tokens": "sglang:prompt_tokens_total",
               "generated": "sglang:generation_tokens_total"},
    "llama": {"running": "llamacpp:requests_processing", "prompt_tokens": "llamacpp:prompt_tokens_total",
              "generated": "llamacpp:tokens_predicted_total"},
}


def vllm_command(directory, port):
    """vLLM 0.33.0 on a CPU. The version of the wheel does not say CPU, so VLLM_TARGET_DEVICE does; blocks are 32 tokens there."""
    work = directory / "cache"
    command = [
        directory / "venv-vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server",
        "--model", directory / "model", "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", port,
        "--dtype", "bfloat16", "--enforce-eager", "--max-model-len", 16384, "--max-num-seqs", 32,
        "--block-size", 32, "--num-gpu-blocks-override", 1024, "--kv-cache-memory-bytes", "64M",
        "--enable-prompt-tokens-details", "--enable-request-id-headers",
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
        # Without the last setting a model that answers noise may pad forced JSON with blanks for ever.
        "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}',
    ]
    return words(command), offline(work) | {
        "TORCH_USE_RTLD_GLOBAL": "1", "VLLM_TARGET_DEVICE": "cpu", "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": str(work / "vllm"),
        "VLLM_ENABLE_RESPONSES_API_STORE": "1",  # keeps answers of /v1/responses, so that they can be read again
    }


def sglang_command(directory, port):
    """SGLang 0.5.23 on a CPU; without --sleep-on-idle its scheduler keeps a whole core busy."""
    command = [
        directory / "venv-sglang/bin/python", "-m", "sglang.launch_server",
        "--model-path", directory / "model", "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", port,
        "--device", "cpu", "--attention-backend", "torch_native", "--dtype", "bfloat16", "--page-size", 32,
        "--max-total-tokens", 32768, "--context-length", 16384, "--max-running-requests", 32,
        "--mem-fraction-static", 0.5, "--sleep-on-idle", "--enable-cache-report", "--enable-metrics",
        "--tool-call-parser", "qwen25", "--enable-response-store",
    ]
    return words(command), offline(directory / "cache") | {
        "TORCH_USE_RTLD_GLOBAL": "1", "SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(HERE / "shim"), "SGLANG_HOST_IP": "127.0.0.1",
    }


def llama_command(directory, port):
    """llama-server with the C library of its own packages, and the one CPU back end that fits this machine."""
    root = directory / "llama/root"
    triplet = f"{platform.machine()}-linux-gnu"
    lib = root / "usr/lib" / triplet
    loader = next(iter(sorted(lib.glob("ld-linux*.so.*"))), None)
    backends = {p.stem.removeprefix("libggml-cpu-"): p for p in (lib / "ggml").glob("backends*/libggml-cpu*.so")}
    if loader is None or not backends:
        raise Failed(f"no dynamic loader or CPU back end in {lib}: run realtest/install.sh llama again")
    command = [
        loader, "--library-path", f"{lib}:{lib / 'llama'}", root / "usr/bin/llama-server",
        "--model", directory / "llama/tiny.gguf", "--alias", MODEL, "--host", "127.0.0.1", "--port", port,
        "--ctx-size", 131072, "--parallel", 4, "--threads", 1, "--metrics", "--no-webui",
        "--sse-ping-interval", 2,  # s between comment lines while nothing else is sent (default 30), so that the tests see some
        "--embeddings", "--pooling", "mean",  # answers /v1/embeddings as well as the rest
    ]
    return words(command), {"GGML_BACKEND_PATH": str(cpu_backend(backends))}


def ollama_command(directory, port):
    """Ollama with a context of 32768 tokens for each of four requests, and no way out of this machine."""
    work = directory / "cache/ollama"
    (work / "home").mkdir(parents=True, exist_ok=True)
    return words([directory / "ollama/bin/ollama", "serve"]), {
        "OLLAMA_HOST": f"127.0.0.1:{port}", "OLLAMA_MODELS": str(work / "models"), "HOME": str(work / "home"),
        "OLLAMA_NUM_PARALLEL": "4", "OLLAMA_CONTEXT_LENGTH": "32768", "OLLAMA_KEEP_ALIVE": "24h", "OLLAMA_NO_CLOUD": "1",
        "LLAMA_ARG_THREADS": "1",
    }


def create_model(engine):
    """Gives Ollama the random model, unless it has it, and loads it."""
    data = (engine.directory / "llama/tiny.gguf").read_bytes()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    if MODEL + ":latest" not in get(engine.url + "/api/tags", timeout=10)[1]:
        for path, body in (
            (f"/api/blobs/{digest}", data),
            ("/api/create", json.dumps({"model": MODEL, "files": {"tiny.gguf": digest}, "stream": False}).encode()),
        ):
            status, text = post(engine.url + path, body)
            if status >= 300 or '"error"' in text:
                raise Failed(f"{engine.url}{path} answered {status}: {text}")
    status, text = post(engine.url + "/api/generate", json.dumps({"model": MODEL, "keep_alive": "24h"}).encode())
    if status != 200:
        raise Failed(f"{MODEL} was not loaded, {status}: {text}")


def figures_of_log(text):
    """What FIGURES names of the others, from what llama-server writes into Ollama's log. A number that is not there yet is 0."""
    running, prompts, read, cached, generated, loads = set(), {}, 0, 0, 0, 0
    for start, task, began, prompt, found, held in OF_LOG.findall(text):
        if start:
            loads += 1
            running.clear()  # the one before is gone, and so is what it was computing
        elif began:
            running.add(task)
        elif prompt:
            prompts[task] = int(prompt)
            read += int(prompt)
        elif found:
            cached += int(found)
        else:
            running.discard(task)
            generated += max(0, int(held) - prompts.get(task, int(held)))
    return {"running": len(running), "prompt_tokens": read, "cached": cached, "generated": generated, "loads": loads}


OF_LOG = re.compile(
    r"(starting llama-server)|\| task (\d+) \| (?:(processing task)|new prompt, .*task\.n_tokens = (\d+)"
    r"|cached n_tokens = (\d+), memory_seq_rm|stop processing: n_tokens = (\d+))")

COMMANDS = {"vllm": vllm_command, "sglang": sglang_command, "llama": llama_command, "ollama": ollama_command}


def cpu_backend(files):
    """The back end for this CPU, out of {name: file}; names are ggml's."""
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    for name, flag in (("skylakex", "avx512bw"), ("haswell", "avx2"), ("sandybridge", "avx"), ("x64", "sse2")):
        if name in files and re.search(rf"\b{flag}\b", flags):
            return files[name]
    return files[min(files)]


def offline(work):
    """Environment that keeps the Python engines on one thread, in their own folders and off the network."""
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    return {
        "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1",
        "XDG_CACHE_HOME": str(work / "xdg"), "HF_HOME": str(work / "hf"), "TMPDIR": str(work / "tmp"),
    }


def start_all(engines):
    """Starts engines side by side and waits for all; none is left running when one fails."""
    try:
        for engine in engines:
            engine.start()
        return max(engine.wait() for engine in engines)
    except BaseException:
        for engine in engines:
            engine.stop(grace=2)
        raise


def end_group(process):
    """Kills what is left of the process's group and collects the process."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(30)


def get(url, timeout):
    """Status and text of a GET."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", "/" + path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def post(url, body):
    """Status and text of a POST."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("POST", "/" + path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def parse_metrics(text):
    """Prometheus text to {name: sum over labels}."""
    sums = {}
    for line in text.splitlines():
        match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(\S+)", line)
        if match:
            sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
    return sums


def descendants(pid):
    """Ids of the processes below pid, nearest first."""
    below = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            below.setdefault(parent, []).append(int(entry.name))
    found, look = [], [pid]
    while look:
        children = below.get(look.pop(0), [])
        found += children
        look += children
    return found


def command_line(pid):
    """The command line (or the title that the process gave itself)."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def words(command):
    return [str(word) for word in command]
