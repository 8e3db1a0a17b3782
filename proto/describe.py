"""Describes .proto files as C: describe.py NAME ROOT FILE... > NAME.c

What the files say becomes a FileDescriptorSet, as protoc writes it, for server reflection. This
reads as much of the language as our files use: messages, enums, oneofs, services, comments."""
import re
import sys

TYPES = {name: number for number, name in enumerate(
    "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum "
    "sfixed32 sfixed64 sint32 sint64".split(), 1)}
OPTIONAL, REPEATED = 1, 3


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


class File:
    def __init__(self, path, source):
        source = re.sub(r"//[^\n]*", "", source)
        self.tokens = re.findall(r'"[^"]*"|[\w.]+|[{}()=;]', source)
        self.at = 0
        self.kinds = {}  # of all names that are defined here
        self.package = ""
        self.path = path

    def take(self, *wanted):
        token = self.tokens[self.at] if self.at < len(self.tokens) else "the end"
        if wanted and token not in wanted:
            sys.exit(f"{self.path}: {' or '.join(wanted)} was expected, not {token}")
        self.at += 1
        return token

    def block(self, *known):
        """The words that begin the definitions in {}."""
        self.take("{")
        while self.tokens[self.at] != "}":
            yield self.take(*known)
        self.take("}")

    def enum(self, scope):
        name = self.take()
        self.kinds[f"{scope}.{name}"] = "enum"
        values = b""
        for value in self.block():
            self.take("=")
            values += text(2, text(1, value) + number(2, int(self.take())))
            self.take(";")
        return text(1, name) + values

    def field(self, word, scope, oneof=None):
        label = OPTIONAL
        if word == "repeated":
            label, word = REPEATED, self.take()
        name = self.take()
        self.take("=")
        where = int(self.take())
        self.take(";")
        head, *tail = name.split("_")
        json_name = head + "".join(part.capitalize() for part in tail)

        def describe():  # when all names are known
            kind, full = word, b""
            if word not in TYPES:
                found = self.resolve(word, scope)
                kind, full = self.kinds[found], text(6, found)
            return text(2, text(1, name) + number(3, where) + number(4, label) +
                        number(5, TYPES[kind]) + full +
                        (b"" if oneof is None else number(9, oneof)) + text(10, json_name))
        return describe

    def resolve(self, name, scope):
        while f"{scope}.{name}" not in self.kinds:
            if not scope:
                sys.exit(f"{self.path}: {name} is not defined")
            scope = scope.rpartition(".")[0]
        return f"{scope}.{name}"

    def message(self, scope):
        name = self.take()
        inside = f"{scope}.{name}"
        self.kinds[inside] = "message"
        fields, messages, enums, oneofs = [], [], b"", []
        for word in self.block():
            if word == "message":
                messages.append(self.message(inside))
            elif word == "enum":
                enums += text(4, self.enum(inside))
            elif word == "oneof":
                oneofs.append(text(8, text(1, self.take())))
                for member in self.block():
                    fields.append(self.field(member, inside, len(oneofs) - 1))
            else:
                fields.append(self.field(word, inside))
        return lambda: (text(1, name) + b"".join(field() for field in fields) +
                        b"".join(text(3, message()) for message in messages) + enums + b"".join(oneofs))

    def method(self):
        name = self.take()
        types, streams = [], b""
        for field in 5, 6:
            self.take("(")
            word = self.take()
            if word == "stream":
                streams += number(field, 1)
                word = self.take()
            types.append(word)
            self.take(")")
            if field == 5:
                self.take("returns")
        self.take(";")
        scope = "." + self.package
        return lambda: text(2, text(1, name) + text(2, self.resolve(types[0], scope)) +
                            text(3, self.resolve(types[1], scope)) + streams)

    def describe(self):
        messages, enums, services = [], b"", []
        while self.at < len(self.tokens):
            word = self.take("syntax", "package", "message", "enum", "service")
            if word == "syntax":
                self.take("=")
                self.take('"proto3"')
                self.take(";")
            elif word == "package":
                self.package = self.take()
                self.take(";")
            elif word == "message":
                messages.append(self.message("." + self.package))
            elif word == "enum":
                enums += text(5, self.enum("." + self.package))
            else:
                services.append((self.take(), [self.method() for _ in self.block("rpc")]))
        return (text(1, self.path) + text(2, self.package) +
                b"".join(text(4, message()) for message in messages) + enums +
                b"".join(text(6, text(1, name) + b"".join(method() for method in methods))
                         for name, methods in services) + text(12, "proto3"))


def main():
    name, root, *paths = sys.argv[1:]
    data = b"".join(text(1, File(path, open(f"{root}/{path}").read()).describe())
                    for path in paths)
    print('#include "descriptors.h"\n')
    print(f"static const unsigned char bytes[{len(data)}] = {{")
    for at in range(0, len(data), 16):
        print("    " + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16]))
    print("};")
    print(f"const struct rota_str {name} = {{(const char *)bytes, sizeof bytes}};")


main()
