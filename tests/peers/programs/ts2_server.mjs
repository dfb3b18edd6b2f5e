// A server on the TypeScript SDK 2.x, as its users write one: a factory for serveStdio. It speaks both eras.
// With the argument `http` it serves `/mcp`, where the handshake opens a session, and `/stateless`, as the SDK has it.
import { getRequestListener } from '@hono/node-server';
import {
    completable,
    createMcpHandler,
    isLegacyRequest,
    McpServer,
    ResourceTemplate,
    WebStandardStreamableHTTPServerTransport
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

import { serveHttp, Sessions } from './http.mjs';
import { begin, matching, NAMES, never, note, pauseFor, TOPICS } from './record.mjs';

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
    return server;
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
