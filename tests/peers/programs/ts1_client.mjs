// A host on the TypeScript SDK 1.x, which knows the handshake only. The plan's `sdk` is the alias the SDK is installed
// under, so that one program serves every 1.x release.
import { plan, run, server } from './tour.mjs';

const { Client } = await import(`${plan.sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${plan.sdk}/client/stdio.js`);

const client = new Client({ name: 'ts1-host', version: '1.0.0' });
const transport = new StdioClientTransport(server);
let negotiated = null;
transport.setProtocolVersion = version => {
    negotiated = version;
};
await run(
    client,
    transport,
    (params, options) => client.callTool(params, undefined, options),
    () => negotiated
);
