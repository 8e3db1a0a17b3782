#!/usr/bin/env python3
"""What a node tells over HTTP, against what is said of it: test_api.py ROTAD ROTA SOURCE [NAME...].

Routes against web/openapi.json, live answers against its schemas, metrics against Prometheus' text
format and against contrib/. Prints TAP."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rotad import ANY_PORTS, TIMEOUT, Node, await_true, run_tests  # noqa: E402

ROTAD, ROTA, SOURCE = (os.path.abspath(path) for path in sys.argv[1:4])
TESTS = []

SETTINGS = """
ledger = "{folder}/ledger.json"

[[space]]
name = "orders"
engine = "ring"
shards = 8

[[cache]]
name = "fruit"
source = "file:{folder}/fruit"
shards = 2

[[group]]
name = "readers"
"""


# As `rota up --chaos` writes it.
LEDGER = {
    "at_ms": 1000, "since_ms": 500, "phase": "running", "strikes": 1,
    "down": [{"name": "node-1", "node": "127.0.0.1:1", "how": "killed", "since_ms": 900}],
    **dict.fromkeys("acknowledged done cancelled unfinished gets rows partitions looks moves".split(), 7),
    "faults": dict.fromkeys("job_lost job_dead job_twice job_wrong get_wrong get_unanswered row_lost row_twice row_late "
                            "two_readers partition_early partition_forgotten two_owners old_owner epoch_fell "
                            "shard_unowned unchecked".split(), 0),
    "told": [{"fault": "job_lost", "text": "job 1 has not ended"}],
}


def test(function):
    TESTS.append(function)
    return function


def rota(node, *words):
    return subprocess.run([ROTA, *words, "--node", node.name], check=True, capture_output=True, text=True,
                          timeout=TIMEOUT).stdout


@contextlib.contextmanager
def busy_node():
    """A node that has something of everything: jobs in several states, a worker, a space, a cache with
    calls, a group, events. Also a job's id."""
    with tempfile.TemporaryDirectory(prefix="rota-api-") as folder:
        with open(f"{folder}/fruit", "w") as file:
            file.writelines(f"k{i}\t{i}\n" for i in range(20))
        with open(f"{folder}/rotad.toml", "w") as file:
            file.write(SETTINGS.format(folder=folder))
        with open(f"{folder}/ledger.json", "w") as file:
            json.dump(LEDGER, file)
        node = Node(ROTAD, folder, "data", "--config", f"{folder}/rotad.toml", *ANY_PORTS)
        worker = subprocess.Popen([ROTA, "work", "--node", node.name, "--queue", "mail", "--", "false"],
                                  stderr=subprocess.DEVNULL)
        try:
            await_true(lambda: node.ask("/api/v1/queues/first/jobs", "POST", {"payload": ""})[0] == 200)
            for text in ("x", "<b>&\"\u00e4"):
                added = node.post("/api/v1/queues/mail/jobs", {"payload": text, "max_attempts": 1})
            node.post("/api/v1/queues/later/jobs", {"payload": "y", "delay_ms": 3600000})
            await_true(lambda: node.get("/api/v1/queues/mail")["items"][0]["n_dead"] == 2)
            await_true(lambda: node.get("/api/v1/spaces")["spaces"][0]["n_owned"] == 8)
            rota(node, "get", "--timeout", "60s", *(f"k{i}" for i in range(20)))
            await_true(lambda: node.get("/api/v1/calls")["calls"])
            yield node, added["id"]
        finally:
            worker.kill()
            worker.wait(TIMEOUT)
            node.end()


# --- schemas ---

class Checker:
    """JSON Schema, as much of it as the document uses. What it does not name is wrong, too: people read
    it to know what there is."""

    TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}

    def __init__(self, document):
        self.document = document

    def resolve(self, schema):
        while "$ref" in schema:
            found = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema

    def is_type(self, value, kind):
        if kind in ("integer", "number"):
            return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
        return isinstance(value, self.TYPES[kind])

    def check(self, value, schema, place):
        schema = self.resolve(schema)
        if "oneOf" in schema:
            errors = [list(self.check(value, one, place)) for one in schema["oneOf"]]
            if all(errors):
                yield from errors[0]
            return
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(self.is_type(value, kind) for kind in kinds):
            yield f"{place} is {value!r}, not {kinds}"
            return
        if "enum" in schema and value is not None and value not in schema["enum"]:
            yield f"{place} is {value!r}, not one of {schema['enum']}"
        if "minimum" in schema and value is not None and value < schema["minimum"]:
            yield f"{place} is {value!r}, below {schema['minimum']}"
        if "maximum" in schema and value is not None and value > schema["maximum"]:
            yield f"{place} is {value!r}, above {schema['maximum']}"
        if isinstance(value, str):
            if "pattern" in schema and not re.search(schema["pattern"], value):
                yield f"{place} is {value!r}, not like {schema['pattern']}"
            if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
                yield f"{place} has {len(value)} characters"
        if isinstance(value, dict) and "properties" in schema:
            for name in schema["required"]:
                if name not in value:
                    yield f"{place}.{name} is missing"
            for name, inner in value.items():
                if name not in schema["properties"]:
                    yield f"{place}.{name} is not described"
                else:
                    yield from self.check(inner, schema["properties"][name], f"{place}.{name}")
        elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
            for name, inner in value.items():
                yield from self.check(inner, schema["additionalProperties"], f"{place}.{name}")
        if isinstance(value, list):
            if len(value) > schema.get("maxItems", len(value)):
                yield f"{place} has {len(value)} items"
            for i, item in enumerate(value):
                yield from self.check(item, schema["items"], f"{place}[{i}]")


def schema_of(operation):
    content = operation["responses"]["200"]["content"]
    return content.get("application/json", {}).get("schema")


@test
def every_route_is_described_and_every_description_has_a_route():
    with tempfile.TemporaryDirectory(prefix="rota-api-") as folder:
        node = Node(ROTAD, folder, "data", *ANY_PORTS)
        try:
            described = node.get("/api/v1/openapi.json")
            routes = node.get("/api/v1")["routes"]
        finally:
            node.end()
    with open(f"{SOURCE}/web/openapi.json") as file:
        assert described == json.load(file)
    written = {(method.upper(), re.sub(r"\{[^}]*\}", "*", path))
               for path, methods in described["paths"].items() for method in methods}
    served = {(route["method"], route["path"]) for route in routes}
    assert not served - written, f"web/openapi.json lacks {sorted(served - written)}"
    assert not written - served, f"web/openapi.json has what no node serves: {sorted(written - served)}"
    assert described["openapi"].startswith("3.1.")
    names = [operation["operationId"] for methods in described["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names)), names
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            stars = re.findall(r"\{([^}]*)\}", path)
            assert [one["name"] for one in operation.get("parameters", []) if one["in"] == "path"] == stars, path
            assert ("security" in operation) == (method != "get" and path != "/api/v1/plan"), (path, method)
    checker = Checker(described)
    for schema in re.findall(r'"\$ref": "([^"]*)"', json.dumps(described)):
        checker.resolve({"$ref": schema})


@test
def answers_are_as_described():
    with busy_node() as (node, job):
        described = node.get("/api/v1/openapi.json")
        checker = Checker(described)
        names = {"queue": "mail", "id": job, "space": "orders", "shard": "3", "group": "readers", "node": node.name}
        names["plan"] = node.post("/api/v1/plan/apply", {"add": [{"name": "10.0.0.9:7700", "zone": "b"}]})["id"]
        wrong = []
        for path, methods in described["paths"].items():
            operation = methods.get("get")
            if not operation or path == "/api/v1/stream":
                continue
            status, fields, body = node.ask(path.format(**names))
            kind = fields["Content-Type"].split(";")[0]
            assert status == 200 and kind in operation["responses"]["200"]["content"], (path, status, kind, body)
            if schema_of(operation):
                wrong += checker.check(json.loads(body), schema_of(operation), path)
        for path, body in (("/api/v1/queues/mail/jobs?state=dead", None), ("/api/v1/events?kind=job", None),
                           (f"/api/v1/nodes/{node.name}/drain", {"is_dry_run": True}),
                           ("/api/v1/spaces/orders/shards/3/pin", {"node": node.name, "is_dry_run": True}),
                           ("/api/v1/spaces/orders/migrate", {"engine": "static", "is_dry_run": True}),
                           ("/api/v1/plan", {"add": [{"name": "10.0.0.9:7700", "zone": "b"}], "mode": "slots"}),
                           ("/api/v1/queues/mail/pause", {}), (f"/api/v1/queues/mail/jobs/{job}/retry", {})):
            answer = node.get(path) if body is None else node.post(path, body)
            template = re.sub(r"\?.*", "", path)
            match = next(one for one in described["paths"]
                         if re.fullmatch(re.sub(r"\\\{.*?\\\}", "[^/]*", re.escape(one)), template))
            method = "get" if body is None else "post"
            wrong += checker.check(answer, schema_of(described["paths"][match][method]), path)
            if body:
                schema = described["paths"][match]["post"]["requestBody"]["content"]["application/json"]["schema"]
                wrong += checker.check(body, schema, f"body of {path}")
        connection = http.client.HTTPConnection(node.reach["http"], timeout=TIMEOUT)
        for path, method, allow in (("/api/v1/queues", "DELETE", "GET, HEAD"), ("/api/v1/queues/mail/jobs", "PUT", "GET, HEAD, POST"),
                                    ("/api/v1/queues", "PATCH", "GET, HEAD"), ("/api/v1/plan", "OPTIONS", "POST"), ("/", "POST", "GET, HEAD"),
                                    ("/app.js", "FROB", "GET, HEAD")):
            connection.request(method, path)
            refused = connection.getresponse()
            assert refused.status == 405 and refused.headers["Allow"] == allow, (refused.status, refused.headers)
            refused.read()
        # A preview changes nothing and needs no token; what it shows does.
        for path, status in (("/api/v1/plan", 200), ("/api/v1/plan/apply", 401)):
            connection.request("POST", path, json.dumps({"remove": [node.name]}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == status, (path, answer.status, answer.read())
            answer.read()
        connection.close()
        assert node.ask("/api/v1/queues/none")[0] == 404
        for path in ("/api/v1/queues/mail/jobs/zz", "/api/v1/queues/none", "/api/v1/spaces/none", "/nothing", "/api/v1/events?after=x"):
            status, _, body = node.ask(path)
            assert status in (400, 404), (path, status)
            wrong += checker.check(json.loads(body), {"$ref": "#/components/schemas/Error"}, path)
        assert not wrong, "\n".join(wrong)


def probes(checker, schema):
    """Values at and beyond each bound of a schema: (value, whether it is one)."""
    schema = checker.resolve(schema)
    if "oneOf" in schema:  # text, or {"base64": text}
        yield from ((value, is_good) for value, is_good in probes(checker, schema["oneOf"][0]) if value != {})
    kind = schema.get("type")
    if "oneOf" in schema or "enum" in schema or isinstance(kind, list):
        return
    yield from ((wrong, False) for wrong in ("x", 7, True, [], {}) if not checker.is_type(wrong, kind))
    if kind in ("integer", "number"):
        for name, step in (("minimum", -1), ("maximum", 1)):
            if name in schema:
                yield schema[name], True
                yield schema[name] + step, False
        if kind == "integer":
            yield 1.5, False
    if kind == "string":
        if "maxLength" in schema:
            yield "x" * schema["maxLength"], True
            yield "x" * (schema["maxLength"] + 1), False
        most = re.search(r"\{(?:1,)?(\d+)\}\$", schema.get("pattern", ""))
        if most:
            yield "a" * int(most[1]), True
            yield "a" * (int(most[1]) + 1), False
            yield "\u00e4" * int(most[1]), False
    if kind == "array" and "maxItems" in schema:
        for item in [value for value, is_good in probes(checker, schema["items"]) if is_good][:1]:
            yield [item] * schema["maxItems"], True
            yield [item] * (schema["maxItems"] + 1), False


@test
def only_described_requests_are_accepted():
    """Each bound in the description of a request is the one that the node keeps, no wider and no narrower."""
    with busy_node() as (node, job):
        described = node.get("/api/v1/openapi.json")
        checker = Checker(described)
        names = {"queue": "mail", "id": job, "space": "orders", "shard": "3", "group": "readers", "node": node.name, "plan": "1"}
        wrong, n = [], 0

        def judge(is_good, path, status, value, answer):
            nonlocal n
            n += 1
            if is_good == (status == 400) and (is_good or status != 404) or status >= 500:
                wrong.append(f"{path} with {str(value)[:60]!r} is {status}: {answer[:120]!r}")

        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                for parameter in operation.get("parameters", []):
                    if method != "get" or path == "/api/v1/stream":
                        continue
                    for value, is_good in probes(checker, parameter["schema"]):
                        text = value if isinstance(value, str) else json.dumps(value)
                        if parameter["schema"]["type"] == "string" and not isinstance(value, str):
                            continue  # everything in a path is text
                        where = (path.format(**{**names, parameter["name"]: urllib.parse.quote(text, safe="")})
                                 if parameter["in"] == "path" else f"{path.format(**names)}?{parameter['name']}={urllib.parse.quote(text)}")
                        status, _, answer = node.ask(where)
                        judge(is_good, f"GET {where[:80]}", status, value, answer)
                if "requestBody" not in operation:
                    continue
                schema = checker.resolve(operation["requestBody"]["content"]["application/json"]["schema"])
                whole = {"engine": "ring"} if "engine" in schema["required"] else {}
                if "is_dry_run" in schema["properties"]:
                    whole["is_dry_run"] = True
                if path == "/api/v1/plan/apply":
                    continue  # it has the same as a plan, and would do it
                for field, inner in schema["properties"].items():
                    for value, is_good in probes(checker, inner):
                        if field in ("queue", "node", "id", "partition", "remove") and is_good or value is None:
                            continue  # it has to be one that is there
                        status, _, answer = node.ask(path.format(**names), "POST", {**whole, field: value})
                        judge(is_good, f"POST {path} {field}", status, value, answer)
                status, _, answer = node.ask(path.format(**names), "POST", {**whole, "no_such_field": 1})
                judge(False, f"POST {path}", status, "no_such_field", answer)
        assert node.ask("/api/v1/events?kind=")[0] == 400
        assert n > 150, n
        assert not wrong, "\n".join(wrong)


@test
def a_request_with_two_lengths_is_refused():
    """Who stands in front of the node may have read another one."""
    with tempfile.TemporaryDirectory(prefix="rota-api-") as folder:
        node = Node(ROTAD, folder, "data", *ANY_PORTS)
        try:
            host, port = node.reach["http"].rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=TIMEOUT) as peer:
                peer.sendall(b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while more := peer.recv(4096):
                    answer += more
            assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1, answer
        finally:
            node.end()


@test
def stream_has_every_document():
    with busy_node() as (node, _):
        described = node.get("/api/v1/openapi.json")
        checker = Checker(described)
        connection = http.client.HTTPConnection(node.reach["http"], timeout=TIMEOUT)
        connection.request("GET", "/api/v1/stream")
        answer = connection.getresponse()
        wanted = {"cluster": "Cluster", "queues": "Queues", "workers": "Workers", "calls": "Calls", "groups": "Groups",
                  "ledger": "Ledger", "spaces": "Spaces", "event": "Event"}
        wrong, name = [], None
        while wanted:
            line = answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: ") and name in wanted:
                wrong += checker.check(json.loads(line.removeprefix("data: ")),
                                       {"$ref": f"#/components/schemas/{wanted.pop(name)}"}, name)
        connection.close()
        assert not wrong, wrong


@test
def ledger_is_shown_as_it_is_written_or_not_at_all():
    with tempfile.TemporaryDirectory(prefix="rota-api-") as folder:
        path = f"{folder}/ledger.json"
        node = Node(ROTAD, folder, "data", "--ledger", path, *ANY_PORTS)
        try:
            assert node.get("/api/v1/ledger") == {"ledger": None, "why_away": None}
            for text, shown in ((json.dumps(LEDGER), LEDGER), (' {"anything": [1, null]}\n', {"anything": [1, None]}),
                                ('{"half', None), ("", None), ("[1]", None), ('{"a":1}{"b":2}', None), ("\0{}", None),
                                ('"text"', None), ("{" * 100000, None), ('{"a":"' + "x" * 300000 + '"}', None)):
                with open(f"{path}.new", "w") as file:
                    file.write(text)
                os.rename(f"{path}.new", path)
                answer = node.get("/api/v1/ledger")
                assert answer["ledger"] == shown and (answer["why_away"] is None) == (shown is not None), (text[:80], answer)
            os.remove(path)
            os.mkfifo(path)
            assert node.get("/api/v1/ledger")["ledger"] is None
        finally:
            node.end()
    with tempfile.TemporaryDirectory(prefix="rota-api-") as folder:
        node = Node(ROTAD, folder, "data", *ANY_PORTS)
        try:
            assert node.get("/api/v1/ledger") == {"ledger": None, "why_away": None}
        finally:
            node.end()


# --- metrics ---

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (NaN|[+-]Inf|[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)")
OF_KIND = {"counter": {""}, "gauge": {""}, "summary": {"", "_sum", "_count"},
           "histogram": {"_bucket", "_sum", "_count"}}


def read_metrics(text):
    """Series by name, strictly: HELP and TYPE once and before all samples of a metric, which stand together;
    no series twice; counters end in _total."""
    assert text.endswith("\n")
    kinds, helps, found, series, current = {}, set(), {}, set(), None
    for line in text.splitlines():
        if match := re.fullmatch(rf"# HELP ({NAME}) (.+)", line):
            current = match[1]
            assert current not in helps and current not in kinds, line
            helps.add(current)
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|summary|histogram)", line):
            assert match[1] == current and current not in kinds, line
            kinds[current] = match[2]
            assert (match[2] == "counter") == current.endswith("_total"), line
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert current in kinds and match[1].removeprefix(current) in OF_KIND[kinds[current]], line
            labels = frozenset(re.findall(LABEL, match[2] or ""))
            assert (match[1], labels) not in series, line
            series.add((match[1], labels))
            found.setdefault(match[1], []).append(float(match[3]))
    assert helps == set(kinds)
    return found


@test
def metrics_are_prometheus_text_and_true():
    with busy_node() as (node, _):
        read_metrics(node.ask("/metrics")[2].decode())
        status, fields, text = node.ask("/metrics")
        assert status == 200 and fields["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = text.decode()
        found = read_metrics(text)
        assert 'rota_queue_jobs{queue="mail",state="dead"} 2\n' in text
        assert 'rota_queue_jobs{queue="later",state="delayed"} 1\n' in text
        assert 'rota_queue_dead_total{queue="mail"} 2\n' in text
        assert 'rota_members{state="in"} 1\n' in text and 'rota_members{state="dead"} 0\n' in text
        assert 'rota_node_state{state="serving"} 1\n' in text and sum(found["rota_node_state"]) == 1
        assert 'rota_space_owned{space="orders"} 8\n' in text and found["rota_spaces_unowned"] == [0]
        assert found["rota_store_up"] == [1] and found["rota_node_shards"] == [8]
        assert found["rota_node_memory_bytes"][0] > 1 << 20 and found["rota_node_disk_free_bytes"][0] > 0


def read_up_to(stream, text):
    answer = b""
    while text not in answer:
        more = stream.recv(4096)
        assert more, answer
        answer += more


def send_as_worker(address, message):
    """One message over ZeroMQ 3.0, without keys; comes back when it was answered."""
    host, port = address.rsplit(":", 1)
    ready = b"\x05READY" + b"\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER"
    with socket.create_connection((host, int(port)), TIMEOUT) as stream:
        stream.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        read_up_to(stream, b"READY")
        stream.sendall(b"\x04" + bytes([len(ready)]) + ready + b"\x00" + bytes([len(message)]) + message)
        read_up_to(stream, b"rota.bye")


@test
def metrics_count_faults_of_workers():
    with tempfile.TemporaryDirectory(prefix="rota-api-") as folder:
        node = Node(ROTAD, folder, "data", *ANY_PORTS)
        try:
            for message in (b"\xff", b"\x00", b"\x0arota.hello\xff"):  # the last one is turned away
                send_as_worker(node.reach["zmq"], message)
            found = read_metrics(node.ask("/metrics")[2].decode())
            assert found["rota_broker_malformed_total"] == [3] and found["rota_broker_turned_away_total"] == [1], found
            for name in ("keys_refused", "sends_refused", "dropped"):
                assert found[f"rota_broker_{name}_total"] == [0], found
        finally:
            node.end()


@test
def dashboard_and_alerts_use_existing_metrics():
    with open(f"{SOURCE}/contrib/grafana/rota.json") as file:
        dashboard = json.load(file)
    with open(f"{SOURCE}/contrib/prometheus/rota.rules.yml") as file:
        rules = re.findall(r"^ +expr: (.*)$", file.read(), re.MULTILINE)
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [variable["query"]["query"] for variable in dashboard["templating"]["list"]
                if isinstance(variable["query"], dict)]
    assert len(rules) >= 6 and len(queries) > 10, (rules, queries)
    names = set(re.findall(r"\brota_[a-z0-9_]+", "\n".join(rules + queries)))
    with busy_node() as (node, _):
        node.ask("/metrics")
        found = read_metrics(node.ask("/metrics")[2].decode())
    assert not names - set(found), f"no such metrics: {sorted(names - set(found))}"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@test
def metrics_of_a_node_are_on_the_page_about_them():
    with open(f"{SOURCE}/docs/metrics.md") as file:
        rows = re.findall(r"^\| `(rota_\w+)` \| (\w+) \| (.*?) \|", file.read(), re.MULTILINE)
    page = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    with busy_node() as (node, _):
        node.ask("/metrics")
        text = node.ask("/metrics")[2].decode()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        labels = re.search(rf"^{name}(?:\{{(.*)\}})? ", text, re.MULTILINE)
        names = set(re.findall(r'(\w+)="', labels[1] or "")) - {"quantile"}
        assert page[name] == (kind, names), f"{name}: the page has {page.get(name)}, the node {kind}, {names}"


if __name__ == "__main__":
    sys.exit(run_tests(TESTS, sys.argv[4:]))
