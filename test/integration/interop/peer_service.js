// The service of interop.proto with gRPC for Node; see peer.h for the program.
'use strict';
const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PROTO = path.join(__dirname, '..', '..', '..', 'proto');

function load(file) {
  return grpc.loadPackageDefinition(
    loader.loadSync(file, { includeDirs: [PROTO], keepCase: true, defaults: true }));
}

const Interop = load('rota/test/v1/interop.proto').rota.test.v1.Interop;
const counts = { sleeping: 0, cancelled: 0, streamed: 0, timeout_ms: 0 };

// Pairs whose names begin with `prefix`.
function pairs(metadata, prefix) {
  const found = new grpc.Metadata();
  for (const name of Object.keys(metadata.getMap()))
    if (name.startsWith(prefix))
      for (const value of metadata.get(name)) found.add(name, value);
  return found;
}

function echo(call, callback) {
  const size = call.request.reply_size;
  call.sendMetadata(pairs(call.metadata, 'x-head'));
  callback(null, { payload: size > 0 ? Buffer.alloc(size) : call.request.payload },
    pairs(call.metadata, 'x-tail'));
}

function fail(call, callback) {
  const metadata = new grpc.Metadata();
  for (const pair of call.request.metadata)
    metadata.add(pair.name, pair.name.endsWith('-bin') ? pair.value : pair.value.toString());
  callback({ code: call.request.code, details: call.request.text, metadata });
}

function sleep(call, callback) {
  const deadline = call.getDeadline();
  counts.sleeping++;
  counts.timeout_ms = isFinite(Number(deadline)) ? Math.ceil(Number(deadline) - Date.now()) : 0;
  let timer = null;
  const onCancelled = () => {
    clearTimeout(timer);
    counts.sleeping--;
    counts.cancelled++;
  };
  call.on('cancelled', onCancelled);
  if (call.request.ms > 0)
    timer = setTimeout(() => {
      call.removeListener('cancelled', onCancelled);
      counts.sleeping--;
      callback(null, {});
    }, call.request.ms);
}

function count(call, callback) {
  callback(null, counts);
}

function stream(call) {
  const payload = Buffer.alloc(call.request.size);
  let index = 0;
  let over = false;
  const go = () => {
    while (!over && index < call.request.n) {
      counts.streamed++;
      if (!call.write({ index: index++, payload })) {
        call.once('drain', go);
        return;
      }
    }
    if (!over) call.end();
    over = true;
  };
  call.on('cancelled', () => {
    if (!over) counts.cancelled++;
    over = true;
  });
  go();
}

function serve(address, directory) {
  const server = new grpc.Server();
  const read = (name) => fs.readFileSync(path.join(directory, name));
  const credentials = directory
    ? grpc.ServerCredentials.createSsl(null, [{ private_key: read('key.pem'), cert_chain: read('cert.pem') }])
    : grpc.ServerCredentials.createInsecure();
  server.addService(Interop.service, { Echo: echo, Fail: fail, Sleep: sleep, Count: count, Stream: stream });
  server.bindAsync(address, credentials, (error, port) => {
    if (error) throw error;
    process.stdout.write(`ready ${address.replace(/:\d+$/, '')}:${port}\n`);
  });
  process.on('SIGTERM', () => server.tryShutdown((error) => process.exit(error ? 1 : 0)));
}

module.exports = { grpc, loader, load, Interop, serve };
