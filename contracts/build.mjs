// Compiles every contract and writes its artifact. With --check it writes nothing, and fails by name for
// each artifact that differs: what is committed must be what the sources say.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import solc from "solc";

const root = dirname(fileURLToPath(import.meta.url));
const artifacts = join(root, "artifacts");
const check = process.argv.includes("--check");

const sources = {};
for (const folder of ["src", "test"]) {
  for (const file of readdirSync(join(root, folder)).filter((f) => f.endsWith(".sol")).sort()) {
    sources[`${folder}/${file}`] = { content: readFileSync(join(root, folder, file), "utf8") };
  }
}

const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources,
      settings: {
        // Paris: the oldest rules among the chains served, so no opcode is missing anywhere.
        evmVersion: "paris",
        viaIR: true,
        optimizer: { enabled: true, runs: 200 },
        metadata: { bytecodeHash: "none" },
        outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
      },
    }),
  ),
);

// A warning is an error: nobody reads warnings in a build that passes.
if (output.errors?.length) {
  for (const error of output.errors) console.error(error.formattedMessage);
  process.exit(1);
}

const built = new Map();
for (const contracts of Object.values(output.contracts)) {
  for (const [contractName, { abi, evm }] of Object.entries(contracts)) {
    if (evm.bytecode.object === "") continue; // abstract, or an interface
    if (built.has(contractName)) throw new Error(`two contracts are called ${contractName}`);
    const artifact = {
      contractName,
      compiler: solc.version(),
      abi,
      bytecode: `0x${evm.bytecode.object}`,
      deployedBytecode: `0x${evm.deployedBytecode.object}`,
    };
    built.set(`${contractName}.json`, `${JSON.stringify(artifact, null, 2)}\n`);
  }
}

mkdirSync(artifacts, { recursive: true });
const present = new Set(readdirSync(artifacts).filter((f) => f.endsWith(".json")));
const read = (file) => (present.has(file) ? readFileSync(join(artifacts, file), "utf8") : null);
const differing = [...built.keys()].filter((file) => read(file) !== built.get(file));
const stale = [...present].filter((file) => !built.has(file));

if (check) {
  for (const file of differing) console.error(`artifacts/${file} differs from its source`);
  for (const file of stale) console.error(`artifacts/${file} has no source`);
  process.exit(differing.length + stale.length === 0 ? 0 : 1);
}
for (const file of differing) writeFileSync(join(artifacts, file), built.get(file));
for (const file of stale) rmSync(join(artifacts, file));
console.log(`${built.size} contracts, ${differing.length} artifacts written, ${stale.length} removed`);
