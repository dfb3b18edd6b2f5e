// What a Node peer server shares with its siblings: the start delay and the record of what befell it.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export const ASKS = Boolean(process.env.PEER_ASKS); // whether the server offers the tools that ask its host something
export const [NAME, CAPITAL] = ['What is your name?', 'What is the capital of France?']; // what they ask
export const NAMES = ['Ada', 'Alan', 'Barbara', 'Grace'];
export const TOPICS = ['pipes', 'probes', 'prompts'];

// Append a line to the file that PEER_RECORD names, if it names one.
export function note(line) {
    if (process.env.PEER_RECORD) appendFileSync(process.env.PEER_RECORD, `${line} ${process.pid}\n`);
}

// Record the start, then wait as long as START_DELAY says, as a server does that loads slowly.
export async function begin() {
    note('started');
    await sleep(1000 * Number(process.env.START_DELAY ?? '0'));
}

// The completions of what was typed.
export const matching = (known, typed) => known.filter(value => value.toLowerCase().startsWith(typed.toLowerCase()));

// Wait, or throw when the signal says that the request was cancelled.
export const pauseFor = (seconds, signal) => sleep(1000 * seconds, undefined, { signal });

// Never resolve; note being called and being cancelled. The timer keeps the process alive, as a busy tool would.
export function never(signal) {
    note('called');
    return new Promise((_, reject) => {
        const busy = setInterval(() => {}, 1000);
        signal.addEventListener('abort', () => {
            clearInterval(busy);
            note('cancelled');
            reject(new Error('cancelled'));
        });
    });
}
