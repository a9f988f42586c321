// Proves the contracts against a real Anvil, whose path QUITTANCE_ANVIL names.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import {
  concatHex,
  createWalletClient,
  decodeAbiParameters,
  encodeAbiParameters,
  encodeFunctionData,
  hashTypedData,
  http,
  keccak256,
  padHex,
  parseEventLogs,
  parseSignature,
  publicActions,
  serializeSignature,
  size,
  slice,
  stringToHex,
  testActions,
  toHex,
  zeroAddress,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { foundry } from "viem/chains";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const MAGIC = "0x1626ba7e";
const MULTICALL3 = "0xcA11bde05977b3631167028862bE2a173976CA11";
const GAS_MAX = 2_000_000n;
// Anvil's own mnemonic, account 0.
const lane = privateKeyToAccount("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");

const artifact = (name) => JSON.parse(readFileSync(new URL(`artifacts/${name}.json`, import.meta.url), "utf8"));
const someone = () => privateKeyToAccount(generatePrivateKey());
const randomWord = () => generatePrivateKey();

let anvil, chain;

before(async () => {
  const binary = process.env.QUITTANCE_ANVIL;
  assert.ok(binary, "set QUITTANCE_ANVIL to the path of an anvil binary");
  // Port 0 lets the system choose, so runs never collide. Anvil prints what it got.
  anvil = spawn(binary, ["--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  const port = await new Promise((resolve, reject) => {
    let seen = "";
    anvil.stdout.on("data", (chunk) => {
      seen += chunk;
      const found = /Listening on 127\.0\.0\.1:(\d+)/.exec(seen);
      if (found) resolve(found[1]);
    });
    anvil.once("exit", (code) => reject(new Error(`anvil ended with ${code}`)));
  });
  chain = createWalletClient({
    account: lane,
    chain: foundry,
    pollingInterval: 20,
    transport: http(`http://127.0.0.1:${port}`, { retryCount: 0 }),
  })
    .extend(publicActions)
    .extend(testActions({ mode: "anvil" }));
  await chain.setCode({ address: MULTICALL3, bytecode: artifact("Multicall3").deployedBytecode });
});

after(() => anvil?.kill());

async function deploy(name, args = []) {
  const { abi, bytecode } = artifact(name);
  const hash = await chain.deployContract({ abi, bytecode, args });
  const { contractAddress } = await chain.waitForTransactionReceipt({ hash });
  return { abi, address: contractAddress };
}

const token = (name = "FiatToken") => deploy(name, ["USD Coin", "USDC", "2", 6]);

/** Sends without estimating first, so that a transaction which reverts gets mined as well. */
async function send(contract, functionName, args, { gas = 3_000_000n, account = lane } = {}) {
  const data = encodeFunctionData({ ...contract, functionName, args });
  const hash = await chain.sendTransaction({ account, to: contract.address, data, gas });
  return chain.waitForTransactionReceipt({ hash });
}

const read = (contract, functionName, args = [], extra = {}) =>
  chain.readContract({ ...contract, functionName, args, ...extra });

/** The revert data a call would end in, or null when it succeeds. */
async function revertOf({ to, data, from = lane.address }) {
  try {
    await chain.request({ method: "eth_call", params: [{ from, to, data }, "latest"] });
    return null;
  } catch (error) {
    return error.walk((e) => e.data !== undefined && e.data !== null).data;
  }
}

const errorString = (text) =>
  concatHex(["0x08c379a0", encodeAbiParameters([{ type: "string" }], [text])]);

async function assertReverts(contract, functionName, args, text, from) {
  const data = encodeFunctionData({ ...contract, functionName, args });
  assert.equal(await revertOf({ to: contract.address, data, from }), errorString(text));
}

const AUTHORIZATION = [
  { name: "from", type: "address" },
  { name: "to", type: "address" },
  { name: "value", type: "uint256" },
  { name: "validAfter", type: "uint256" },
  { name: "validBefore", type: "uint256" },
  { name: "nonce", type: "bytes32" },
];

const domainOf = (contract) => ({
  name: "USD Coin",
  version: "2",
  chainId: foundry.id,
  verifyingContract: contract.address,
});

/** An authorization of 1000 units by `key`, whose account is `from` unless told otherwise. */
async function authorize(contract, key, { from = key.address, primaryType = "TransferWithAuthorization", ...rest } = {}) {
  const message = {
    from,
    to: someone().address,
    value: 1000n,
    validAfter: 0n,
    validBefore: 2n ** 40n,
    nonce: randomWord(),
    ...rest,
  };
  const typed = { domain: domainOf(contract), types: { [primaryType]: AUTHORIZATION }, primaryType, message };
  const signature = await key.signTypedData(typed);
  const fields = AUTHORIZATION.map(({ name }) => message[name]);
  return { message, fields, digest: hashTypedData(typed), signature, ...overloads(fields, signature) };
}

function overloads(fields, signature) {
  const vrs = [Number(slice(signature, 64, 65)), slice(signature, 0, 32), slice(signature, 32, 64)];
  return { bytes: [...fields, signature], vrs: [...fields, ...vrs] };
}

function highS(signature) {
  const { r, s, yParity } = parseSignature(signature);
  return serializeSignature({ r, s: toHex(ORDER - BigInt(s), { size: 32 }), yParity: 1 - yParity });
}

const lens = artifact("Lens");
const lensFrames = artifact("LensFrames");
const [probesInput, lanesInput] = lens.abi.find((e) => e.type === "constructor").inputs;
const answerOutput = lensFrames.abi.find((e) => e.name === "probe").outputs[0];
const blockFactsOutput = {
  name: "facts",
  type: "tuple",
  components: [
    ...["number", "timestamp", "chainId", "baseFee"].map((name) => ({ name, type: "uint256" })),
    { name: "laneBalances", type: "uint256[]" },
  ],
};

async function look(probes, { lanes = [lane.address], gas } = {}) {
  const data = concatHex([lens.bytecode, encodeAbiParameters([probesInput, lanesInput], [probes, lanes])]);
  const out = await chain.request({
    method: "eth_call",
    params: [{ from: lane.address, data, ...(gas && { gas: toHex(gas) }) }, "latest"],
  });
  const [facts, answers] = decodeAbiParameters(
    [blockFactsOutput, { ...answerOutput, name: "answers", type: "tuple[]" }],
    out,
  );
  return { facts, answers, bytes: size(out) };
}

function probe(contract, a, candidates, { signature = a.signature, gasMax = GAS_MAX } = {}) {
  const { from, to, nonce } = a.message;
  return {
    asset: contract.address,
    payer: from,
    payTo: to,
    authNonce: nonce,
    digest: a.digest,
    signature,
    candidates,
    gasMax,
  };
}

function candidate(contract, functionName, args) {
  return { to: contract.address, data: encodeFunctionData({ ...contract, functionName, args }) };
}

const transfer = (contract, args) => candidate(contract, "transferWithAuthorization", args);

/** Factory call, then transfer, none may fail. */
function deployAndTransfer(factory, owner, salt, contract, args) {
  const create = candidate(factory, "createWallet", [owner, salt]);
  const move = transfer(contract, args);
  const calls = [create, move].map(({ to, data }) => ({ target: to, allowFailure: false, callData: data }));
  return candidate({ ...artifact("Multicall3"), address: MULTICALL3 }, "aggregate3", [calls]);
}

const word = (value) => encodeAbiParameters([{ type: "uint256" }], [value]);

function intrinsicGas(data) {
  const bytes = Buffer.from(data.slice(2), "hex");
  return 21_000n + bytes.reduce((sum, byte) => sum + (byte === 0 ? 4n : 16n), 0n);
}

/** Within `percent` of what the same call costs as a transaction before its refund. */
async function assertGasHonest(simulation, call, percent = 2n) {
  const hash = await chain.sendTransaction({ to: call.to, data: call.data, gas: 3_000_000n });
  const receipt = await chain.waitForTransactionReceipt({ hash });
  assert.equal(receipt.status, "success");
  const real = receipt.gasUsed - intrinsicGas(call.data);
  const gap = simulation.gasUsed > real ? simulation.gasUsed - real : real - simulation.gasUsed;
  console.log(`    measured ${simulation.gasUsed}, spent ${real} + intrinsic ${intrinsicGas(call.data)}`);
  assert.ok(gap * 100n <= real * percent, `measured ${simulation.gasUsed}, spent ${real}`);
  return receipt;
}

describe("FiatToken", () => {
  test("moves tokens through both overloads for a payer without code", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 5000n]);
    for (const overload of ["vrs", "bytes"]) {
      const a = await authorize(usdc, payer);
      const receipt = await send(usdc, "transferWithAuthorization", a[overload]);
      assert.equal(receipt.status, "success");
      const names = parseEventLogs({ abi: usdc.abi, logs: receipt.logs }).map((l) => l.eventName);
      assert.deepEqual(names, ["AuthorizationUsed", "Transfer"]);
      assert.equal(await read(usdc, "balanceOf", [a.message.to]), 1000n);
      assert.equal(await read(usdc, "authorizationState", [payer.address, a.message.nonce]), true);
      await assertReverts(usdc, "transferWithAuthorization", a[overload], "FiatTokenV2: authorization is used or canceled");
    }
  });

  test("asks a wallet through both overloads, whatever the length of the signature", async () => {
    const usdc = await token();
    const owner = someone();
    const wallet = await deploy("Wallet1271", [owner.address]);
    await send(usdc, "mint", [wallet.address, 5000n]);
    const short = await authorize(usdc, owner, { from: wallet.address });
    assert.equal((await send(usdc, "transferWithAuthorization", short.vrs)).status, "success");
    const long = await authorize(usdc, owner, { from: wallet.address });
    const padded = padHex(long.signature, { size: 300, dir: "right" });
    assert.equal((await send(usdc, "transferWithAuthorization", [...long.fields, padded])).status, "success");
    const other = await authorize(usdc, someone(), { from: wallet.address });
    await assertReverts(usdc, "transferWithAuthorization", other.bytes, "FiatTokenV2: invalid signature");
  });

  test("refuses in the words of the original", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 5000n]);
    const good = await authorize(usdc, payer);
    const twin = highS(good.signature);
    const badV = concatHex([slice(good.signature, 0, 64), "0x1d"]);
    const refuse = (args, text) => assertReverts(usdc, "transferWithAuthorization", args, text);

    await refuse(overloads(good.fields, twin).vrs, "ECRecover: invalid signature 's' value");
    await refuse(overloads(good.fields, twin).bytes, "ECRecover: invalid signature 's' value");
    await refuse(overloads(good.fields, badV).bytes, "ECRecover: invalid signature 'v' value");
    await refuse([...good.fields, concatHex([good.signature, "0x00"])], "ECRecover: invalid signature length");
    await refuse([...good.fields, concatHex([word(0n), word(1n), "0x1b"])], "ECRecover: invalid signature");
    await refuse((await authorize(usdc, someone(), { from: payer.address })).vrs, "FiatTokenV2: invalid signature");
    await refuse((await authorize(usdc, payer, { value: 5001n })).vrs, "ERC20: transfer amount exceeds balance");
    await refuse((await authorize(usdc, payer, { to: zeroAddress })).vrs, "ERC20: transfer to the zero address");

    await send(usdc, "blacklist", [good.message.to]);
    await refuse(good.vrs, "Blacklistable: account is blacklisted");
    await send(usdc, "unBlacklist", [good.message.to]);
    await send(usdc, "pause", []);
    await refuse(good.vrs, "Pausable: paused");
    await send(usdc, "unpause", []);
    assert.equal((await send(usdc, "transferWithAuthorization", good.vrs)).status, "success");
  });

  test("excludes both ends of the window", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 5000n]);
    const now = (await chain.getBlock()).timestamp + 100n;
    let mined = 0n;
    const atNow = async (window, status) => {
      const a = await authorize(usdc, payer, window);
      await chain.setNextBlockTimestamp({ timestamp: now + mined++ });
      const receipt = await send(usdc, "transferWithAuthorization", a.vrs);
      assert.equal(receipt.status, status);
    };
    await atNow({ validAfter: now }, "reverted");
    await atNow({ validAfter: now }, "success");
    await atNow({ validBefore: now + 2n }, "reverted");
    await atNow({ validBefore: now + 4n }, "success");
    const [late, early] = [{ validBefore: 1n }, { validAfter: 2n ** 39n }];
    await assertReverts(usdc, "transferWithAuthorization", (await authorize(usdc, payer, late)).vrs, "FiatTokenV2: authorization is expired");
    await assertReverts(usdc, "transferWithAuthorization", (await authorize(usdc, payer, early)).vrs, "FiatTokenV2: authorization is not yet valid");
  });

  test("receives, cancels and permits", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 5000n]);

    const pull = await authorize(usdc, payer, { to: lane.address, primaryType: "ReceiveWithAuthorization" });
    await assertReverts(usdc, "receiveWithAuthorization", pull.bytes, "FiatTokenV2: caller must be the payee", payer.address);
    assert.equal((await send(usdc, "receiveWithAuthorization", pull.bytes)).status, "success");

    const nonce = randomWord();
    const cancel = await payer.signTypedData({
      domain: domainOf(usdc),
      types: { CancelAuthorization: [{ name: "authorizer", type: "address" }, { name: "nonce", type: "bytes32" }] },
      primaryType: "CancelAuthorization",
      message: { authorizer: payer.address, nonce },
    });
    const canceled = await send(usdc, "cancelAuthorization", [payer.address, nonce, cancel]);
    assert.equal(parseEventLogs({ abi: usdc.abi, logs: canceled.logs })[0].eventName, "AuthorizationCanceled");
    const dead = await authorize(usdc, payer, { nonce });
    await assertReverts(usdc, "transferWithAuthorization", dead.vrs, "FiatTokenV2: authorization is used or canceled");

    const permit = async (deadline) => {
      const message = { owner: payer.address, spender: lane.address, value: 7n, nonce: 0n, deadline };
      const types = {
        Permit: [
          { name: "owner", type: "address" },
          { name: "spender", type: "address" },
          { name: "value", type: "uint256" },
          { name: "nonce", type: "uint256" },
          { name: "deadline", type: "uint256" },
        ],
      };
      const signature = await payer.signTypedData({ domain: domainOf(usdc), types, primaryType: "Permit", message });
      return [payer.address, lane.address, 7n, deadline, signature];
    };
    await assertReverts(usdc, "permit", await permit(1n), "FiatTokenV2: permit is expired");
    const wrong = await permit(2n ** 40n);
    await assertReverts(usdc, "permit", [wrong[0], wrong[1], 8n, wrong[3], wrong[4]], "EIP2612: invalid signature");
    await send(usdc, "permit", wrong);
    assert.equal(await read(usdc, "allowance", [payer.address, lane.address]), 7n);
    assert.equal(await read(usdc, "nonces", [payer.address]), 1n);
  });
});

describe("odd tokens", () => {
  const funded = async (name) => {
    const odd = await token(name);
    const payer = someone();
    await send(odd, "mint", [payer.address, 5000n]);
    return { odd, payer, a: await authorize(odd, payer) };
  };

  test("LenientToken takes the high-s twin", async () => {
    const { odd, a } = await funded("LenientToken");
    const { vrs } = overloads(a.fields, highS(a.signature));
    assert.equal((await send(odd, "transferWithAuthorization", vrs)).status, "success");
  });

  test("VrsOnlyToken and BytesOnlyToken have one overload each", async () => {
    const full = artifact("FiatToken").abi;
    for (const [name, has, lacks] of [["VrsOnlyToken", "vrs", "bytes"], ["BytesOnlyToken", "bytes", "vrs"]]) {
      const { odd, a } = await funded(name);
      const data = (args) => encodeFunctionData({ abi: full, functionName: "transferWithAuthorization", args });
      assert.equal(await revertOf({ to: odd.address, data: data(a[lacks]) }), "0x");
      assert.equal(await revertOf({ to: odd.address, data: data(a[has]) }), null);
    }
    const { odd } = await funded("VrsOnlyToken");
    const owner = someone();
    const wallet = await deploy("Wallet1271", [owner.address]);
    const a = await authorize(odd, owner, { from: wallet.address });
    await assertReverts(odd, "transferWithAuthorization", a.vrs, "FiatTokenV2: invalid signature");
  });

  test("FeeOnTransferToken, SilentToken and GrowingGasToken do what they warn of", async () => {
    const fee = await funded("FeeOnTransferToken");
    const taken = await send(fee.odd, "transferWithAuthorization", fee.a.vrs);
    const values = parseEventLogs({ abi: fee.odd.abi, logs: taken.logs, eventName: "Transfer" }).map((l) => l.args.value);
    assert.deepEqual(values, [990n, 10n]);
    assert.equal(await read(fee.odd, "balanceOf", [fee.a.message.to]), 990n);

    const silent = await funded("SilentToken");
    const nothing = await send(silent.odd, "transferWithAuthorization", silent.a.vrs);
    assert.equal(nothing.status, "success");
    assert.deepEqual(parseEventLogs({ abi: silent.odd.abi, logs: nothing.logs }).map((l) => l.eventName), ["AuthorizationUsed"]);
    assert.equal(await read(silent.odd, "balanceOf", [silent.a.message.to]), 0n);

    const growing = await funded("GrowingGasToken");
    const cheap = await send(growing.odd, "transferWithAuthorization", growing.a.vrs);
    await send(growing.odd, "setExtraGas", [200_000n]);
    const dear = await send(growing.odd, "transferWithAuthorization", (await authorize(growing.odd, growing.payer)).vrs);
    assert.ok(dear.gasUsed > cheap.gasUsed + 150_000n);
  });

  test("Eip5267Token describes its domain, PlainToken has none", async () => {
    const { odd, a } = await funded("Eip5267Token");
    const [fields, name, version, chainId, address] = await read(odd, "eip712Domain");
    assert.deepEqual([fields, name, version, chainId], ["0x0f", "USD Coin", "2", BigInt(foundry.id)]);
    assert.equal(address.toLowerCase(), odd.address.toLowerCase());
    const names = (contract) => contract.abi.map((e) => e.name);
    assert.ok(!names(odd).includes("DOMAIN_SEPARATOR"));
    assert.equal((await send(odd, "transferWithAuthorization", a.vrs)).status, "success");
    assert.ok(!names(artifact("PlainToken")).includes("authorizationState"));
  });
});

describe("Lens", () => {
  test("answers for a payer without code, and measures what a transaction spends", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 5000n]);
    const a = await authorize(usdc, payer);
    const call = transfer(usdc, a.vrs);
    const { facts, answers, bytes } = await look([probe(usdc, a, [call])]);

    const block = await chain.getBlock();
    assert.equal(facts.number, block.number);
    assert.equal(facts.chainId, BigInt(foundry.id));
    assert.equal(facts.laneBalances[0], await chain.getBalance(lane));

    const [answer] = answers;
    assert.equal(answer.payerCodeSize, 0n);
    assert.equal(answer.payerCodePrefix, "0x");
    assert.equal(answer.assetCodeSize, BigInt(size(await chain.getCode(usdc))));
    assert.deepEqual(answer.authorizationState, { success: true, data: word(0n) });
    assert.deepEqual(answer.payerBalance, { success: true, data: word(5000n) });
    assert.deepEqual(answer.payToBalance, { success: true, data: word(0n) });
    assert.deepEqual(answer.domainSeparator, { success: true, data: await read(usdc, "DOMAIN_SEPARATOR") });
    assert.deepEqual(answer.name.data, encodeAbiParameters([{ type: "string" }], ["USD Coin"]));
    assert.deepEqual(answer.version.data, encodeAbiParameters([{ type: "string" }], ["2"]));
    assert.equal(answer.eip712Domain.success, false);
    assert.equal(answer.erc1271.asked, false);
    assert.equal(answer.simulations.length, 1);
    const [simulation] = answer.simulations;
    assert.equal(simulation.success, true);
    assert.equal(simulation.returnData, "0x");
    assert.deepEqual(simulation.payToBalanceAfter, { success: true, data: word(1000n) });
    assert.equal(simulation.erc1271After.asked, false);
    console.log(`    initcode ${size(lens.bytecode)} bytes, answer ${bytes} bytes`);
    assert.ok(size(lens.bytecode) < 24_000 && bytes < 24_576);
    await assertGasHonest(simulation, call);
  });

  test("stops at the first candidate that succeeds, and keeps the revert data of those before", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 5000n]);
    const a = await authorize(usdc, payer);
    const twin = overloads(a.fields, highS(a.signature));
    const { answers } = await look([probe(usdc, a, [transfer(usdc, twin.vrs), transfer(usdc, a.bytes), transfer(usdc, a.vrs)])]);
    const { simulations } = answers[0];
    assert.deepEqual(simulations.map((s) => s.success), [false, true]);
    assert.equal(simulations[0].returnData, errorString("ECRecover: invalid signature 's' value"));
    assert.equal(simulations[0].payToBalanceAfter.success, false);
  });

  test("lets no probe see another", async () => {
    const usdc = await token();
    const payer = someone();
    await send(usdc, "mint", [payer.address, 1000n]);
    const a = await authorize(usdc, payer);
    const one = probe(usdc, a, [transfer(usdc, a.vrs)]);
    const { answers } = await look([one, one, one]);
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
    assert.equal(answers[2].simulations[0].success, true);
  });

  test("asks a wallet, and reports a long signature's transfer", async () => {
    const usdc = await token();
    const owner = someone();
    const wallet = await deploy("Wallet1271", [owner.address]);
    await send(usdc, "mint", [wallet.address, 5000n]);
    const a = await authorize(usdc, owner, { from: wallet.address });
    const padded = padHex(a.signature, { size: 300, dir: "right" });
    const call = transfer(usdc, [...a.fields, padded]);
    const { answers } = await look([probe(usdc, a, [call], { signature: padded })]);
    const [answer] = answers;
    const code = await chain.getCode(wallet);
    assert.equal(answer.payerCodeSize, BigInt(size(code)));
    assert.equal(answer.payerCodePrefix, slice(code, 0, 23));
    assert.deepEqual(answer.erc1271, { asked: true, success: true, returnSize: 32n, word: padHex(MAGIC, { size: 32, dir: "right" }) });
    await assertGasHonest(answer.simulations[0], call);
  });

  test("shows an EIP-7702 designator, and asks its delegate", async () => {
    const usdc = await token();
    const payer = someone();
    const delegate = await deploy("Delegate7702");
    await chain.setCode({ address: payer.address, bytecode: concatHex(["0xef0100", delegate.address]) });
    await send(usdc, "mint", [payer.address, 5000n]);
    const a = await authorize(usdc, payer);
    const call = transfer(usdc, a.vrs);
    const { answers } = await look([probe(usdc, a, [call])]);
    assert.equal(answers[0].payerCodeSize, 23n);
    assert.equal(answers[0].payerCodePrefix, concatHex(["0xef0100", delegate.address]));
    assert.equal(slice(answers[0].erc1271.word, 0, 4), MAGIC);
    await assertGasHonest(answers[0].simulations[0], call);
  });

  test("survives every hostile wallet", async () => {
    const usdc = await token();
    const cases = {
      Wallet1271Rejecting: { success: true, returnSize: 32n, word: padHex("0xffffffff", { size: 32, dir: "right" }) },
      Wallet1271Reverting: { success: false, returnSize: 100n },
      Wallet1271GasBurner: { success: false, returnSize: 0n, word: word(0n) },
      Wallet1271ReturnBomb: { success: true, returnSize: 1_000_000n, word: padHex(MAGIC, { size: 32, dir: "right" }) },
      Wallet1271BadPadding: { success: true, returnSize: 32n, word: concatHex([MAGIC, padHex("0xdeadbeef", { size: 28 })]) },
      Wallet1271Short: { success: true, returnSize: 4n, word: word(0n) },
    };
    const probes = [];
    for (const name of Object.keys(cases)) {
      const wallet = await deploy(name);
      await send(usdc, "mint", [wallet.address, 5000n]);
      const a = await authorize(usdc, someone(), { from: wallet.address });
      probes.push(probe(usdc, a, [transfer(usdc, a.bytes)], { gasMax: 2_500_000n }));
    }
    for (const [i, [name, expected]] of Object.entries(cases).entries()) {
      const { answers } = await look([probes[i]]);
      const { erc1271, simulations, payerBalance } = answers[0];
      assert.equal(erc1271.asked, true, name);
      for (const [key, value] of Object.entries(expected)) assert.equal(erc1271[key], value, `${name} ${key}`);
      assert.deepEqual(payerBalance, { success: true, data: word(5000n) }, name);
      assert.equal(simulations.length, 1, name);
      assert.equal(simulations[0].success, false, name);
    }
  });

  test("a hungry probe leaves its neighbours their answers", async () => {
    const usdc = await token();
    const burner = await deploy("Wallet1271GasBurner");
    const payer = someone();
    for (const { address } of [burner, payer]) await send(usdc, "mint", [address, 5000n]);
    const hungry = await authorize(usdc, someone(), { from: burner.address });
    const a = await authorize(usdc, payer);
    // A cap no call can afford: the failure is no evidence, so nothing is reported as asked or run.
    const { answers } = await look([
      probe(usdc, hungry, [transfer(usdc, hungry.bytes)], { gasMax: 10n ** 12n }),
      probe(usdc, a, [transfer(usdc, a.vrs)]),
    ]);
    assert.equal(answers[0].erc1271.asked, false);
    assert.deepEqual(answers[0].simulations, []);
    assert.deepEqual(answers[0].payerBalance, { success: true, data: word(5000n) });
    assert.equal(answers[1].simulations[0].success, true);
  });

  test("tells the number of the header where the EVM shows another one", async () => {
    const ARB_SYS = "0x0000000000000000000000000000000000000064";
    // So many bytes, of which the first are the number, if it is asked for arbBlockNumber(); else a revert.
    const answering = (number, bytes) =>
      concatHex(["0x60003560e01c63a3b1b31d14601357600080fd5b7f", word(number), "0x60005260", toHex(bytes, { size: 1 }), "0x6000f3"]);
    const { number } = await chain.getBlock();
    const numberWith = async (bytecode) => {
      await chain.setCode({ address: ARB_SYS, bytecode });
      return (await look([])).facts.number;
    };
    try {
      assert.equal(await numberWith(answering(300_000_000n, 32)), 300_000_000n);
      const strange = {
        "a short answer": answering(300_000_000n, 31),
        "a long answer": answering(300_000_000n, 64),
        "no answer": "0x00",
        "a revert": "0x60006000fd",
        "all the gas": "0x5b600056",
        "an invalid instruction": "0xfe",
      };
      for (const [what, bytecode] of Object.entries(strange)) {
        assert.equal(await numberWith(bytecode), number, what);
      }
    } finally {
      await chain.setCode({ address: ARB_SYS, bytecode: "0x" });
    }
    assert.equal((await look([])).facts.number, number);
  });

  test("says so when the call has too little gas to read the facts", async () => {
    const usdc = await token();
    const a = await authorize(usdc, someone());
    await assert.rejects(look([probe(usdc, a, [])], { gas: 3_000_000n }));
  });

  test("sees that an asset has no code", async () => {
    const nowhere = { abi: artifact("FiatToken").abi, address: someone().address };
    const a = await authorize(nowhere, someone());
    const { answers } = await look([probe(nowhere, a, [transfer(nowhere, a.vrs)])]);
    const [answer] = answers;
    assert.equal(answer.assetCodeSize, 0n);
    for (const key of ["authorizationState", "payerBalance", "payToBalance", "domainSeparator", "name", "version", "eip712Domain"]) {
      assert.deepEqual(answer[key], { success: false, data: "0x" }, key);
    }
    assert.equal(answer.simulations[0].success, false);
  });

  test("survives an asset that burns all gas or answers at length", async () => {
    const keys = ["authorizationState", "payerBalance", "payToBalance", "domainSeparator", "name", "version", "eip712Domain"];
    const see = async (bytecode) => {
      const asset = { abi: artifact("FiatToken").abi, address: someone().address };
      await chain.setCode({ address: asset.address, bytecode });
      const a = await authorize(asset, someone());
      return (await look([probe(asset, a, [transfer(asset, a.vrs)])])).answers[0];
    };
    const burns = await see("0x5b600056"); // loops for ever
    const long = await see("0x6102016000f3"); // returns 513 zero bytes
    const fits = await see("0x6102006000f3"); // returns 512
    for (const key of keys) {
      assert.deepEqual(burns[key], { success: false, data: "0x" }, key);
      assert.deepEqual(long[key], { success: false, data: "0x" }, key);
      assert.deepEqual(fits[key], { success: true, data: `0x${"00".repeat(512)}` }, key);
    }
    assert.equal(burns.simulations[0].success, false);
    const bomb = await see("0x620186a06000fd"); // reverts with 100,000 bytes
    assert.equal(size(bomb.simulations[0].returnData), 1024);
    assert.equal(bomb.simulations[0].success, false);
  });

  test("tells odd tokens apart", async () => {
    const see = async (name) => {
      const odd = await token(name);
      const payer = someone();
      await send(odd, "mint", [payer.address, 5000n]);
      const a = await authorize(odd, payer);
      const full = { ...odd, abi: artifact("FiatToken").abi };
      return (await look([probe(odd, a, [transfer(full, a.vrs), transfer(full, a.bytes)])])).answers[0];
    };
    const ran = (answer) => answer.simulations.map((s) => s.success);
    assert.equal((await see("FeeOnTransferToken")).simulations[0].payToBalanceAfter.data, word(990n));
    assert.equal((await see("SilentToken")).simulations[0].payToBalanceAfter.data, word(0n));
    assert.deepEqual(ran(await see("BytesOnlyToken")), [false, true]);
    const plain = await see("PlainToken");
    assert.deepEqual(ran(plain), [false, false]);
    assert.equal(plain.authorizationState.success, false);
    const described = await see("Eip5267Token");
    assert.equal(described.domainSeparator.success, false);
    assert.equal(size(described.eip712Domain.data), 384);
  });
});

describe("undeployed wallets", () => {
  const setup = async (factoryName, args = () => []) => {
    const usdc = await token();
    const factory = await deploy(factoryName, args(usdc));
    const owner = someone();
    const salt = randomWord();
    const wallet = await read(factory, "getAddress", [owner.address, salt]);
    await send(usdc, "mint", [wallet, 5000n]);
    const a = await authorize(usdc, owner, { from: wallet });
    const call = deployAndTransfer(factory, owner.address, salt, usdc, a.bytes);
    return { usdc, factory, owner, salt, wallet, a, call };
  };
  const simulate = async (made) => (await look([probe(made.usdc, made.a, [made.call])])).answers[0];

  test("a factory deploys and the transfer follows, in one transaction", async () => {
    const made = await setup("WalletFactory");
    const answer = await simulate(made);
    assert.equal(answer.payerCodeSize, 0n);
    assert.equal(answer.erc1271.asked, false);
    const [simulation] = answer.simulations;
    assert.equal(simulation.success, true);
    assert.ok(simulation.payerCodeSizeAfter > 0n);
    assert.equal(simulation.erc1271After.asked, true);
    assert.equal(slice(simulation.erc1271After.word, 0, 4), MAGIC);
    assert.equal(simulation.payToBalanceAfter.data, word(1000n));
    await assertGasHonest(simulation, made.call);
    assert.ok(size(await chain.getCode({ address: made.wallet })) > 0);
    // Idempotent: the same call finds the wallet that is there.
    const again = await send(made.factory, "createWallet", [made.owner.address, made.salt]);
    assert.equal(again.status, "success");
  });

  test("a factory that burns, lies or idles makes the whole call fail", async () => {
    for (const name of ["FactoryBurner", "FactoryElsewhere", "FactoryNothing"]) {
      const made = await setup(name);
      const [simulation] = (await simulate(made)).simulations;
      assert.equal(simulation.success, false, name);
      assert.equal(simulation.payerCodeSizeAfter, 0n, name);
      assert.equal((await chain.getCode({ address: made.wallet })) ?? "0x", "0x", name);
    }
  });

  test("a factory that reaches for tokens gets none through Multicall3", async () => {
    const thief = someone().address;
    const drainer = await setup("FactoryDrainer", (usdc) => [usdc.address, thief]);
    const reenter = await setup("FactoryReenter", (usdc) => [usdc.address]);
    for (const made of [drainer, reenter]) {
      await send(made.usdc, "mint", [lane.address, 5000n]);
      const [simulation] = (await simulate(made)).simulations;
      assert.equal(simulation.success, true);
      const receipt = await assertGasHonest(simulation, made.call);
      assert.equal(receipt.status, "success");
      assert.equal(await read(made.usdc, "balanceOf", [lane.address]), 5000n);
      assert.equal(await read(made.usdc, "balanceOf", [made.a.message.to]), 1000n);
    }
    // The same factory does drain a signer that approved it and calls it directly.
    await send(drainer.usdc, "approve", [drainer.factory.address, 5000n]);
    await send(drainer.factory, "createWallet", [drainer.owner.address, drainer.salt]);
    assert.equal(await read(drainer.usdc, "balanceOf", [thief]), 5000n);
  });
});

describe("IdentityRegistry", () => {
  // Placed rather than deployed, at the address it has on every testnet: it must need no constructor.
  const registry = { abi: artifact("IdentityRegistry").abi, address: "0x8004A818BFB912233c491871b3d84c89A494BD9e" };
  const wallet = (id) => read(registry, "getAgentWallet", [id]);
  const register = async (...args) => {
    const receipt = await send(registry, "register", args);
    const logs = parseEventLogs({ abi: registry.abi, logs: receipt.logs });
    return { id: logs.find((l) => l.eventName === "Registered").args.agentId, logs, receipt };
  };
  const consent = async (key, agentId, { newWallet = key.address, ahead = 200n } = {}) => {
    const deadline = (await chain.getBlock()).timestamp + ahead;
    const signature = await key.signTypedData({
      domain: { name: "ERC8004IdentityRegistry", version: "1", chainId: foundry.id, verifyingContract: registry.address },
      types: {
        AgentWalletSet: [
          { name: "agentId", type: "uint256" },
          { name: "newWallet", type: "address" },
          { name: "owner", type: "address" },
          { name: "deadline", type: "uint256" },
        ],
      },
      primaryType: "AgentWalletSet",
      message: { agentId, newWallet, owner: lane.address, deadline },
    });
    return [agentId, newWallet, deadline, signature];
  };

  before(() => chain.setCode({ address: registry.address, bytecode: artifact("IdentityRegistry").deployedBytecode }));

  test("numbers agents from zero, the registrant being the first wallet", async () => {
    assert.equal(await read(registry, "getVersion"), "2.0.0");
    const { id, logs, receipt } = await register();
    assert.equal(id, 0n);
    assert.deepEqual(logs.map((l) => l.eventName), ["Transfer", "Registered", "MetadataSet"]);
    const topics = receipt.logs.map((l) => l.topics[0]);
    assert.equal(topics[1], "0xca52e62c367d81bb2e328eb795f7c7ba24afb478408a26c0e201d155c449bc4a");
    assert.equal(topics[2], "0x2c149ed548c6d2993cd73efe187df6eccabe4538091b33adbd25fafdb8a1468b");
    assert.equal(receipt.logs[2].topics[2], "0x2ac6109326e720d1435c0db66f7e35eda7839f52b6f1f5520a60788e132b4e39");
    assert.equal(await wallet(0n), lane.address);
    assert.equal(await read(registry, "getMetadata", [0n, "agentWallet"]), lane.address.toLowerCase());
    assert.equal(await read(registry, "tokenURI", [0n]), "");
    const { id: second } = await register("https://agent.example/1.json", [{ metadataKey: "k", metadataValue: "0x01" }]);
    assert.equal(second, 1n);
    assert.equal(await read(registry, "tokenURI", [1n]), "https://agent.example/1.json");
    assert.equal(await read(registry, "getMetadata", [1n, "k"]), "0x01");
    await send(registry, "setAgentURI", [1n, ""]);
    assert.equal(await read(registry, "tokenURI", [1n]), "");
    await assertReverts(registry, "setMetadata", [1n, "agentWallet", "0x"], "reserved key", lane.address);
    await assertReverts(registry, "setAgentURI", [1n, "x"], "Not authorized", someone().address);
  });

  test("keeps ids and wallets in the slots of the deployed registry", async () => {
    const base = 0xa040f782729de4970518741823ec1276cbcd41a0c7493f62d173341566a04e00n;
    const slotOf = (slot) => chain.getStorageAt({ address: registry.address, slot: toHex(slot, { size: 32 }) });
    const { id } = await register();
    assert.equal(BigInt(await slotOf(base)), id + 1n);
    const inner = keccak256(concatHex([word(id), word(base + 1n)]));
    const held = await slotOf(BigInt(keccak256(concatHex([stringToHex("agentWallet"), inner]))));
    assert.equal(held, concatHex([lane.address.toLowerCase(), padHex("0x28", { size: 12 })]));
  });

  test("knows nothing of other ids, and says so in the measured ways", async () => {
    const nonexistent = concatHex(["0x7e273289", word(999n)]);
    const raw = (functionName, args) => ({ to: registry.address, data: encodeFunctionData({ ...registry, functionName, args }) });
    assert.equal(await wallet(999n), zeroAddress);
    assert.equal(await read(registry, "getMetadata", [999n, "agentWallet"]), "0x");
    for (const name of ["ownerOf", "tokenURI"]) assert.equal(await revertOf(raw(name, [999n])), nonexistent);
    assert.equal(await revertOf(raw("isAuthorizedOrOwner", [lane.address, 999n])), nonexistent);
  });

  test("sets a wallet with its consent only, and clears it", async () => {
    const { id } = await register();
    const key = someone();
    const good = await consent(key, id);
    const swap = (signature) => [...good.slice(0, 3), signature];
    await assertReverts(registry, "setAgentWallet", swap(highS(good[3])), "invalid wallet sig");
    await assertReverts(registry, "setAgentWallet", await consent(key, id, { ahead: 1000n }), "deadline too far");
    await assertReverts(registry, "setAgentWallet", await consent(key, id, { ahead: -100n }), "expired");
    await assertReverts(registry, "setAgentWallet", await consent(key, id, { newWallet: zeroAddress }), "bad wallet");
    await assertReverts(registry, "setAgentWallet", good, "Not authorized", key.address);
    assert.equal((await send(registry, "setAgentWallet", good)).status, "success");
    assert.equal(await wallet(id), key.address);

    const cleared = await send(registry, "unsetAgentWallet", [id]);
    assert.equal(cleared.status, "success");
    assert.equal(await wallet(id), zeroAddress);
    assert.equal(await read(registry, "getMetadata", [id, "agentWallet"]), "0x");

    const contract = await deploy("Wallet1271", [key.address]);
    await send(registry, "setAgentWallet", await consent(key, id, { newWallet: contract.address }));
    assert.equal((await wallet(id)).toLowerCase(), contract.address);
    const delegated = someone();
    await chain.setCode({ address: delegated.address, bytecode: concatHex(["0xef0100", contract.address]) });
    await send(registry, "setAgentWallet", await consent(delegated, id));
    assert.equal(await wallet(id), delegated.address);
  });

  test("any transfer clears the wallet first, even one to oneself", async () => {
    const { id } = await register();
    const receipt = await send(registry, "transferFrom", [lane.address, lane.address, id]);
    assert.deepEqual(
      receipt.logs.map((l) => l.topics[0]),
      [
        "0x2c149ed548c6d2993cd73efe187df6eccabe4538091b33adbd25fafdb8a1468b",
        "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
      ],
    );
    assert.equal(await wallet(id), zeroAddress);
    assert.equal(await read(registry, "ownerOf", [id]), lane.address);
    const other = await register();
    const heir = someone().address;
    await send(registry, "safeTransferFrom", [lane.address, heir, other.id]);
    assert.equal(await wallet(other.id), zeroAddress);
    assert.equal(await read(registry, "ownerOf", [other.id]), heir);
  });

  test("a contract can register itself", async () => {
    const owned = await deploy("Wallet1271", [lane.address]);
    const data = encodeFunctionData({ ...registry, functionName: "register", args: [] });
    const receipt = await send(owned, "execute", [registry.address, 0n, data]);
    const [, registered] = parseEventLogs({ abi: registry.abi, logs: receipt.logs });
    assert.equal((await wallet(registered.args.agentId)).toLowerCase(), owned.address);
  });
});

describe("RegistryLens", () => {
  const lens = artifact("RegistryLens");
  const registry = { abi: artifact("IdentityRegistry").abi, address: "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432" };
  const URI_CUT = 16_384 + 64;
  const [input] = lens.abi.find((item) => item.type === "constructor").inputs;
  // What the constructor returns is in no ABI.
  const READ = [
    { name: "asked", type: "bool" },
    { name: "success", type: "bool" },
    { name: "size", type: "uint256" },
    { name: "data", type: "bytes" },
  ];
  const answerType = {
    type: "tuple",
    components: [
      { name: "chainId", type: "uint256" },
      { name: "registryCodeSize", type: "uint256" },
      { name: "agentWallet", type: "tuple", components: READ },
      { name: "owner", type: "tuple", components: READ },
      { name: "tokenURI", type: "tuple", components: READ },
      { name: "walletCodeSize", type: "uint256" },
      { name: "walletCodePrefix", type: "bytes" },
      { name: "erc1271", type: "tuple", components: READ },
    ],
  };
  const unasked = { asked: false, success: false, size: 0n, data: "0x" };
  const oneWord = (address) => ({ asked: true, success: true, size: 32n, data: padHex(address.toLowerCase(), { size: 32 }) });

  const look = async (agentId, { to = registry.address, wallet = zeroAddress, digest = word(0n), signature = "0x", gas = 24_000_000n } = {}) => {
    const question = { registry: to, agentId, wallet, digest, signature };
    const data = concatHex([lens.bytecode, encodeAbiParameters([input], [question])]);
    const { hash } = await chain.getBlock();
    const params = [{ data, gas: toHex(gas) }, { blockHash: hash, requireCanonical: true }];
    const out = await chain.request({ method: "eth_call", params });
    assert.ok(size(out) < 24_576);
    return decodeAbiParameters([answerType], out)[0];
  };
  const register = async (uri) => {
    const receipt = await send(registry, "register", [uri], { gas: 25_000_000n });
    const logs = parseEventLogs({ abi: registry.abi, logs: receipt.logs });
    return logs.find((l) => l.eventName === "Registered").args.agentId;
  };
  /** Puts a wallet into the registry's storage, where `setAgentWallet` would want its consent. */
  const putWallet = async (id, wallet) => {
    const inner = keccak256(concatHex([word(id), word(0xa040f782729de4970518741823ec1276cbcd41a0c7493f62d173341566a04e01n)]));
    const index = keccak256(concatHex([stringToHex("agentWallet"), inner]));
    await chain.setStorageAt({ address: registry.address, index, value: concatHex([wallet.toLowerCase(), padHex("0x28", { size: 12 })]) });
  };

  before(() => chain.setCode({ address: registry.address, bytecode: artifact("IdentityRegistry").deployedBytecode }));

  test("reads an agent at a block hash", async () => {
    const id = await register("https://agent.example/1.json");
    const answer = await look(id);
    assert.equal(answer.chainId, BigInt(foundry.id));
    assert.equal(answer.registryCodeSize, BigInt(size(await chain.getCode(registry))));
    assert.deepEqual(answer.agentWallet, oneWord(lane.address));
    assert.deepEqual(answer.owner, oneWord(lane.address));
    assert.equal(answer.tokenURI.data, encodeAbiParameters([{ type: "string" }], ["https://agent.example/1.json"]));
    assert.deepEqual([answer.walletCodeSize, answer.walletCodePrefix], [0n, "0x"]);
    assert.deepEqual(answer.erc1271, unasked);
  });

  test("hands on what unknown agents and addresses without code answer", async () => {
    const unknown = await look(12345n);
    assert.deepEqual(unknown.agentWallet, oneWord(zeroAddress));
    assert.deepEqual([unknown.owner.asked, unknown.owner.success], [true, false]);
    assert.deepEqual([unknown.tokenURI.asked, unknown.tokenURI.success], [true, false]);
    const nobody = await look(0n, { to: someone().address });
    assert.equal(nobody.registryCodeSize, 0n);
    for (const read of [nobody.agentWallet, nobody.owner, nobody.tokenURI]) {
      assert.deepEqual(read, { asked: true, success: true, size: 0n, data: "0x" });
    }
  });

  test("cuts a long URI and says so", async () => {
    const uri = `data:application/json,${"x".repeat(20_000)}`;
    const id = await register(uri);
    const { tokenURI } = await look(id);
    const whole = encodeAbiParameters([{ type: "string" }], [uri]);
    assert.deepEqual([tokenURI.success, tokenURI.size], [true, BigInt(size(whole))]);
    assert.equal(tokenURI.data, slice(whole, 0, URI_CUT));
  });

  test("asks the wallet in question, if it is the agent's and has code", async () => {
    const key = someone();
    const digest = randomWord();
    const signature = await key.sign({ hash: digest });
    const id = await register("https://agent.example/2.json");
    const wallet = (await deploy("Wallet1271", [key.address])).address;
    await putWallet(id, wallet);
    const asked = await look(id, { wallet, digest, signature });
    assert.deepEqual(asked.erc1271, { asked: true, success: true, size: 32n, data: padHex(MAGIC, { size: 32, dir: "right" }) });
    assert.equal(asked.walletCodePrefix, slice(await chain.getCode({ address: wallet }), 0, 23));
    assert.deepEqual((await look(id, { wallet: someone().address, digest, signature })).erc1271, unasked);
    assert.deepEqual((await look(id, { digest, signature })).erc1271, unasked);
    const wrong = await look(id, { wallet, digest: randomWord(), signature });
    assert.equal(wrong.erc1271.data, padHex("0xffffffff", { size: 32, dir: "right" }));

    const delegated = someone();
    await chain.setCode({ address: delegated.address, bytecode: concatHex(["0xef0100", wallet]) });
    await putWallet(id, delegated.address);
    const designator = await look(id);
    assert.deepEqual([designator.walletCodeSize, designator.walletCodePrefix], [23n, concatHex(["0xef0100", wallet])]);
  });

  test("survives wallets and registries that burn gas or return too much", async () => {
    const id = await register("https://agent.example/3.json");
    for (const [name, success, bytes] of [
      ["Wallet1271ReturnBomb", true, 1_000_000n],
      ["Wallet1271GasBurner", false, 0n],
      ["Wallet1271Reverting", false, undefined],
      ["Wallet1271Short", true, 4n],
    ]) {
      const wallet = (await deploy(name)).address;
      await putWallet(id, wallet);
      const { erc1271 } = await look(id, { wallet, signature: "0x01" });
      assert.deepEqual([erc1271.asked, erc1271.success], [true, success], name);
      if (bytes !== undefined) assert.equal(erc1271.size, bytes, name);
      assert.ok(size(erc1271.data) <= 64, name);
    }
    // RETURN of 100,000 zeros to every question; and a JUMP to itself.
    const bomb = someone().address;
    await chain.setCode({ address: bomb, bytecode: "0x620186a06000f3" });
    const bombed = await look(id, { to: bomb });
    for (const read of [bombed.agentWallet, bombed.owner, bombed.tokenURI]) assert.equal(read.size, 100_000n);
    const burner = someone().address;
    await chain.setCode({ address: burner, bytecode: "0x5b600056" });
    const burnt = await look(id, { to: burner });
    for (const read of [burnt.agentWallet, burnt.owner, burnt.tokenURI]) {
      assert.deepEqual([read.asked, read.success, read.size], [true, false, 0n]);
    }
  });

  test("gives no answer at all on too little gas", async () => {
    await assert.rejects(look(0n, { gas: 10_000_000n }));
  });
});

describe("Multicall3", () => {
  const multicall = { abi: artifact("Multicall3").abi, address: MULTICALL3 };
  const as = (functionName, args = []) => chain.simulateContract({ ...multicall, functionName, args }).then((r) => r.result);

  test("aggregates, and fails only where failure is not allowed", async () => {
    const good = { target: MULTICALL3, callData: encodeFunctionData({ ...multicall, functionName: "getChainId" }) };
    const bad = { target: MULTICALL3, callData: "0xffffffff" };
    const results = await as("tryAggregate", [false, [good, bad]]);
    assert.deepEqual(results, [{ success: true, returnData: word(BigInt(foundry.id)) }, { success: false, returnData: "0x" }]);
    const strict = (name, args) => assertReverts(multicall, name, args, "Multicall3: call failed");
    await strict("aggregate", [[good, bad]]);
    await strict("tryBlockAndAggregate", [true, [bad]]);
    await strict("aggregate3", [[{ ...bad, allowFailure: false }]]);
    await assertReverts(multicall, "aggregate3Value", [[{ ...good, allowFailure: true, value: 1n }]], "Multicall3: value mismatch");
    const block = await chain.getBlock();
    assert.equal(await read(multicall, "getBlockNumber"), block.number);
    assert.equal(await read(multicall, "getLastBlockHash"), block.parentHash);
    assert.equal(await read(multicall, "getEthBalance", [lane.address]), await chain.getBalance(lane));
  });
});
