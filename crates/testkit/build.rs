//! Embeds every compiled contract of `contracts/artifacts`, so that a new contract needs no edit here.

use std::{error::Error, fmt::Write as _, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let crate_dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let artifacts = crate_dir.join("../../contracts/artifacts");
    println!("cargo::rerun-if-changed={}", artifacts.display());

    let mut files = Vec::new();
    if artifacts.is_dir() {
        for entry in fs::read_dir(artifacts.canonicalize()?)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ext| ext == "json") {
                files.push(path);
            }
        }
    }
    files.sort();

    let mut table = String::from("&[\n");
    for path in files {
        let name = path.file_stem().and_then(|s| s.to_str()).ok_or("artifact name is not UTF-8")?;
        let file = path.to_str().ok_or("artifact path is not UTF-8")?;
        writeln!(table, "    ({name:?}, include_str!({file:?})),")?;
    }
    table.push_str("]\n");
    fs::write(out_dir.join("artifacts.rs"), table)?;
    Ok(())
}
