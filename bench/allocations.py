#!/usr/bin/env python3
"""Counts what the server does for one request: allocations, copies of memory, instructions.

    bench/allocations.py BINARY DATABASE_URL

The server runs twice: under callgrind, which counts calls and instructions, and with a library in front of the C
library's that adds up the bytes of copies. Nothing is timed, so the machine need not be quiet. Each request is made forty
times over one connection on thirty clusters with four adapters, after a few that do not count. Copies that the compiler
wrote out itself, because they are short and of a known length, are no calls and are not counted.

Needs valgrind, a C compiler, an empty database, and a program that has kept the names of its functions
(CARGO_PROFILE_RELEASE_STRIP=debuginfo make build). Prints the table of docs/storage.md.
"""

import glob
import http.client
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from subprocess import DEVNULL

BINARY, DATABASE = sys.argv[1:3]
TIMES = 40
CLUSTERS = "/api/hyperfleet/v1/clusters"
ADAPTERS = ["validator", "dns", "network", "provisioner"]
ALLOCATORS = {f"_rjem_{name}" for name in ("malloc", "mallocx", "calloc", "realloc", "rallocx")}
if subprocess.run(["nm", BINARY], capture_output=True).stdout.find(b"_rjem_malloc") < 0:
    sys.exit(f"{BINARY} has no names of functions. Build it with CARGO_PROFILE_RELEASE_STRIP=debuginfo make build")
CONFIG = f"""
server: {{port: 8400, jwt: {{enabled: false}}}}
health: {{port: 8401}}
metrics: {{port: 8402}}
entities: [{{kind: Cluster, plural: clusters, required_adapters: [{", ".join(ADAPTERS)}]}}]
"""

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
static volatile long *counted;
static void *(*really)(void *, const void *, size_t);
__attribute__((constructor)) static void start(void) {
    int file = open(getenv("COPIED_BYTES"), O_RDWR);
    void *found = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    really = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memmove");
    counted = found;
}
void *memmove(void *to, const void *from, size_t length) {
    if (counted) __atomic_fetch_add(counted, (long)length, __ATOMIC_RELAXED);
    if (really) return really(to, from, length);
    char *a = to; const char *b = from;
    if (a < b) for (size_t i = 0; i < length; i++) { a[i] = b[i]; __asm__ volatile("" ::: "memory"); }
    else for (size_t i = length; i > 0; i--) { a[i - 1] = b[i - 1]; __asm__ volatile("" ::: "memory"); }
    return to;
}
void *memcpy(void *to, const void *from, size_t length) { return memmove(to, from, length); }
"""

directory = tempfile.mkdtemp()
connection = http.client.HTTPConnection("localhost", 8400, timeout=60)
number = 0


def unique():
    global number
    number += 1
    return number


def call(method, path, body=None, kind="application/json"):
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {} if body is None else {"content-type": kind})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status in (200, 201), f"{method} {path}: {answer.status} {content}"
    return json.loads(content)


def create():
    network = {"pod_cidr": "10.128.0.0/14"}
    spec = {"region": "eu-west-1", "version": "4.17", "nodes": 3, "network": network}
    labels = {"environment": "production", "team": "fleet"}
    return call("POST", CLUSTERS, {"kind": "Cluster", "name": f"c-{unique()}", "spec": spec, "labels": labels})


def report(path, adapter, message, run):
    said = {"status": "True", "reason": "JobSucceeded", "message": message}
    moment = datetime(2026, 1, 1) + timedelta(seconds=unique())
    call("PUT", f"{path}/statuses", {
        "adapter": adapter, "observed_generation": 1, "observed_time": moment.isoformat() + "Z",
        "conditions": [{"type": kind, **said} for kind in ("Available", "Applied", "Health")],
        "data": {"run": run, "url": "https://example.com/x"},
    })


def count(dump):
    """Calls of functions, and instructions, of one dump."""
    calls, instructions, names, called = {}, 0, {}, ""
    for line in open(dump, errors="replace"):
        if match := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line.rstrip()):
            if match[3]:
                names[match[2]] = match[3]
            if match[1] == "cfn":
                called = names.get(match[2], "").split("'")[0]
        elif match := re.match(r"calls=(\d+)", line):
            calls[called] = calls.get(called, 0) + int(match[1])
        elif match := re.match(r"totals: (\d+)", line):
            instructions += int(match[1])
    return calls, instructions


class Callgrind:
    """Calls and instructions."""

    def start(self, serve):
        options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={directory}/out"]
        self.server = subprocess.Popen(["valgrind", *options, *serve], stdout=DEVNULL, stderr=DEVNULL)
        return self.server

    def control(self, *options):
        command = ["callgrind_control", *options, str(self.server.pid)]
        subprocess.run(command, check=True, stdout=DEVNULL, stderr=DEVNULL)

    def begin(self):
        self.control("-i", "on")
        self.control("-z")

    def end(self):
        known = set(glob.glob(f"{directory}/out*"))
        self.control("-d")
        self.control("-i", "off")
        while not (new := set(glob.glob(f"{directory}/out.*")) - known):
            time.sleep(0.1)
        time.sleep(1)
        counted = [count(dump) for dump in new]
        of = lambda wanted: sum(n for calls, _ in counted for name, n in calls.items() if wanted(name))
        copies = of(lambda name: "memmove" in name or "memcpy" in name)
        instructions = sum(instructions for _, instructions in counted) / 1000
        return of(ALLOCATORS.__contains__), copies, instructions


class Copied:
    """Bytes that were copied."""

    def start(self, serve):
        source, library, counter = (f"{directory}/{name}" for name in ("copied.c", "copied.so", "copied"))
        with open(source, "w") as file:
            file.write(COUNTER)
        with open(counter, "wb") as file:
            file.write(bytes(8))
        options = ["-O1", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", library, source], check=True)
        self.counter = open(counter, "rb", buffering=0)
        environment = {**os.environ, "LD_PRELOAD": library, "COPIED_BYTES": counter}
        return subprocess.Popen(serve, stdout=DEVNULL, stderr=DEVNULL, env=environment)

    def read(self):
        self.counter.seek(0)
        return struct.unpack("q", self.counter.read(8))[0]

    def begin(self):
        self.before = self.read()

    def end(self):
        return (self.read() - self.before,)


def measured(tool):
    """What a tool counts for each request, one by one."""
    server = tool.start([BINARY, "serve", "--config", f"{directory}/config.yaml", "--database-url", DATABASE])
    try:
        while True:
            try:
                call("GET", CLUSTERS)
                break
            except OSError:
                connection.close()
                assert server.poll() is None, "the server ended; is its port free, and the database there?"
                time.sleep(1)
        paths = [create()["href"] for _ in range(30)]
        for path in paths:
            for adapter in ADAPTERS:
                report(path, adapter, "applied", "1")
        turn = lambda: paths[unique() % len(paths)]
        # The first page in other words each time, so that no page of before is shown again.
        anew = lambda: "page=" + "0" * (unique() % 900) + "1"
        merge = {"kind": "application/merge-patch+json"}
        requests = {
            "get": lambda: call("GET", turn()),
            "page of 20": lambda: call("GET", f"{CLUSTERS}?pageSize=20&{anew()}"),
            "page of 20, asked for again": lambda: call("GET", f"{CLUSTERS}?pageSize=20"),
            "page of 20 by a label": lambda: call("GET", f"{CLUSTERS}?pageSize=20&search=labels.team%3D'fleet'&{anew()}"),
            "reports on a cluster": lambda: call("GET", f"{turn()}/statuses"),
            "explain": lambda: call("GET", f"{turn()}/explain"),
            "page of the timeline": lambda: call("GET", f"{turn()}/timeline"),
            "report that changes something": lambda: report(turn(), "dns", f"applied {unique()}", str(unique())),
            "report that only moves times": lambda: report(turn(), "validator", "applied", "1"),
            "create": create,
            "patch": lambda: call("PATCH", turn(), {"spec": {"nodes": unique()}}, **merge),
        }
        for name, request in requests.items():
            for _ in range(15):
                request()
            tool.begin()
            for _ in range(TIMES):
                request()
            yield name, [figure / TIMES for figure in tool.end()]
    finally:
        connection.close()
        server.terminate()
        server.wait()


with open(f"{directory}/config.yaml", "w") as config:
    config.write(CONFIG)
calls = dict(measured(Callgrind()))
print("| A request, alone | Allocations | Copies | Bytes copied | Instructions, thousands |\n|---|---|---|---|---|")
for name, [copied] in measured(Copied()):
    allocations, copies, instructions = calls[name]
    print(f"| {name} | {allocations:.0f} | {copies:.0f} | {copied:.0f} | {instructions:.0f} |", flush=True)
