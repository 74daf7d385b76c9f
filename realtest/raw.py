"""HTTP/1.1 as it is on the wire, for what the official clients hide: headers, when bytes come, and how a stream ends."""

import http.client
import json
import time

import engines


class Stream:
    """One open answer, read event by event. Times are seconds from just before the request was sent.

    `end` says how it ended: "done" (with [DONE]), "closed" (a proper end of the body, but no [DONE] before it), "broken" (the
    connection ended inside the body), "silent" (nothing came within the time-out), or "" while it is open.
    """

    def __init__(self, connection, answer, began):
        self.connection, self.answer, self.began = connection, answer, began
        self.status, self.headers = answer.status, answer.headers
        self.headers_at = time.monotonic() - began
        self.data_at = self.last_at = None  # when the first and the latest data line came
        self.errors = []  # error events
        self.reasons = []  # why answers ended, as the engine says it
        self.end = ""
        self.unread = b""

    def lines(self):
        """Yields whole lines as they come. read1 tells a body that stops short from one that ends; readline does not."""
        while True:
            try:
                data = self.answer.read1(65536)
            except TimeoutError:
                self.end = "silent"
                return
            except (OSError, http.client.HTTPException):
                self.end = "broken"
                return
            if not data:
                self.end = self.end or "closed"
                return
            *whole, self.unread = (self.unread + data).split(b"\n")
            yield from whole

    def read(self):
        """Yields parsed events until the stream ends. It may be left and called again."""
        self._lines = getattr(self, "_lines", None) or self.lines()
        for line in self._lines:
            if not line.startswith(b"data:"):
                continue
            self.last_at = time.monotonic() - self.began
            self.data_at = self.data_at or self.last_at
            text = line.removeprefix(b"data:").strip()
            if text == b"[DONE]":
                self.end = "done"
                continue
            event = json.loads(text)
            if event.get("error"):
                self.errors.append(event["error"])
            self.reasons += [c["finish_reason"] for c in event.get("choices") or [] if c.get("finish_reason")]
            yield event

    def take(self, count):
        """The next `count` events, fewer when the stream ends before."""
        events = []
        for event in self.read():
            events.append(event)
            if len(events) == count:
                break
        return events

    def drain(self):
        """Reads to the end; returns how many events came."""
        return sum(1 for _ in self.read())

    def text(self, count=0):
        """The next `count` lines that are not empty, or all that are left, whatever their form."""
        self._lines = getattr(self, "_lines", None) or self.lines()
        found = []
        for line in self._lines:
            if line:
                found.append(line.decode(errors="replace"))
            if len(found) == count > 0:
                break
        return found

    def close(self):
        """Leaves, as a client does that is no longer interested."""
        self.answer.close()
        self.connection.close()


def begin(url, path, body, headers=None, timeout=60):
    """Sends JSON, or bytes as they are, and returns the connection without waiting for an answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})
    return connection


def post(url, path, body, headers=None, timeout=60):
    """Sends JSON and returns the Stream as soon as the headers are there; `timeout` is for each wait."""
    began = time.monotonic()
    connection = begin(url, path, body, headers, timeout)
    try:
        return Stream(connection, connection.getresponse(), began)
    except BaseException:
        connection.close()
        raise


def ask(url, path, body, headers=None, timeout=60):
    """Sends JSON; returns status, headers and the parsed answer, or its text when it is not JSON."""
    stream = post(url, path, body, headers, timeout)
    try:
        text = stream.answer.read().decode()
    finally:
        stream.close()
    try:
        return stream.status, stream.headers, json.loads(text)
    except ValueError:
        return stream.status, stream.headers, text


def get(url, path, timeout=20):
    """The parsed answer of a GET."""
    return json.loads(engines.get(url + path, timeout)[1])
