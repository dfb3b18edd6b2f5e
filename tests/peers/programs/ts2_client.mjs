// A host on the TypeScript SDK 2.x. Modes: `legacy`, `auto` (probes on a sibling process), or a modern version (pinned).
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { plan, run, server } from './tour.mjs';

const mode = ['legacy', 'auto'].includes(plan.mode) ? plan.mode : { pin: plan.mode };
const client = new Client({ name: 'ts2-host', version: '2.0.0' }, { versionNegotiation: { mode } });
await run(
    client,
    new StdioClientTransport(server),
    (params, options) => client.callTool(params, options),
    () => client.getNegotiatedProtocolVersion()
);
