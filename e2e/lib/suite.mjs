// The cases, run once per combination of chain and store.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { PaymentPayloadV2Schema, PaymentRequirementsV2Schema } from "@x402/core/schemas";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { decodePaymentRequiredHeader, decodePaymentSignatureHeader } from "@x402/core/http";
import { ExactEvmScheme } from "@x402/evm";
import { decodeEventLog, getAddress } from "viem";
import { SupportedPaymentKindSchema, SettleResponseSchema } from "x402/types";
import { useFacilitator } from "x402/verify";
import { artifact, forkOf, network, newChain, usdc, v1Network } from "./chain.mjs";
import { isReference, startFacilitator } from "./facilitator.mjs";
import { buyerV1, buyerV2, price, sellerV1, sellerV2 } from "./peers.mjs";
import { openThings } from "./processes.mjs";
import { newAccount } from "./secrets.mjs";

const funds = 1_000_000n;
/** How far the forked chain's clock is behind: less than the ten minutes by which the v1 client dates its payments back. */
const lagSeconds = 300;

export function runSuite({ name, fork = false, store = "sqlite", withApiKey = false }) {
  describe(`${name}${isReference ? " (reference facilitator)" : ""}`, { timeout: 300_000 }, () => {
    const open = openThings();
    let base, chain, facilitator, stopped;
    let buyer, poorBuyer, seller, walletOwner, wallet, otherToken;
    let shopV1, shopV2, client;

    before(() =>
      open.opening(async () => {
        base = await newChain(fork ? ["--timestamp", String(Math.floor(Date.now() / 1000) - lagSeconds)] : []);
        open.push(() => base.stop());
        buyer = newAccount();
        poorBuyer = newAccount();
        walletOwner = newAccount();
        seller = newAccount().account.address;
        wallet = await base.deploy(artifact("Wallet1271"), [walletOwner.account.address]);
        otherToken = base.otherToken;
        for (const token of [usdc.address, otherToken.address]) {
          await base.mint(token, buyer.account.address, funds);
          await base.mint(token, wallet, funds);
        }
        chain = base;
        if (fork) {
          chain = await forkOf(base);
          open.push(() => chain.stop());
        }
        facilitator = await startFacilitator(chain, { name, store, withApiKey });
        open.push(async () => {
          stopped = await facilitator.stop();
        });
        client = new HTTPFacilitatorClient(facilitator.client);
        shopV2 = await sellerV2(facilitator, seller, otherToken);
        open.push(() => shopV2.close());
        shopV1 = await sellerV1(facilitator, seller, otherToken);
        open.push(() => shopV1.close());
      }),
    );

    after(() => open.close());

    /** Runs `act` and asserts what it moved: `moved` from `from` to the seller, and nothing else. */
    async function moves(moved, { from, token = usdc.address }, act) {
      const balances = () => Promise.all([from, seller].map((owner) => chain.balance(token, owner)));
      const [fromBefore, sellerBefore] = await balances();
      const result = await act();
      const [fromAfter, sellerAfter] = await balances();
      assert.equal(fromBefore - fromAfter, moved, "the payer's balance");
      assert.equal(sellerAfter - sellerBefore, moved, "the seller's balance");
      return result;
    }

    /** The transaction exists, succeeded, was sent by the facilitator, and is this payment. */
    async function assertPaidBy(hash, from, token = usdc.address) {
      const { status, logs, from: sender } = await chain.publicClient.getTransactionReceipt({ hash });
      assert.equal(status, "success");
      assert.equal(getAddress(sender), facilitator.signer);
      const transfers = logs
        .filter((log) => getAddress(log.address) === getAddress(token))
        .map((log) => decodeEventLog({ abi: artifact("FiatToken").abi, ...log }))
        .filter(({ eventName }) => eventName === "Transfer")
        .map(({ args }) => args);
      assert.deepEqual(transfers, [{ from, to: seller, value: price }]);
    }

    async function pays(shop, path, { pay, receipt }, payer, { token, networkName }) {
      const response = await moves(price, { from: payer, token }, async () => {
        const answer = await pay(`${shop.url}${path}`);
        // Before the balances: the seller's words say more than an amount that did not move.
        assert.equal(answer.status, 200, await answer.clone().text());
        return answer;
      });
      assert.deepEqual(await response.json(), { served: path.slice(1) });
      const settled = receipt(response);
      assert.equal(settled.success, true);
      assert.equal(settled.network, networkName);
      assert.equal(getAddress(settled.payer), payer);
      await assertPaidBy(settled.transaction, payer, token);
      return settled;
    }

    /** A payment for the default asset; the official client signs it for requirements that differ by `signed`. */
    async function payment({ signer = buyer.account, signed = {} } = {}) {
      const requirements = PaymentRequirementsV2Schema.parse({
        scheme: "exact",
        network,
        amount: String(price),
        asset: usdc.address,
        payTo: seller,
        maxTimeoutSeconds: 60,
        extra: { name: usdc.name, version: usdc.version },
      });
      const { payload } = await new ExactEvmScheme(signer).createPaymentPayload(2, { ...requirements, ...signed });
      const resource = { url: "http://127.0.0.1/direct" };
      return {
        requirements,
        payload: PaymentPayloadV2Schema.parse({ x402Version: 2, resource, accepted: requirements, payload }),
      };
    }

    if (fork) {
      it("the chain's clock and this machine's differ", async () => {
        const { timestamp } = await chain.publicClient.getBlock({ blockTag: "latest" });
        const behind = Math.floor(Date.now() / 1000) - Number(timestamp);
        assert.ok(behind >= lagSeconds - 1, `the chain is ${behind} s behind`);
      });
    }

    it("says what it supports, in the words of both generations", async () => {
      const supported = await client.getSupported();
      const kinds = supported.kinds.map(({ x402Version, scheme, network }) => ({ x402Version, scheme, network }));
      assert.ok(kinds.some((kind) => kind.x402Version === 2 && kind.scheme === "exact" && kind.network === network));
      assert.ok(kinds.some((kind) => kind.x402Version === 1 && kind.scheme === "exact" && kind.network === v1Network));
      assert.deepEqual(supported.signers["eip155:*"].map(getAddress), [facilitator.signer]);
      assert.ok(Array.isArray(supported.extensions));

      const v1 = await useFacilitator(facilitator.client).supported();
      const ours = v1.kinds.filter(({ x402Version }) => x402Version === 1);
      assert.ok(ours.length > 0);
      for (const kind of ours) SupportedPaymentKindSchema.parse(kind);

      const text = await (await fetch(`${facilitator.url}/supported`, { headers: facilitator.headers })).text();
      assert.ok(!/:\s*null\b/.test(text), "absent, not null");
    });

    it("a v2 buyer pays a v2 seller", async () => {
      await pays(shopV2, "/default", buyerV2(buyer.account), buyer.account.address, { networkName: network });
    });

    it("a v2 buyer pays in a token that the seller names", async () => {
      const options = { networkName: network, token: otherToken.address };
      await pays(shopV2, "/other", buyerV2(buyer.account, { tokens: [options.token] }), buyer.account.address, options);
    });

    it("a v1 buyer pays a v1 seller", async () => {
      const settled = await pays(shopV1, "/default", await buyerV1(buyer.key), buyer.account.address, {
        networkName: v1Network,
      });
      SettleResponseSchema.parse(settled);
    });

    it("a v1 buyer pays in a token that the seller names", async () => {
      const options = { networkName: v1Network, token: otherToken.address };
      await pays(shopV1, "/other", await buyerV1(buyer.key), buyer.account.address, options);
    });

    it("a contract wallet pays a v2 seller", async () => {
      const signer = { address: wallet, signTypedData: (data) => walletOwner.account.signTypedData(data) };
      await pays(shopV2, "/default", buyerV2(signer), wallet, { networkName: network });
    });

    for (const [generation, newBuyer, shop] of [
      ["v2", () => buyerV2(buyer.account), () => shopV2],
      ["v1", () => buyerV1(buyer.key), () => shopV1],
    ]) {
      it(`a ${generation} payment that is sent again buys nothing`, async () => {
        const { pay, sent, header } = await newBuyer();
        const url = `${shop().url}/default`;
        assert.equal((await pay(url)).status, 200);
        assert.equal(sent.length, 1);
        const from = buyer.account.address;
        const again = await moves(0n, { from }, () => fetch(url, { headers: { [header]: sent[0] } }));
        assert.equal(again.status, 402);
        if (generation === "v2") assert.equal(decodePaymentSignatureHeader(sent[0]).payload.authorization.from, from);
      });
    }

    it("a v2 buyer without money is turned away", async () => {
      const from = poorBuyer.account.address;
      const response = await moves(0n, { from }, () => buyerV2(poorBuyer.account).pay(`${shopV2.url}/default`));
      assert.equal(response.status, 402);
      const { error } = decodePaymentRequiredHeader(response.headers.get("PAYMENT-REQUIRED"));
      assert.equal(error, "invalid_exact_evm_insufficient_balance");
    });

    it("a v1 buyer without money is turned away", async () => {
      const from = poorBuyer.account.address;
      const { pay } = await buyerV1(poorBuyer.key);
      const response = await moves(0n, { from }, () => pay(`${shopV1.url}/default`));
      assert.equal(response.status, 402);
      const { error, payer } = await response.json();
      assert.equal(error, "invalid_exact_evm_insufficient_balance");
      assert.equal(getAddress(payer), from);
    });

    const refusals = [
      {
        title: "another recipient",
        reason: "invalid_exact_evm_recipient_mismatch",
        make: () => payment({ signed: { payTo: poorBuyer.account.address } }),
      },
      {
        title: "too little",
        reason: "invalid_exact_evm_payload_authorization_value_mismatch",
        make: () => payment({ signed: { amount: String(price - 1n) } }),
      },
      {
        title: "too much",
        reason: "invalid_exact_evm_payload_authorization_value_mismatch",
        make: () => payment({ signed: { amount: String(price + 1n) } }),
      },
      {
        title: "an authorization that is over",
        reason: "invalid_exact_evm_payload_authorization_valid_before",
        // Over by this machine's clock, and by that of a chain which is behind it.
        make: () => payment({ signed: { maxTimeoutSeconds: -2 * lagSeconds } }),
      },
      {
        title: "someone else's signature",
        reason: "invalid_exact_evm_signature",
        make: () =>
          payment({
            signer: { address: buyer.account.address, signTypedData: (data) => poorBuyer.account.signTypedData(data) },
          }),
      },
      {
        title: "a payer without money",
        reason: "invalid_exact_evm_insufficient_balance",
        make: () => payment({ signer: poorBuyer.account }),
        payer: () => poorBuyer.account.address,
      },
    ];
    for (const { title, reason, make, payer = () => buyer.account.address } of refusals) {
      it(`${title} is refused in words the client reads`, async () => {
        const { requirements, payload } = await make();
        await moves(0n, { from: payer() }, async () => {
          const verified = await client.verify(payload, requirements);
          assert.equal(verified.isValid, false);
          assert.equal(verified.invalidReason, reason);
          assert.equal(getAddress(verified.payer), payer());

          const settled = await client.settle(payload, requirements);
          assert.equal(settled.success, false);
          assert.equal(settled.errorReason, reason);
          assert.equal(settled.transaction, "");
          assert.equal(settled.network, network);
        });
      });
    }

    it("a v1 refusal is read by the v1 client", async () => {
      const { requirements, payload } = await payment({ signer: poorBuyer.account });
      const { amount, ...rest } = requirements;
      const v1Requirements = {
        ...rest,
        network: v1Network,
        maxAmountRequired: amount,
        resource: "http://127.0.0.1/direct",
        description: "",
        mimeType: "",
      };
      const v1Payload = { x402Version: 1, scheme: "exact", network: v1Network, payload: payload.payload };
      const { verify, settle } = useFacilitator(facilitator.client);
      const verified = await verify(v1Payload, v1Requirements);
      assert.equal(verified.isValid, false);
      assert.equal(verified.invalidReason, "invalid_exact_evm_insufficient_balance");
      const settled = await settle(v1Payload, v1Requirements);
      assert.equal(settled.success, false);
      assert.equal(settled.transaction, "");
      assert.equal(settled.network, v1Network);
    });

    it("one payment is settled once", async () => {
      const { requirements, payload } = await payment();
      const from = buyer.account.address;
      await moves(price, { from }, async () => {
        const verified = await client.verify(payload, requirements);
        assert.equal(verified.isValid, true, verified.invalidReason);
        const first = await client.settle(payload, requirements);
        assert.equal(first.success, true, first.errorReason);
        await assertPaidBy(first.transaction, from);
        const second = await client.settle(payload, requirements);
        assert.equal(second.success, false);
        if (!isReference) {
          assert.equal(second.errorReason, "duplicate_settlement");
          assert.equal(second.transaction, first.transaction);
        }
      });
    });

    if (!isReference) {
      // Clients that do not strip it ask for `//verify`.
      it("a slash at the end of the configured URL does no harm", async () => {
        const { supported, verify } = useFacilitator({ ...facilitator.client, url: `${facilitator.url}/` });
        assert.ok((await supported()).kinds.length > 0);
        const { requirements, payload } = await payment({ signer: poorBuyer.account });
        assert.equal((await verify(payload, requirements)).isValid, false);
      });
    }

    if (withApiKey && !isReference) {
      it("a client without the key is kept out", async () => {
        const { requirements, payload } = await payment();
        await assert.rejects(new HTTPFacilitatorClient({ url: facilitator.url }).verify(payload, requirements), {
          name: "VerifyError",
          statusCode: 401,
        });
      });
    }

    if (fork) {
      it("the chain that was forked is untouched", async () => {
        assert.equal(await base.balance(usdc.address, seller), 0n);
        assert.equal(await base.balance(usdc.address, buyer.account.address), funds);
      });
    }

    it("ends cleanly when asked to", async () => {
      await open.close();
      assert.deepEqual(stopped, { code: 0, signal: null });
    });
  });
}
