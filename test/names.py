#!/usr/bin/env python3
"""Checks that the name of a function in src/ tells where to look.

1. An external function is called rota_<file>_<verb>, where <file> is the name of its .c file; or
   rota_<noun>_<verb>, where <noun>.h declares it and the file is <noun>_<part>.c: a further file of
   that noun. What only the files of one noun share (<noun>_inside.h) names its file. The plural is
   as good as the singular. Others have to be in EXCEPTIONS, with a reason, and must be at most 5 %
   of all.
2. No two files in src/ have the same name.
3. A static function in more than a few files has a noun, not only a verb, so that a stack trace or a
   search says something.
4. No private header lists too much: *_inside.h has at most 200 lines.
5. The layers of src/ are a line, and so are the rooms of src/node: each includes only those before it.

    python3 test/names.py [--list]
"""
import collections
import os
import re
import subprocess
import sys

SHARE_MIN = 95.0  # percent of external functions
VERB_FILES_MAX = 5
INSIDE_LINES_MAX = 200

# Functions, or the beginnings of several with a star, and why they are called so.
EXCEPTIONS = {
    # Public, and older than the rule; the header is that of a larger noun, named in the reason.
    'rota_code_name': 'enum rota_code belongs to errors: <rota/error.h>',
    'rota_span_*': 'a span is a rota_time: <rota/time.h>',
    'rota_outcome_*': 'what a balancer learns of a call: <rota/experimental/balancer.h>',
    'rota_circuit_name': 'the circuit of a host in a balancer: <rota/experimental/balancer.h>',
    'rota_health_state_name': '<rota/experimental/health.h> has the states, health_fsm.c decides them',
    'rota_queue_config_spread': 'of struct rota_queue_config: <rota/experimental/config.h>',
    'rota_task_type_*': 'the types of tasks that partitions are for: <rota/experimental/partition.h>',
    'rota_spread_*': 'how a route spreads keys: <rota/experimental/route.h>',
    'rota_call_*': 'a call on a channel: <rota/experimental/channel.h>',
    'rota_reply_deinit': 'the reply of a call that a thread waits for: <rota/experimental/channel.h>',
    'rota_service_*': 'what a client and a server of a service share: <rota/service_client.h>',
    'rota_status_name': 'enum rota_status is of gRPC: <rota/rpc.h>',
}

# Words that are a whole name in many files, and mean the same in each.
WORDS = {
    'drive': 'the one caller of a machine in its driver',
}

# From the bottom to the top, as in ARCHITECTURE.md.
LAYERS = ['base', 'core', 'wire', 'sim', 'io', 'run', 'node', 'demo', 'cli']

# The same within the node; the last one puts it together.
NODE_ROOMS = ['rules', 'node', 'role', 'documents', 'change', 'api', 'program']
NODE_PROGRAM = {'src/node/node_open.c', 'src/node/rotad.c'}


def files(*folders):
    listed = subprocess.run(['git', 'ls-files', '--', *folders], check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.split('\n') if path.endswith(('.c', '.h')) and os.path.exists(path)]


def blank(match):
    return re.sub(r'[^\n]', ' ', match.group(0))


def code(path):
    """The text of a file with comments, strings and preprocessor lines blanked, and its macros that say static."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    statics = set(re.findall(r'^#define (\w+)(?:[^\n]*\\\n)*[^\n]*\bstatic\b', text, re.M))
    return re.sub(r'^#(?:.*\\\n)*.*$', blank, text, flags=re.M), statics


DEFINITION = re.compile(r'^([A-Za-z_][^;{}=]*?)\b(\w+)\(([^;{}]*)\)\s*\n\{', re.M)


def functions(path):
    """(name, whether it is static) of all functions that are defined in a file."""
    text, statics = code(path)
    text = re.sub(r'__attribute__\(\((?:[^()]|\([^()]*\))*\)\)', blank, text)
    for match in DEFINITION.finditer(text):
        words = match.group(1).split()
        yield match.group(2), any(word == 'static' or word in statics or word.endswith('_INLINE') for word in words)


def stem(path):
    return os.path.basename(path)[:-2]


def forms(noun):
    """A noun, its plural and its singular."""
    known = {noun, noun + 's', re.sub('y$', 'ies', noun)}
    return known | {re.sub('s$', '', noun), re.sub('ies$', 'y', noun)}


def is_of(name, noun):
    return any(name == f'rota_{form}' or name.startswith(f'rota_{form}_') for form in forms(noun))


def check_functions(is_listed):
    declared = collections.defaultdict(set)  # by function: the nouns of the headers that declare it
    for path in files('src', 'include'):
        if path.endswith('.h') and not path.endswith('_inside.h'):
            for name in re.findall(r'\b(rota_\w+)\(', code(path)[0]):
                declared[name].add(stem(path))
    n = 0
    others = []
    for path in files('src'):
        if not path.endswith('.c'):
            continue
        file = stem(path)
        for name, is_static in functions(path):
            if is_static or name == 'main':
                continue
            n += 1
            nouns = [file] + [noun for noun in declared[name] if file.startswith(noun + '_')]
            if not any(is_of(name, noun) for noun in nouns):
                others.append((path, name))
    bad = [f'{path}: {name} does not say that it is here' for path, name in others
           if not any(name == known or known.endswith('*') and name.startswith(known[:-1]) for known in EXCEPTIONS)]
    used = {known for known in EXCEPTIONS for _, name in others
            if name == known or known.endswith('*') and name.startswith(known[:-1])}
    bad += [f'test/names.py: {known} is not an exception any more' for known in EXCEPTIONS if known not in used]
    share = 100 * (n - len(others)) / n
    print(f'names: {share:.1f} % of {n} external functions say where they are, {len(others)} do not')
    if is_listed:
        for path, name in others:
            print(f'    {path}: {name}')
    if share < SHARE_MIN:
        bad.append(f'only {share:.1f} % of external functions say where they are, less than {SHARE_MIN:.0f} %')
    return bad


def check_files():
    places = collections.defaultdict(list)
    for path in files('src'):
        places[os.path.basename(path)].append(path)
    return [f'{" and ".join(paths)} have one name' for paths in places.values() if len(paths) > 1]


def check_verbs():
    places = collections.defaultdict(set)
    for path in files('src'):
        for name, is_static in functions(path):
            if is_static and '_' not in name:
                places[name].add(path)
    return [f'{name}() is a static function in {len(paths)} files, {min(paths)} for one: name what it does that to'
            for name, paths in places.items() if len(paths) > VERB_FILES_MAX and name not in WORDS]


def check_headers():
    bad = []
    for path in files('src'):
        if path.endswith('_inside.h'):
            with open(path, encoding='utf-8') as file:
                n = sum(1 for _ in file)
            if n > INSIDE_LINES_MAX:
                bad.append(f'{path} has {n} lines, more than {INSIDE_LINES_MAX}: give its parts headers of their own')
    return bad


def room_of(path):
    if path in NODE_PROGRAM:
        return 'program'
    folder = os.path.dirname(path)
    return 'node' if folder == 'src/node' else os.path.basename(folder)


def layer_of(path):
    return path.split('/')[1]


def check_rooms():
    bad = []
    paths = set(files('src'))
    for path in sorted(paths):
        with open(path, encoding='utf-8') as file:
            included = {'src/' + name for name in re.findall(r'^#include "([^"]+)"', file.read(), re.M)} & paths
        for other in sorted(included):
            line, of = (LAYERS, layer_of)
            if layer_of(path) == layer_of(other) == 'node':
                line, of = (NODE_ROOMS, room_of)
            # A node's private header has the interface of roles, which are services of it.
            if line.index(of(other)) > line.index(of(path)) and other != 'src/node/role/role.h':
                bad.append(f'{path} ({of(path)}) includes {other} ({of(other)}), which is above it')
    return bad


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    bad = check_functions('--list' in sys.argv) + check_files() + check_verbs() + check_headers() + check_rooms()
    for line in bad:
        print(f'names: {line}')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
