// A host on the TypeScript SDK 2.x that listens for changes. Arguments as of `tour.mjs`; the plan says besides which changes it
// waits for (`expect`), whether the server is made to `die` meanwhile, and whether it stays until the stream has ended (`stay`).
// In the mode `legacy` it subscribes to the resource instead of opening a stream.
import { setTimeout as sleep } from 'node:timers/promises';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { plan, transport } from './tour.mjs';

const PATIENCE = 20_000; // milliseconds
const mode = ['legacy', 'auto'].includes(plan.mode) ? plan.mode : { pin: plan.mode };
const client = new Client({ name: 'listening-ts2', version: '2.0.0' }, { versionNegotiation: { mode } });
const motto = `${plan.uri}peer://motto`;
const heard = { tools: 0 };
client.setNotificationHandler('notifications/tools/list_changed', () => void (heard.tools += 1));
client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    heard[params.uri] = (heard[params.uri] ?? 0) + 1;
});

// Once as many as are expected have been heard, beyond those before.
async function hear(before) {
    const end = Date.now() + PATIENCE;
    const behind = () => plan.expect.filter(what => !((heard[what] ?? 0) > (before[what] ?? 0)));
    while (behind().length) {
        if (Date.now() > end) throw new Error(`never heard of ${behind()}`);
        await sleep(10);
    }
}

async function change() {
    const before = { ...heard };
    await client.callTool({ name: `${plan.tool}change`, arguments: {} });
    await hear(before);
    return (await client.listTools()).tools.map(({ name }) => name);
}

const report = findings => process.stdout.write(`${JSON.stringify(findings)}\n`);

await client.connect(transport({ Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport }));
const findings = {};
let stream;
if (plan.mode === 'legacy') await client.subscribeResource({ uri: motto });
else {
    stream = await client.listen({ toolsListChanged: true, resourceSubscriptions: [motto] });
    findings.honoured = stream.honoredFilter;
}
findings.tools = await change();
if (plan.die) {
    const before = { ...heard };
    findings.died = await client.callTool({ name: `${plan.tool}die`, arguments: {} }).then(
        () => null,
        error => error.message
    );
    await hear(before);
    findings.afterwards = await change();
}
if (!plan.stay) {
    await stream?.close();
    if (plan.mode === 'legacy') await client.unsubscribeResource({ uri: motto });
} else process.stderr.write('staying\n');
findings.ended = (await stream?.closed) ?? null;
findings.heard = Object.keys(heard).filter(what => heard[what]);
await client.close();
report(findings);
