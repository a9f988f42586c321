// A local chain with the test contracts on it, and a fork of one.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import {
  createPublicClient,
  createTestClient,
  createWalletClient,
  encodeDeployData,
  getAddress,
  http,
  parseEther,
} from "viem";
import { baseSepolia } from "viem/chains";
import { listen, start, stop, waitFor } from "./processes.mjs";
import { marker, newAccount, root } from "./secrets.mjs";

export const network = `eip155:${baseSepolia.id}`;
export const v1Network = "base-sepolia";
/** The address that both generations of the SDK know as USDC on this chain. */
export const usdc = { address: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", name: "USDC", version: "2" };
const multicall3 = "0xcA11bde05977b3631167028862bE2a173976CA11";

export function artifact(name) {
  return JSON.parse(readFileSync(`${root}/contracts/artifacts/${name}.json`, "utf8"));
}

async function startAnvil(args) {
  const binary = process.env.QUITTANCE_ANVIL;
  if (!binary) throw new Error('QUITTANCE_ANVIL is not set: eval "$(scripts/setup)"');
  const anvil = start(binary, ["--port", "0", "--chain-id", String(baseSepolia.id), "--accounts", "1", ...args]);
  let output = "";
  for (const stream of [anvil.child.stdout, anvil.child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text) => {
      // Only the start is of use; an Anvil that serves a whole run prints a lot.
      if (output.length < 20_000) output += text;
    });
  }
  const port = await waitFor("Anvil's port", () => /Listening on 127\.0\.0\.1:(\d+)\s/.exec(output)?.[1], {
    handle: anvil,
  });
  const rpc = `http://127.0.0.1:${port}`;
  // Reads follow writes at once here; nothing is gained by waiting seconds between polls.
  const options = { chain: baseSepolia, transport: http(rpc), pollingInterval: 50 };
  const publicClient = createPublicClient(options);
  const testClient = createTestClient({ ...options, mode: "anvil" });
  return {
    rpc,
    publicClient,
    testClient,
    wallet: (account) => createWalletClient({ ...options, account }),
    async balance(token, owner) {
      return publicClient.readContract({
        address: token,
        abi: artifact("FiatToken").abi,
        functionName: "balanceOf",
        args: [owner],
      });
    },
    stop: () => stop(anvil),
  };
}

/** Runs a constructor at a chosen address: as that account's code, so that what it stores and fixes is right there. */
async function installAt(chain, sender, address, { abi, bytecode }, args) {
  await chain.testClient.setCode({ address, bytecode: encodeDeployData({ abi, bytecode, args }) });
  const { data: runtime } = await chain.publicClient.call({ to: address, gas: 20_000_000n });
  const hash = await chain.wallet(sender).sendTransaction({ to: address, gas: 20_000_000n });
  const { status } = await chain.publicClient.waitForTransactionReceipt({ hash });
  if (status !== "success") throw new Error(`the constructor of ${address} failed`);
  await chain.testClient.setCode({ address, bytecode: runtime });
}

/** A fresh chain with USDC where the SDKs expect it, a second token and Multicall3. */
export async function newChain(args = []) {
  const chain = await startAnvil(args);
  const { account: deployer } = newAccount();
  await chain.testClient.setBalance({ address: deployer.address, value: parseEther("1000") });

  const fiat = artifact("FiatToken");
  await chain.testClient.setCode({ address: multicall3, bytecode: artifact("Multicall3").deployedBytecode });
  await installAt(chain, deployer, usdc.address, fiat, [usdc.name, "USDC", usdc.version, 6]);

  chain.deploy = async ({ abi, bytecode }, constructorArgs) => {
    const hash = await chain.wallet(deployer).deployContract({ abi, bytecode, args: constructorArgs });
    return getAddress((await chain.publicClient.waitForTransactionReceipt({ hash })).contractAddress);
  };
  chain.mint = async (token, to, value) => {
    const hash = await chain
      .wallet(deployer)
      .writeContract({ address: token, abi: fiat.abi, functionName: "mint", args: [to, value] });
    await chain.publicClient.waitForTransactionReceipt({ hash });
  };
  const other = { name: "Harbour Dollar", version: "1" };
  chain.otherToken = { ...other, address: await chain.deploy(fiat, [other.name, "HBD", other.version, 6]) };
  return chain;
}

/** Another Anvil that takes its state from the first. Its clock starts at the first one's latest block. */
export async function forkOf(chain) {
  // Cached state of an earlier chain with the same id must not leak into this one.
  return startAnvil(["--fork-url", chain.rpc, "--no-storage-caching"]);
}

/**
 * Serves the chain's RPC under a path that stands for a provider's key, as hosted nodes do. Nothing else is served,
 * so a facilitator that drops the path fails, and one that logs it is found by the secret scan.
 */
export async function keyedRpc(chain) {
  const path = `/v2/${marker}-${process.pid}`;
  const server = createServer(async (request, response) => {
    if (request.url !== path) {
      response.writeHead(401).end();
      return;
    }
    try {
      const body = [];
      for await (const chunk of request) body.push(chunk);
      const answer = await fetch(chain.rpc, {
        method: request.method,
        headers: { "content-type": "application/json" },
        body: Buffer.concat(body),
      });
      response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
    } catch {
      response.destroy();
    }
  });
  const { url, close } = await listen(server);
  return { url: `${url}${path}`, close };
}
