//! Registration files on IPFS: proven block by block, over gateways that lie, lack, stall, or give no blocks.

use crate::{
    agents::file_of,
    dag::{FILE, cid, directory, file, leaf, node, raw_cid, unixfs},
    files::{Files, Page},
    stage::{RESOURCE, Stage, said},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use quittance_protocol::payee::Cid;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{net::TcpListener, time::Instant};

const OTHER_BYTES: &str = "not those of the content identifier";

/// A file in five blocks, under a directory.
struct Published {
    /// Binary identifiers, and the blocks; the root first, then the file's own root.
    blocks: Vec<(Vec<u8>, Vec<u8>)>,
    text: String,
}

impl Published {
    fn new(word: &str) -> Self {
        let mut text = file_of(&[RESOURCE]);
        text["description"] = json!(word);
        let text = text.to_string();
        let (one, rest) = text.as_bytes().split_at(40);
        let (two, three) = rest.split_at(40);
        let three_leaf = leaf(three);
        let size = |part: &[u8]| u64::try_from(part.len()).unwrap();
        let parts = [(raw_cid(one), size(one)), (raw_cid(two), size(two)), (cid(&three_leaf), size(three))];
        let whole = file(&parts);
        let root = directory(&[(cid(&whole), "agent.json")]);
        let dag = [root, whole, three_leaf].map(|block| (cid(&block), block));
        let raw = [one, two].map(|block| (raw_cid(block), block.to_vec()));
        Self { blocks: dag.into_iter().chain(raw).collect(), text }
    }

    fn root(&self) -> String {
        name(&self.blocks[0].0)
    }

    fn uri(&self) -> String {
        format!("ipfs://{}/agent.json", self.root())
    }

    fn on(&self, gateway: &Files) {
        for (cid, block) in &self.blocks {
            put(gateway, cid, block);
        }
    }

    /// As gateways give files to browsers.
    fn as_file_on(&self, gateway: &Files) {
        let path = format!("/ipfs/{}/agent.json", self.root());
        gateway.put(&path, Page::Bytes(self.text.clone().into_bytes()));
    }
}

fn name(cid: &[u8]) -> String {
    Cid::from_bytes(cid).unwrap().to_string()
}

fn raw_path(cid: &[u8]) -> String {
    format!("/ipfs/{}?format=raw", name(cid))
}

fn put(gateway: &Files, cid: &[u8], block: &[u8]) {
    gateway.put(&raw_path(cid), Page::Bytes(block.to_vec()));
}

/// What a check of an agent with this URI says of its file.
async fn asked(stage: &Stage, uri: &str) -> Value {
    let agent = stage.agent_with(uri).await;
    stage.check(agent.requirement(agent.wallet, Value::Null)).await
}

fn is_proven(answer: &Value) {
    assert_eq!((said(answer).0, &answer["file"]["source"]), ("verified-wallet", &json!("ipfs")), "{answer}");
}

fn is_not_read(answer: &Value, reason: &str) {
    assert_eq!(said(answer), ("not-read", "file"), "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains(reason), "{reason}: {answer}");
}

/// Files that JavaScript's own implementation built: of one block and many, under directories, and under large ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_it_is_built_of_a_file_proves_itself() {
    let stage = Stage::start("report").await;
    let facts = include_str!("../../../../testdata/payee/ipfs/blocks.json");
    let facts: Value = serde_json::from_str(facts).unwrap();
    for (cid, block) in facts["blocks"].as_object().unwrap() {
        let block = STANDARD.decode(block.as_str().unwrap()).unwrap();
        stage.files.put(&format!("/ipfs/{cid}?format=raw"), Page::Bytes(block));
    }
    for case in facts["cases"].as_array().unwrap() {
        let [name, cid, path] = ["name", "cid", "path"].map(|field| case[field].as_str().unwrap());
        let path = path.replace("ä ö", "%C3%A4%20%C3%B6");
        let answer = asked(&stage, format!("ipfs://{cid}/{path}").trim_end_matches('/')).await;
        match case["file"].as_str() {
            Some(file) => {
                // The agents of the large directory have an origin each.
                let lists = file.contains("https://seller.example");
                assert_eq!(
                    said(&answer).0,
                    if lists { "verified-wallet" } else { "endpoint-unlisted" },
                    "{name}"
                );
                assert_eq!(answer["file"]["source"], "ipfs", "{name}");
            }
            None => assert_eq!(said(&answer), ("not-read", "file"), "{name}"),
        }
    }
    // All of it again, for other agents at another block: what proved itself is not fetched again.
    let fetched = stage.files.all_hits();
    for case in facts["cases"].as_array().unwrap().iter().filter(|case| case["reason"].is_null()) {
        let [cid, path] = ["cid", "path"].map(|field| case[field].as_str().unwrap());
        let path = path.replace("ä ö", "%C3%A4%20%C3%B6");
        let answer = asked(&stage, format!("ipfs://{cid}/{path}").trim_end_matches('/')).await;
        assert_eq!(answer["file"]["source"], "ipfs");
    }
    assert_eq!(stage.files.all_hits(), fetched);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_blocks_is_not_believed_without() {
    let stage = Stage::start("report").await;
    for index in 0..5 {
        for lie in [true, false] {
            let published = Published::new(&format!("{index} {lie}"));
            published.on(&stage.files);
            published.as_file_on(&stage.files);
            let path = raw_path(&published.blocks[index].0);
            if lie {
                stage.files.put(&path, Page::Bytes(b"{}".to_vec()));
                is_not_read(&asked(&stage, &published.uri()).await, OTHER_BYTES);
            } else if index > 0 {
                stage.files.put(&path, Page::Status(404));
                is_not_read(&asked(&stage, &published.uri()).await, "status 404");
            }
            let as_file = format!("/ipfs/{}/agent.json", published.root());
            assert_eq!(stage.files.hits(&as_file), 0, "{index} {lie}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_no_blocks_is_believed_and_the_answer_says_so() {
    let stage = Stage::start("report").await;
    let published = Published::new("believed");
    published.as_file_on(&stage.files);
    let answer = asked(&stage, &published.uri()).await;
    assert_eq!((said(&answer).0, &answer["file"]["source"]), ("verified-wallet", &json!("ipfs-gateway")));

    // One that gives the file whatever is asked for.
    let published = Published::new("the file in every case");
    published.as_file_on(&stage.files);
    let page = || Page::Encoded("identity", published.text.clone().into_bytes());
    stage.files.put(&raw_path(&published.blocks[0].0), page());
    let answer = asked(&stage, &published.uri()).await;
    assert_eq!((said(&answer).0, &answer["file"]["source"]), ("verified-wallet", &json!("ipfs-gateway")));

    // A file that is a block by itself needs no gateway that gives blocks, and no belief.
    let text = file_of(&[RESOURCE]).to_string();
    let raw = name(&raw_cid(text.as_bytes()));
    stage.files.put(&format!("/ipfs/{raw}"), Page::Bytes(text.clone().into_bytes()));
    is_proven(&asked(&stage, &format!("ipfs://{raw}")).await);
    let forged = name(&raw_cid(b"what the agent published"));
    stage.files.put(&format!("/ipfs/{forged}"), Page::Bytes(text.into_bytes()));
    is_not_read(&asked(&stage, &format!("ipfs://{forged}")).await, OTHER_BYTES);
    // A hash that is not known here.
    let published = Published::new("another hash");
    let unknown = name(&[&[1, 0x55, 0x1e, 32], &[7; 32][..]].concat());
    stage.files.put(&format!("/ipfs/{unknown}"), Page::Bytes(published.text.into_bytes()));
    let answer = asked(&stage, &format!("ipfs://{unknown}")).await;
    assert_eq!((said(&answer).0, &answer["file"]["source"]), ("verified-wallet", &json!("ipfs-gateway")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_an_enemy_builds_costs_one_block() {
    let stage = Stage::start("report").await;
    let many = vec![(raw_cid(b" "), 1); 10_000];
    let huge = file(&[(raw_cid(b" "), 1 << 40)]);
    let false_sum = node(&[(raw_cid(b" "), "")], &unixfs(FILE, None, Some(2), &[1]));
    let symlink = node(&[], &unixfs(crate::dag::SYMLINK, Some(b"/etc/passwd"), None, &[]));
    for (block, reason) in [
        (file(&many), "more than 128 blocks"),
        (huge, "larger than 256 KiB"),
        (leaf(&vec![b' '; 262_145]), "larger than 256 KiB"),
        (leaf(&vec![b' '; 1_100_000]), "nothing"),
        (false_sum, "contradict"),
        (directory(&[]), "a directory"),
        (symlink, "a symbolic link"),
        (b"<html>".to_vec(), "malformed"),
    ] {
        let root = cid(&block);
        put(&stage.files, &root, &block);
        let before = stage.files.all_hits();
        let answer = asked(&stage, &format!("ipfs://{}", name(&root))).await;
        if reason == "nothing" {
            // No node would pass such a block on; the gateway is asked for the file, and has none.
            is_not_read(&answer, "status 404");
            continue;
        }
        is_not_read(&answer, reason);
        assert_eq!(stage.files.all_hits() - before, 1, "{reason}");
    }
    // One in the other: seven more blocks, and no further.
    let mut block = leaf(b"{}");
    for _ in 0..100 {
        put(&stage.files, &cid(&block), &block);
        block = file(&[(cid(&block), 2)]);
    }
    put(&stage.files, &cid(&block), &block);
    let before = stage.files.all_hits();
    is_not_read(&asked(&stage, &format!("ipfs://{}", name(&cid(&block)))).await, "more than 8 levels");
    assert_eq!(stage.files.all_hits() - before, 8);
    assert!(!stage.server.log_text().contains("MARKER"));
}

/// Gateways in their order, and a server that has them.
async fn with_gateways(first: Option<&str>) -> (Stage, [Files; 2]) {
    let others = [Files::start().await, Files::start().await];
    let mut urls: Vec<String> = first.map(str::to_owned).into_iter().collect();
    urls.extend(others.iter().map(|gateway| gateway.url.clone()));
    let stage = Stage::start_with("report", |config| {
        config.set("payee.registry_allow_private_hosts", json!(true)).set("payee.ipfs_gateway", json!(urls))
    })
    .await;
    (stage, others)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_gateway_is_asked_for_what_one_does_not_have() {
    // Nobody listens at the first.
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (stage, [first, second]) = with_gateways(Some(&format!("http://{nowhere}"))).await;

    let published = Published::new("only the last has it");
    published.on(&second);
    is_proven(&asked(&stage, &published.uri()).await);
    // For the root. Then who had it is asked first.
    assert_eq!((first.all_hits(), second.all_hits()), (1, 5));

    // Blocks here and there, and one wrong.
    let published = Published::new("each has some of it");
    for (index, (cid, block)) in published.blocks.iter().enumerate() {
        put([&first, &second][index % 2], cid, block);
    }
    put(&first, &published.blocks[1].0, b"another block");
    is_proven(&asked(&stage, &published.uri()).await);

    // Proof goes before belief, wherever it is.
    let published = Published::new("a file here, blocks there");
    published.as_file_on(&first);
    published.on(&second);
    is_proven(&asked(&stage, &published.uri()).await);

    // Belief has an order too.
    let published = Published::new("a file only");
    published.as_file_on(&second);
    let answer = asked(&stage, &published.uri()).await;
    assert_eq!((said(&answer).0, &answer["file"]["source"]), ("verified-wallet", &json!("ipfs-gateway")));

    // A gateway that gave a wrong block ends belief in the others as well.
    let published = Published::new("nobody has it");
    put(&first, &published.blocks[0].0, b"another block");
    published.as_file_on(&second);
    is_not_read(&asked(&stage, &published.uri()).await, OTHER_BYTES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_gateway_leaves_time_for_the_next() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (stage, [first, _]) = with_gateways(Some(&url)).await;
    let published = Published::new("behind a silent one");
    published.on(&first);
    let started = Instant::now();
    is_proven(&asked(&stage, &published.uri()).await);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
