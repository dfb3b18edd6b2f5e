// What the Node servers share when they serve HTTP.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

// Serve these handlers by their path on PEER_PORT or a free port of this machine, and print the address.
export function serveHttp(routes) {
    const server = createServer((request, response) => {
        const handler = routes[request.url.split('?')[0]];
        if (!handler) return void response.writeHead(404).end();
        Promise.resolve(handler(request, response)).catch(error => {
            console.error(error);
            response.destroy();
        });
    });
    server.listen(Number(process.env.PEER_PORT ?? '0'), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
}

// Find the transport of a request's session; the request that opens one gets one, connected to a server of its own.
export class Sessions {
    #transports = new Map();

    constructor(Transport, build) {
        this.open = async () => {
            const transport = new Transport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: id => this.#transports.set(id, transport)
            });
            transport.onclose = () => this.#transports.delete(transport.sessionId);
            await build().connect(transport);
            return transport;
        };
    }

    // Undefined for a session that there is not.
    of(id) {
        return id ? this.#transports.get(id) : this.open();
    }
}
