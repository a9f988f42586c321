// The TypeScript SDK's facilitator behind HTTP, as a peer to compare with. Not for production: no store, no limits.
//
//   node reference-facilitator.mjs --rpc URL --key env:NAME --port N [--network eip155:84532] [--factory 0x…]…

import { parseArgs } from "node:util";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import { EVM_NETWORK_CHAIN_ID_MAP } from "@x402/evm/v1";
import express from "express";
import { createWalletClient, defineChain, http, nonceManager, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";

const { values } = parseArgs({
  options: {
    rpc: { type: "string" },
    key: { type: "string" },
    port: { type: "string" },
    network: { type: "string", default: "eip155:84532" },
    factory: { type: "string", multiple: true, default: [] },
  },
});
const variable = /^env:(\w+)$/.exec(values.key ?? "")?.[1];
const chainId = Number(/^eip155:(\d+)$/.exec(values.network)?.[1]);
if (!values.rpc || !values.port || !variable || !process.env[variable] || !Number.isSafeInteger(chainId)) {
  console.error(
    "usage: reference-facilitator.mjs --rpc URL --key env:NAME --port N [--network eip155:ID] [--factory 0x…]…",
  );
  process.exit(2);
}

const account = privateKeyToAccount(process.env[variable], { nonceManager });
const chain = defineChain({
  id: chainId,
  name: values.network,
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [values.rpc] } },
  contracts: { multicall3: { address: "0xcA11bde05977b3631167028862bE2a173976CA11" } },
});
const client = createWalletClient({ account, chain, transport: http(values.rpc), pollingInterval: 100 }).extend(
  publicActions,
);
const signer = toFacilitatorEvmSigner({
  address: account.address,
  readContract: (args) => client.readContract(args),
  verifyTypedData: (args) => client.verifyTypedData(args),
  writeContract: (args) => client.writeContract(args),
  sendTransaction: (args) => client.sendTransaction(args),
  waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
  getCode: (args) => client.getCode(args),
});

const options = { eip6492AllowedFactories: values.factory, simulateInSettle: true };
const facilitator = new x402Facilitator().register(values.network, new ExactEvmScheme(signer, options));
const v1Names = Object.entries(EVM_NETWORK_CHAIN_ID_MAP)
  .filter(([, id]) => id === chainId)
  .map(([name]) => name);
if (v1Names.length > 0) facilitator.registerV1(v1Names, new ExactEvmSchemeV1(signer, options));

const app = express();
app.use(express.json());
app.get("/supported", (_request, response) => response.json(facilitator.getSupported()));
app.get(["/healthz", "/readyz"], (_request, response) => response.json({ status: "ok" }));
for (const operation of ["verify", "settle"]) {
  app.post(`/${operation}`, async (request, response) => {
    try {
      const { paymentPayload, paymentRequirements } = request.body;
      response.json(await facilitator[operation](paymentPayload, paymentRequirements));
    } catch (error) {
      const reason = `unexpected_${operation}_error`;
      const message = error instanceof Error ? error.message : String(error);
      response
        .status(500)
        .json(
          operation === "verify"
            ? { isValid: false, invalidReason: reason, invalidMessage: message }
            : { success: false, errorReason: reason, errorMessage: message, transaction: "", network: values.network },
        );
    }
  });
}

const server = app.listen(Number(values.port), "127.0.0.1", () => console.log("Facilitator listening"));
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    server.close();
    server.closeAllConnections();
  });
}
