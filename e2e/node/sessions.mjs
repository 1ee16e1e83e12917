#!/usr/bin/env node
// Drives a server's sessions with the public TypeScript SDK, each case on a stream of its own.
//
//   node sessions.mjs --basin NAME [--case NAME]... [options]
//
//   --case NAME             run only this case (may be repeated); the names are those of the table at the end.
//   --transport s2s|fetch   s2s (default): frames over HTTP/2. fetch: unary appends, and reads as server-sent events.
//   --compression none|gzip of what is sent and asked for (default none). zstd needs a newer Node.js than this asks for.
//
// The case resume is run only when it is named: it appends --batches N batches of 10 records (default 400), says
// {"acknowledged":N} on a line of its own as it goes, and expects that the server is killed and started again meanwhile.
//
//   --retry all|noSideEffects   the SDK's policy for appends whose outcome is unknown (default all).
//   --match                     every batch states its sequence number.
//
// Environment: as for roundtrip.mjs. The case trim expects a server with a short --trim-delay.
//
// Output: one line of JSON a case, {"case","ok",…}, with "error" and where it was thrown if it is not ok; exit 0 if all are
// ok, else 1. Wrong use exits 2.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { parseArgs } from "node:util";

import { sdk, tolerateExisting } from "./sdk.mjs";

const {
  AppendInput,
  AppendRecord,
  BatchTransform,
  FencingTokenMismatchError,
  Producer,
  RangeNotSatisfiableError,
  S2,
  S2Environment,
  S2Error,
  SeqNumMismatchError,
} = sdk();

/** Reads the command line; throws for whatever cannot be meant. */
function options() {
  const { values } = parseArgs({
    options: {
      basin: { type: "string" },
      case: { type: "string", multiple: true },
      transport: { type: "string", default: "s2s" },
      compression: { type: "string", default: "none" },
      batches: { type: "string", default: "400" },
      retry: { type: "string", default: "all" },
      match: { type: "boolean", default: false },
    },
  });
  if (!values.basin) throw new Error("--basin is required");
  for (const name of values.case ?? []) {
    if (!(name in cases)) throw new Error(`no case is named ${name}`);
  }
  return values;
}

/** An array of n made by a function of the index. */
const times = (n, make) => Array.from({ length: n }, (_, index) => make(index));

/** Collects all that an async iterable brings. */
async function collect(iterable) {
  const all = [];
  for await (const one of iterable) all.push(one);
  return all;
}

/** What comes back, if it does so in time: a session that hangs is a failure of this case, not of the whole run. */
async function soon(what, promise, millis = 30_000) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not in ${millis} ms`)), millis);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The error of a promise that must be rejected with a certain class. */
async function failure(type, promise) {
  try {
    await soon("a failure", promise);
  } catch (error) {
    assert.ok(error instanceof type, `failed with ${error.name} ${error.code}: ${error.message}, want ${type.name}`);
    return error;
  }
  assert.fail(`succeeded, want ${type.name}`);
}

const text = (body) => AppendRecord.string({ body });
const batchOf = (bodies, conditions) => AppendInput.create(bodies.map(text), conditions);
const from = (seqNum) => ({ start: { from: { seqNum } } });

/** All bodies of a stream as read to its tail, and that their numbers are dense. */
async function readAll(stream, start = 0) {
  const session = await stream.readSession({ ...from(start), stop: { waitSecs: 0 } });
  const records = await soon("a read to the tail", collect(session));
  records.forEach((record, index) => assert.equal(record.seqNum, start + index, "the numbers are dense"));
  return records.map((record) => record.body);
}

const tailOf = async (stream) => (await stream.checkTail()).tail.seqNum;

/**
 * Acknowledgements come in the order of the batches and cover exactly these, and what is read is what was sent: text and
 * bytes with headers, mixed in one batch, of many sizes.
 */
async function appendSession(stream, { compression }) {
  // Versions 0.25 to 0.27 of the SDK compress batches from 1 KiB on, and while they do, later ones below it overtake: with
  // compression its acknowledgements come in order only if all batches are of one kind.
  const least = compression === "none" ? 0 : 1024;
  const bytes = (index, size) => createHash("shake256", { outputLength: size }).update(`${index}`).digest();
  const sent = [];
  const session = await stream.appendSession();
  const tickets = [];
  for (let index = 0; index < 200; index++) {
    const records = times(1 + (index % 40), (n) => {
      const body = bytes(index * 100 + n, least + ((index * 37 + n * 101) % 3000));
      sent.push(body);
      const headers = [["index", `${index}`], ["Größe", `${body.length}`]];
      return AppendRecord.bytes({ body, headers });
    });
    if (index % 7 === 0) {
      records.push(AppendRecord.string({ body: `☃ ${index}`, headers: [["as", "text"]] }));
      sent.push(Buffer.from(`☃ ${index}`));
    }
    tickets.push({ ticket: await session.submit(AppendInput.create(records)), count: records.length });
  }
  let next = 0;
  for (const { ticket, count } of tickets) {
    const ack = await soon("an acknowledgement", ticket.ack());
    assert.equal(ack.start.seqNum, next);
    assert.equal(ack.end.seqNum, (next += count));
    assert.ok(ack.tail.seqNum >= next && ack.end.timestamp >= ack.start.timestamp);
  }
  await soon("the end of the session", session.close());
  assert.equal(session.lastAckedPosition().end.seqNum, next);
  await failure(S2Error, session.submit(batchOf(["late"])));

  const reader = await stream.readSession({ ...from(0), stop: { waitSecs: 0 } }, { as: "bytes" });
  const read = await soon("a read to the tail", collect(reader));
  assert.equal(read.length, sent.length);
  read.forEach((record, index) => {
    assert.equal(record.seqNum, index);
    assert.ok(Buffer.from(record.body).equals(sent[index]), `record ${index} is as it was sent`);
  });
  assert.deepEqual(read[0].headers.map((pair) => pair.map((word) => Buffer.from(word).toString())),
    [["index", "0"], ["Größe", `${least}`]]);
  return { records: sent.length, batches: tickets.length };
}

/** Each way to say where a read session starts and where it stops. */
async function readSession(stream) {
  const base = Date.UTC(2024, 0, 1);
  await stream.append(AppendInput.create(times(100, (n) => AppendRecord.string({ body: `${n}`, timestamp: base + n * 1000 }))));
  const numbers = async (input) => {
    const records = await soon("a bounded read", collect(await stream.readSession(input)));
    return records.length === 0 ? [] : [records[0].seqNum, records.at(-1).seqNum, records.length];
  };
  const wait = { waitSecs: 0 };
  const cases = [
    [{ ...from(10), stop: { limits: { count: 5 } } }, [10, 14, 5]],
    [{ ...from(90), stop: { limits: { count: 50 }, ...wait } }, [90, 99, 10]],
    [{ ...from(0), stop: { limits: { bytes: 30 } } }, [0, 2, 3]],
    [{ start: { from: { tailOffset: 7 } }, stop: wait }, [93, 99, 7]],
    [{ start: { from: { timestamp: new Date(base + 50_500) } }, stop: wait }, [51, 99, 49]],
    [{ ...from(20), stop: { untilTimestamp: base + 25_000 } }, [20, 24, 5]],
    [{ start: { from: { seqNum: 100 } }, stop: { waitSecs: 1 } }, []],
  ];
  for (const [input, want] of cases) assert.deepEqual(await numbers(input), want, JSON.stringify(input));
  const error = await failure(RangeNotSatisfiableError, stream.readSession(from(101)).then(collect));
  assert.equal(error.tail?.seqNum, 100);
  return { ranges: cases.length };
}

/** A producer's records become durable one by one, in the order given, in batches that it makes itself. */
async function producer(stream) {
  const count = 5000;
  const session = await stream.appendSession();
  const writer = new Producer(new BatchTransform({ lingerDurationMillis: 5, maxBatchRecords: 300 }), session);
  const tickets = [];
  for (let n = 0; n < count; n++) {
    tickets.push(await writer.submit(text(`record ${n}`)));
    if (n === count / 2) {
      await soon("a flush", writer.flush());
      assert.equal(await tailOf(stream), n + 1, "what was flushed is durable");
    }
  }
  const acks = await soon("all acknowledgements", Promise.all(tickets.map((ticket) => ticket.ack())), 60_000);
  acks.forEach((ack, n) => assert.equal(ack.seqNum(), n));
  await soon("the end of the producer", writer.close());
  assert.deepEqual(await readAll(stream), times(count, (n) => `record ${n}`));
  return { records: count };
}

/** Followers who came at different times all get every record, soon, and are told when they have caught up. */
async function follow(stream) {
  await stream.append(batchOf(times(20, (n) => `old ${n}`)));
  const followers = await Promise.all(times(8, (n) => stream.readSession(from(n))));
  const iterators = followers.map((session) => session[Symbol.asyncIterator]());
  const next = async (n, number) => {
    const { value } = await soon(`record ${number} of follower ${n}`, iterators[n].next());
    assert.equal(value.seqNum, number);
    return value.body;
  };
  for (const n of followers.keys()) {
    for (let number = n; number < 20; number++) assert.equal(await next(n, number), `old ${number}`);
  }
  for (let number = 20; number < 60; number++) {
    await stream.append(batchOf([`new ${number}`]));
    const got = await Promise.all(followers.map((_, n) => next(n, number)));
    assert.deepEqual(new Set(got), new Set([`new ${number}`]));
  }
  // A follower learns that it is at the tail only while it asks for more.
  const pending = iterators.map((iterator) => iterator.next());
  const caughtUp = await soon("having caught up", Promise.all(followers.map((session) => session.caughtUp())));
  assert.deepEqual(caughtUp.map((tail) => tail.seqNum), followers.map(() => 60));
  await stream.append(batchOf(["last"]));
  for (const { value } of await soon("the last record", Promise.all(pending))) assert.equal(value.body, "last");
  await soon("the end of the followers", Promise.all(iterators.map((iterator) => iterator.return())));
  return { followers: followers.length, records: 61 };
}

/** Batches sent ahead, each expecting the one before it: all or, behind one that does not match, none. */
async function matchSeqNum(stream) {
  const session = await stream.appendSession();
  const tickets = [];
  for (let n = 0; n < 100; n++) tickets.push(await session.submit(batchOf([`a${n}`, `b${n}`], { matchSeqNum: n * 2 })));
  const acks = await soon("all acknowledgements", Promise.all(tickets.map((ticket) => ticket.ack())));
  acks.forEach((ack, n) => assert.equal(ack.start.seqNum, n * 2));
  await soon("the end of the session", session.close());

  const poisoned = await stream.appendSession();
  const [good, bad, behind] = await Promise.all([
    poisoned.submit(batchOf(["good"], { matchSeqNum: 200 })),
    poisoned.submit(batchOf(["bad"], { matchSeqNum: 7 })),
    poisoned.submit(batchOf(["behind"], { matchSeqNum: 201 })),
  ]);
  const [first, second, third] = await soon("three outcomes", Promise.allSettled([good.ack(), bad.ack(), behind.ack()]));
  assert.equal(first.value?.end.seqNum, 201);
  assert.ok(second.reason instanceof SeqNumMismatchError, `the second is ${second.reason}`);
  assert.equal(second.reason.expectedSeqNum, 201);
  assert.equal(third.status, "rejected");
  assert.ok(poisoned.failureCause() instanceof SeqNumMismatchError);
  await failure(S2Error, poisoned.close());
  assert.equal(await tailOf(stream), 201, "nothing behind the failure was applied");
  return { batches: tickets.length };
}

/** Who holds an older fencing token cannot append any more, in a session or beside one. */
async function fencing(stream) {
  const old = await stream.appendSession();
  await (await old.submit(AppendInput.create([AppendRecord.fence("first")]))).ack();
  await (await old.submit(batchOf(["by the first"], { fencingToken: "first" }))).ack();
  const next = await stream.appendSession();
  await (await next.submit(AppendInput.create([AppendRecord.fence("second")], { fencingToken: "first" }))).ack();
  const ticket = await old.submit(batchOf(["too late"], { fencingToken: "first" }));
  const error = await failure(FencingTokenMismatchError, ticket.ack());
  assert.equal(error.expectedFencingToken, "second");
  await failure(S2Error, old.close());
  await failure(FencingTokenMismatchError, stream.append(batchOf(["too late"], { fencingToken: "first" })));
  await (await next.submit(batchOf(["by the second"], { fencingToken: "second" }))).ack();
  // A token is asked of nobody who does not send one.
  await (await next.submit(batchOf(["by anybody"]))).ack();
  await soon("the end of the session", next.close());
  assert.deepEqual(await readAll(stream), ["first", "by the first", "second", "by the second", "by anybody"]);
  const data = await stream.readSession({ ...from(0), stop: { waitSecs: 0 }, ignoreCommandRecords: true });
  assert.deepEqual((await collect(data)).map((record) => record.seqNum), [1, 3, 4]);
  return {};
}

/** A trim takes effect for readers after a while, and a read of what it took starts at what is left. */
async function trim(stream) {
  const session = await stream.appendSession();
  await (await session.submit(batchOf(times(30, (n) => `${n}`)))).ack();
  await (await session.submit(AppendInput.create([AppendRecord.trim(25)]))).ack();
  await soon("the end of the session", session.close());
  const first = async () => (await stream.read({ ...from(0), stop: { limits: { count: 1 } } })).records[0].seqNum;
  const since = performance.now();
  while ((await first()) === 0) {
    assert.ok(performance.now() - since < 20_000, "the trim takes effect");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const left = await collect(await stream.readSession({ ...from(0), stop: { waitSecs: 0 } }));
  assert.deepEqual(left.map((record) => record.seqNum), [25, 26, 27, 28, 29, 30]);
  return {};
}

/** What is not there is said before a session begins, with the API's code. */
async function missing(stream, { s2, basin, on }) {
  const nowhere = s2.basin(basin).stream("missing/never-made", on);
  const read = await failure(S2Error, nowhere.readSession(from(0)).then(collect));
  const append = await failure(S2Error, nowhere.appendSession().then(async (session) => (await session.submit(batchOf(["x"]))).ack()));
  for (const error of [read, append]) assert.deepEqual([error.status, error.code], [404, "stream_not_found"]);
  return {};
}

/** Streams that sessions and reads make have the config that these ask for, over the basin's defaults. */
async function creation(stream, { s2, basin, on }) {
  const making = `${basin}-making`;
  const config = { createStreamOnAppend: true, createStreamOnRead: true, defaultStreamConfig: { storageClass: "standard" } };
  await tolerateExisting(() => s2.basins.create({ basin: making, config }));
  const streamConfig = { retentionPolicy: { ageSecs: 3600 }, deleteOnEmpty: { minAgeSecs: 300 } };
  const appended = s2.basin(making).stream(`${stream.name}/appended`, on);
  const session = await appended.appendSession({ streamConfig });
  await (await session.submit(batchOf(["x"]))).ack();
  await soon("the end of the session", session.close());
  const read = s2.basin(making).stream(`${stream.name}/read`, on);
  await soon("a read of nothing", collect(await read.readSession({ ...from(0), stop: { waitSecs: 0 }, streamConfig })));
  for (const { name } of [appended, read]) {
    const made = await s2.basin(making).streams.getConfig({ stream: name });
    const { storageClass, retentionPolicy, deleteOnEmpty } = made;
    assert.deepEqual({ storageClass, retentionPolicy, deleteOnEmpty }, { storageClass: "standard", ...streamConfig }, name);
  }
  return {};
}

/**
 * Appends ahead while the server is killed and started again. The SDK connects anew and sends again what was not
 * acknowledged, as far as its policy allows; what it gave up on ends the case, well.
 */
async function resume(stream, { batches, match, retry }) {
  const session = await stream.appendSession({ maxInflightBatches: 20 });
  const tickets = [];
  const outcomes = [];
  let acknowledged = 0;
  try {
    for (let n = 0; n < Number(batches); n++) {
      const ticket = await session.submit(batchOf(times(10, (i) => `${n}.${i}`), match ? { matchSeqNum: n * 10 } : {}));
      const outcome = ticket.ack().then((ack) => {
        acknowledged++;
        console.log(JSON.stringify({ acknowledged }));
        return ack;
      });
      outcome.catch(() => {});
      outcomes.push(outcome);
      // A pace that leaves the time to be killed in.
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await session.close();
  } catch (error) {
    if (!(error instanceof S2Error)) throw error;
  }
  const settled = await soon("all outcomes", Promise.allSettled(outcomes), 60_000);
  const cause = session.failureCause();
  const seen = new Map();
  (await readAll(stream)).forEach((body) => seen.set(body, (seen.get(body) ?? 0) + 1));
  const doubled = [...seen.values()].filter((count) => count > 1).length;
  settled.forEach(({ status, value }, n) => {
    if (status !== "fulfilled") return;
    for (let i = 0; i < 10; i++) assert.ok(seen.has(`${n}.${i}`), `batch ${n} was acknowledged and is there`);
    if (match) assert.equal(value.start.seqNum, n * 10);
  });
  if (match || retry === "noSideEffects") assert.equal(doubled, 0, "no record is there twice");
  return { submitted: outcomes.length, acknowledged, doubled, records: seen.size, cause: cause && `${cause.code} ${cause.message}` };
}

// resume needs somebody who kills the server: it is run only by name.
const cases = { appendSession, readSession, producer, follow, matchSeqNum, fencing, trim, missing, creation, resume };

async function main(opts) {
  // Batches that wait behind others spend their time for an answer too, and the SDK then sends them all again, which the
  // server must take for new ones: 5 s, its default, are little on a busy machine.
  const patience = { requestTimeoutMillis: 30_000 };
  const retry = { appendRetryPolicy: opts.retry, maxAttempts: opts.case?.includes("resume") ? 60 : 3, ...patience };
  const s2 = new S2({ ...S2Environment.parse(), ...patience, retry, compression: opts.compression });
  const on = { forceTransport: opts.transport };
  await tolerateExisting(() => s2.basins.create({ basin: opts.basin }));
  let ok = true;
  for (const name of opts.case ?? Object.keys(cases).filter((each) => each !== "resume")) {
    const label = [name, opts.transport, opts.compression, opts.retry, opts.match && "match"].filter(Boolean).join("/");
    const result = { case: name, ok: true };
    try {
      await s2.basin(opts.basin).streams.create({ stream: label });
      const stream = s2.basin(opts.basin).stream(label, on);
      Object.assign(result, await cases[name](stream, { ...opts, s2, on }));
      await stream.close();
    } catch (error) {
      ok = false;
      const { message, code, status, stack } = error;
      Object.assign(result, { ok: false, error: message, code, status, at: stack?.match(/sessions\.mjs:\d+/)?.[0] });
    }
    console.log(JSON.stringify(result));
  }
  return ok;
}

let opts;
try {
  opts = options();
} catch (error) {
  console.error(`sessions: ${error.message}`);
  process.exit(2);
}
process.exit((await main(opts)) ? 0 : 1);
