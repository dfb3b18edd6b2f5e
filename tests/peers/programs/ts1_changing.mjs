// A server on a TypeScript SDK 1.x, by its alias, whose tools and resource change: see `ts2_changing.mjs`. With a second
// argument, `http`, it serves `/mcp` with sessions.
import { serveHttp, Sessions } from './http.mjs';
import { begin } from './record.mjs';

const sdk = process.argv[2];
const { McpServer } = await import(`${sdk}/server/mcp.js`);
const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`);
const { StreamableHTTPServerTransport } = await import(`${sdk}/server/streamableHttp.js`);
const { SubscribeRequestSchema, UnsubscribeRequestSchema } = await import(`${sdk}/types.js`);

const MOTTO = 'peer://motto';
const text = value => ({ content: [{ type: 'text', text: value }] });

function build() {
    const server = new McpServer(
        { name: 'changing-ts1', version: '1.0.0' },
        { capabilities: { resources: { listChanged: true, subscribe: true } } }
    );
    const subscribed = new Set();
    let changes = 0;
    server.registerTool('change', { description: 'Change.' }, async () => {
        changes += 1;
        server.registerTool(`added_${changes}`, { description: 'Was added.' }, async () => text('added')); // which tells of it
        if (subscribed.has(MOTTO)) await server.server.sendResourceUpdated({ uri: MOTTO });
        return text(String(changes));
    });
    server.registerTool('die', { description: 'End.' }, () => process.exit(7));
    server.registerResource('motto', MOTTO, { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: `motto ${changes}` }]
    }));
    server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => (subscribed.add(params.uri), {}));
    server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => (subscribed.delete(params.uri), {}));
    return server;
}

await begin();
if (process.argv[3] === 'http') {
    const sessions = new Sessions(StreamableHTTPServerTransport, build);
    serveHttp({
        '/mcp': async (request, response) => {
            const transport = await sessions.of(request.headers['mcp-session-id']);
            if (transport) await transport.handleRequest(request, response);
            else response.writeHead(404).end();
        }
    });
} else await build().connect(new StdioServerTransport());
