// A server on the TypeScript SDK 2.x whose tools and resource change: `change` adds a tool and tells of it and of
// `peer://motto`, `die` ends the process. It speaks both eras. With the argument `http` it serves `/mcp`, modern hosts only.
import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

import { serveHttp } from './http.mjs';
import { begin } from './record.mjs';

const MOTTO = 'peer://motto';
const text = value => ({ content: [{ type: 'text', text: value }] });
const http = process.argv[2] === 'http';
let handler;
let changes = 0;

function build() {
    const server = new McpServer(
        { name: 'changing-ts2', version: '2.0.0' },
        { capabilities: { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true } } }
    );
    server.registerTool('change', { description: 'Change.' }, async () => {
        changes += 1;
        if (handler) {
            handler.notify.toolsChanged();
            handler.notify.resourceUpdated(MOTTO);
        } else {
            server.registerTool(`added_${changes}`, { description: 'Was added.' }, async () => text('added')); // which tells of it
            await server.server.sendResourceUpdated({ uri: MOTTO });
        }
        return text(String(changes));
    });
    server.registerTool('die', { description: 'End.' }, () => process.exit(7));
    for (let number = 1; number <= changes; number += 1)
        server.registerTool(`added_${number}`, { description: 'Was added.' }, async () => text('added'));
    server.registerResource('motto', MOTTO, { mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: `motto ${changes}` }]
    }));
    for (const method of ['resources/subscribe', 'resources/unsubscribe']) server.server.setRequestHandler(method, () => ({}));
    return server;
}

await begin();
if (http) {
    handler = createMcpHandler(build, { legacy: 'reject' });
    serveHttp({ '/mcp': getRequestListener(handler.fetch, { overrideGlobalObjects: false }) });
} else serveStdio(build);
