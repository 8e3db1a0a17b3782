// Whether reflection lists exactly what a node serves: protos.js ADDRESS. Prints TAP.
'use strict';
const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const root = path.join(__dirname, '..', '..', '..', 'proto');
const files = fs.readdirSync(root, { recursive: true }).filter((name) => name.endsWith('.proto'));
const definition = loader.loadSync(files, { includeDirs: [root], keepCase: true });
const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure());
const identity = (bytes) => bytes;

// A method that the node does not serve is UNIMPLEMENTED; any other answer, such as a refusal of the
// empty request or the deadline of a stream with nothing to say, comes from one that it serves.
function isServed(method) {
  return new Promise((resolve) => {
    const options = { deadline: Date.now() + 2000 };
    const call = method.responseStream || method.requestStream
      ? client.makeBidiStreamRequest(method.path, identity, identity, options)
      : client.makeUnaryRequest(method.path, identity, identity, Buffer.alloc(0), options, () => {});
    call.on('error', () => {});
    call.on('data', () => {});
    call.on('status', (end) => resolve(end.code !== grpc.status.UNIMPLEMENTED));
    if (call.end) call.end(Buffer.alloc(0));
  });
}

async function listed() {
  const service = definition['grpc.reflection.v1.ServerReflection'];
  const { ServerReflection } = grpc.loadPackageDefinition(definition).grpc.reflection.v1;
  const reflection = new ServerReflection(process.argv[2], grpc.credentials.createInsecure());
  const call = reflection[Object.keys(service)[0]]();
  const names = await new Promise((resolve, reject) => {
    call.on('error', reject);
    call.on('data', (reply) => resolve(reply.list_services_response.service.map((one) => one.name)));
    call.write({ list_services: '*' });
  });
  call.end();
  reflection.close();
  return names.sort();
}

async function main() {
  const served = [];
  for (const [name, service] of Object.entries(definition)) {
    const methods = Object.values(service).filter((method) => method.path);
    if (methods.length === 0 || name.startsWith('rota.test.')) continue;
    const answers = await Promise.all(methods.map(isServed));
    if (answers.some(Boolean)) served.push(name);
    if (answers.some(Boolean) && !answers.every(Boolean))
      console.log('#', name, 'does not serve', methods.filter((_, i) => !answers[i]).map((method) => method.path));
  }
  const names = await listed();
  const isRight = names.join() === served.sort().join();
  console.log('# served', served.join(' '));
  console.log('# listed', names.join(' '));
  console.log(isRight ? 'ok' : 'not ok', 1, '- reflection lists every service that is served, and no other');
  console.log('1..1');
  client.close();
  process.exitCode = isRight ? 0 : 1;
}

main();
