// A server on the TypeScript SDK 1.x, as its users write one. The first argument is the alias the SDK is installed
// under, so that one program serves every 1.x release; its zod is the one that the SDK itself uses. With a second
// argument, `http`, it serves `/mcp`, `/stateless` and `/sse` instead of stdio.
import { createRequire } from 'node:module';

import { serveHttp, Sessions } from './http.mjs';
import { ASKS, begin, CAPITAL, matching, NAME, NAMES, never, pauseFor, TOPICS } from './record.mjs';

const sdk = process.argv[2];
const { McpServer, ResourceTemplate } = await import(`${sdk}/server/mcp.js`);
const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`);
const { completable } = await import(`${sdk}/server/completable.js`);
const types = await import(`${sdk}/types.js`);
const { z } = createRequire(import.meta.resolve(`${sdk}/server/mcp.js`))('zod');

const text = value => ({ content: [{ type: 'text', text: value }] });

function build() {
    const server = new McpServer(
        { name: 'ts1-peer', version: '1.0.0' },
        { instructions: 'Ask ts1-peer to echo, add or wait.' }
    );
    server.registerTool('echo', { description: 'Say the text again.', inputSchema: { text: z.string() } }, async args =>
        text(args.text)
    );
    server.registerTool(
        'add',
        {
            description: 'Add two integers; the sum is structured content as well.',
            inputSchema: { a: z.number().int(), b: z.number().int() },
            outputSchema: { result: z.number().int() }
        },
        async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } })
    );
    server.registerTool(
        'slow',
        {
            description: 'Report progress `steps` times, each followed by `pause` seconds.',
            inputSchema: { steps: z.number().int(), pause: z.number() }
        },
        async ({ steps, pause }, extra) => {
            const progressToken = extra._meta?.progressToken;
            for (let step = 1; step <= steps; step += 1) {
                if (progressToken !== undefined)
                    await extra.sendNotification({
                        method: 'notifications/progress',
                        params: { progressToken, progress: step, total: steps, message: `step ${step}` }
                    });
                await pauseFor(pause, extra.signal);
            }
            return text(`${steps} steps`);
        }
    );
    server.registerTool('fail', { description: 'Fail, as a tool error.' }, async () => {
        throw new Error('this tool always fails');
    });
    server.registerTool('never', { description: 'Never answer; record being called and being cancelled.' }, extra =>
        never(extra.signal)
    );
    server.registerPrompt(
        'greet',
        {
            description: 'Greet somebody.',
            argsSchema: { name: completable(z.string(), typed => matching(NAMES, typed ?? '')) }
        },
        ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }] })
    );
    server.registerResource(
        'motto',
        'peer://motto',
        { description: 'A line of text.', mimeType: 'text/plain' },
        uri => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'carried, not rebuilt' }] })
    );
    server.registerResource(
        'notes',
        new ResourceTemplate('peer://notes/{topic}', { list: undefined, complete: { topic: typed => matching(TOPICS, typed) } }),
        { description: 'Notes on a topic.', mimeType: 'text/plain' },
        (uri, { topic }) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `notes on ${topic}` }] })
    );
    if (ASKS) offerQuestions(server);
    return server;
}

// The tools that ask, which this SDK does by requests of its own while the tool runs; each says which call it is for.
let counted = 0;
function offerQuestions(server) {
    server.registerTool('count', { description: 'How often this was called since the process started.' }, async () =>
        text(String((counted += 1)))
    );
    server.registerTool('ask_name', { description: 'Ask for a name.' }, async extra => {
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
        const params = { message: NAME, requestedSchema };
        const outcome = await extra.sendRequest({ method: 'elicitation/create', params }, types.ElicitResultSchema);
        return text(outcome.action === 'accept' ? `accept ${outcome.content.name}` : outcome.action);
    });
    server.registerTool('ask_model', { description: "Ask the host's model." }, async extra => {
        const params = { messages: [{ role: 'user', content: { type: 'text', text: CAPITAL } }], maxTokens: 50 };
        const request = { method: 'sampling/createMessage', params };
        const answer = await extra.sendRequest(request, types.CreateMessageResultSchema);
        return text(`${answer.model}: ${answer.content.text}`);
    });
    server.registerTool('ask_roots', { description: 'Ask for roots.' }, async extra => {
        const { roots } = await extra.sendRequest({ method: 'roots/list' }, types.ListRootsResultSchema);
        return text(roots.map(root => root.uri).join(' '));
    });
}

await begin();
if (process.argv[3] === 'http') await serveRoutes();
else await build().connect(new StdioServerTransport());

async function serveRoutes() {
    const { StreamableHTTPServerTransport } = await import(`${sdk}/server/streamableHttp.js`);
    const { SSEServerTransport } = await import(`${sdk}/server/sse.js`);
    const sessions = new Sessions(StreamableHTTPServerTransport, build);
    const streams = new Map();
    serveHttp({
        '/mcp': async (request, response) => {
            const transport = await sessions.of(request.headers['mcp-session-id']);
            if (transport) await transport.handleRequest(request, response);
            else response.writeHead(404).end();
        },
        '/stateless': async (request, response) => {
            if (request.method !== 'POST') return void response.writeHead(405).end();
            const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
            response.on('close', () => transport.close());
            await build().connect(transport);
            await transport.handleRequest(request, response);
        },
        '/sse': async (request, response) => {
            if (request.method !== 'GET') return void response.writeHead(405).end();
            const transport = new SSEServerTransport('/messages', response);
            streams.set(transport.sessionId, transport);
            transport.onclose = () => streams.delete(transport.sessionId);
            await build().connect(transport);
        },
        '/messages': async (request, response) => {
            const transport = streams.get(new URL(request.url, 'http://localhost').searchParams.get('sessionId'));
            if (transport) await transport.handlePostMessage(request, response);
            else response.writeHead(404).end();
        }
    });
}
