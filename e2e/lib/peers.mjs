// Sellers and buyers as their users write them: the official middleware and fetch wrappers of both generations.

import { ExactEvmScheme as ExactEvmClient } from "@x402/evm";
import { ExactEvmScheme as ExactEvmServer } from "@x402/evm/exact/server";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import express from "express";
import { paymentMiddleware as paymentMiddlewareV1 } from "x402-express";
import { createSigner, decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { network, v1Network } from "./chain.mjs";
import { listen } from "./processes.mjs";

/** $0.01 of the SDKs' default asset, and the same amount of a token the seller names. */
export const price = 10_000n;

function resources(app) {
  app.get("/default", (_request, response) => response.json({ served: "default" }));
  app.get("/other", (_request, response) => response.json({ served: "other" }));
  return listen(app);
}

/** `/default` costs a cent of the SDK's default asset, `/other` a cent of `otherToken`. */
export function sellerV2(facilitator, payTo, otherToken) {
  const server = new x402ResourceServer(new HTTPFacilitatorClient(facilitator.client)).register(
    network,
    new ExactEvmServer(),
  );
  const { address: asset, ...extra } = otherToken;
  const accepts = { scheme: "exact", network, payTo };
  const app = express();
  app.use(
    paymentMiddleware(
      {
        "GET /default": { accepts: { ...accepts, price: "$0.01" } },
        "GET /other": { accepts: { ...accepts, price: { amount: String(price), asset, extra } } },
      },
      server,
    ),
  );
  return resources(app);
}

export function sellerV1(facilitator, payTo, otherToken) {
  const { address, ...eip712 } = otherToken;
  const app = express();
  app.use(
    paymentMiddlewareV1(
      payTo,
      {
        "GET /default": { price: "$0.01", network: v1Network },
        "GET /other": { price: { amount: String(price), asset: { address, decimals: 6, eip712 } }, network: v1Network },
      },
      facilitator.client,
    ),
  );
  return resources(app);
}

/** Keeps the headers that were sent, so that a payment can be sent again. */
function recording(header) {
  const sent = [];
  const recordingFetch = async (input, init) => {
    const request = new Request(input, init);
    if (request.headers.has(header)) sent.push(request.headers.get(header));
    return fetch(request);
  };
  return { sent, recordingFetch };
}

/**
 * `signer` has an `address` and signs typed data: a viem account, or anything that signs for a contract wallet.
 * Tokens other than the default ones have to be allowed by name.
 */
export function buyerV2(signer, { tokens = [] } = {}) {
  const header = "PAYMENT-SIGNATURE";
  const { sent, recordingFetch } = recording(header);
  const pay = wrapFetchWithPaymentFromConfig(recordingFetch, {
    schemes: [{ network, client: new ExactEvmClient(signer) }],
    spendControls: { allowedAssets: tokens.map((asset) => ({ network, asset })) },
  });
  return {
    pay,
    sent,
    header,
    receipt: (response) => decodePaymentResponseHeader(response.headers.get("PAYMENT-RESPONSE")),
  };
}

export async function buyerV1(key) {
  const header = "X-PAYMENT";
  const { sent, recordingFetch } = recording(header);
  const pay = wrapFetchWithPayment(recordingFetch, await createSigner(v1Network, key));
  return {
    pay,
    sent,
    header,
    receipt: (response) => decodeXPaymentResponse(response.headers.get("X-PAYMENT-RESPONSE")),
  };
}
