// A host on the TypeScript SDK 1.x, which knows the handshake only. The plan's `sdk` is the alias the SDK is installed
// under, so that one program serves every 1.x release.
import { answerQuestions, capabilities, plan, run, transport as connection } from './tour.mjs';

const { Client } = await import(`${plan.sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${plan.sdk}/client/stdio.js`);
const { StreamableHTTPClientTransport } = await import(`${plan.sdk}/client/streamableHttp.js`);
const { SSEClientTransport } = await import(`${plan.sdk}/client/sse.js`);

const types = await import(`${plan.sdk}/types.js`);

const client = new Client({ name: 'ts1-host', version: '1.0.0' }, { capabilities });
answerQuestions(client, {
    'elicitation/create': types.ElicitRequestSchema,
    'sampling/createMessage': types.CreateMessageRequestSchema,
    'roots/list': types.ListRootsRequestSchema
});
const transport = connection({
    Stdio: StdioClientTransport,
    Http: StreamableHTTPClientTransport,
    Sse: SSEClientTransport
});
let negotiated = null;
const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = version => {
    negotiated = version;
    setProtocolVersion?.(version);
};
await run(
    client,
    transport,
    (params, options) => client.callTool(params, undefined, options),
    () => negotiated
);
