// A conversation between the program and an endpoint in JavaScript that was
// written from the same chapters, over a relay of the program's:
//
//   node converse.mjs --url URL --ace BINARY --peer FOLDER
//
// FOLDER has endpoint.mjs. The environment says where ace keeps its state. Each
// step prints a line only when it fails; the last line counts.
import { execFile } from 'node:child_process';
import { rmSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { pathToFileURL } from 'node:url';

const { values: o } = parseArgs({ options: { url: { type: 'string' }, ace: { type: 'string' }, peer: { type: 'string' } } });
const { Endpoint } = await import(pathToFileURL(join(o.peer, 'endpoint.mjs')));
const { closeConnections } = await import(pathToFileURL(join(o.peer, 'client.mjs')));

const run = promisify(execFile);
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
let passed = 0;
let failed = 0;

async function check(name, f) {
  try {
    if ((await f()) === false) throw new Error('does not hold');
    passed++;
  } catch (e) {
    failed++;
    console.log(`FAIL ${name}: ${e.code ?? ''} ${e.stderr || e.stack}`);
  }
}

function same(got, want) {
  const [g, w] = [JSON.stringify(got ?? null), JSON.stringify(want)];
  if (g !== w) throw new Error(`expected ${w}, got ${g}`);
}

// ace runs the program and returns its JSON answer, or the lines of it.
async function ace(...args) {
  const { stdout } = await run(o.ace, [...args, '--json', '--yes']);
  const docs = stdout.trim().split('\n').filter(Boolean).map((l) => JSON.parse(l));
  return docs.length > 1 ? docs : docs[0];
}

// fails runs the program and returns its exit status and code.
async function fails(...args) {
  const e = await run(o.ace, [...args, '--json', '--yes']).then(() => ({ code: 0, stderr: '' }), (x) => x);
  const report = e.stderr.split('\n').filter((l) => l.startsWith('{"error"')).at(-1);
  return [e.code, report ? JSON.parse(report).error.code : ''];
}

const text = (message, threadId) => ({ body: { message }, threadId });
const inbox = async () => ace('inbox', 'list');
const entry = async (id) => ace('outbox', 'show', id);

await ace('init', '--relay', 'dev', '--handle', 'converse', '--contact', 'open', '--profiles', 'text,commerce');
const me = (await ace('identity', 'show')).ace_id;
// The clock over there runs ahead of here by so much, within what both allow.
let ahead = 0;
const clock = () => Math.floor(Date.now() / 1000) + ahead;
let js = new Endpoint({ relays: [o.url], clock });
const peer = js.aceId;
await js.publish();

// say sends a text to the other side and collects the receipt.
async function say(message) {
  const { message_id: id } = await ace('send', peer, message);
  await js.pull();
  await ace('pull');
  return entry(id);
}
async function hear(message) {
  const e = await js.send(me, typeof message === 'string' ? text(message) : message);
  await ace('pull');
  await js.pull();
  return e;
}

await check('contact: asked by the program, accepted over there', async () => {
  await ace('connect', peer, '--note', 'hello');
  await js.pull();
  same(js.pendingRequests().map((r) => r.body.note), ['hello']);
  await js.accept(me);
  await ace('pull');
  same((await ace('contact', 'list')).map((c) => [c.ace_id, c.state]), [[peer, 'admitted']]);
});
await check('texts both ways, each with its receipt', async () => {
  for (let i = 0; i < 3; i++) {
    same((await say(`to ${i}`)).state, 'delivered');
    same((await hear(`fro ${i}`)).state, 'delivered');
  }
  same(js.messages.map((m) => m.body.message), ['to 0', 'to 1', 'to 2']);
  same((await inbox()).map((m) => m.untrusted.body.message), ['fro 0', 'fro 1', 'fro 2']);
});

await check('contact the other way: asked over there, accepted here', async () => {
  const second = new Endpoint({ relays: [o.url] });
  await second.publish();
  await second.connect(me, { note: 'and I' });
  await ace('pull');
  same((await ace('contact', 'requests')).map((r) => [r.from, r.untrusted.note]), [[second.aceId, 'and I']]);
  await ace('contact', 'accept', second.aceId);
  await second.pull();
  same(second.admission(me), 'admitted');
});

await check('a new signing key here: upkeep sends a fresh permit', async () => {
  await ace('identity', 'delegate');
  const waiting = await js.send(me, text('after the rotation'));
  same([waiting.state, waiting.error?.code], ['pending', 'not_permitted']);
  await ace('maintain');
  await js.pull();
  await ace('pull');
  waiting.dueAt = 0;
  await js.flush();
  await ace('pull');
  await js.pull();
  same(waiting.state, 'delivered');
  same((await say('under the new key')).state, 'delivered');
});
await check('a new signing key over there', async () => {
  await js.rotateSigningKey();
  const { message_id: id } = await ace('send', peer, 'after yours');
  same(await js.upkeep(), []);
  await ace('pull');
  await js.pull();
  await ace('outbox', 'retry', id).catch(() => {});
  await js.pull();
  await ace('pull');
  same((await entry(id)).state, 'delivered');
  same((await hear('under mine')).state, 'delivered');
});
await check('a new root here', async () => {
  ahead += 31; // a pin is refreshed once in 30 s
  await ace('identity', 'rotate');
  await ace('maintain');
  await js.pull();
  await ace('pull');
  same((await hear('to the new root')).state, 'delivered');
  same((await say('from it')).state, 'delivered');
});

await check('a block here: the relay refuses the peer; unblocked, its retry is heard', async () => {
  await ace('contact', 'block', peer);
  const waiting = await js.send(me, text('blocked'));
  same([waiting.state, waiting.error?.code], ['pending', 'not_permitted']);
  same(await fails('connect', peer), [12, 'not_permitted']);
  await ace('contact', 'unblock', peer);
  waiting.dueAt = 0;
  await js.flush();
  await ace('pull');
  await js.pull();
  same([waiting.state, (await inbox()).at(-1).untrusted.body.message], ['delivered', 'blocked']);
});
await check('a block over there: the message waits here', async () => {
  await js.block(me);
  const { message_id: id } = await ace('send', peer, 'are you there');
  same([(await entry(id)).state, (await entry(id)).last_error], ['queued', 'not_permitted']);
  await js.unblock(me);
  await ace('outbox', 'retry', id);
  await js.pull();
  await ace('pull');
  same((await entry(id)).state, 'delivered');
});

await check('state lost over there: a retry restores the peer', async () => {
  js = js.reinstalled();
  await js.publish();
  const { message_id: id } = await ace('send', peer, 'do you remember me');
  await js.pull();
  same([js.messages.length, js.admission(me)], [0, 'stranger']);
  await ace('outbox', 'retry', id);
  await js.pull();
  same([js.messages.map((m) => m.body.message), js.admission(me)], [['do you remember me'], 'admitted']);
  await ace('pull');
  same((await entry(id)).state, 'delivered');
  same((await hear('I do')).state, 'delivered');
});
await check('state lost here: the other side\'s retry restores it', async () => {
  const dir = join(process.env.ACE_HOME, 'identities', 'default');
  for (const f of readdirSync(dir)) if (f.startsWith('store.db')) rmSync(join(dir, f));
  await sleep(1100); // the relay knows a registration and documents of this second
  await ace('publish');
  const e = await js.send(me, text('and you me'));
  await ace('pull');
  same(await inbox(), []);
  e.dueAt = 0;
  await js.flush();
  await ace('pull');
  await js.pull();
  same([e.state, (await inbox()).map((m) => m.untrusted.body.message)], ['delivered', ['and you me']]);
  same((await say('I do too')).state, 'delivered');
});

const send = async (type, ...fields) => {
  const { message_id: id } = await ace('send', peer, '--type', type, '--thread', 'deal', ...fields.flatMap((f) => ['--set', f]));
  await js.pull();
  await ace('pull');
  same([type, (await entry(id)).state], [type, 'delivered']);
  return id;
};
const answer = async (kind, body) => {
  const e = await hear({ type: `ace:commerce:${kind}:1`, body, threadId: 'deal' });
  same([kind, e.state, e.code ?? null], [kind, 'delivered', null]);
  return e.messageId;
};
await check('a commerce thread to confirmed', async () => {
  await send('rfq', 'need=a translation', 'maxPrice=20', 'currency=USDC');
  await answer('offer', { price: '15', currency: 'USDC' });
  const offer = await answer('offer', { price: '12', currency: 'USDC', terms: 'today' });
  await send('accept', `offerId=${offer}`);
  const invoice = await answer('invoice', {
    offerId: offer, amount: '12', currency: 'USDC',
    settlement: { method: 'stablecoin', asset: 'eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', recipient: '0xabc' },
  });
  await send('payment', `referenceId=${invoice}`, 'amount=12', 'currency=USDC', 'settlement.method=stablecoin', 'settlement.proof.txHash=0x1');
  const deliver = await answer('deliver', { type: 'inline', content: 'the text' });
  await send('confirm', `deliverId=${deliver}`);
  const thread = await ace('thread', 'show', 'deal');
  same([thread.state, js.rules[0].thread(me, 'deal').state], ['confirmed', 'confirmed']);
  same(await fails('send', peer, '--type', 'rfq', '--thread', 'deal', '--set', 'need=x'), [10, 'transition_not_allowed']);
});
await check('crossing messages are both refused as thread_busy', async () => {
  const { message_id: id } = await ace('send', peer, '--type', 'rfq', '--thread', 'busy', '--set', 'need=one');
  same(await fails('send', peer, '--type', 'rfq', '--thread', 'busy', '--set', 'need=two'), [35, 'thread_busy']);
  const crossing = await js.send(me, { type: 'ace:commerce:rfq:1', body: { need: 'mine' }, threadId: 'busy' });
  await ace('pull');
  await js.pull();
  await ace('pull');
  same([(await entry(id)).remote_code, crossing.code], ['thread_busy', 'thread_busy']);
});

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
closeConnections();
