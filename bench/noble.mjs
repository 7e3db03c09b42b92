// The reference for the rows "noble ÷ ours" of README.md: how long noble, the
// JavaScript library, takes for an ML-DSA-65 verification and an X-Wing
// decapsulation. Prints one JSON document with microseconds per operation.
//
//   node noble.mjs FOLDER [ROUNDS]
//
// FOLDER is where the node_modules with noble were installed.
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, roundsArg = '7'] = process.argv.slice(2);
const rounds = Number(roundsArg);
if (!folder || !Number.isInteger(rounds) || rounds < 1) {
  console.error('usage: node noble.mjs FOLDER [ROUNDS]');
  process.exit(2);
}

const require = createRequire(join(resolve(folder), 'noble.cjs'));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { ml_dsa65 } = await load('@noble/post-quantum/ml-dsa.js');
const { ml_kem768 } = await load('@noble/post-quantum/ml-kem.js');
const { x25519 } = await load('@noble/curves/ed25519.js');
const { sha3_256, shake256 } = await load('@noble/hashes/sha3.js');
const { randomBytes } = await load('@noble/hashes/utils.js');

const round = (x) => Math.round(x * 10) / 10;

// Microseconds per call of f: the median of the rounds, each about 300 ms long
// after a warm-up that lets the just-in-time compiler settle.
function measure(f) {
  const perCall = (calls) => {
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) f();
    return Number(process.hrtime.bigint() - start) / 1000 / calls;
  };
  const calls = Math.max(5, Math.ceil(300000 / perCall(30)));
  const times = Array.from({ length: rounds }, () => perCall(calls)).sort((a, b) => a - b);
  const median = (times[(rounds - 1) >> 1] + times[rounds >> 1]) / 2;
  return { us_per_op: round(median), min_us: round(times[0]), max_us: round(times[rounds - 1]), calls };
}

function verify() {
  const keys = ml_dsa65.keygen(randomBytes(32));
  const context = new TextEncoder().encode('packet');
  const message = randomBytes(3600);
  const signature = ml_dsa65.sign(message, keys.secretKey, { context });
  const once = () => ml_dsa65.verify(signature, message, keys.publicKey, { context });
  if (!once()) throw new Error('a good signature does not verify');
  return once;
}

// X-Wing as ACE 03 defines it, put together from noble's parts: the hybrid that
// noble ships follows its own choice of draft.
const LABEL = Uint8Array.of(0x5c, 0x2e, 0x2f, 0x2f, 0x5e, 0x5c);

function expand(seed) {
  const bytes = shake256(seed, { dkLen: 96 });
  const kem = ml_kem768.keygen(bytes.subarray(0, 64));
  const secret = bytes.subarray(64);
  return { kem, secret, public: x25519.getPublicKey(secret) };
}

function combine(...parts) {
  const h = sha3_256.create();
  for (const part of parts) h.update(part);
  return h.update(LABEL).digest();
}

function encapsulate(key) {
  const kem = ml_kem768.encapsulate(key.kem.publicKey);
  const ephemeral = randomBytes(32);
  const share = x25519.getPublicKey(ephemeral);
  const shared = x25519.getSharedSecret(ephemeral, key.public);
  return { kem: kem.cipherText, share, secret: combine(kem.sharedSecret, shared, share, key.public) };
}

function decapsulate(key, sent) {
  const kem = ml_kem768.decapsulate(sent.kem, key.kem.secretKey);
  return combine(kem, x25519.getSharedSecret(key.secret, sent.share), sent.share, key.public);
}

const seed = randomBytes(32);
const key = expand(seed);
const sent = encapsulate(key);
if (Buffer.compare(decapsulate(key, sent), sent.secret) !== 0) throw new Error('the two shared secrets differ');

console.log(JSON.stringify({
  node: process.version,
  rounds,
  mldsa65_verify: measure(verify()),
  xwing_decapsulate_expanded: measure(() => decapsulate(key, sent)),
  xwing_decapsulate_seed: measure(() => decapsulate(expand(seed), sent)),
}));
