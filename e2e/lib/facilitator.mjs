// The facilitator under test: quittance, or the TypeScript SDK's own for comparing the harness against it.

import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseEther } from "viem";
import { keyedRpc, network } from "./chain.mjs";
import { freePort, openThings, start, stop, waitFor } from "./processes.mjs";
import { newPostgres } from "./postgres.mjs";
import { logs, marker, newAccount, root } from "./secrets.mjs";

/** `reference` runs the same cases against the SDK's facilitator. */
export const isReference = process.env.QUITTANCE_E2E_FACILITATOR === "reference";

function configuration({ port, store, withApiKey }) {
  return `
[server]
listen = "127.0.0.1:${port}"
operator_listen = ""
api_keys = [${withApiKey ? '"env:API_KEY"' : ""}]

[store]
url = "${store}"

[[networks]]
id = "${network}"
rpc_urls = ["env:CHAIN_RPC"]
signers = ["env:SIGNER_1"]
`;
}

/** Starts a facilitator on `chain`; `store` is "sqlite" or "postgres". */
export async function startFacilitator(chain, { name, store = "sqlite", withApiKey = false }) {
  const open = openThings();
  return open.opening(async () => {
    const directory = mkdtempSync(join(tmpdir(), "quittance-e2e-"));
    open.push(() => rmSync(directory, { recursive: true, force: true }));
    const postgres = store === "postgres" && !isReference ? await newPostgres() : undefined;
    if (postgres) open.push(() => postgres.stop());
    const rpc = await keyedRpc(chain);
    open.push(() => rpc.close());

    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const signer = newAccount();
    await chain.testClient.setBalance({ address: signer.account.address, value: parseEther("10") });
    const apiKey = withApiKey ? `${marker}-api-${process.pid}` : undefined;

    let command;
    let args;
    if (isReference) {
      command = process.execPath;
      args = [join(root, "e2e/reference-facilitator.mjs"), "--rpc", rpc.url, "--key", "env:SIGNER_1"];
      args.push("--port", String(port), "--network", network);
    } else {
      command = resolve(process.env.QUITTANCE_BIN ?? join(root, "target/debug/quittance"));
      if (!existsSync(command)) throw new Error(`no quittance at ${command}: cargo build --workspace --bins`);
      const config = join(directory, "quittance.toml");
      const storeUrl = postgres?.url ?? `sqlite://${join(directory, "q.db")}`;
      writeFileSync(config, configuration({ port, withApiKey, store: storeUrl }));
      args = ["serve", "--config", config];
    }

    const log = join(logs, `e2e-${name}.log`);
    const output = openSync(log, "w");
    const server = start(command, args, {
      cwd: directory,
      stdio: ["ignore", output, output],
      env: {
        // Nothing of the surrounding environment may configure it.
        PATH: process.env.PATH,
        CHAIN_RPC: rpc.url,
        SIGNER_1: signer.key,
        ...(apiKey && { API_KEY: apiKey }),
        // As verbose as an operator would turn it: the log is scanned for secrets.
        RUST_LOG: "debug",
        RUST_BACKTRACE: "1",
      },
    });
    closeSync(output);
    open.push(() => stop(server));

    try {
      await waitFor("a ready facilitator", async () => (await fetch(`${url}/readyz`)).ok, { handle: server });
    } catch (error) {
      const tail = readFileSync(log, "utf8").split("\n").slice(-40).join("\n");
      throw new Error(`the facilitator did not start; the end of its log:\n${tail}`, { cause: error });
    }

    const headers = apiKey ? { Authorization: `Bearer ${apiKey}` } : {};
    return {
      url,
      signer: signer.account.address,
      headers,
      /** What the SDKs of both generations take as a facilitator's configuration. */
      client: { url, createAuthHeaders: async () => ({ verify: headers, settle: headers, supported: headers }) },
      /** Returns how the process ended. */
      async stop() {
        const ended = await stop(server);
        await open.close();
        return ended;
      },
    };
  });
}
