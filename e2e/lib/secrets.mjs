// Where logs go, and the secrets this run makes up: scripts/scan-secrets looks for each of them in the logs afterwards.

import { appendFileSync, mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
export const logs = resolve(process.env.QUITTANCE_TEST_LOGS ?? `${root}/target/test-logs`);
mkdirSync(logs, { recursive: true });

/** Stands in every secret that has room for it. */
export const marker = "SECRETKEYMARKER";

/** A new key and its account. Its owner is known to the secret scan. */
export function newAccount() {
  const key = generatePrivateKey();
  appendFileSync(`${logs}.secrets`, `${key}\n`);
  return { key, account: privateKeyToAccount(key) };
}
