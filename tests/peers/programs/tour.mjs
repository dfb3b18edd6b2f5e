// What the TypeScript clients share: their arguments, the tour itself, and the one line they report.
//
// Arguments: a plan, `{"mode": …, "tool": prefix, "uri": prefix, "do": "tour" | "list" | "close" | "wait"}`, then the command of the
// server. With `url` the server is there instead, by way of `"over": "http" | "sse"`, and `headers` are sent to it. With
// `servers` the tour is made of each of these, by the names that mcpx gives them, with lists of what is its
// own; nothing is cancelled at those in `deaf`. With `"do": "call"` the tools in `calls` are called. What the client is
// asked meanwhile it answers by `answers`, by method a list of results that it takes in turn, with `{"error": …}` for an error;
// it declares what is in there.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE = 20_000; // milliseconds; a client that waits longer for a server's record has failed

export const plan = JSON.parse(process.argv[2]);
const [command, ...args] = process.argv.slice(3);

// What a client declares that is to be asked, and the answers it gives; `schemas` are what an SDK 1.x names methods by.
const KINDS = { 'elicitation/create': 'elicitation', 'sampling/createMessage': 'sampling', 'roots/list': 'roots' };
const asked = [];
export const capabilities = Object.fromEntries(Object.keys(plan.answers ?? {}).map(method => [KINDS[method], {}]));
export function answerQuestions(client, schemas = {}) {
    for (const [method, answers] of Object.entries(plan.answers ?? {})) {
        let turn = 0;
        client.setRequestHandler(schemas[method] ?? method, async ({ params }) => {
            asked.push([method, params ?? null]);
            const answer = answers[turn++ % answers.length];
            if (!answer.error) return answer;
            throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
        });
    }
}

// The transport to the server of the plan, out of the SDK's classes. Over SSE the headers are given to both of its ways.
export function transport({ Stdio, Http, Sse }) {
    // The SDK itself would hand on a few variables only.
    if (!plan.url) return new Stdio({ command, args, env: { ...process.env }, stderr: 'inherit' });
    const Transport = plan.over === 'sse' ? Sse : Http;
    return new Transport(new URL(plan.url), { requestInit: { headers: plan.headers ?? {} } });
}

let tool = plan.tool ?? '';
let uri = plan.uri ?? '';
const named = name => tool + name;
const uriOf = own => uri + own;
const blockText = ({ content }) => {
    if (content.length !== 1) throw new Error(`one block expected: ${JSON.stringify(content)}`);
    return content[0].text;
};

// How often servers have written the word into the file that PEER_RECORD names.
const times = word =>
    readFileSync(process.env.PEER_RECORD, 'utf8').split('\n').filter(line => line.startsWith(word)).length;

// Resolve once that is more often than before.
async function recorded(word, before = 0) {
    const end = Date.now() + PATIENCE;
    while (times(word) <= before) {
        if (Date.now() > end) throw new Error(`the server never recorded "${word}"`);
        await sleep(10);
    }
}

// What a call that names nothing gets: the error's code and message, or the tool error's text.
async function refusal(call) {
    try {
        const result = await call;
        return { isError: result.isError, message: blockText(result) };
    } catch (error) {
        // SDK 1.x puts the code in front of what the server wrote.
        return { code: error.code, message: (error.message ?? String(error)).replace(`MCP error ${error.code}: `, '') };
    }
}

// `callTool(params, options)` hides the one difference between the SDKs: where the options stand.
async function tour(client, callTool, cancels = true) {
    const call = (name, args, options) => callTool({ name: named(name), arguments: args }, options);
    const { tools } = await client.listTools();
    const { prompts } = await client.listPrompts();
    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const echo = await call('echo', { text: 'grüße, 世界 \u2028 end' });
    const add = await call('add', { a: 2 ** 40, b: 2 });
    const progress = [];
    const slow = await call(
        'slow',
        { steps: 3, pause: 0.05 },
        { onprogress: p => progress.push([p.progress, p.total, p.message]) }
    );
    const fail = await call('fail', {});
    const unknown = await refusal(call('nothing', {}));
    const motto = await client.readResource({ uri: uriOf('peer://motto') });
    const notes = await client.readResource({ uri: uriOf('peer://notes/probes') });
    const prompt = await client.getPrompt({ name: named('greet'), arguments: { name: 'Ada' } });
    const names = await client.complete({
        ref: { type: 'ref/prompt', name: named('greet') },
        argument: { name: 'name', value: 'A' }
    });
    const topics = await client.complete({
        ref: { type: 'ref/resource', uri: uriOf('peer://notes/{topic}') },
        argument: { name: 'topic', value: 'pro' }
    });
    if (cancels) {
        const [called, cancelled] = [times('called'), times('cancelled')];
        const controller = new AbortController();
        const never = refusal(call('never', {}, { signal: controller.signal }));
        await recorded('called', called);
        controller.abort('enough');
        await never;
        await recorded('cancelled', cancelled);
    }
    const again = await call('echo', { text: 'still here' });
    return {
        tools: tools.map(tool => tool.name),
        add_schema: tools.find(tool => tool.name === named('add'))?.outputSchema ?? null,
        prompts: prompts.map(prompt => prompt.name),
        resources: resources.map(resource => resource.uri),
        templates: resourceTemplates.map(template => template.uriTemplate),
        echo: blockText(echo),
        add: add.structuredContent ?? null,
        add_text: blockText(add),
        slow: blockText(slow),
        progress,
        fail: { isError: fail.isError, message: blockText(fail) },
        unknown,
        motto: motto.contents.map(({ uri, text }) => [uri, text]),
        notes: notes.contents.map(({ uri, text }) => [uri, text]),
        prompt: prompt.messages.map(({ content }) => content.text),
        names: names.completion.values,
        topics: topics.completion.values,
        again: blockText(again)
    };
}

// Connect, do what the plan says, close, and report. `protocol` says what was negotiated, once connected.
export async function run(client, transport, callTool, protocol) {
    await client.connect(transport);
    const findings = {
        protocol: protocol(),
        server: client.getServerVersion()?.name ?? null,
        instructions: client.getInstructions() ?? null
    };
    let left;
    if (plan.do === 'close' || plan.do === 'wait') {
        left = refusal(callTool({ name: named('never'), arguments: {} })); // in flight until the connection closes
        await recorded('called');
        if (plan.do === 'wait') findings.left = await left;
    } else if (plan.do === 'list') findings.tools = (await client.listTools()).tools.map(each => each.name);
    else if (plan.do === 'call') {
        const said = [];
        for (const [name, args] of plan.calls) said.push(await refusal(callTool({ name, arguments: args })));
        Object.assign(findings, { said, asked });
    } else if (plan.servers) {
        findings.tours = {};
        for (const server of plan.servers) {
            [tool, uri] = [`${server}__`, `mcpx://${server}/`];
            const seen = await tour(client, callTool, !plan.deaf?.includes(server));
            for (const kind of ['tools', 'prompts', 'resources', 'templates'])
                seen[kind] = seen[kind].filter(name => name.startsWith(tool) || name.startsWith(uri));
            findings.tours[server] = seen;
        }
    } else Object.assign(findings, await tour(client, callTool));
    const start = performance.now();
    await client.close();
    findings.closed = Math.round(performance.now() - start) / 1000;
    if (left) findings.left = await left;
    process.stdout.write(`${JSON.stringify(findings)}\n`, () => process.exit()); // SDK 1.22 leaves the timers of unanswered requests running, a minute each
}
