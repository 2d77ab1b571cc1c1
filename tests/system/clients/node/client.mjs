// Resolves a name in the three ways of Node.js every 200 ms, and prints the addresses as a line of JSON.
import { lookup, resolve4, resolveSrv } from "node:dns/promises";
import { setInterval } from "node:timers/promises";

const host = "web.prod.global";

// getaddrinfo of the C library, as net.connect() and fetch() use it.
async function addresses(name) {
    const found = await lookup(name, { all: true });
    return found.map(({ address }) => address);
}

const ways = {
    lookup: () => addresses(host),
    // c-ares.
    resolve4: () => resolve4(host),
    // c-ares. The records have names, which are resolved when the program connects.
    resolveSrv: async () => {
        const records = await resolveSrv(`_http._tcp.${host}`);
        return (await Promise.all(records.map(({ name }) => addresses(name)))).flat();
    },
};

for await (const _ of setInterval(200)) {
    const results = Object.entries(ways).map(async ([name, resolve]) => {
        try {
            return [name, await resolve()];
        } catch (error) {
            return [name, error.code];
        }
    });
    console.log(JSON.stringify(Object.fromEntries(await Promise.all(results))));
}
