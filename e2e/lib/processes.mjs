// Child processes and waiting. Nothing that is started here outlives the test file, however the file ends.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";

const alive = new Set();

function killAll() {
  for (const { child, lastSignal } of alive) child.kill(lastSignal);
}

process.once("exit", killAll);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.once(signal, () => process.exit(1));
}

/** Starts a process. `lastSignal` is what ends it for good when the test file ends without stopping it. */
export function start(command, args, { lastSignal = "SIGKILL", ...options } = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const handle = { child, lastSignal, name: command.split("/").pop(), ended: undefined };
  alive.add(handle);
  handle.exited = new Promise((resolve) => {
    const end = (result) => {
      alive.delete(handle);
      handle.ended = result;
      resolve(result);
    };
    child.once("error", (error) => end({ code: null, signal: null, error }));
    child.once("exit", (code, signal) => end({ code, signal }));
  });
  return handle;
}

/** Asks a process to end and returns how it did; one that does not within the deadline is killed and reported. */
export async function stop(handle, { signal = "SIGTERM", deadlineMs = 30_000 } = {}) {
  handle.child.kill(signal);
  const killer = setTimeout(() => handle.child.kill("SIGKILL"), deadlineMs);
  try {
    return await handle.exited;
  } finally {
    clearTimeout(killer);
  }
}

/** Polls until `probe` returns something truthy. What it throws counts as "not yet" and is shown when time is up. */
export async function waitFor(what, probe, { deadlineMs = 60_000, everyMs = 50, handle } = {}) {
  const deadline = Date.now() + deadlineMs;
  let last;
  for (;;) {
    if (handle?.ended) throw new Error(`${handle.name} ended before ${what}: ${JSON.stringify(handle.ended)}`);
    try {
      const value = await probe();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`no ${what} within ${deadlineMs} ms`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** What has been opened, closed last in, first out, each once; what fails to close does not keep the others from it. */
export function openThings() {
  const closers = [];
  return {
    push: (close) => closers.push(close),
    async close() {
      const errors = [];
      for (const close of closers.splice(0).reverse()) {
        try {
          await close();
        } catch (error) {
          errors.push(error);
        }
      }
      if (errors.length > 0) throw new AggregateError(errors, "closing failed");
    },
    /** Runs `open`; if it fails, closes what it opened so far and passes the failure on. */
    async opening(open) {
      try {
        return await open();
      } catch (error) {
        await this.close().catch(() => {});
        throw error;
      }
    },
  };
}

/** A port nobody listens on now, for programs that cannot report the one they were given. */
export async function freePort() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Starts listening on a free loopback port; returns the URL and a function that ends it with its connections. */
export async function listen(handler) {
  const server = handler.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
