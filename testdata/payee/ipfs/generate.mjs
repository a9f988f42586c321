// Writes blocks.json: files on IPFS as Protocol Labs' own JavaScript builds and reads them. Run once, to be run again only
// for new cases, somewhere with
//   npm i ipfs-unixfs@13.1.1 ipfs-unixfs-importer@17.1.1 ipfs-unixfs-exporter@16.2.2 @ipld/dag-pb@4.2.0 multiformats@14.0.5 blockstore-core@7.0.1
//   node generate.mjs > blocks.json

import * as dagPb from "@ipld/dag-pb";
import { MemoryBlockstore } from "blockstore-core";
import { UnixFS } from "ipfs-unixfs";
import { exporter } from "ipfs-unixfs-exporter";
import { importer } from "ipfs-unixfs-importer";
import { fixedSize } from "ipfs-unixfs-importer/chunker";
import { balanced, trickle } from "ipfs-unixfs-importer/layout";
import { CID } from "multiformats/cid";
import * as raw from "multiformats/codecs/raw";
import { identity } from "multiformats/hashes/identity";
import { sha256, sha512 } from "multiformats/hashes/sha2";

const file = JSON.stringify({
  type: "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
  name: "An agent whose file is in several blocks",
  description: "words ".repeat(60).trim(),
  services: [{ name: "x402", endpoint: "https://seller.example/report" }],
});
const small = JSON.stringify({ services: [{ endpoint: "https://seller.example" }] });
const bytes = (text) => new TextEncoder().encode(text);

// Remembers which blocks were read, for only those go into the file.
class Recorder extends MemoryBlockstore {
  read = new Map();
  async *get(cid, options) {
    const chunks = [];
    for await (const chunk of super.get(cid, options)) chunks.push(chunk);
    const block = Buffer.concat(chunks);
    this.read.set(cid.toString(), block.toString("base64"));
    yield block;
  }
}

const cases = [];
const blocks = {};

// `reason`: why there is no file.
async function read(name, store, cid, path = "", reason = null) {
  store.read.clear();
  let text = null;
  try {
    const entry = await exporter(path ? `${cid}/${path}` : cid, store);
    if (reason === null) {
      const chunks = [];
      for await (const chunk of entry.content()) chunks.push(chunk);
      text = Buffer.concat(chunks).toString();
    }
  } catch (error) {
    if (reason !== "nothing there" || error.name !== "NotFoundError") throw error;
  }
  // An identity is its block.
  const needed = [...store.read].filter(([cid]) => CID.parse(cid).multihash.code !== identity.code);
  Object.assign(blocks, Object.fromEntries(needed));
  cases.push({ name, cid: cid.toString(), path, file: text, reason, needs: needed.map(([cid]) => cid) });
}

async function build(entries, options) {
  const store = new Recorder();
  let last;
  for await (const entry of importer(entries, store, options)) last = entry;
  return [store, last.cid];
}

const chunks = (chunkSize) => ({ chunker: fixedSize({ chunkSize }) });
const version0 = { cidVersion: 0, rawLeaves: false };
const version1 = { cidVersion: 1, rawLeaves: true };
const alone = [{ content: bytes(file) }];

for (const [name, options] of [
  ["one block", { ...version0, reduceSingleLeafToSelf: true }],
  ["one raw block", { ...version1, reduceSingleLeafToSelf: true }],
  ["three chunks", { ...version0, ...chunks(250) }],
  ["three raw chunks", { ...version1, ...chunks(250) }],
  ["two levels", { ...version0, ...chunks(64), layout: balanced({ maxChildrenPerNode: 4 }) }],
  ["three levels, raw", { ...version1, ...chunks(32), layout: balanced({ maxChildrenPerNode: 3 }) }],
  ["trickle", { ...version1, ...chunks(64), layout: trickle({ maxChildrenPerNode: 2 }) }],
]) {
  const [store, cid] = await build(alone, options);
  await read(name, store, cid);
}

const wrapped = { wrapWithDirectory: true };
const tree = [
  { path: "agents/one/agent.json", content: bytes(file) },
  { path: "agents/one/Agent.json", content: bytes("{}") },
  { path: "agents/two/ä ö.json", content: bytes(small) },
  { path: "README", content: bytes("agents") },
];
for (const [name, options] of [
  ["under directories", { ...version0, ...wrapped, ...chunks(250) }],
  ["under directories, raw", { ...version1, ...wrapped }],
]) {
  const [store, cid] = await build(tree, options);
  await read(name, store, cid, "agents/one/agent.json");
  await read(`${name}, another name`, store, cid, "agents/two/ä ö.json");
  await read(`${name}, a name that is not there`, store, cid, "agents/three/agent.json", "nothing there");
  await read(`${name}, a name below a file`, store, cid, "README/agent.json", "nothing there");
  await read(`${name}, no file`, store, cid, "agents", "a directory");
}

// A directory that is a hash table: with 700 names some slots have a table of their own.
const many = Array.from({ length: 700 }, (_, id) => ({
  path: `agents/${id}.json`,
  content: bytes(JSON.stringify({ services: [{ endpoint: `https://${id}.example` }] })),
}));
const [sharded, root] = await build(many, { ...version1, ...wrapped, shardSplitThresholdBytes: 0 });
const depth = async (path) => {
  sharded.read.clear();
  await exporter(`${root}/${path}`, sharded);
  return sharded.read.size;
};
const byDepth = new Map();
for (const { path } of many) {
  const deep = await depth(path);
  if (!byDepth.has(deep)) byDepth.set(deep, path);
}
for (const [deep, path] of [...byDepth].sort(([a], [b]) => a - b))
  await read(`sharded directory, ${deep} blocks`, sharded, root, path);
await read("sharded directory, a name that is not there", sharded, root, "agents/700.json", "nothing there");
await read("sharded directory, no file", sharded, root, "agents", "a directory");

// What the importer does not build.
const store = new Recorder();
const put = async (codec, block, hasher = sha256) => {
  const cid = CID.createV1(codec.code, await hasher.digest(block));
  await store.put(cid, block);
  return cid;
};
const node = (unixfs, links = []) => dagPb.encode(dagPb.prepare({ Data: unixfs.marshal(), Links: links }));
const link = (cid, size) => ({ Name: "", Hash: cid, Tsize: size });

await read("inline", store, await put(raw, bytes(small), identity));
const [head, middle, tail] = [file.slice(0, 100), file.slice(100, 190), file.slice(190)];
const inner = new UnixFS({ type: "file", data: bytes(head) });
inner.addBlockSize(BigInt(middle.length));
inner.addBlockSize(BigInt(tail.length));
const parts = [
  link(await put(raw, bytes(middle), identity), middle.length),
  link(await put(dagPb, node(new UnixFS({ type: "raw", data: bytes(tail) }))), tail.length),
];
await read("own bytes, an inline part and a raw node", store, await put(dagPb, node(inner, parts)));
await read("SHA-512", store, await put(raw, bytes(file), sha512), "", "not checked");

const symlink = new UnixFS({ type: "symlink", data: bytes("agents/one/agent.json") });
await read("symbolic link", store, await put(dagPb, node(symlink)), "", "a symbolic link");

process.stdout.write(JSON.stringify({ cases, blocks }, null, 1) + "\n");
