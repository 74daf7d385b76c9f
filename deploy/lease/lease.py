#!/usr/bin/env python3
"""Sends a chat to the engine that warmpath chooses, and tells warmpath what became of it. LEASE_TOKEN may be set.

    python3 lease.py http://127.0.0.1:8090 '{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}'
"""
import json, os, sys
from urllib.request import HTTPError, Request, urlopen

def opened(url, data, headers, method="POST"):
    try:
        return urlopen(Request(url, data, headers, method=method))
    except OSError as e:
        raise e if isinstance(e, HTTPError) else ConnectionError(f"{url}: {e}")

class Router:
    def __init__(self, url, token=""):
        self.url, self.auth = url.rstrip("/"), {"Authorization": "Bearer " + token} if token else {}

    def call(self, path, data, headers={}):
        with opened(self.url + path, data, {"Content-Type": "application/json", **headers, **self.auth}) as answer:
            return json.loads(answer.read() or "null")

    def chat(self, body, headers={}):
        """Yields the lines of the answer."""
        data = json.dumps(body).encode()
        order = self.call("/v1/route", data, headers)
        lease, end, usage, first = "/v1/route/" + order["lease"], {"failed": "unreachable"}, None, True
        if order["body"] is not None:
            data = json.dumps(order["body"]).encode()
        try:
            answer = opened(order["url"], data, order["set_headers"], order["method"])
            end = {"failed": "broken"}
            for line in answer:
                if first and line.strip():
                    first = self.call(lease + "/first_byte", b"")  # None
                if b'"usage":{' in line.replace(b" ", b""):
                    usage = json.loads(line.removeprefix(b"data:"))["usage"]
                yield line
            end = {"usage": usage}
        except HTTPError as e:
            end = {"status": e.code, "retry_after": float(e.headers.get("Retry-After") or 0)}
            raise
        except (GeneratorExit, KeyboardInterrupt):
            end = {"failed": "cancelled"}
            raise
        finally:
            self.call(lease + "/finish", json.dumps(end).encode())

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        for piece in Router(sys.argv[1], os.environ.get("LEASE_TOKEN", "")).chat(json.loads(sys.argv[2])):
            sys.stdout.write(piece.decode())
    except json.JSONDecodeError as e:
        sys.exit(f"the request is not JSON: {e}")
    except HTTPError as e:
        sys.exit(f"{e.code} of {e.url}: {e.read().decode()}")
    except OSError as e:
        sys.exit(str(e))
