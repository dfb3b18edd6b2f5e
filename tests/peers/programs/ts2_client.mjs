// A host on the TypeScript SDK 2.x. Modes: `legacy`, `auto` (probes; over stdio on a sibling process), or a modern version (pinned).
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { answerQuestions, capabilities, plan, run, transport } from './tour.mjs';

const mode = ['legacy', 'auto'].includes(plan.mode) ? plan.mode : { pin: plan.mode };
const client = new Client({ name: 'ts2-host', version: '2.0.0' }, { capabilities, versionNegotiation: { mode } });
answerQuestions(client);
await run(
    client,
    transport({ Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport, Sse: SSEClientTransport }),
    (params, options) => client.callTool(params, options),
    () => client.getNegotiatedProtocolVersion()
);
