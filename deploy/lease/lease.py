#!/usr/bin/env python3
"""Sends a chat to the engine that warmpath chooses, by itself, and tells warmpath what became of it.

    python3 lease.py http://127.0.0.1:8090 '{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}'

The environment has LEASE_TOKEN, where the listener wants one. Only Python's standard library is needed.
"""
import json
import os
import sys
import urllib.error
import urllib.request


def opened(request):
    try:
        return urllib.request.urlopen(request)
    except urllib.error.HTTPError:
        raise
    except OSError as e:
        raise ConnectionError(f"{request.full_url}: {e}") from e


class Router:
    def __init__(self, url, token=""):
        self.url, self.auth = url.rstrip("/"), {"Authorization": "Bearer " + token} if token else {}

    def call(self, path, data, headers=()):
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **dict(headers), **self.auth})
        with opened(request) as answer:
            return json.loads(answer.read() or b"null")

    def chat(self, body, headers=()):
        """Yields the lines of the answer."""
        data = json.dumps(body).encode()
        order = self.call("/v1/route?path=/v1/chat/completions", data, headers)
        lease, end = "/v1/route/" + order["lease"], {"failed": "cancelled"}
        if order["body"] is not None:
            data = json.dumps(order["body"]).encode()
        try:
            request = urllib.request.Request(order["url"], data, order["set_headers"], method=order["method"])
            try:
                answer = opened(request)
            except urllib.error.HTTPError as e:
                end = {"status": e.code, "retry_after": float(e.headers.get("Retry-After") or 0)}
                raise
            except OSError:
                end = {"failed": "unreachable"}
                raise
            end, usage, first = {"failed": "broken"}, None, True
            for line in answer:
                if first and line.strip():
                    self.call(lease + "/first_byte", b"")
                    first = False
                if b'"usage":{' in line.replace(b" ", b""):
                    usage = json.loads(line.removeprefix(b"data:"))["usage"]
                yield line
            end = {"usage": usage}
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
    except urllib.error.HTTPError as refusal:
        sys.exit(f"{refusal.code} of {refusal.url}: {refusal.read().decode()}")
    except OSError as e:
        sys.exit(str(e))
