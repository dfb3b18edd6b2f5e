// A server on the TypeScript SDK 2.x, as its users write one: a factory for serveStdio. It speaks both eras.
// With the argument `http` it serves `/mcp`, where the handshake opens a session, and `/stateless`, as the SDK has it.
import { getRequestListener } from '@hono/node-server';
import {
    completable,
    createMcpHandler,
    inputRequired,
    isLegacyRequest,
    McpServer,
    ResourceTemplate,
    WebStandardStreamableHTTPServerTransport
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

import { serveHttp, Sessions } from './http.mjs';
import { ASKS, begin, CAPITAL, matching, NAME, NAMES, never, note, pauseFor, TOPICS } from './record.mjs';

const text = value => ({ content: [{ type: 'text', text: value }] });

function build() {
    const server = new McpServer(
        { name: 'ts2-peer', version: '2.0.0' },
        { instructions: 'Ask ts2-peer to echo, add or wait.' }
    );
    server.registerTool(
        'echo',
        { description: 'Say the text again.', inputSchema: z.object({ text: z.string() }) },
        async args => text(args.text)
    );
    server.registerTool(
        'add',
        {
            description: 'Add two integers; the sum is structured content as well.',
            inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
            outputSchema: z.object({ result: z.number().int() })
        },
        async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } })
    );
    server.registerTool(
        'slow',
        {
            description: 'Report progress `steps` times, each followed by `pause` seconds.',
            inputSchema: z.object({ steps: z.number().int(), pause: z.number() })
        },
        async ({ steps, pause }, ctx) => {
            const progressToken = ctx.mcpReq._meta?.progressToken;
            for (let step = 1; step <= steps; step += 1) {
                if (progressToken !== undefined)
                    await ctx.mcpReq.notify({
                        method: 'notifications/progress',
                        params: { progressToken, progress: step, total: steps, message: `step ${step}` }
                    });
                await pauseFor(pause, ctx.mcpReq.signal);
            }
            return text(`${steps} steps`);
        }
    );
    server.registerTool('fail', { description: 'Fail, as a tool error.' }, async () => {
        throw new Error('this tool always fails');
    });
    server.registerTool('never', { description: 'Never answer; record being called and being cancelled.' }, ctx =>
        never(ctx.mcpReq.signal)
    );
    server.registerPrompt(
        'greet',
        {
            description: 'Greet somebody.',
            argsSchema: z.object({ name: completable(z.string(), typed => matching(NAMES, typed ?? '')) })
        },
        ({ name }) => ({
            messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }]
        })
    );
    server.registerResource(
        'motto',
        'peer://motto',
        { description: 'A line of text.', mimeType: 'text/plain' },
        uri => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'carried, not rebuilt' }] })
    );
    server.registerResource(
        'notes',
        new ResourceTemplate('peer://notes/{topic}', {
            list: undefined,
            complete: { topic: typed => matching(TOPICS, typed) }
        }),
        { description: 'Notes on a topic.', mimeType: 'text/plain' },
        (uri, { topic }) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `notes on ${topic}` }] })
    );
    if (ASKS) offerQuestions(server);
    return server;
}

// The tools that ask, which this SDK does in the result; for a host of the legacy era it asks by a request instead.
function offerQuestions(server) {
    const questions = {
        ask_name: () =>
            inputRequired.elicit({ message: NAME, requestedSchema: z.object({ name: z.string() }) }),
        ask_model: () =>
            inputRequired.createMessage({
                messages: [{ role: 'user', content: { type: 'text', text: CAPITAL } }],
                maxTokens: 50
            }),
        ask_roots: () => inputRequired.listRoots()
    };
    const sentences = {
        ask_name: ({ action, content }) => (action === 'accept' ? `accept ${content.name}` : action),
        ask_model: ({ model, content }) => `${model}: ${content.text}`,
        ask_roots: ({ roots }) => roots.map(root => root.uri).join(' ')
    };
    for (const [name, question] of Object.entries(questions))
        server.registerTool(name, { description: 'Ask the host.' }, async ctx => {
            const answer = ctx.mcpReq.inputResponses?.asked;
            if (!answer) return inputRequired({ inputRequests: { asked: question() } });
            return text(sentences[name](answer));
        });
}

const onerror = error => note(`error ${error.message.replaceAll('\n', ' ')}`);

function serveRoutes() {
    const sessions = new Sessions(WebStandardStreamableHTTPServerTransport, build);
    const modern = createMcpHandler(build, { legacy: 'reject', onerror });
    const listener = handle => getRequestListener(handle, { overrideGlobalObjects: false });
    serveHttp({
        '/mcp': listener(async request => {
            if (!(await isLegacyRequest(request))) return modern.fetch(request);
            const transport = await sessions.of(request.headers.get('mcp-session-id'));
            return transport ? transport.handleRequest(request) : new Response(null, { status: 404 });
        }),
        '/stateless': listener(createMcpHandler(build, { onerror }).fetch)
    });
}

await begin();
if (process.argv[2] === 'http') serveRoutes();
else serveStdio(build, { onerror });
