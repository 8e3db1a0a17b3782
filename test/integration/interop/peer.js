// The peer for gRPC in Node: the checks of peer_client.c, and more where Rota's
// server has more. Called as peer.h says.
'use strict';
const fs = require('fs');
const path = require('path');
const { grpc, loader, load, Interop, serve } = require('./peer_service.js');

const TEXT = 'día 100% — 漢字\n';
const PATIENCE_MS = 20000;
const status = grpc.status;

let nChecks = 0;
let nFailed = 0;

function check(isRight, name) {
  console.log(`${isRight ? 'ok' : 'not ok'} ${++nChecks} - ${name}`);
  if (!isRight) nFailed++;
}

function checkEnded(outcome, code, name) {
  if (outcome.code !== code) console.log(`# ended as ${status[outcome.code]}: ${outcome.details}`);
  check(outcome.code === code, name);
}

function credentials(directory) {
  return directory === '-'
    ? grpc.credentials.createInsecure()
    : grpc.credentials.createSsl(fs.readFileSync(path.join(directory, 'ca.pem')));
}

// One call with one reply: how it ended, its reply, head and trailers. It is
// `started` at once, `ended` is a promise.
function start(client, method, request, { metadata = new grpc.Metadata(), ms = PATIENCE_MS, ...rest } = {}) {
  const outcome = { code: status.OK, details: '', reply: null, head: null, tail: null };
  const options = { deadline: Date.now() + ms, ...rest };
  let call;
  const ended = new Promise((resolve) => {
    call = client[method](request, metadata, options, (error, reply) => {
      outcome.reply = reply;
      if (error) Object.assign(outcome, { code: error.code, details: error.details });
    });
    call.on('metadata', (pairs) => { outcome.head = pairs; });
    call.on('status', (result) => {
      outcome.tail = result.metadata;
      setImmediate(() => resolve(outcome));
    });
  });
  return { call, ended };
}

function call(client, method, request, options) {
  return start(client, method, request, options).ended;
}

async function echoes(client, size) {
  const payload = Buffer.alloc(size, 'e');
  const outcome = await call(client, 'Echo', { payload });
  if (outcome.code !== status.OK) console.log(`# ${status[outcome.code]}: ${outcome.details}`);
  return outcome.code === status.OK && outcome.reply.payload.equals(payload);
}

async function counts(client) {
  const outcome = await call(client, 'Count', {});
  if (outcome.code !== status.OK) throw new Error(`Count: ${outcome.details}`);
  return outcome.reply;
}

async function until(condition) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) if (await condition()) return true;
  return false;
}

function seesCancelled(client, n) {
  return until(async () => {
    const now = await counts(client);
    return now.cancelled === n && now.sleeping === 0;
  });
}

async function checkUnary(client) {
  check(await echoes(client, 100), 'unary');
  check(await echoes(client, 0), 'empty message');
  check(await echoes(client, 3 << 20), '3 MiB both ways');
}

async function checkErrors(client) {
  let nRight = 0;
  for (let code = 1; code <= 16; code++) {
    const outcome = await call(client, 'Fail', { code, text: TEXT });
    if (outcome.code === code && outcome.details === TEXT) nRight++;
    else console.log(`# ${code}: ${outcome.code} ${JSON.stringify(outcome.details)}`);
  }
  check(nRight === 16, 'every status, with a text in UTF-8');

  const binary = Buffer.from([0, 0xff, 0x80, 0x2c]);
  const outcome = await call(client, 'Fail', {
    code: status.ABORTED,
    text: TEXT,
    metadata: [{ name: 'x-tail', value: Buffer.from('later') }, { name: 'x-tail-bin', value: binary }],
  });
  checkEnded(outcome, status.ABORTED, 'error with metadata');
  check(outcome.tail.get('x-tail')[0] === 'later', 'metadata of an error');
  check(binary.equals(outcome.tail.get('x-tail-bin')[0] || Buffer.alloc(0)), 'binary metadata of an error');
  checkEnded(await unknown(client, '/rota.test.v1.Interop/Nothing'), status.UNIMPLEMENTED, 'unknown method');
  checkEnded(await unknown(client, '/no.Service/Nothing'), status.UNIMPLEMENTED, 'unknown service');
}

function unknown(client, method) {
  const bytes = (value) => value;
  return new Promise((resolve) => {
    client.makeUnaryRequest(method, bytes, bytes, Buffer.alloc(3), new grpc.Metadata(),
      { deadline: Date.now() + PATIENCE_MS },
      (error) => resolve(error || { code: status.OK, details: '' }));
  });
}

async function checkMetadata(client) {
  const metadata = new grpc.Metadata();
  const binary = Buffer.from([0, 1, 2, 0xff]);
  metadata.set('x-head', 'before');
  metadata.set('x-tail', 'after');
  metadata.set('x-tail-bin', binary);
  const outcome = await call(client, 'Echo', {}, { metadata });
  check(outcome.head.get('x-head')[0] === 'before', 'metadata in the head');
  check(outcome.tail.get('x-tail')[0] === 'after', 'metadata behind the reply');
  check(binary.equals(outcome.tail.get('x-tail-bin')[0] || Buffer.alloc(0)), 'binary metadata');
}

async function checkDeadline(client) {
  const n = (await counts(client)).cancelled;
  checkEnded(await call(client, 'Sleep', {}, { ms: 200 }), status.DEADLINE_EXCEEDED, 'deadline at the client');
  check(await seesCancelled(client, n + 1), 'deadline at the server');
  const ms = (await counts(client)).timeout_ms;
  check(ms > 0 && ms <= 220, 'the server was told of the deadline');
  console.log(`# the server saw ${ms} of 200 ms`);
}

async function checkCancel(client) {
  const n = (await counts(client)).cancelled;
  const asleep = start(client, 'Sleep', {});
  await until(async () => (await counts(client)).sleeping === 1);
  asleep.call.cancel();
  checkEnded(await asleep.ended, status.CANCELLED, 'cancelled');
  check(await seesCancelled(client, n + 1), 'a cancelled call ends at the server');
}

async function checkLimits(client) {
  const isReady = () => client.getChannel().getConnectivityState(false) === grpc.connectivityState.READY;
  checkEnded(await call(client, 'Echo', { payload: Buffer.alloc(5 << 20) }), status.RESOURCE_EXHAUSTED,
    'a request too large');
  check(isReady(), 'the connection stays');
  checkEnded(await call(client, 'Echo', { reply_size: 5 << 20 }), status.RESOURCE_EXHAUSTED,
    'a reply too large');
  check(isReady() && await echoes(client, 1), 'the connection stays and serves');
}

function stream(client, request, onMessage) {
  let reader;
  const ended = new Promise((resolve) => {
    reader = client.Stream(request, new grpc.Metadata(), { deadline: Date.now() + 60000 });
    reader.on('data', onMessage);
    reader.on('error', () => {});
    reader.on('status', (result) => setImmediate(() => resolve(result)));
  });
  return { reader, ended };
}

async function checkStream(client) {
  let n = 0;
  let isWrong = false;
  const whole = stream(client, { n: 10000, size: 1000 }, (message) => {
    isWrong = isWrong || message.index !== n || message.payload.length !== 1000;
    n++;
  });
  checkEnded(await whole.ended, status.OK, 'stream');
  check(n === 10000 && !isWrong, `${n} messages in their order`);
  checkEnded(await stream(client, { n: 0 }, () => {}).ended, status.OK, 'stream without a message');
}

async function checkHeldBack(client) {
  const before = await counts(client);
  let n = 0;
  const held = stream(client, { n: 5000, size: 50000 }, () => { n++; });
  held.reader.once('data', () => held.reader.pause());
  let last = before;
  for (let nSame = 0; nSame < 50;) {
    const now = await counts(client);
    nSame = n > 0 && now.streamed === last.streamed ? nSame + 1 : 0;
    last = now;
  }
  check(last.streamed - before.streamed < 5000, 'a reader that stops holds the server back');
  console.log(`# after ${last.streamed - before.streamed} of 5000 messages`);
  held.reader.cancel();
  held.reader.resume();
  await held.ended;
  check(await seesCancelled(client, before.cancelled + 1), 'a cancelled stream ends at the server');
}

async function checkMany(client) {
  const calls = [];
  for (let i = 0; i < 2000; i++) calls.push(call(client, 'Echo', { payload: Buffer.from('many') }, { ms: 60000 }));
  const outcomes = await Promise.all(calls);
  check(outcomes.every((outcome) => outcome.code === status.OK), '2000 calls at one time');
}

async function checkKeepalive(address, directory) {
  const client = new Interop(address, credentials(directory), {
    'grpc.keepalive_time_ms': 200,
    'grpc.keepalive_timeout_ms': 10000,
    'grpc.use_local_subchannel_pool': 1,
  });
  checkEnded(await call(client, 'Sleep', { ms: 1500 }), status.OK, 'pings while a call waits');
  client.close();
}

async function checkGzip(address, directory) {
  const client = new Interop(address, credentials(directory), {
    'grpc.default_compression_algorithm': 2,
    'grpc.use_local_subchannel_pool': 1,
  });
  check(await echoes(client, 1000), 'a request with gzip is answered, and the reply read');
  check(await echoes(client, 1), 'a message too small to be compressed, too');
  check(client.getChannel().getConnectivityState(false) === grpc.connectivityState.READY,
    'the connection stays');
  client.close();
}

// A stream both ways: a message is written when the one before is answered.
function chat(client, payloads) {
  const outcome = { n: 0, code: null, details: '' };
  const talking = client.Chat(new grpc.Metadata(), { deadline: Date.now() + PATIENCE_MS });
  const next = () => {
    if (outcome.n < payloads.length) talking.write({ payload: payloads[outcome.n] });
    else talking.end();
  };
  outcome.ended = new Promise((resolve) => {
    talking.on('data', (reply) => {
      if (!reply.payload.equals(payloads[outcome.n])) talking.cancel();
      outcome.n++;
      next();
    });
    talking.on('error', () => {});
    talking.on('status', (result) => {
      Object.assign(outcome, { code: result.code, details: result.details });
      setImmediate(() => resolve(outcome));
    });
  });
  outcome.talking = talking;
  next();
  return outcome;
}

async function checkChat(client) {
  const three = ['one', '', 'three'].map((text) => Buffer.from(text));
  const whole = await chat(client, three).ended;
  check(whole.code === status.OK && whole.n === 3, 'a stream of requests, each answered');
  check((await chat(client, []).ended).code === status.OK, 'a stream of requests without one');

  const n = (await counts(client)).cancelled;
  const refused = await chat(client, [three[0], Buffer.alloc(5 << 20)]).ended;
  check(refused.code === status.RESOURCE_EXHAUSTED && refused.n === 1, 'a request of a stream too large');
  check(await seesCancelled(client, n + 1), 'whose handler is told');

  const dropped = chat(client, [...three, ...Array(100000).fill(three[0])]);
  await until(async () => (await echoes(client, 1)) && dropped.n > 3);
  dropped.talking.cancel();
  checkEnded(await dropped.ended, status.CANCELLED, 'a stream of requests cancelled');
  // Node says that it has no more requests before it says that it has gone, so
  // the handler may have finished in peace.
  check(await until(async () => (await counts(client)).sleeping === 0), 'whose handler is told, too');
}

async function checkHealth(address, directory) {
  const { Health } = load('grpc/health/v1/health.proto').grpc.health.v1;
  const client = new Health(address, credentials(directory));
  const serving = await call(client, 'Check', { service: '' });
  check(serving.code === status.OK && serving.reply.status === 1, 'health: Check of the server');
  checkEnded(await call(client, 'Check', { service: 'nobody' }), status.NOT_FOUND, 'health: Check of nobody');

  const seen = [];
  const interop = new Interop(address, credentials(directory));
  const watch = client.Watch({ service: 'rota.test.v1.Interop' });
  watch.on('error', () => {});
  watch.on('data', (message) => seen.push(message.status));
  check(await until(async () => (await echoes(interop, 1)) && seen.length === 1) && seen[0] === 1,
    'health: Watch tells the status at once');
  await call(interop, 'SetServing', { serving: false });
  check(await until(async () => (await echoes(interop, 1)) && seen.length === 2) && seen[1] === 2,
    'health: Watch tells of a change');
  const changed = await call(client, 'Check', { service: 'rota.test.v1.Interop' });
  check(changed.code === status.OK && changed.reply.status === 2, 'health: Check of a service');
  await call(interop, 'SetServing', { serving: true });
  watch.cancel();
  interop.close();
  client.close();
}

// Ask one question after the other, in one call.
function reflect(client, method, requests) {
  const responses = [];
  const { requestSerialize, responseDeserialize } = client.ServerReflectionInfo;
  return new Promise((resolve) => {
    const asking = client.makeBidiStreamRequest(method, requestSerialize, responseDeserialize,
      new grpc.Metadata(), { deadline: Date.now() + PATIENCE_MS });
    asking.on('data', (response) => responses.push(response));
    asking.on('error', () => {});
    asking.on('status', (result) => setImmediate(() => resolve({ code: result.code, responses })));
    for (const request of requests) asking.write(request);
    asking.end();
  });
}

// Files as a FileDescriptorSet: field 1, and each with its length.
function descriptorSet(files) {
  const parts = [];
  for (const file of files) {
    const head = [0x0a];
    let size = file.length;
    for (; size > 127; size >>>= 7) head.push((size & 127) | 128);
    parts.push(Buffer.from([...head, size]), file);
  }
  return Buffer.concat(parts);
}

// As a tool with no .proto file does: ask for what there is, then call it.
async function checkReflection(address, directory) {
  const { ServerReflection } = load('grpc/reflection/v1/reflection.proto').grpc.reflection.v1;
  const client = new ServerReflection(address, credentials(directory));
  const method = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
  const { code, responses } = await reflect(client, method, [
    { list_services: '*' },
    { file_containing_symbol: 'rota.test.v1.Interop' },
    { file_containing_symbol: 'rota.test.v1.Interop.Echo' },
    { file_by_filename: 'grpc/health/v1/health.proto' },
    { file_containing_symbol: 'no.such.Thing' },
    { all_extension_numbers_of_type: 'rota.test.v1.EchoRequest' },
    { file_containing_extension: { containing_type: 'rota.test.v1.EchoRequest', extension_number: 1 } },
    {},
  ]);
  check(code === status.OK && responses.length === 8, 'reflection: a response for each request');
  const names = responses[0].list_services_response.service.map((service) => service.name).sort();
  check(names.join() === 'grpc.health.v1.Health,grpc.reflection.v1.ServerReflection,rota.test.v1.Interop',
    `reflection: ${names.join(', ')}`);
  const files = responses.slice(1, 4).map((response) => response.file_descriptor_response.file_descriptor_proto[0]);
  check(files[0].equals(files[1]) && files[2].length > 0, 'reflection: files by symbol and by name');
  check(responses[4].error_response.error_code === status.NOT_FOUND, 'reflection: no such symbol');
  check(responses[5].all_extension_numbers_response.extension_number.length === 0, 'reflection: no extensions');
  check(responses[6].error_response.error_code === status.NOT_FOUND, 'reflection: no such extension');
  check(responses[7].error_response.error_code === status.INVALID_ARGUMENT, 'reflection: nothing asked');

  const older = await reflect(client, method.replace('v1', 'v1alpha'), [{ list_services: '' }]);
  check(older.code === status.OK && older.responses.length === 1, 'reflection: under its older name');

  const found = grpc.loadPackageDefinition(loader.loadFileDescriptorSetFromBuffer(descriptorSet([files[0]])));
  const reflected = new found.rota.test.v1.Interop(address, credentials(directory));
  check(await echoes(reflected, 10), 'reflection: a call of what was found');
  reflected.close();
  client.close();
}

async function main(command, address, directory, ...what) {
  if (command === 'serve') return serve(address, directory === '-' ? null : directory);
  const client = new Interop(address, credentials(directory), {
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 500,
  });
  if (command === 'survive') {
    await survive(client);
  } else {
    await checkUnary(client);
    await checkErrors(client);
    await checkMetadata(client);
    await checkDeadline(client);
    await checkCancel(client);
    await checkLimits(client);
    await checkStream(client);
    await checkHeldBack(client);
    await checkMany(client);
    await checkKeepalive(address, directory);
    if (what.includes('chat')) await checkChat(client);
    if (what.includes('gzip')) await checkGzip(address, directory);
    if (what.includes('health')) await checkHealth(address, directory);
    if (what.includes('reflection')) await checkReflection(address, directory);
  }
  client.close();
  console.log(`1..${nChecks}`);
  process.exitCode = nFailed > 0 ? 1 : 0;
}

// Calls on and on, while the server drains and another takes its place.
async function survive(client) {
  let isToldToEnd = false;
  let nCalls = 0;
  let nLost = 0;
  const asleep = start(client, 'Sleep', { ms: 700 });
  await until(async () => (await counts(client)).sleeping === 1);
  process.stdin.once('data', () => {
    isToldToEnd = true;
    process.stdin.destroy();
  });
  const metadata = () => new grpc.Metadata({ waitForReady: true });
  for (let nAfter = 0; nAfter < 100; nCalls++) {
    if (nCalls === 50) console.log('holding');
    const outcome = await call(client, 'Echo', {}, { metadata: metadata(), ms: 60000 });
    if (outcome.code !== status.OK) {
      console.log(`# ${status[outcome.code]}: ${outcome.details}`);
      nLost++;
    }
    if (isToldToEnd) nAfter++;
  }
  checkEnded(await asleep.ended, status.OK, 'the call under way finishes in the drain');
  check(nLost === 0, 'no call is lost while the server is replaced');
  console.log(`# ${nCalls} calls`);
}

main(...process.argv.slice(2)).catch((error) => {
  console.log(`Bail out! ${error.message}`);
  process.exit(1);
});
