// What a node tells a stranger, one that has no token: whether reflection lists exactly what it
// serves, and whether it refuses what only operators and nodes may do. protos.js ADDRESS. Prints TAP.
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
function ask(method) {
  return new Promise((resolve) => {
    const options = { deadline: Date.now() + 2000 };
    const call = method.responseStream || method.requestStream
      ? client.makeBidiStreamRequest(method.path, identity, identity, options)
      : client.makeUnaryRequest(method.path, identity, identity, Buffer.alloc(0), options, () => {});
    call.on('error', () => {});
    call.on('data', () => {});
    call.on('status', (end) => resolve(end.code));
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

const OPERATORS = ['Nodes/Drain', 'Nodes/Undrain', 'Nodes/Evict', 'Nodes/Weigh', 'Queue/DeleteQueue', 'Queue/Forget',
  'Queue/Pause', 'Queue/SetLayout', 'Queue/SetQuarantine', 'Queue/SetWeight', 'Space/Create', 'Space/Delete', 'Space/Migrate', 'Space/Pin',
  'Space/Reseat'].map((name) => `/rota.v1.${name}`);

let n = 0, nFailed = 0;
function check(is, should, name) {
  const isRight = is.sort().join() === should.sort().join();
  if (!isRight) console.log(`# is ${is.join(' ')}\n# should be ${should.join(' ')}`);
  nFailed += !isRight;
  console.log(isRight ? 'ok' : 'not ok', ++n, '-', name);
}

async function main() {
  const served = [], refused = [], ofNodes = [];
  for (const [name, service] of Object.entries(definition)) {
    const methods = Object.values(service).filter((method) => method.path);
    if (methods.length === 0 || name.startsWith('rota.test.')) continue;
    const codes = await Promise.all(methods.map(ask));
    if (codes.every((code) => code !== grpc.status.UNIMPLEMENTED)) served.push(name);
    methods.forEach((method, i) => {
      if (codes[i] === grpc.status.UNAUTHENTICATED) refused.push(method.path);
      if (name.startsWith('rota.peer.')) ofNodes.push(method.path);
    });
  }
  check(await listed(), served, 'reflection lists every service that is served, and no other');
  check(refused, [...OPERATORS, ...ofNodes], 'a stranger may neither operate the cluster nor pass for a node');
  console.log(`1..${n}`);
  client.close();
  process.exitCode = nFailed > 0 ? 1 : 0;
}

main();
