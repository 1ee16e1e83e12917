#!/usr/bin/env node
// Sends a file through a server with the public TypeScript SDK and checks that it comes back byte for byte.
//
//   node roundtrip.mjs --basin NAME --stream NAME --file PATH [options]
//
// The file is cut at its newlines and each line becomes one record (what follows the last newline is a record too, empty
// for a text that ends in one). Appends and reads are unary, one at a time, by one writer that expects to be the only one.
//
//   --format string|bytes   string (default): JSON bodies, the file must be UTF-8. bytes: protobuf appends and reads.
//   --mode both|append|verify
//                           append stops after the last acknowledgement; verify only reads, from --start, and compares with
//                           the file: for a check after a restart. Default both.
//   --start N               verify: the sequence number of the file's first record (default 0).
//   --batch-records N       at most N records to an append (default 1000, the API's limit).
//   --batch-bytes N         at most N metered bytes to an append (default 1048576, the API's limit).
//
// Environment: S2_ACCOUNT_ENDPOINT and S2_BASIN_ENDPOINT (both the server's address when it serves both), S2_ACCESS_TOKEN
// (anything for a server without authentication), TAILRACE_NODE_DIR (the folder whose node_modules has the SDK; default:
// the folder of this script).
//
// Output: one line of JSON on stdout, {"ok":true,"format","mode","records","bytes","sha256","start","end","tail",
// "appends","reads","append_seconds","read_seconds","sdk","node"}; exit 0. A difference or a failed call is one line
// {"ok":false,"error",…} with code and status where the server sent them; exit 1. Wrong use exits 2.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { sdk, sdkVersion, tolerateExisting } from "./sdk.mjs";

const { AppendInput, AppendRecord, MAX_APPEND_BYTES, MAX_APPEND_RECORDS, S2, S2Environment } = sdk();

class UsageError extends Error {}

/** Reads the command line; throws UsageError for whatever cannot be meant. */
function options() {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        basin: { type: "string" },
        stream: { type: "string" },
        file: { type: "string" },
        format: { type: "string", default: "string" },
        mode: { type: "string", default: "both" },
        start: { type: "string", default: "0" },
        "batch-records": { type: "string", default: String(MAX_APPEND_RECORDS) },
        "batch-bytes": { type: "string", default: String(MAX_APPEND_BYTES) },
      },
    }));
  } catch (error) {
    throw new UsageError(error.message);
  }
  for (const name of ["basin", "stream", "file"]) {
    if (!values[name]) throw new UsageError(`--${name} is required`);
  }
  oneOf("format", values.format, ["string", "bytes"]);
  oneOf("mode", values.mode, ["both", "append", "verify"]);
  return {
    ...values,
    start: number("start", values.start, 0, Number.MAX_SAFE_INTEGER),
    batchRecords: number("batch-records", values["batch-records"], 1, MAX_APPEND_RECORDS),
    batchBytes: number("batch-bytes", values["batch-bytes"], 1, MAX_APPEND_BYTES),
  };
}

function oneOf(name, value, allowed) {
  if (!allowed.includes(value)) throw new UsageError(`--${name} is one of ${allowed.join(", ")}`);
}

function number(name, text, least, most) {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new UsageError(`--${name} is a whole number from ${least} to ${most}`);
  }
  return value;
}

/** Cuts the file's bytes at each newline. The pieces, joined by newlines, are the file again. */
function lines(bytes) {
  const pieces = [];
  for (let from = 0; ; ) {
    const to = bytes.indexOf(10, from);
    if (to < 0) {
      pieces.push(bytes.subarray(from));
      return pieces;
    }
    pieces.push(bytes.subarray(from, to));
    from = to + 1;
  }
}

/** Makes the records of all lines. A line that is not UTF-8 cannot be a JSON string, and says so here. */
function recordsOf(pieces, format) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  return pieces.map((piece, index) => {
    if (format === "bytes") return AppendRecord.bytes({ body: piece });
    try {
      return AppendRecord.string({ body: decoder.decode(piece) });
    } catch {
      throw new Error(`line ${index + 1} of the file is not UTF-8: use --format bytes`);
    }
  });
}

/** Groups records into batches that both limits allow. */
function* batches(records, maxRecords, maxBytes) {
  let batch = [];
  let size = 0;
  for (const [index, record] of records.entries()) {
    if (record.meteredBytes > maxBytes) {
      throw new Error(`line ${index + 1} of the file has ${record.meteredBytes} metered bytes, a batch takes ${maxBytes}`);
    }
    if (batch.length === maxRecords || size + record.meteredBytes > maxBytes) {
      yield batch;
      batch = [];
      size = 0;
    }
    batch.push(record);
    size += record.meteredBytes;
  }
  if (batch.length > 0) yield batch;
}

/**
 * Appends everything and returns the range it was given. Each acknowledgement must cover exactly the batch sent and
 * follow the one before it, or records were lost, doubled or mixed with another writer's.
 */
async function appendAll(stream, records, { batchRecords, batchBytes }) {
  const result = { appends: 0, start: undefined, end: undefined };
  for (const batch of batches(records, batchRecords, batchBytes)) {
    const { start, end, tail } = await stream.append(AppendInput.create(batch));
    if (end.seqNum - start.seqNum !== batch.length) {
      throw new Error(`a batch of ${batch.length} was acknowledged as ${start.seqNum}..${end.seqNum}`);
    }
    if (result.end !== undefined && start.seqNum !== result.end) {
      throw new Error(`a batch starts at ${start.seqNum}, the one before it ended at ${result.end}`);
    }
    if (tail.seqNum < end.seqNum) throw new Error(`the tail ${tail.seqNum} is below the batch's end ${end.seqNum}`);
    result.start ??= start.seqNum;
    result.end = end.seqNum;
    result.appends++;
  }
  return result;
}

/**
 * Reads records start..start+pieces.length and compares each with its line at once, so that a difference is reported
 * by its place. Returns the digest of what was read, put together as the file is.
 */
async function readAll(stream, pieces, start, format) {
  const hash = createHash("sha256");
  const as = format === "bytes" ? "bytes" : undefined;
  let next = start;
  let reads = 0;
  let bytes = 0;
  while (next < start + pieces.length) {
    const left = start + pieces.length - next;
    const limits = { count: Math.min(1000, left), bytes: MAX_APPEND_BYTES };
    const batch = await stream.read({ start: { from: { seqNum: next } }, stop: { limits } }, { as });
    reads++;
    if (batch.records.length === 0) throw new Error(`a read at ${next} brought nothing, ${left} records are missing`);
    for (const record of batch.records) {
      if (record.seqNum !== next) throw new Error(`record ${record.seqNum} came where ${next} belongs`);
      const body = Buffer.from(record.body ?? "");
      if (!body.equals(pieces[next - start])) throw new Error(`record ${next} differs from line ${next - start + 1}`);
      if (next > start) hash.update("\n");
      hash.update(body);
      bytes += body.length + (next > start ? 1 : 0);
      next++;
    }
  }
  return { reads, bytes, sha256: hash.digest("hex") };
}

const seconds = (since) => Number(((performance.now() - since) / 1000).toFixed(3));

async function main() {
  const opts = options();
  const file = readFileSync(opts.file);
  const pieces = lines(file);
  const sha256 = createHash("sha256").update(file).digest("hex");
  // A retry of an append whose answer was lost would write its records twice; this run counts records.
  const retry = { appendRetryPolicy: "noSideEffects" };
  const s2 = new S2({ ...S2Environment.parse(), retry });
  const summary = { format: opts.format, mode: opts.mode, records: pieces.length, bytes: file.length, sha256 };

  const basin = s2.basin(opts.basin);
  if (opts.mode !== "verify") {
    await tolerateExisting(() => s2.basins.create({ basin: opts.basin }));
    await tolerateExisting(() => basin.streams.create({ stream: opts.stream }));
  }
  const stream = basin.stream(opts.stream);
  Object.assign(summary, { start: opts.start, end: opts.start + pieces.length });
  if (opts.mode !== "verify") {
    const records = recordsOf(pieces, opts.format);
    const since = performance.now();
    Object.assign(summary, await appendAll(stream, records, opts), { append_seconds: seconds(since) });
  }
  if (opts.mode !== "append") {
    const since = performance.now();
    const read = await readAll(stream, pieces, summary.start, opts.format);
    Object.assign(summary, { reads: read.reads, read_seconds: seconds(since) });
    if (read.sha256 !== sha256 || read.bytes !== file.length) {
      throw new Error(`read ${read.bytes} bytes with sha256 ${read.sha256}, the file has ${file.length} with ${sha256}`);
    }
  }
  const { tail } = await stream.checkTail();
  if (tail.seqNum < summary.end) throw new Error(`the tail is ${tail.seqNum}, below the last record's ${summary.end}`);
  return { ok: true, ...summary, tail: tail.seqNum, sdk: sdkVersion(), node: process.versions.node };
}

try {
  console.log(JSON.stringify(await main()));
} catch (error) {
  if (error instanceof UsageError) {
    console.error(`roundtrip: ${error.message}`);
    process.exitCode = 2;
  } else {
    const { message, code, status, origin } = error;
    console.log(JSON.stringify({ ok: false, error: message, code, status, origin }));
    process.exitCode = 1;
  }
}
