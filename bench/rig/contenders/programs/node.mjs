/*
 * Node's JSON and the official TypeScript SDK's schemas, as contenders of the framing benchmark: see remote.py for what
 * is said. It runs as
 *
 *     node node.mjs json
 *     node node.mjs envelope|typed NODE_MODULES
 *
 * - json: JSON.parse and JSON.stringify, and nothing that looks at what they read;
 * - envelope: the SDK's buffer, schema of JSON-RPC messages and writer, as its stdio transports use them;
 * - typed: params and results go through the schemas of their methods as well, as in a session.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const NEW_ID = 4711;
const PREFIX = "files__";
const NEWLINE = 0x0a;

function kindOf(message) {
  if (message.method !== undefined) return message.id === undefined ? "notification" : "request";
  return message.result === undefined ? "error" : "result";
}

const envelopeOf = (message) => [kindOf(message), message.id ?? null, message.method ?? null];

function rename(holds, message) {
  if (holds === "call") message.params.name = PREFIX + message.params.name;
  else if (holds === "tools") for (const tool of message.result.tools) tool.name = PREFIX + tool.name;
}

// A worker for each job, of a function that reads a message off a chunk and one that makes a line of a message.
function jobsOf(read, write) {
  return {
    envelope: () => (stream) => envelopeOf(read(stream)),
    rewrite: (holds) => (stream) => {
      const message = read(stream);
      message.id = NEW_ID;
      rename(holds, message);
      return write(message);
    },
    full: () => (stream) => {
      const message = read(stream);
      message.id = NEW_ID;
      return write(message);
    },
  };
}

function json() {
  const read = (stream) => JSON.parse(stream.toString("utf8", 0, stream.indexOf(NEWLINE)));
  const write = (message) => Buffer.from(JSON.stringify(message) + "\n");
  return { version: process.versions.node, jobs: jobsOf(read, write) };
}

function sdk(modules) {
  const require = createRequire(join(modules, "any.js"));
  const { ReadBuffer, serializeMessage } = require("@modelcontextprotocol/server");
  const manifest = join(modules, "@modelcontextprotocol", "server", "package.json");
  const buffer = new ReadBuffer();
  const read = (stream) => {
    buffer.append(stream);
    return buffer.readMessage();
  };
  const write = (message) => Buffer.from(serializeMessage(message));
  return { require, read, write, version: JSON.parse(readFileSync(manifest, "utf8")).version };
}

function envelope(modules) {
  const { read, write, version } = sdk(modules);
  return { version, jobs: jobsOf(read, write) };
}

function typed(modules) {
  const { require, read, write, version } = sdk(modules);
  const { CallToolRequestSchema, CallToolResultSchema, ListToolsResultSchema } = require("@modelcontextprotocol/core");
  const readTyped = (holds) => {
    if (holds === "call") {
      return (stream) => {
        const { jsonrpc, id, ...request } = read(stream);
        return { jsonrpc, id, ...CallToolRequestSchema.parse(request) };
      };
    }
    const schema = holds === "tools" ? ListToolsResultSchema : CallToolResultSchema;
    return (stream) => {
      const { jsonrpc, id, result } = read(stream);
      return { jsonrpc, id, result: schema.parse(result) };
    };
  };
  const rewrite = (holds) => jobsOf(readTyped(holds), write).rewrite(holds);
  const full = (holds) => jobsOf(readTyped(holds), write).full(holds);
  return { version, jobs: { rewrite, full } };
}

let sink; // what was made last, so that no optimiser may leave it out

function seconds(work, stream, repetitions) {
  const start = process.hrtime.bigint();
  for (let count = 0; count < repetitions; count++) sink = work(stream);
  return Number(process.hrtime.bigint() - start) / 1e9;
}

const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");

const [way, modules] = process.argv.slice(2);
const { version, jobs } = { json, envelope, typed }[way](modules);
const samples = new Map();
const workers = new Map(); // kept, as what they compile to is theirs

function workerFor(job, name) {
  const key = `${job} ${name}`;
  if (!workers.has(key)) workers.set(key, jobs[job](samples.get(name).holds));
  return workers.get(key);
}

say({ version, jobs: Object.keys(jobs) });
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  if (asked.do === "take") {
    samples.set(asked.sample, { holds: asked.holds, stream: Buffer.from(asked.stream) });
    say({});
    continue;
  }
  const { stream } = samples.get(asked.sample);
  const work = workerFor(asked.job, asked.sample);
  if (asked.do === "time") {
    say({ seconds: seconds(work, stream, asked.repetitions) });
  } else {
    const outcome = work(stream);
    say(Buffer.isBuffer(outcome) ? { line: outcome.toString() } : { envelope: outcome });
  }
}
