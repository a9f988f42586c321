//! Every committed input of the fuzz targets, through the checks the targets make (docs/FUZZING.md).
#![allow(unreachable_pub, reason = "modules of one test binary share freely")]

mod checks;

use std::{fs, path::PathBuf};

fn replay(target: &str, check: fn(&[u8])) {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory).expect(&directory).map(|entry| entry.expect(&directory).path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{directory} has {} files", files.len());
    for file in files {
        // A panic in a check does not know where its input is from.
        println!("{}", file.display());
        check(&fs::read(&file).expect("a file"));
    }
}

#[test]
fn wire() {
    replay("wire", checks::wire::check);
}

#[test]
fn erc6492() {
    replay("erc6492", checks::erc6492::check);
}

#[test]
fn registration() {
    replay("registration", checks::registration::check);
}

#[test]
fn interop() {
    replay("interop", checks::interop::check);
}

#[test]
fn ipfs() {
    replay("ipfs", checks::ipfs::check);
}
