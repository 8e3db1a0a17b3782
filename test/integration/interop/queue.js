// A submitter and a worker of rota.v1.Queue with gRPC for Node: queue.js ADDRESS. Prints TAP.
'use strict';
const path = require('path');
const { promisify } = require('util');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const { Queue } = grpc.loadPackageDefinition(loader.loadSync('rota/v1/queue.proto', {
  includeDirs: [path.join(__dirname, '..', '..', '..', 'proto')],
  keepCase: true, defaults: true, longs: String, enums: String,
})).rota.v1;
const client = new Queue(process.argv[2], grpc.credentials.createInsecure());
const call = (method, request) => promisify(client[method].bind(client))(request);
let n = 0, failed = 0;

function check(isRight, name, note) {
  if (!isRight) {
    failed++;
    console.log('#', JSON.stringify(note));
  }
  console.log(isRight ? 'ok' : 'not ok', ++n, '-', name);
}

async function status(method, request) {
  return call(method, request).then(() => grpc.status.OK, (error) => error.code);
}

const poll = async () => (await call('Poll', { queues: ['post'], wait_ms: 20000, worker: 'js' })).jobs[0];
const describe = async (id) => (await call('Describe', { queue: 'post', id })).job;

async function failAndCancel() {
  const { id } = await call('Add', { job: { queue: 'post', max_attempts: 3 } });
  let job = await poll();
  await call('Fail', { queue: 'post', id, attempt: job.attempt, reason: Buffer.from('busy'), retry_after_ms: 1 });
  const first = job.attempt;
  job = await poll();
  check(job.id.equals(id) && job.n_attempts === 2 && job.attempt !== first, 'a job that failed is handed out again', job);
  check(await status('Fail', { queue: 'post', id, attempt: '1' }) === grpc.status.ABORTED,
    'another attempt does not fail');
  await call('Fail', { queue: 'post', id, attempt: job.attempt, reason: Buffer.from('no such street'), is_final: true });
  const dead = await describe(id);
  check(dead.state === 'JOB_DEAD' && dead.cause === 'CAUSE_REFUSED' && dead.reason.toString() === 'no such street',
    'a job that is refused is dead, with the reason', dead);
  check(await status('Cancel', { queue: 'post', id }) === grpc.status.FAILED_PRECONDITION,
    'a job that has ended is not cancelled');

  const waiting = await call('Add', { job: { queue: 'post', delay_ms: 3600000 } });
  await call('Cancel', { queue: 'post', id: waiting.id });
  const cancelled = await describe(waiting.id);
  check(cancelled.state === 'JOB_CANCELLED' && cancelled.cause === 'CAUSE_CANCELLED', 'a job that waits is cancelled',
    cancelled);

  await call('Add', { job: { queue: 'post' } });
  job = await poll();
  await call('Cancel', { queue: 'post', id: job.id });
  check(await status('Complete', { queue: 'post', id: job.id, attempt: job.attempt }) === grpc.status.ABORTED,
    'a job that is cancelled while it runs is not completed');
  check(await status('Cancel', { queue: 'post', id: Buffer.alloc(16, 1) }) === grpc.status.NOT_FOUND,
    'no such job is not cancelled');
}

async function main() {
  const polling = call('Poll', { queues: ['mail'], can: ['send', 'spell'], wait_ms: 20000, worker: 'js' });
  const added = await call('Add', { job: { queue: 'mail', payload: Buffer.from('a\0b'), can: ['send'], priority: -3 } });
  check(added.id.length === 16 && added.is_new, 'a job is added', added);

  const seen = [];
  const watch = client.Watch({ queue: 'mail', id: added.id });
  const ended = new Promise((resolve) => {
    watch.on('data', (news) => seen.push(news.job));
    watch.on('error', resolve);
    watch.on('end', () => resolve(null));
  });
  const [job] = (await polling).jobs;
  check(job.id.equals(added.id) && job.payload.equals(Buffer.from('a\0b')) && job.priority === -3,
    'who polls gets it', job);
  check(await status('Complete', { queue: 'mail', id: job.id, attempt: '1' }) === grpc.status.ABORTED,
    'another attempt is refused');
  await call('Extend', { queue: 'mail', id: job.id, attempt: job.attempt, progress: Buffer.from('half') });
  await call('Complete', { queue: 'mail', id: job.id, attempt: job.attempt, result: Buffer.from('sent') });
  check(await ended === null, 'the watch ends with the job');
  const last = seen[seen.length - 1];
  check(last.state === 'JOB_DONE' && last.result.toString() === 'sent', 'the result is watched', last);

  const told = await call('Describe', { queue: 'mail', id: job.id });
  check(told.job.state === 'JOB_DONE' && told.job.events.length === 3 && told.explain.length > 0,
    'its story is told', told);
  check(await status('Describe', { queue: 'mail', id: Buffer.alloc(16, 1) }) === grpc.status.NOT_FOUND,
    'no such job is not found');
  check(await status('Add', { job: { queue: 'no queue' } }) === grpc.status.INVALID_ARGUMENT,
    'a name that is none is refused');
  const batch = await call('AddBatch', { jobs: [{ queue: 'mail' }, { queue: '' }] });
  check(batch.added[0].status === 0 && batch.added[1].status === grpc.status.INVALID_ARGUMENT,
    'a batch answers for each', batch);
  const { queues } = await call('Queues', {});
  check(queues.length === 1 && queues[0].n_waiting === '1' && queues[0].done_total === '1',
    'queues are counted', queues);
  await failAndCancel();
  console.log(`1..${n}`);
  client.close();
  process.exitCode = failed ? 1 : 0;
}

main();
