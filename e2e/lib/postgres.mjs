// A throwaway PostgreSQL cluster on a free port.

import { execFile, execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort, openThings, start, stop, waitFor } from "./processes.mjs";

const run = promisify(execFile);

/** PostgreSQL refuses to run as root; Debian's package brings a user for it. */
function serverUser() {
  if (process.getuid() !== 0) return {};
  const id = (flag) => {
    for (const user of ["postgres", "nobody"]) {
      try {
        return Number(execFileSync("id", [flag, user], { stdio: ["ignore", "pipe", "ignore"] }));
      } catch {
        // try the next
      }
    }
    throw new Error("no user to run PostgreSQL as");
  };
  return { uid: id("-u"), gid: id("-g") };
}

export async function newPostgres() {
  const binaries = process.env.QUITTANCE_PG_BIN;
  if (!binaries) throw new Error('QUITTANCE_PG_BIN is not set: eval "$(scripts/setup)"');
  const open = openThings();
  return open.opening(async () => {
    const user = serverUser();
    const base = mkdtempSync(join(tmpdir(), "quittance-e2e-pg-"));
    open.push(() => rmSync(base, { recursive: true, force: true }));
    if (user.uid !== undefined) chownSync(base, user.uid, user.gid);
    const data = join(base, "data");
    const options = { ...user, cwd: base, env: { PATH: process.env.PATH, LC_ALL: "C" } };
    await run(
      join(binaries, "initdb"),
      ["-D", data, "-U", "quittance", "--auth=trust", "--encoding=UTF8", "--no-sync"],
      options,
    );

    const port = await freePort();
    const settings = { listen_addresses: "127.0.0.1", unix_socket_directories: base, fsync: "off" };
    const server = start(
      join(binaries, "postgres"),
      [
        "-D",
        data,
        "-p",
        String(port),
        ...Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
      ],
      // SIGQUIT: the server takes its children with it.
      { ...options, stdio: "ignore", lastSignal: "SIGQUIT" },
    );
    // SIGINT: without waiting for clients to leave.
    open.push(() => stop(server, { signal: "SIGINT" }));
    const answers = () => run(join(binaries, "pg_isready"), ["-h", "127.0.0.1", "-p", String(port)]).then(() => true);
    await waitFor("PostgreSQL", answers, { handle: server });
    return { url: `postgres://quittance@127.0.0.1:${port}/postgres`, stop: () => open.close() };
  });
}
