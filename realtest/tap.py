"""Listens in on what the router sends to an engine, without touching it."""

import contextlib
import http.client
import io
import json
import socket
import threading


class Sent:
    """One request as it was on the wire, and the name of the tap."""

    def __init__(self, to, path, headers, body):
        self.to, self.path, self.headers, self.body = to, path, headers, body


class Tap:
    """A port that passes TCP connections on to an engine, both ends of them, and keeps what was sent that way."""

    def __init__(self, name, url):
        self.name = name
        host, _, port = url.removeprefix("http://").partition(":")
        self.engine = host, int(port)
        self.kept = []  # one bytearray a connection
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.url = "http://" + self.address
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            try:
                engine = socket.create_connection(self.engine, timeout=10)
            except OSError:
                client.close()
                continue
            engine.settimeout(None)
            kept = bytearray()
            self.kept.append(kept)
            ends = [threading.Thread(target=_pass_on, args=pair, daemon=True) for pair in ((client, engine, kept), (engine, client, None))]
            for end in ends:
                end.start()
            threading.Thread(target=_close, args=(ends, client, engine), daemon=True).start()

    def sent(self, path):
        """The whole requests that went to this path so far, with any query, in the order of their connections."""
        return [r for kept in list(self.kept) for r in _requests(self.name, bytes(kept)) if r.path.partition("?")[0] == path]

    def close(self):
        """Takes no more connections. Those that are open end with their ends."""
        # accept() goes on when only the file is closed
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def _pass_on(source, target, kept):
    """Copies until one side ends, and tells the other side that it has."""
    with contextlib.suppress(OSError):
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := source.recv(65536):
            if kept is not None:
                kept += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _close(ends, *sockets):
    for end in ends:
        end.join()
    for one in sockets:
        one.close()


def _requests(to, data):
    """Reads the HTTP/1.1 requests of one connection; one that was cut off ends them."""
    stream = io.BytesIO(data)
    while line := stream.readline():
        _, path, _ = line.decode().split(" ")
        headers = http.client.parse_headers(stream)
        if headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(stream.readline().partition(b";")[0] or b"0", 16):
                body += stream.read(size)
                stream.readline()
            stream.readline()
        else:
            size = int(headers.get("Content-Length", 0))
            body = stream.read(size)
            if len(body) < size:
                return
        try:
            yield Sent(to, path, headers, json.loads(body or b"null"))
        except ValueError:
            return
