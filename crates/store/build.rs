//! `sqlx::migrate!` cannot see a file that did not exist at the last build.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
