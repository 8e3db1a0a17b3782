"""A gRPC client of a page: unary calls over HTTP/2 without TLS, and messages of a few kinds of fields.

It reads frames and takes nothing for granted of header fields: a reply is what came as DATA, and None when the call
ended without. The last header fields of a call are kept as they came."""

import socket
import struct

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = 8
FRAME_MAX = 16384


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(**fields):
    """message(_1="text", _3=7, _2=[...]): fields by number; a list is a repeated field."""
    out = bytearray()
    for name, values in fields.items():
        number = int(name[1:])
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                out += varint(number << 3) + varint(value)
            else:
                value = value.encode() if isinstance(value, str) else value
                out += varint(number << 3 | 2) + varint(len(value)) + value
    return bytes(out)


def fields(text):
    """(number, value) of each field of a message: a number, or bytes."""
    def number(at):
        value = shift = 0
        while True:
            value |= (text[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if not text[at - 1] & 128:
                return value, at
    at, found = 0, []
    while at < len(text):
        tag, at = number(at)
        value, at = number(at)
        if tag & 7 == 2:
            value, at = text[at:at + value], at + value
        found.append((tag >> 3, value))
    return found


def field(name, value):
    """As HPACK's simplest form: a literal that no table remembers."""
    def text(it):
        assert len(it) < 127
        return bytes([len(it)]) + it.encode()
    return b"\0" + text(name) + text(value)


class Client:
    def __init__(self, address, timeout, **metadata):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.metadata = metadata
        self.stream = -1
        self.window, self.windows, self.replies, self.trailers, self.ended = 65535, {}, {}, {}, set()
        self.first_window = 65535
        self.bytes = b""
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 30))
        self.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))

    def send(self, kind, flags, stream, payload):
        self.socket.sendall(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def receive(self, size):
        while len(self.bytes) < size:
            more = self.socket.recv(1 << 20)
            if not more:
                raise ConnectionError("the server has closed the connection")
            self.bytes += more
        taken, self.bytes = self.bytes[:size], self.bytes[size:]
        return taken

    def hear(self):
        head = self.receive(9)
        payload = self.receive(int.from_bytes(head[:3], "big"))
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
        if kind == DATA:
            self.replies[stream] = self.replies.get(stream, b"") + payload
        elif kind == HEADERS:
            self.trailers[stream] = payload
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == 4:
                    self.first_window = value
            self.send(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self.send(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            size = int.from_bytes(payload, "big")
            if stream:
                self.windows[stream] = self.windows.get(stream, 0) + size
            else:
                self.window += size
        if kind == RESET or kind in (DATA, HEADERS) and flags & END_STREAM:
            self.ended.add(stream)

    def start(self, path, *requests):
        """Send a call, and do not wait for its reply: await_reply() takes what this returns."""
        self.stream += 2
        stream, sent = self.stream, 0
        body = b"".join(b"\0" + struct.pack(">I", len(request)) + request for request in requests)
        head = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test",
                "content-type": "application/grpc", "te": "trailers", **self.metadata}
        self.send(HEADERS, END_HEADERS, stream, b"".join(field(*pair) for pair in head.items()))
        while sent < len(body) and stream not in self.ended:
            room = min(FRAME_MAX, self.window, self.first_window + self.windows.get(stream, 0) - sent)
            if room <= 0:
                self.hear()
                continue
            part = body[sent:sent + room]
            sent += len(part)
            self.window -= len(part)
            self.send(DATA, END_STREAM if sent == len(body) else 0, stream, part)
        return stream

    def await_reply(self, stream):
        """The reply to a call; None when it failed."""
        while stream not in self.ended:
            self.hear()
        reply = self.replies.pop(stream, None)
        return None if reply is None else reply[5:]

    def await_first(self, stream):
        """The first message of a stream, which is cancelled then; None when there is none."""
        def first():
            reply = self.replies.get(stream, b"")
            size = 5 + int.from_bytes(reply[1:5], "big")
            return reply[5:size] if len(reply) >= max(size, 5) else None
        while stream not in self.ended and first() is None:
            self.hear()
        if stream not in self.ended:
            self.send(RESET, 0, stream, struct.pack(">I", CANCEL))
        message = first()
        self.replies.pop(stream, None)
        return message

    def call(self, path, *requests):
        return self.await_reply(self.start(path, *requests))

    def fail(self, path, request):
        """The last header fields of a call that has no reply, as bytes. rotad writes them in plain text, those that are
        the same in each call only the first time."""
        stream = self.start(path, request)
        reply = self.await_reply(stream)
        assert reply is None, (path, reply)
        return self.trailers.pop(stream)

    def close(self):
        self.socket.close()
