// Loaded before a server that says nothing of the free port that it was given (`node --import`): prints the address.
import { Server } from 'node:net';

const listen = Server.prototype.listen;
Server.prototype.listen = function (...how) {
    this.once('listening', () => console.log(`http://127.0.0.1:${this.address().port}`));
    return listen.apply(this, how);
};
